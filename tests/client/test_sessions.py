from __future__ import annotations

from typing import Any

import pytest

from clew.client.client import Client
from clew.core.changes import AddMessage, EndTurn, StartTurn, UndoTurn
from clew.core.keys import Purpose
from clew.core.message import Draft
from clew.core.rules import HeldRule
from clew.errors import (
    AmbiguousId,
    Forbidden,
    InvalidCursor,
    InvalidInput,
    ModelNotFound,
    PersonalityNotFound,
    SessionNotFound,
    StaleRevision,
)
from clew.runtime.lane.lease import hold
from clew.store.sqlite.store import SqliteStore
from tests.client.conftest import Place, outline
from tests.store.files import query

NOBODY = "00000000-0000-4000-8000-000000000000"


async def say(place: Place, session_id: str, *texts: str) -> None:
    """Messages that were said before, as by an import."""
    async with hold(place.store, session_id, "test") as lease:
        for text in texts:
            draft = Draft(role="user", content=text)
            await place.store.record(session_id, lease.epoch, AddMessage(draft))


async def test_sessions_are_listed_newest_first_page_by_page(place: Place, client: Client) -> None:
    made = [await place.session(f"cli:{number}") for number in range(5)]
    first = await client.sessions.list(limit=3)
    rest = await client.sessions.list(limit=3, cursor=first.cursor)
    shown = [*first.sessions, *rest.sessions]
    assert {each.id for each in shown} == {each.id for each in made}
    assert shown == sorted(shown, key=lambda each: -each.updated_at)
    assert len(first.sessions) == 3
    assert rest.cursor is None


async def test_a_listed_session_has_a_short_id_its_status_and_its_tokens(
    place: Place, client: Client
) -> None:
    session = await place.session()
    (listed,) = (await client.sessions.list()).sessions
    assert listed.short_id == session.id[:8]
    assert listed.status is None
    assert listed.total_tokens == 0
    assert listed.hit is None


async def test_a_list_is_filtered_by_person_kind_pin_time_and_state(
    place: Place, client: Client
) -> None:
    plain = await place.session("cli:1")
    group = await place.session("cli:2", platform="telegram", kind="group", person="telegram:7")
    pinned = await place.session("cli:3", project="/p", agent="research")
    await client.sessions.update(pinned.id, pinned=True)
    await client.sessions.update(plain.id, title="Redirects")
    at = pinned.updated_at

    async def ids(**filters: Any) -> list[str]:
        return [each.id for each in (await client.sessions.list(**filters)).sessions]

    assert await ids(person="telegram:7") == await ids(kind="group") == [group.id]
    assert await ids(pinned=True) == await ids(agent="research", person="owner") == [pinned.id]
    assert set(await ids(until=plain.updated_at)) >= {plain.id}
    assert pinned.id in await ids(since=at)
    assert await ids(since=at + 10**9) == await ids(state="running") == []
    assert await ids(state="idle", kind="cli", pinned=False) == [plain.id]
    page = await client.sessions.list(limit=1, count=True, person="owner")
    assert (len(page.sessions), page.total) == (1, 2)
    (named,) = (await client.sessions.list(kind="cli", pinned=False)).sessions
    assert named.label == "Redirects"
    facets = await client.sessions.facets()
    assert facets.people == ("owner", "telegram:7")
    assert (facets.projects, facets.agents) == (("/p",), ("main", "research"))
    with pytest.raises(InvalidInput):
        await client.sessions.list(state="idle", count=True)


async def test_a_guest_filters_only_their_own_sessions(place: Place) -> None:
    await place.session("cli:1", project="/secret", agent="research")
    theirs = await place.session("cli:2", platform="telegram", person="telegram:7")
    guest = await place.client("telegram:7", ("read",))
    assert (await guest.sessions.list(person="owner")).sessions == ()
    page = await guest.sessions.list(person="telegram:7", count=True)
    assert [each.id for each in page.sessions] == [theirs.id]
    assert page.total == 1
    facets = await guest.sessions.facets()
    assert (facets.people, facets.projects) == (("telegram:7",), ())
    assert facets.agents == ("main",)


