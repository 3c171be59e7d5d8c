"""`ports.Sessions`: making sessions, finding them by key, id and title, editing them."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.keys import new_id
from clew.core.session import MAX_TITLE, NewSession, Session, SessionEdit, SessionFacts
from clew.core.usage import Usage
from clew.errors import Conflict, InvalidInput, SessionNotFound, StaleRevision
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import UNKNOWN, Contract, make, purge, read, say

EVERYTHING = NewSession(
    key="agent:main:telegram:group:42",
    platform="telegram",
    kind="group",
    agent="research",
    person="telegram:42",
    id="6ba7b810-9dad-41d1-80b4-00c04fd430c8",
    title="A title",
    title_by="auto",
    cwd="/home/u/project/src",
    project="/home/u/project",
    model="anthropic/claude",
    provider="anthropic",
    personality="terse",
    thinking="high",
    service_tier="flex",
    mode="plan",
    display_name="Team",
    channel="telegram",
    subject="Release",
    room="42",
    space="7",
    origin={"label": "Team", "from": 42},
    send_policy="deny",
    reset_reason="daily",
    previous_id=UNKNOWN,
    transcript_path="/tmp/t.jsonl",  # noqa: S108  # a value, never opened
    metadata={"a": [1, None, {"b": "c"}]},
    created_at=1_600_000_000_000,
)


class SessionsContract(Contract):
    """Sessions and the routes that lead to them."""

    async def test_a_new_key_makes_a_session(self, store: Store, clock: FakeClock) -> None:
        session, made = await store.open_session(NewSession(key="cli:a"))

        assert made
        assert (session.key, session.head, session.message_count) == ("cli:a", 0, 0)
        assert session.usage == Usage()
        assert session.created_at == session.updated_at == clock()
        assert session.last_interaction_at is None
        assert await store.get_session(session.id) == session

    async def test_a_known_key_leads_to_its_session(self, store: Store, other: Store) -> None:
        first, _ = await store.open_session(NewSession(key="cli:a"))

        again, made = await other.open_session(NewSession(key="cli:a", title="ignored"))

        assert (again, made) == (first, False)

    @pytest.mark.parametrize("purged", [False, True])
    async def test_a_key_whose_session_was_deleted_gets_a_new_one(
        self, store: Store, purged: bool
    ) -> None:
        first, _ = await store.open_session(NewSession(key="cli:a"))
        await (purge(store, first.id) if purged else store.delete_sessions([first.id]))

        second, made = await store.open_session(NewSession(key="cli:a"))

        assert made
        assert second.id != first.id
        assert await store.find_route("cli:a") == second

    async def test_an_archived_session_keeps_its_route(self, store: Store) -> None:
        first, _ = await store.open_session(NewSession(key="cli:a"))
        await store.edit_session(first.id, SessionEdit(archived=True))

        again, made = await store.open_session(NewSession(key="cli:a"))

        assert (again.id, made) == (first.id, False)

    async def test_two_writers_that_meet_a_new_key_get_one_session(
        self, store: Store, other: Store
    ) -> None:
        for number in range(20):
            new = NewSession(key=f"cli:{number}")
            answers = await asyncio.gather(store.open_session(new), other.open_session(new))

            assert answers[0][0] == answers[1][0]
            assert sorted(made for _, made in answers) == [False, True]

    async def test_many_tasks_that_meet_a_new_key_get_one_session(self, store: Store) -> None:
        new = NewSession(key="cli:a")

        answers = await asyncio.gather(*(store.open_session(new) for _ in range(16)))

        assert len({session.id for session, _ in answers}) == 1
        assert sum(made for _, made in answers) == 1

    async def test_what_is_known_at_the_start_is_kept(self, store: Store, other: Store) -> None:
        session = await store.create_session(EVERYTHING)

        for name in EVERYTHING.__struct_fields__:
            assert getattr(session, name) == getattr(EVERYTHING, name), name
        assert session.updated_at == EVERYTHING.created_at
        assert session.usage == Usage()
        assert await other.get_session(session.id) == session

    async def test_a_created_session_takes_over_the_route(self, store: Store) -> None:
        before, _ = await store.open_session(NewSession(key="cli:a"))
        await say(store, before.id, "still here")

        after = await make(store, "cli:a")

        assert await store.find_route("cli:a") == after
        assert await read(store, before.id) == ["still here"]

    async def test_a_session_can_be_created_under_another_route(self, store: Store) -> None:
        session = await store.create_session(NewSession(key="cli:a"), route="cli:b")

        assert session.key == "cli:a"
        assert await store.find_route("cli:b") == session
        assert await store.find_route("cli:a") is None

    async def test_a_session_can_be_created_without_a_route(self, store: Store) -> None:
        before = await make(store, "cli:a")

        session = await store.create_session(NewSession(key="cli:a"), route=None)

        assert await store.find_route("cli:a") == before
        assert await store.list_routes(session.id) == ()

    async def test_an_id_that_exists_is_refused(self, store: Store) -> None:
        first = await make(store, "cli:a", title="first")

        with pytest.raises(Conflict):
            await make(store, "cli:b", id=first.id, title="second")

        assert await store.get_session(first.id) == first
        assert await store.find_route("cli:b") is None

    async def test_sessions_put_away_can_still_be_read_by_id(self, store: Store) -> None:
        archived, trashed = await make(store), await make(store)
        await store.edit_session(archived.id, SessionEdit(archived=True))
        await store.delete_sessions([trashed.id])

        assert (await store.get_session(archived.id)).archived_at is not None
        assert (await store.get_session(trashed.id)).deleted_at is not None

    async def test_an_unknown_or_purged_session_is_not_found(
        self, store: Store, session: Session
    ) -> None:
        await purge(store, session.id)

        for session_id in (UNKNOWN, session.id):
            with pytest.raises(SessionNotFound):
                await store.get_session(session_id)

    async def test_a_beginning_finds_its_sessions_newest_first(
        self, store: Store, clock: FakeClock
    ) -> None:
        ids = [f"aaaaaaaa-{n}000-4000-8000-000000000000" for n in range(3)]
        for each in ids:
            await make(store, id=each)
            clock.advance(1)
        await make(store, id="bbbbbbbb-0000-4000-8000-000000000000")

        found = await store.find_sessions("aaaa")

        assert [session.id for session in found] == ids[::-1]
        assert [s.id for s in await store.find_sessions("aaaa", limit=2)] == ids[:0:-1]
        assert [s.id for s in await store.find_sessions("AAAAAAAA1")] == [ids[1]]
        assert [s.id for s in await store.find_sessions(ids[1])] == [ids[1]]

    @pytest.mark.parametrize("typed", ["", "-", "zz", "%", "_", "*", "a" * 33, "é", "\0", "\ud800"])
    async def test_what_begins_no_id_finds_no_session(self, store: Store, typed: str) -> None:
        await make(store, id="aaaaaaaa-0000-4000-8000-000000000000")

        assert await store.find_sessions(typed) == ()

    async def test_an_ending_finds_its_sessions_newest_first(
        self, store: Store, clock: FakeClock
    ) -> None:
        ids = [f"{n}0000000-0000-4000-8000-0000000abcde" for n in range(3)]
        for each in ids:
            await make(store, id=each)
            clock.advance(1)
        await make(store, id="a0000000-0000-4000-8000-0000001abcde")
        await make(store, id="b0000000-0000-4000-8000-0000000abcd0")

        found = await store.find_endings("00abcde")

        assert [session.id for session in found] == ids[::-1]
        assert [s.id for s in await store.find_endings("00abcde", limit=2)] == ids[:0:-1]
        assert len(await store.find_endings("bcde")) == 4

    @pytest.mark.parametrize(
        "typed",
        ["34de", "e-8f90-abcdef1234de", "E8F90ABCDEF1234DE", " -8f90-abcdef1234de",
         "8f9-0ABCDEF1234DE", "1-5c6d-4d7e-8f90-abcdef1234de", "5c6d4d7e8f90abcdef1234de",
         "a0b1c2d1-5c6d-4d7e-8f90-abcdef1234de", "a0b1c2d15c6d4d7e8f90abcdef1234de"],
    )  # fmt: skip
    async def test_an_ending_may_be_typed_in_any_case_without_its_hyphens(
        self, store: Store, typed: str
    ) -> None:
        session = await make(store, id="a0b1c2d1-5c6d-4d7e-8f90-abcdef1234de")
        await make(store, id="a0b1c2d1-5c6d-4d7e-8f90-abcdef123444")

        assert await store.find_endings(typed) == (session,)

    @pytest.mark.parametrize(
        "typed",
        ["", "-", "000", "0-00", "zzzz", "%%%%", "____", "%0000", "*000", "0" * 33, "éééé",
         "\0" * 4, "\ud8000000", "1000000000000", "a0000", "aaaaaaaa-0000-4000-8000-00000000000"],
    )  # fmt: skip
    async def test_what_ends_no_id_finds_no_session(self, store: Store, typed: str) -> None:
        await make(store, id="aaaaaaaa-0000-4000-8000-000000000000")

        assert await store.find_endings(typed) == ()

    async def test_a_key_finds_the_sessions_made_under_it_newest_first(
        self, store: Store, clock: FakeClock
    ) -> None:
        made = []
        for _ in range(3):
            made.append(await make(store, "cli:a"))
            clock.advance(1)
        elsewhere = await make(store, "cli:ab")
        await store.set_route("cli:a", elsewhere.id)

        found = await store.find_keys("cli:a")

        assert list(found) == made[::-1]
        assert list(await store.find_keys("cli:a", limit=2)) == made[:0:-1]
        assert await store.find_keys("CLI:A") == ()
        assert await store.find_keys("cli:") == ()
        assert await store.find_keys("") == ()

    async def test_what_was_said_last_makes_the_newest_of_a_key(
        self, store: Store, clock: FakeClock
    ) -> None:
        first, second = await make(store, "cli:a"), await make(store, "cli:a")
        clock.advance(1)
        await say(store, first.id, "still here")

        assert [each.id for each in await store.find_keys("cli:a")] == [first.id, second.id]

    async def test_a_title_is_found_whatever_its_case(self, store: Store, clock: FakeClock) -> None:
        older = await make(store, title="Straße nach Évian")
        clock.advance(1)
        newer = await make(store, title="STRASSE NACH ÉVIAN")
        await make(store, title="Straße nach Évian am See")

        found = await store.find_titles(" straße nach évian ")

        assert [session.id for session in found] == [newer.id, older.id]
        assert len(await store.find_titles("straße nach évian", limit=1)) == 1

    async def test_trashed_sessions_are_found_by_neither_id_nor_title_nor_key(
        self, store: Store
    ) -> None:
        session = await make(store, "cli:gone", title="gone")
        await store.delete_sessions([session.id])

        assert await store.find_sessions(session.id) == ()
        assert await store.find_endings(session.id[-6:]) == ()
        assert await store.find_titles("gone") == ()
        assert await store.find_keys("cli:gone") == ()
        await store.restore_sessions([session.id])
        assert len(await store.find_endings(session.id[-6:])) == 1
        assert len(await store.find_keys("cli:gone")) == 1

    async def test_archived_sessions_are_found_by_ending_and_key(self, store: Store) -> None:
        session = await make(store, "cli:a")
        away = await store.edit_session(session.id, SessionEdit(archived=True))

        assert await store.find_endings(session.id[-12:]) == (away,)
        assert await store.find_keys("cli:a") == (away,)

    async def test_of_two_that_begin_in_the_same_instant_a_key_leads_to_one(
        self, store: Store, other: Store
    ) -> None:
        for number in range(10):
            key = f"cli:place-{number}"
            made = await asyncio.gather(
                *(
                    each.create_session(NewSession(key=key), route=key, yields=True)
                    for each in (store, other, store)
                )
            )
            routes = [await store.list_routes(each.id) for each in made]
            assert sorted(routes) == [(), (), (key,)]
            late = await store.create_session(NewSession(key=key), route=key, yields=True)
            assert await store.list_routes(late.id) == ()
            await store.create_session(NewSession(key=key), route=key)
            assert [await store.list_routes(each.id) for each in made] == [()] * 3

    async def test_the_names_of_sessions_are_those_that_people_see(self, store: Store) -> None:
        begun, titled, trashed, purged = [await make(store) for _ in range(4)]
        await say(store, begun.id, "How it began \ud800")
        await store.edit_session(titled.id, SessionEdit(title="A title"))
        await store.delete_sessions([trashed.id, purged.id])
        await store.purge_sessions([purged.id])

        names = await store.get_names([begun.id, titled.id, trashed.id, purged.id, UNKNOWN])

        sessions = [await store.get_session(each.id) for each in (begun, titled, trashed)]
        assert names == {each.id: each.name for each in sessions}
        assert names[titled.id] == "A title"

    async def test_ids_are_shortened_to_what_tells_them_apart(self, store: Store) -> None:
        one = "aaaaaaaa-aaaa-4000-8000-000000000000"
        near = "aaaaaaaa-aaab-4000-8000-000000000000"
        alone = "cccccccc-0000-4000-8000-000000000000"
        for each in (one, near, alone):
            await make(store, id=each)
        await store.delete_sessions([near])

        short = await store.shorten_ids([one, alone])

        assert short == {one: "aaaaaaaa-aaaa", alone: "cccccccc"}

    async def test_an_edit_raises_the_revision(self, store: Store, clock: FakeClock) -> None:
        before = await make(store)
        clock.advance(SECOND)

        after = await store.edit_session(
            before.id, SessionEdit(title="  New  ", pinned=True, mode="plan", send_policy="deny")
        )

        assert after.revision > before.revision
        assert (after.title, after.title_by, after.pinned) == ("New", "user", True)
        assert (after.mode, after.send_policy) == ("plan", "deny")
        assert after.updated_at == before.updated_at
        assert await store.get_session(before.id) == after

    async def test_an_edit_that_changes_nothing_leaves_the_revision(self, store: Store) -> None:
        before = await make(store, title="Same", mode="plan")

        after = await store.edit_session(
            before.id, SessionEdit(title=" Same ", mode="plan", pinned=False, archived=False)
        )

        assert after == before

    async def test_an_edit_of_an_old_revision_is_refused(self, store: Store, other: Store) -> None:
        before = await make(store)
        current = await other.edit_session(before.id, SessionEdit(title="theirs"))

        with pytest.raises(StaleRevision) as refused:
            await store.edit_session(before.id, SessionEdit(title="mine"), revision=before.revision)

        assert refused.value.actual == current.revision
        assert await store.get_session(before.id) == current

    async def test_an_edit_of_the_current_revision_is_made(self, store: Store) -> None:
        before = await make(store)

        after = await store.edit_session(
            before.id, SessionEdit(title="mine"), revision=before.revision
        )

        assert after.title == "mine"

    async def test_of_two_edits_of_one_revision_one_is_made(
        self, store: Store, other: Store
    ) -> None:
        before = await make(store)

        answers = await asyncio.gather(
            store.edit_session(before.id, SessionEdit(title="a"), revision=before.revision),
            other.edit_session(before.id, SessionEdit(title="b"), revision=before.revision),
            return_exceptions=True,
        )

        assert sum(isinstance(answer, StaleRevision) for answer in answers) == 1

    @pytest.mark.parametrize("empty", ["", "   ", None])
    async def test_an_empty_title_clears_it(self, store: Store, empty: str | None) -> None:
        session = await make(store, title="Something")

        after = await store.edit_session(session.id, SessionEdit(title=empty))

        assert (after.title, after.title_by) == (None, None)

    async def test_a_title_that_is_too_long_is_refused(
        self, store: Store, session: Session
    ) -> None:
        longest = "é" * MAX_TITLE

        assert (await store.edit_session(session.id, SessionEdit(title=longest))).title == longest
        with pytest.raises(InvalidInput):
            await store.edit_session(session.id, SessionEdit(title=longest + "é"))

    async def test_archiving_and_back_leave_the_time_of_update(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        clock.advance(SECOND)

        archived = await store.edit_session(session.id, SessionEdit(archived=True))
        clock.advance(SECOND)
        again = await store.edit_session(session.id, SessionEdit(archived=True))
        back = await store.edit_session(session.id, SessionEdit(archived=False))

        assert archived.archived_at == again.archived_at == session.updated_at + SECOND
        assert back.archived_at is None
        assert back.updated_at == session.updated_at

    async def test_an_unknown_session_can_be_neither_edited_nor_described(
        self, store: Store
    ) -> None:
        with pytest.raises(SessionNotFound):
            await store.edit_session(UNKNOWN, SessionEdit(title="x"))
        with pytest.raises(SessionNotFound):
            await store.describe_session(UNKNOWN, SessionFacts(title="x"))

    async def test_what_clew_learns_is_no_edit(self, store: Store, clock: FakeClock) -> None:
        before = await make(store)
        clock.advance(SECOND)

        after = await store.describe_session(
            before.id,
            SessionFacts(
                short_summary="About tests",
                context_tokens=12,
                room="9",
                last_route={"channel": "telegram"},
                metadata={"x": 1},
                project="/p",
            ),
        )

        assert (after.short_summary, after.context_tokens, after.room) == ("About tests", 12, "9")
        assert after.last_route == {"channel": "telegram"}
        assert (after.metadata, after.project) == ({"x": 1}, "/p")
        assert (after.revision, after.updated_at) == (before.revision, before.updated_at)

    async def test_what_clew_learned_can_be_cleared(self, store: Store) -> None:
        session = await make(store, room="9")
        await store.describe_session(session.id, SessionFacts(last_route={"a": 1}))

        after = await store.describe_session(session.id, SessionFacts(room=None, last_route=None))

        assert (after.room, after.last_route) == (None, None)

    async def test_an_automatic_title_gives_way_to_a_persons(
        self, store: Store, session: Session
    ) -> None:
        first = await store.describe_session(session.id, SessionFacts(title="auto one"))
        second = await store.describe_session(session.id, SessionFacts(title="auto two"))
        mine = await store.edit_session(session.id, SessionEdit(title="mine"))
        third = await store.describe_session(session.id, SessionFacts(title="auto three", room="1"))

        assert (first.title, first.title_by) == ("auto one", "auto")
        assert second.title == "auto two"
        assert (third.title, third.title_by, third.room) == ("mine", "user", "1")
        assert third.revision == mine.revision

    async def test_a_cleared_title_may_be_given_automatically_again(self, store: Store) -> None:
        session = await make(store, title="mine")
        await store.edit_session(session.id, SessionEdit(title=None))

        after = await store.describe_session(session.id, SessionFacts(title="auto"))

        assert (after.title, after.title_by) == ("auto", "auto")

    async def test_an_origin_is_merged_and_never_erased(self, store: Store) -> None:
        session = await make(store, origin={"label": "a", "from": 1})

        after = await store.describe_session(
            session.id, SessionFacts(origin={"label": "", "from": None, "to": "b", "account": "c"})
        )

        assert after.origin == {"label": "a", "from": 1, "to": "b", "account": "c"}

    async def test_facts_decided_on_old_metadata_are_refused(
        self, store: Store, session: Session, other: Store
    ) -> None:
        first = await store.describe_session(session.id, SessionFacts(metadata={"a": 1}), noted={})

        with pytest.raises(Conflict):
            await other.describe_session(
                session.id, SessionFacts(metadata={"b": 2}, room="9"), noted={}
            )

        assert await other.get_session(session.id) == first
        after = await other.describe_session(
            session.id, SessionFacts(metadata={"b": 2}), noted={"a": 1}
        )
        assert after.metadata == {"b": 2}

    async def test_a_key_that_was_never_used_leads_nowhere(self, store: Store) -> None:
        assert await store.find_route("cli:none") is None

    async def test_a_route_can_be_set(self, store: Store, other: Store) -> None:
        session = await make(store, "cli:a")

        await store.set_route("cli:z", session.id)
        await store.set_route("cli:b", session.id)

        assert await other.find_route("cli:b") == session
        assert await other.list_routes(session.id) == ("cli:a", "cli:b", "cli:z")

    async def test_a_route_leads_to_one_session(self, store: Store) -> None:
        first, second = await make(store, "cli:a"), await make(store, "cli:b")

        await store.set_route("cli:a", second.id)

        assert await store.list_routes(first.id) == ()
        assert await store.list_routes(second.id) == ("cli:a", "cli:b")

    async def test_a_cleared_route_leads_nowhere(self, store: Store, other: Store) -> None:
        session = await make(store, "cli:a")
        await store.set_route("cli:b", session.id)

        await store.clear_route("cli:a")

        assert await other.find_route("cli:a") is None
        assert await other.list_routes(session.id) == ("cli:b",)
        assert await other.get_session(session.id) == session
        next_one, made = await other.open_session(NewSession(key="cli:a"))
        assert made
        assert next_one.id != session.id

    async def test_clearing_a_route_that_is_not_there_is_fine(self, store: Store) -> None:
        session = await make(store, "cli:a")

        await store.clear_route("cli:none")
        await store.clear_route("cli:none")

        assert await store.find_route("cli:a") == session

    async def test_a_route_to_nowhere_is_refused(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.set_route("cli:a", UNKNOWN)

        assert await store.find_route("cli:a") is None

    async def test_ids_that_clew_makes_are_its_own_spelling(self, store: Store) -> None:
        session = await make(store, id=None)

        assert len(session.id) == len(new_id())
        assert session.id == session.id.lower()
