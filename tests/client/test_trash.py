"""Several sessions in one call: the trash, marks, retention, keys that lead, and imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.api.problems import error_of
from clew.api.sessions import Failed
from clew.client import nouns
from clew.client.client import Client
from clew.core.keys import new_id
from clew.core.session import DAY_MS, NewSession, Retention, SessionChange, SessionMarks
from clew.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    Locked,
    NotATranscript,
    SessionNotFound,
)
from tests.client.conftest import Place
from tests.transfer.worst import worst_file

GUEST = "telegram:5"
NOBODY = "00000000-0000-4000-8000-000000000000"


async def titles(client: Client, *, archived: bool | None = None) -> list[str | None]:
    return [each.title async for each in client.sessions.iter_list(archived=archived)]


async def trashed(client: Client) -> list[str | None]:
    return [each.title async for each in client.trash.iter_list()]


def reasons(failed: tuple[Failed, ...]) -> list[str]:
    for each in failed:
        assert isinstance(error_of(each.problem), SessionNotFound)
    return [f"{each.id}: {error_of(each.problem)}" for each in failed]


# --- deleting and undoing -----------------------------------------------------------------------


async def test_several_sessions_go_into_the_trash_and_one_undo_brings_them_back(
    place: Place, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nouns, "TRASH_PAGE", 1)
    one, two, three = [await place.session(title=each) for each in ("One", "Two", "Three")]
    await client.trash.put([one.id])

    deleted = await client.trash.put([two.id, NOBODY, one.id, three.id, two.id])

    assert deleted.ids == (two.id, three.id)
    assert reasons(deleted.failed) == [
        f'{NOBODY}: Session "{NOBODY}" not found. `clew list` shows the sessions.',
        f'{one.id}: Session "{one.id}" not found. It is in the trash; restore it first.',
    ]
    assert await titles(client) == []
    assert set((await trashed(client))[:2]) == {"Two", "Three"}
    undone = await client.trash.undo()
    assert (set(undone.ids), undone.left) == ({two.id, three.id}, 1)
    assert await trashed(client) == ["One"]
    assert await client.trash.undo() == type(undone)((one.id,), 0)
    assert (await client.trash.undo()).ids == ()
    assert sorted(map(str, await titles(client))) == ["One", "Three", "Two"]


async def test_everything_is_deleted_at_once_and_a_dry_run_tells_what_that_is(
    place: Place, client: Client
) -> None:
    one, two = await place.session(title="One"), await place.session(title="Two")
    await client.sessions.update(two.id, archived=True)

    told = await client.trash.put(everything=True, dry_run=True)

    assert set(told.ids) == {one.id, two.id}
    assert await titles(client) == ["One"]
    assert (await client.trash.put(everything=True)).ids == told.ids
    assert await titles(client) == await titles(client, archived=True) == []
    assert set((await client.trash.undo()).ids) == set(told.ids)


@pytest.mark.parametrize("given", [{}, {"ids": [NOBODY], "everything": True}])
async def test_what_to_delete_is_said_in_one_way(client: Client, given: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="Name the sessions"):
        await client.call("trash.put", given)


async def test_sessions_are_restored_one_by_one(place: Place, client: Client) -> None:
    one, two = await place.session(title="One"), await place.session(title="Two")
    await client.trash.put([one.id, two.id])
    restored = await client.trash.restore([one.id, NOBODY])
    assert (restored.ids, restored.left) == ((one.id,), 1)
    assert [each.id for each in restored.failed] == [NOBODY]
    assert await titles(client) == ["One"]


async def test_what_is_removed_for_good_does_not_come_back(place: Place, client: Client) -> None:
    one, two, three = [await place.session(title=each) for each in ("One", "Two", "Three")]
    await client.trash.put([one.id, two.id])
    purged = await client.trash.purge([one.id, three.id])
    assert purged.ids == (one.id,)
    assert [each.id for each in purged.failed] == [three.id]
    assert await trashed(client) == ["Two"]
    assert (await client.trash.put([three.id], for_good=True)).ids == (three.id,)
    assert await trashed(client) == ["Two"]
    with pytest.raises(SessionNotFound):
        await client.sessions.get(three.id)


async def test_what_is_in_use_is_not_removed(place: Place, client: Client) -> None:
    session = await place.session()
    lease = await place.store.acquire_lease(session.id, "test")
    with pytest.raises(Locked):
        await client.trash.put([session.id], for_good=True)
    await place.store.release_lease(lease)
    assert (await client.trash.list()).sessions[0].id == session.id


async def test_the_trash_is_emptied_of_what_is_old_enough(place: Place, client: Client) -> None:
    session = await place.session()
    await client.trash.put([session.id])
    assert (await client.trash.empty(older_than=DAY_MS)).ids == ()
    assert (await client.trash.empty()).ids == (session.id,)
    assert (await client.trash.list()).sessions == ()


async def test_a_guest_deletes_and_undoes_what_is_theirs(place: Place, client: Client) -> None:
    guest = await place.client(GUEST, "write")
    theirs = await place.session(title="Theirs", person=GUEST)
    owners = await place.session(title="Owner's")

    deleted = await guest.trash.put([theirs.id, owners.id])
    assert deleted.ids == (theirs.id,)
    assert [each.id for each in deleted.failed] == [owners.id]
    await client.trash.put([owners.id])

    assert await trashed(guest) == ["Theirs"]
    assert (await guest.trash.restore([owners.id])).ids == ()
    assert (await guest.trash.undo()).ids == (theirs.id,)
    assert (await guest.trash.undo()).ids == ()
    assert (await guest.trash.put(everything=True)).ids == (theirs.id,)
    assert await trashed(client) == ["Theirs", "Owner's"]
    for attempt in (
        guest.trash.purge([theirs.id]),
        guest.trash.empty(),
        guest.trash.put(everything=True, for_good=True),
    ):
        with pytest.raises(Forbidden, match="Only the owner"):
            await attempt


# --- marks and retention ------------------------------------------------------------------------


async def test_several_sessions_are_pinned_and_archived(place: Place, client: Client) -> None:
    one, two = await place.session(title="One"), await place.session(title="Two")
    changed = await client.sessions.mark([one.id, NOBODY, two.id], pinned=True)
    assert [(each.id, each.pinned) for each in changed.sessions] == [
        (one.id, True), (two.id, True)
    ]  # fmt: skip
    assert [each.id for each in changed.failed] == [NOBODY]
    archived = await client.sessions.mark([two.id], archived=True)
    assert archived.sessions[0].archived_at is not None
    assert archived.sessions[0].pinned
    assert await titles(client) == ["One"]
    guest = await place.client(GUEST, "write")
    assert (await guest.sessions.mark([one.id], pinned=False)).sessions == ()
    assert (await client.sessions.get(one.id)).session.pinned


async def test_old_sessions_are_put_away_by_age(place: Place, client: Client) -> None:
    old = place.runtime.clock() - 100 * DAY_MS
    await place.store.create_session(NewSession(key="a", title="Old", created_at=old))
    await place.session("b", title="New")

    told = await client.sessions.prune(older_than=90 * DAY_MS, dry_run=True)

    assert [each.title for each in told.sessions] == ["Old"]
    assert (told.action, told.dry_run) == ("archive", True)
    assert await titles(client, archived=True) == []
    assert (await client.sessions.prune(older_than=101 * DAY_MS)).sessions == ()
    pruned = await client.sessions.prune(older_than=90 * DAY_MS)
    assert [each.archived_at is not None for each in pruned.sessions] == [True]
    assert await titles(client, archived=True) == ["Old"]


async def test_without_an_age_the_policy_of_the_store_s_side_holds(
    place: Place, client: Client
) -> None:
    old = place.runtime.clock() - 100 * DAY_MS
    await place.store.create_session(NewSession(key="a", title="Old", created_at=old))
    await place.session("b", title="New")
    assert place.calls.parts.retention == Retention(retention_days=90)
    assert (await client.sessions.prune(action="delete")).action == "delete"
    assert await trashed(client) == ["Old"]


# --- keys and imports ---------------------------------------------------------------------------


async def test_a_key_is_led_to_a_session_and_away_again(place: Place, client: Client) -> None:
    one, two = await place.session("a"), await place.session("b")
    first = await client.sessions.link("telegram:42", one.id)
    assert (first.key, first.before) == ("telegram:42", None)
    assert first.session is not None
    assert first.session.id == one.id
    second = await client.sessions.link("telegram:42", two.id)
    assert second.before is not None
    assert second.before.id == one.id
    assert (await client.sessions.link("cron:backup", one.id)).key == "agent:main:cron:backup"

    last = await client.sessions.link("telegram:42", None)

    assert last.session is None
    assert await place.store.find_route("telegram:42") is None
    with pytest.raises(InvalidInput, match="telegram:42 leads to no session"):
        await client.sessions.link("telegram:42", None)
    guest = await place.client(GUEST, "write")
    mine = await place.session("c", person=GUEST)
    with pytest.raises(Forbidden):
        await guest.sessions.link("telegram:42", mine.id)


async def test_an_exported_session_is_imported_where_it_is_not(
    place: Place, client: Client
) -> None:
    session = await place.talked(client, "hello")
    content = (await client.sessions.export(session, format="jsonl")).content.encode()
    assert (await client.sessions.import_transcript(content)).outcome == "unchanged"
    copy = await client.sessions.import_transcript(content, as_new=True)
    assert (copy.outcome, copy.messages, copy.whole) == ("created", 2, True)
    assert copy.session_id != session
    await client.trash.put([session], for_good=True)
    told = await client.sessions.import_transcript(content, dry_run=True)
    assert (told.session_id, told.outcome) == (session, "created")
    with pytest.raises(SessionNotFound):
        await client.sessions.get(session)
    assert await client.sessions.import_transcript(content) == told
    assert len((await client.sessions.get(session)).messages) == 2


async def test_a_file_is_never_trusted_over_the_api(
    place: Place, client: Client, tmp_path: Path
) -> None:
    there = await place.session("there")
    content = b"".join(worst_file(new_id(), there=there, turn="t"))
    plain = await client.sessions.import_transcript(content)
    session = (await client.sessions.get(plain.session_id)).session
    assert (session.cwd, session.project, session.personality) == (None, None, None)
    assert (session.person, session.key) == ("owner", f"import:{session.id}")
    assert (session.metadata, session.pinned) == ({"estimated": True}, False)
    placed = await client.sessions.import_transcript(content, as_new=True, cwd=str(tmp_path))
    assert (await client.sessions.get(placed.session_id)).session.cwd == str(tmp_path)
    assert await place.store.list_routes(placed.session_id) == ()


async def test_a_long_transcript_is_taken_too(place: Place, client: Client) -> None:
    session = await place.talked(client, "hello")
    content = (await client.sessions.export(session, format="jsonl")).content.encode()
    unreadable = b"#" * 5_000_000 + b"\n"
    imported = await client.sessions.import_transcript(content + unreadable, as_new=True)
    assert (imported.messages, imported.skipped) == (2, (len(content.splitlines()) + 1,))
    with pytest.raises(InvalidInput):
        await client.sessions.import_transcript(b"#" * 20_000_001)


async def test_an_import_never_adds_to_a_session(place: Place, client: Client) -> None:
    session = await place.talked(client, "hello", "and again")
    whole = (await client.sessions.export(session, format="jsonl")).content.encode()
    await client.trash.put([session], for_good=True)
    lines = whole.splitlines(keepends=True)
    shorter = b"".join(lines[:-2])
    await client.sessions.import_transcript(shorter)
    before = (await client.sessions.get(session)).messages

    with pytest.raises(Conflict, match="--as-new"):
        await client.sessions.import_transcript(whole)

    assert 0 < len(before) < 4
    assert (await client.sessions.get(session)).messages == before


async def test_only_the_owner_imports_and_only_transcripts(place: Place, client: Client) -> None:
    with pytest.raises(NotATranscript):
        await client.sessions.import_transcript(b"hello\n")
    writer = await place.client(scope="write")
    with pytest.raises(Forbidden, match="scope admin"):
        await writer.sessions.import_transcript(b"hello\n")


async def test_a_guest_can_not_make_trash_old_to_have_it_removed_for_good(
    place: Place, client: Client
) -> None:
    guest = await place.client(GUEST, "write")
    theirs = await place.session(title="Theirs", person=GUEST)
    old = SessionChange(theirs.id, SessionMarks(deleted_at=1), SessionMarks())
    assert [each.id for each in (await guest.sessions.undo([old])).sessions] == [theirs.id]
    assert (await client.trash.empty(older_than=DAY_MS)).ids == ()
    assert await trashed(client) == ["Theirs"]


# --- one undo for every change ------------------------------------------------------------------


async def test_a_delete_of_forty_is_undone_and_nothing_else_is(
    place: Place, client: Client
) -> None:
    old = await place.session("cli:old", title="old")
    await client.trash.put([old.id])
    forty = [(await place.session(f"cli:{number}")).id for number in range(40)]
    deleted = await client.sessions.mark([*forty, NOBODY, old.id], trashed=True)
    assert {each.id for each in deleted.sessions} == set(forty)
    assert {each.id for each in deleted.failed} == {NOBODY, old.id}
    assert await titles(client) == []
    undone = await client.sessions.undo(deleted.changes)
    assert {each.id for each in undone.sessions} == set(forty)
    assert undone.failed == ()
    assert {each.id async for each in client.sessions.iter_list()} == set(forty)
    assert await trashed(client) == ["old"]


async def test_a_rename_a_pin_and_a_restore_are_undone_by_the_same_call(
    place: Place, client: Client
) -> None:
    one, two = await place.session("cli:1", title="One"), await place.session("cli:2")
    renamed = await client.sessions.mark([one.id, two.id], title="Both")
    assert await titles(client) == ["Both", "Both"]
    assert len((await client.sessions.undo(renamed.changes)).sessions) == 2
    assert set(await titles(client)) == {"One", None}
    pinned = await client.sessions.mark([two.id], pinned=True, archived=True)
    await client.sessions.undo(pinned.changes)
    again = (await client.sessions.get(two.id)).session
    assert (again.pinned, again.archived_at) == (False, None)
    await client.trash.put([one.id])
    restored = await client.sessions.mark([one.id], trashed=False)
    assert set(await titles(client)) == {"One", None}
    await client.sessions.undo(restored.changes)
    assert await trashed(client) == ["One"]


async def test_an_undo_says_what_was_changed_since_and_undoes_the_rest(
    place: Place, client: Client
) -> None:
    one, two = await place.session("cli:1", title="1"), await place.session("cli:2", title="2")
    renamed = await client.sessions.mark([one.id, two.id], title="Both")
    await client.sessions.update(two.id, title="Another's")
    undone = await client.sessions.undo(renamed.changes)
    assert [each.id for each in undone.sessions] == [one.id]
    (failed,) = undone.failed
    assert failed.id == two.id
    assert isinstance(error_of(failed.problem), Conflict)
    assert set(await titles(client)) == {"1", "Another's"}


async def test_a_guest_undoes_only_what_happens_to_their_own_sessions(
    place: Place, client: Client
) -> None:
    mine = await place.session("cli:1", title="Secret plans")
    theirs = await place.session("cli:2", title="theirs", person=GUEST)
    guest = await place.client(GUEST, "write")
    changed = await guest.sessions.mark([mine.id, theirs.id], title="x")
    assert [each.id for each in changed.sessions] == [theirs.id]
    renamed = await client.sessions.mark([mine.id, theirs.id], title="y")
    assert "Secret plans" not in str(changed.failed)
    undone = await guest.sessions.undo(renamed.changes)
    assert [each.id for each in undone.sessions] == [theirs.id]
    assert isinstance(error_of(undone.failed[0].problem), SessionNotFound)
    assert (await client.sessions.get(mine.id)).session.title == "y"
    with pytest.raises(InvalidInput):
        await guest.sessions.mark([theirs.id], trashed=True, pinned=True)
    reader = await place.client(GUEST, "read")
    with pytest.raises(Forbidden):
        await reader.sessions.undo(renamed.changes)