async def test_the_filters_of_a_list_are_those_of_a_search(place: Place, client: Client) -> None:
    mine = await place.session("cli:1")
    theirs = await place.session("cli:2", kind="group", person="telegram:7")
    for session in (mine, theirs):
        await say(place, session.id, "needle")
    await client.sessions.update(mine.id, pinned=True)

    async def ids(**filters: Any) -> list[str]:
        return [each.id for each in (await client.sessions.list(q="needle", **filters)).sessions]

    assert await ids(person="telegram:7") == await ids(kind="group") == [theirs.id]
    assert await ids(pinned=True) == await ids(person="owner") == [mine.id]
    assert await ids(until=1) == await ids(state="waiting") == []
    assert set(await ids(state="idle", since=1)) == {mine.id, theirs.id}
    with pytest.raises(InvalidInput):
        await client.sessions.list(q="needle", count=True)


async def test_a_search_shows_the_best_message_of_each_session(
    place: Place, client: Client
) -> None:
    one, other = await place.session("cli:1"), await place.session("cli:2")
    await say(place, one.id, "the login redirect fails", "the login redirect again")
    await say(place, other.id, "nothing to see", "a redirect of another kind")
    page = await client.sessions.list(q="redirect")
    assert {each.id for each in page.sessions} == {one.id, other.id}
    for each in page.sessions:
        assert each.hit is not None
        snippet = each.hit.snippet
        assert snippet.text[snippet.start : snippet.end] == "redirect"


async def test_a_search_goes_on_with_its_cursor(place: Place, client: Client) -> None:
    for number in range(5):
        session = await place.session(f"cli:{number}")
        await say(place, session.id, f"needle {number}")
    found, cursor = [], None
    for _ in range(3):
        page = await client.sessions.list(q="needle", limit=2, cursor=cursor)
        found += [each.id for each in page.sessions]
        cursor = page.cursor
    assert cursor is None
    assert len(found) == len(set(found)) == 5


async def test_a_search_can_be_narrowed_to_what_is_archived(place: Place, client: Client) -> None:
    kept, away = await place.session("cli:1"), await place.session("cli:2")
    for session in (kept, away):
        await say(place, session.id, "needle")
    await client.sessions.update(away.id, archived=True)
    ids = {
        wanted: {
            each.id for each in (await client.sessions.list(q="needle", archived=wanted)).sessions
        }
        for wanted in (None, True, False)
    }
    assert ids == {None: {kept.id, away.id}, True: {away.id}, False: {kept.id}}


async def test_lists_leave_archived_sessions_out_and_show_the_trash_when_asked(
    place: Place, client: Client
) -> None:
    kept, archived, trashed = [await place.session(f"cli:{number}") for number in range(3)]
    await client.sessions.update(archived.id, archived=True)
    await client.sessions.delete(trashed.id)
    assert [each.id for each in (await client.sessions.list()).sessions] == [kept.id]
    away = (await client.sessions.list(archived=True)).sessions
    assert [each.id for each in away] == [archived.id]
    trash = (await client.sessions.list(trashed=True)).sessions
    assert [each.id for each in trash] == [trashed.id]


async def test_a_cursor_of_another_list_is_refused(client: Client) -> None:
    with pytest.raises(InvalidCursor):
        await client.sessions.list(cursor="nonsense")


async def test_get_has_the_newest_messages_and_says_if_there_are_more(
    place: Place, client: Client
) -> None:
    session = await place.session()
    await say(place, session.id, "one", "two", "three")
    detail = await client.sessions.get(session.id, messages=2)
    assert outline(detail.messages) == ["user: two", "user: three"]
    assert detail.more
    assert detail.session.message_count == 3
    everything = await client.sessions.get(session.id)
    assert len(everything.messages) == 3
    assert not everything.more
    assert (await client.sessions.get(session.id, messages=0)).messages == ()


async def test_messages_come_in_pages_between_two_numbers(place: Place, client: Client) -> None:
    session = await place.session()
    await say(place, session.id, *"abcdef")
    page = await client.sessions.messages(session.id, limit=2, after=1, before=6)
    assert outline(page.messages) == ["user: d", "user: e"]
    assert page.more
    assert page.head == 6
    earlier = await client.sessions.messages(
        session.id, limit=2, after=1, before=page.messages[0].seq
    )
    assert outline(earlier.messages) == ["user: b", "user: c"]
    assert not earlier.more


@pytest.mark.parametrize(
    ("limit", "after", "before"),
    [(100, 0, 260), (200, 0, 260), (199, 0, None), (1_000, 7, 205), (101, 50, 152), (102, 50, 152)],
)
async def test_a_page_that_is_read_piece_by_piece_is_the_page(
    place: Place, client: Client, limit: int, after: int, before: int | None
) -> None:
    session = await place.session()
    await say(place, session.id, *(f"number {each}" for each in range(1, 251)))
    page = await client.sessions.messages(session.id, limit=limit, after=after, before=before)
    between = [*range(after + 1, min(before or 251, 251))]
    assert [each.seq for each in page.messages] == between[-limit:]
    assert page.more == (len(between) > limit)


async def test_an_update_changes_what_is_given_and_null_clears(
    place: Place, client: Client
) -> None:
    session = await place.session()
    changed = await client.sessions.update(
        session.id, title="A title", pinned=True, model="script/two", thinking="high"
    )
    assert (changed.title, changed.pinned) == ("A title", True)
    assert (changed.model, changed.provider) == ("script/two", "script")
    cleared = await client.sessions.update(session.id, title=None, model=None)
    assert (cleared.title, cleared.model, cleared.provider) == (None, None, None)
    assert (cleared.pinned, cleared.thinking) == (True, "high")


async def test_an_update_of_a_stale_revision_is_refused_and_changes_nothing(
    place: Place, client: Client
) -> None:
    session = await place.session()
    fresh = await client.sessions.update(session.id, title="first")
    with pytest.raises(StaleRevision) as refused:
        await client.sessions.update(session.id, title="second", if_match=session.revision)
    assert refused.value.actual == fresh.revision
    assert (await client.sessions.get(session.id)).session.title == "first"
    again = await client.sessions.update(session.id, title="second", if_match=fresh.revision)
    assert again.title == "second"


async def test_unknown_models_and_personalities_are_refused(place: Place, client: Client) -> None:
    session = await place.session()
    with pytest.raises(ModelNotFound):
        await client.sessions.update(session.id, model="nobody/knows")
    with pytest.raises(PersonalityNotFound):
        await client.sessions.update(session.id, personality="nobody")


async def test_unknown_fields_are_an_error(place: Place, client: Client) -> None:
    session = await place.session()
    with pytest.raises(InvalidInput):
        await client.call("sessions.update", {"id": session.id, "colour": "red"})


async def test_a_deleted_session_is_gone_until_it_is_restored(place: Place, client: Client) -> None:
    session = await place.session()
    assert (await client.sessions.delete(session.id)).deleted_at is not None
    with pytest.raises(SessionNotFound):
        await client.sessions.get(session.id)
    with pytest.raises(SessionNotFound):
        await client.sessions.delete(session.id)
    assert (await client.sessions.restore(session.id)).deleted_at is None
    assert (await client.sessions.get(session.id)).session.id == session.id
    with pytest.raises(SessionNotFound):
        await client.sessions.restore(session.id)


async def test_a_fork_shares_the_beginning(place: Place, client: Client) -> None:
    session = await place.session()
    await say(place, session.id, "one", "two", "three")
    fork = await client.sessions.fork(session.id, at=2)
    assert fork.parent_id == session.id
    assert outline((await client.sessions.get(fork.id)).messages) == ["user: one", "user: two"]
    with pytest.raises(InvalidInput):
        await client.sessions.fork(session.id, at=99)


async def test_an_export_is_a_file_with_a_name(place: Place, client: Client) -> None:
    session = await place.session()
    await say(place, session.id, "ünïcode and a line\u2028separator")
    file = await client.sessions.export(session.id)
    assert file.name == f"session-{session.id}.md"
    assert file.media_type == "text/markdown; charset=utf-8"
    assert "ünïcode" in file.content
    lines = (await client.sessions.export(session.id, format="jsonl")).content
    assert session.id in lines


async def test_an_export_names_the_messages_that_are_damaged(place: Place, client: Client) -> None:
    session = await place.session()
    await say(place, session.id, "one", "two", "three")
    assert (await client.sessions.export(session.id)).damaged == ()
    assert isinstance(place.store, SqliteStore)
    query(place.store._db.path, "UPDATE messages SET checksum = checksum + 1 WHERE seq <> 2")

    assert (await client.sessions.export(session.id)).damaged == (1, 3)


async def test_resolving_takes_a_part_of_an_id_a_title_or_a_key_but_no_file(
    place: Place, client: Client
) -> None:
    session = await place.session(title="Fix the login")
    for typed in (session.id, session.id[:8], "fix the LOGIN", "login", "cli:test"):
        assert (await client.sessions.resolve(typed)).id == session.id
    for typed in ("nothing like it", "/etc/passwd", "../../etc/passwd", "./x.jsonl"):
        with pytest.raises(SessionNotFound):
            await client.sessions.resolve(typed)


async def test_a_session_to_read_or_change_is_not_found_by_a_part_of_its_title(
    place: Place, client: Client
) -> None:
    session = await place.session(title="Fix the login")
    assert (await client.sessions.resolve("cli:test", purpose="read")).id == session.id
    purposes: tuple[tuple[str, Purpose], ...] = (
        ("login", "read"), ("login", "change"), ("cli:test", "change"),
    )  # fmt: skip
    for typed, purpose in purposes:
        with pytest.raises(SessionNotFound, match=r"Did you mean|`clew list` shows"):
            await client.sessions.resolve(typed, purpose=purpose)


async def test_what_is_in_the_trash_is_resolved_only_if_that_is_asked_for(
    place: Place, client: Client
) -> None:
    session = await place.session(title="Fix the login")
    with pytest.raises(SessionNotFound, match="clew trash list"):
        await client.sessions.resolve("fix the login", trashed=True)
    await client.sessions.delete(session.id)
    assert (await client.sessions.resolve("fix the login", trashed=True)).id == session.id
    with pytest.raises(SessionNotFound, match="It is in the trash"):
        await client.sessions.resolve("fix the login", purpose="change")


async def test_several_that_fit_are_named_with_what_it_takes_to_choose(
    place: Place, client: Client
) -> None:
    sessions = [await place.session(f"cli:{each}", title="Plan", cwd="/srv") for each in range(12)]
    with pytest.raises(AmbiguousId, match='"plan" fits more than 10 sessions') as caught:
        await client.sessions.resolve("plan")
    assert caught.value.candidates == tuple(each.id for each in caught.value.sessions)
    assert len(set(caught.value.candidates) & {each.id for each in sessions}) == 10
    assert {(each.name, each.cwd) for each in caught.value.sessions} == {("Plan", "/srv")}
    assert all(each.id.startswith(each.short_id) for each in caught.value.sessions)


async def test_a_list_counts_the_archived_ones_that_it_leaves_out(
    place: Place, client: Client
) -> None:
    for number in range(3):
        session = await place.session(f"cli:{number}", platform="cli" if number else "sdk")
        if number:
            await client.sessions.update(session.id, archived=True)
    assert (await client.sessions.list()).archived is None
    page = await client.sessions.list(limit=0, count_archived=True)
    assert (page.sessions, page.cursor, page.archived) == ((), None, 2)
    assert (await client.sessions.list(platform="sdk", count_archived=True)).archived == 0
    assert (await client.sessions.list(archived=True, count_archived=True)).archived == 0


async def test_messages_that_were_taken_back_are_told_from_the_others(
    place: Place, client: Client
) -> None:
    session = await place.session()
    await say(place, session.id, "one")
    async with hold(place.store, session.id, "test") as lease:
        await place.store.record(
            session.id,
            lease.epoch,
            StartTurn(turn_id="t1"),
            AddMessage(Draft(role="user", content="two"), "t1"),
            EndTurn(turn_id="t1", status="done"),
            UndoTurn("t1"),
        )
    assert (await client.sessions.messages(session.id)).undone == ()
    page = await client.sessions.messages(session.id, undone=True)
    assert (len(page.messages), page.undone) == (2, (2,))


async def test_a_search_is_narrowed_by_who_said_it_and_when(place: Place, client: Client) -> None:
    session = await place.talked(client, "the needle")
    found = await client.sessions.search("needle", role="user")
    assert [hit.role for hit in found.hits] == ["user"]
    assert found.short_ids[session] == session[:8]
    assert not (await client.sessions.search("needle", until=1)).hits
    assert (await client.sessions.search("needle", since=1, limit=0)).hits == ()
    assert (await client.sessions.search("")).hits == ()


async def test_all_that_may_be_meant_are_found_by_the_steps_of_the_purpose(
    place: Place, client: Client
) -> None:
    session = await place.session(title="Fix the login")
    found = await client.sessions.find(session.id[:2], purpose="change")
    assert [each.id for each in found] == [session.id]
    with pytest.raises(SessionNotFound):
        await client.sessions.find("login", purpose="read")


async def test_an_export_has_what_the_model_thought_if_asked_for(
    place: Place, client: Client
) -> None:
    session = await place.session()
    async with hold(place.store, session.id, "test") as lease:
        thought = {"kind": "thinking", "content": "It may be the cache."}
        draft = Draft(role="assistant", content="Try again.", parts=(thought,))
        await place.store.record(session.id, lease.epoch, AddMessage(draft))
    assert "the cache" not in (await client.sessions.export(session.id)).content
    assert "the cache" in (await client.sessions.export(session.id, thinking=True)).content


async def test_a_preview_is_a_line_for_each_of_the_last_messages(
    place: Place, client: Client
) -> None:
    session = await place.session()
    await say(place, session.id, "one", "two\nlines", "x" * 500)
    preview = await client.sessions.preview(session.id, limit=2, characters=20)
    assert [each.text for each in preview.lines] == ["two lines", "x" * 19 + "…"]


@pytest.mark.parametrize("bad", ["../../etc", "x", NOBODY + "\n", NOBODY.upper() + "A", "'; --"])
async def test_what_is_no_id_is_refused_before_anything_is_looked_up(
    client: Client, bad: str
) -> None:
    with pytest.raises(InvalidInput):
        await client.sessions.get(bad)


async def test_a_session_that_is_not_there_is_not_found_with_its_id(client: Client) -> None:
    with pytest.raises(SessionNotFound) as missing:
        await client.sessions.get(NOBODY)
    assert missing.value.session_id == NOBODY


@pytest.mark.parametrize("limit", [-1, 201, 10**30])
async def test_numbers_out_of_range_are_refused(client: Client, limit: int) -> None:
    with pytest.raises(InvalidInput):
        await client.sessions.list(limit=limit)


async def test_the_rules_of_a_session_are_the_owners_to_see(place: Place, client: Client) -> None:
    session = await place.session("ruled", person="telegram:5", metadata={"allow": ["shell"]})
    assert await client.sessions.rules(session.id) == (
        HeldRule("deny", "shell:rm", "CLEW_TOOLS_DENY"),
        HeldRule("allow", "shell", "this session"),
    )
    guest = await place.client("telegram:5", "write")
    with pytest.raises(Forbidden):
        await guest.sessions.rules(session.id)


async def test_messages_around_a_number_are_on_both_sides_of_it(
    place: Place, client: Client
) -> None:
    session = await place.session()
    await say(place, session.id, *map(str, range(1, 31)))

    async def seqs(**where: Any) -> list[int]:
        page = await client.sessions.messages(session.id, **where)
        return [each.seq for each in page.messages]

    page = await client.sessions.messages(session.id, around=15, limit=6, render="html")
    assert [each.seq for each in page.messages] == [13, 14, 15, 16, 17, 18]
    assert (page.more, page.head) == (True, 30)
    assert page.html is not None
    assert [each.seq for each in page.html] == [13, 14, 15, 16, 17, 18]
    assert await seqs(around=15, limit=1) == [15]
    assert await seqs(around=1, limit=5) == [1, 2, 3]
    assert await seqs(around=30, limit=5) == [28, 29, 30]
    assert await seqs(around=99, limit=4) == [29, 30]
    assert await seqs(around=0, limit=4) == [1, 2]
    with pytest.raises(InvalidInput):
        await client.sessions.messages(session.id, around=3, before=9)


async def test_a_search_in_one_long_session_finds_its_messages_with_their_numbers(
    place: Place, client: Client
) -> None:
    session, other = await place.session("cli:1"), await place.session("cli:2")
    async with hold(place.store, session.id, "test") as lease:
        for start in range(0, 10_000, 500):
            drafts = [
                Draft(
                    role="user",
                    content=f"message {number} is {'a needle' if number % 1000 == 7 else 'hay'}",
                )
                for number in range(start, start + 500)
            ]
            await place.store.record(session.id, lease.epoch, *map(AddMessage, drafts))
    await say(place, other.id, "a needle elsewhere")
    found = [each async for each in client.sessions.iter_search("needle", session=session.id)]
    assert sorted(each.seq for each in found) == [number + 8 for number in range(0, 10_000, 1000)]
    for each in found:
        assert each.snippet.text[each.snippet.start : each.snippet.end] == "needle"
    page = await client.sessions.messages(session.id, around=found[0].seq, limit=3)
    assert "needle" in page.messages[1].content
