"""`ports.Sessions`: lists with filters and cursors, the names of all sessions, their states.

What a viewer sees is part of every one of them.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from clew.core.changes import AddCompaction, EndTurn, ResumeTurn, StartTurn, UndoTurn
from clew.core.session import (
    NAME_TEXT,
    Session,
    SessionEdit,
    SessionFacets,
    SessionFacts,
    SessionFilter,
    SessionName,
    SessionState,
    name_of,
)
from clew.core.turn import LEASE_MS, Lease, TurnEnd
from clew.errors import InvalidCursor, InvalidInput
from clew.ports import Store
from clew.testing.clock import DAY, SECOND, FakeClock
from clew.testing.contract.case import (
    UNKNOWN,
    Contract,
    OpenStore,
    dead_identity,
    list_pages,
    listed,
    make,
    record,
    say,
    take_turn,
)
from clew.testing.contract.turns import ask

GUEST = "telegram:7"
NOTHING = SessionState()


async def pages(store: Store, where: SessionFilter, limit: int) -> list[list[str]]:
    """A list, page by page."""
    found = await list_pages(lambda cursor: store.list_sessions(where, limit=limit, cursor=cursor))
    return [[session.id for session in page.sessions] for page in found]


def flat(found: list[list[str]]) -> list[str]:
    """All pages in one."""
    return [session_id for page in found for session_id in page]


class ListingContract(Contract):
    """Pages of sessions."""

    async def test_a_list_is_pinned_first_then_newest_first(
        self, store: Store, clock: FakeClock
    ) -> None:
        made = []
        for _ in range(4):
            made.append((await make(store)).id)
            clock.advance(1)
        await store.edit_session(made[1], SessionEdit(pinned=True))
        await say(store, made[0], "moves up")

        assert await listed(store) == [made[1], made[0], made[3], made[2]]

    async def test_sessions_of_one_millisecond_are_listed_in_a_fixed_order(
        self, store: Store
    ) -> None:
        made = [(await make(store)).id for _ in range(25)]
        where = SessionFilter(viewer="owner")

        whole = await listed(store)

        assert sorted(whole) == sorted(made)
        assert whole in (sorted(made), sorted(made, reverse=True))
        assert flat(await pages(store, where, 7)) == whole

    async def test_a_list_shows_all_there_is_to_a_session(self, store: Store) -> None:
        session = await make(store, title="T", cwd="/here")
        await say(store, session.id, "first", "second")

        page = await store.list_sessions(SessionFilter(viewer="owner"))

        assert page.sessions == (await store.get_session(session.id),)
        assert (page.sessions[0].preview, page.sessions[0].message_count) == ("first", 2)
        assert page.cursor is None

    @pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7])
    async def test_pages_add_up_to_the_list(
        self, store: Store, clock: FakeClock, size: int
    ) -> None:
        for number in range(6):
            session = await make(store)
            await store.edit_session(session.id, SessionEdit(pinned=number % 3 == 0))
            clock.advance(number % 2)

        found = await pages(store, SessionFilter(viewer="owner"), size)

        assert flat(found) == await listed(store)
        assert all(len(page) == size for page in found[:-1])
        assert found[-1]

    async def test_a_cursor_goes_on_where_its_page_ended_while_rows_change(
        self, store: Store, clock: FakeClock
    ) -> None:
        made = []
        for _ in range(8):
            made.append((await make(store)).id)
            clock.advance(1)
        where = SessionFilter(viewer="owner")
        first = await store.list_sessions(where, limit=3)

        await make(store)
        await say(store, made[1], "moves to the top")
        await store.delete_sessions([made[5], made[2]])
        rest = await store.list_sessions(where, limit=10, cursor=first.cursor)

        assert [session.id for session in first.sessions] == [made[7], made[6], made[5]]
        assert [session.id for session in rest.sessions] == [made[4], made[3], made[0]]

    async def test_a_list_of_active_and_archived_sessions_has_one_order(
        self, store: Store, clock: FakeClock
    ) -> None:
        made = []
        for number in range(6):
            made.append((await make(store)).id)
            await store.edit_session(made[-1], SessionEdit(archived=number % 2 == 0))
            clock.advance(1)
        where = SessionFilter(viewer="owner", archived=None)

        assert flat(await pages(store, where, 2)) == made[::-1]

    @pytest.mark.parametrize("cursor", ["", "x", "!!!!", "bnVsbA", "WzEsMl0", "é", "\ud800", "\0"])
    async def test_a_foreign_cursor_is_refused(self, store: Store, cursor: str) -> None:
        with pytest.raises(InvalidCursor):
            await store.list_sessions(SessionFilter(viewer="owner"), cursor=cursor)

    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            ({}, "abcde"),
            ({"platform": "telegram"}, "b"),
            ({"agent": "research"}, "c"),
            ({"kind": "group"}, "b"),
            ({"cwd": "/one"}, "ad"),
            ({"project": "/p"}, "de"),
            ({"cwd": "/one", "project": "/p"}, "d"),
            ({"platform": "cli", "cwd": "/nowhere"}, ""),
            ({"text": "ÉCLAIR"}, "a"),
            ({"text": "hello"}, "e"),
            ({"text": "THERE, Über"}, "e"),
            ({"text": "üBER"}, "e"),
            ({"text": "привет"}, "e"),
            ({"text": "100%"}, "d"),
            ({"text": "_"}, ""),
            ({"person": "owner"}, "acde"),
            ({"person": GUEST}, "b"),
            ({"person": "telegram:8"}, ""),
            ({"person": GUEST, "kind": "group"}, "b"),
            ({"agent": "main"}, "abde"),
            ({"kind": "cli", "agent": "main", "project": "/p"}, "de"),
            ({"pinned": True}, "c"),
            ({"pinned": False}, "abde"),
            ({"pinned": False, "project": "/p"}, "de"),
            ({"pinned": True, "platform": "telegram"}, ""),
        ],
    )
    async def test_a_filter_picks_its_sessions(
        self, store: Store, where: dict[str, Any], expected: str
    ) -> None:
        made = {
            "a": await make(store, cwd="/one", title="Petit éclair"),
            "b": await make(store, platform="telegram", kind="group", person=GUEST),
            "c": await make(store, agent="research"),
            "d": await make(store, cwd="/one", project="/p", title="100% sure"),
            "e": await make(store, project="/p"),
        }
        await say(store, made["e"].id, "Hello there, über ПРИВЕТ")
        await store.edit_session(made["c"].id, SessionEdit(pinned=True))

        assert set(await listed(store, **where)) == {made[name].id for name in expected}
        count = await store.count_sessions(SessionFilter(viewer="owner", **where))
        assert count == len(expected)

    async def test_active_since_is_inclusive(self, store: Store, clock: FakeClock) -> None:
        await make(store)
        now = clock.advance(SECOND)
        recent = await make(store)

        assert await listed(store, active_since=now) == [recent.id]
        assert await listed(store, active_since=now + 1) == []

    async def test_a_span_of_time_is_inclusive_and_pinned_sessions_come_first(
        self, store: Store, clock: FakeClock
    ) -> None:
        made, times = [], []
        for number in range(9):
            made.append((await make(store)).id)
            edit = SessionEdit(pinned=number % 3 == 0, archived=number % 4 == 0)
            await store.edit_session(made[-1], edit)
            times.append(clock())
            clock.advance(1)
        where = SessionFilter(
            viewer="owner", active_since=times[1], active_until=times[7], archived=None
        )
        expected = [made[at] for at in (6, 3, 7, 5, 4, 2, 1)]

        for size in (1, 2, 3, 7, 8):
            assert flat(await pages(store, where, size)) == expected
        assert await store.count_sessions(where) == 7
        assert await listed(store, active_until=times[0] - 1) == []
        pinned = await listed(store, active_until=times[7], pinned=True)
        assert pinned == [made[6], made[3]]
        await store.delete_sessions([made[6], made[7]])
        assert await listed(store, active_since=times[7], trashed=True) == [made[7]]
        assert await listed(store, pinned=True, trashed=True) == [made[6]]

    async def test_a_list_by_state_has_the_sessions_in_that_state(
        self, store: Store, clock: FakeClock, open_store: OpenStore
    ) -> None:
        made = []
        for _ in range(8):
            made.append((await make(store)).id)
            clock.advance(1)
        gone = await dead_identity(open_store, clock)
        for at, holder in ((0, "me"), (1, "me"), (2, gone), (3, "me"), (4, "me")):
            lease = await store.acquire_lease(made[at], holder)
            await store.record(made[at], lease.epoch, StartTurn(turn_id=f"t{at}"))
            if at in (0, 2):
                question = ask(f"t{at}", f"q{at}", clock() + 10 * SECOND)
                await store.record(made[at], lease.epoch, question)
            if at in (3, 4):
                end = EndTurn(turn_id=f"t{at}", status="interrupted")
                await store.record(made[at], lease.epoch, end)
                await store.release_lease(lease)
        await take_turn(store, made[4], "goes on")
        await store.attach(made[5])

        assert await listed(store, state="waiting") == [made[0]]
        assert await listed(store, state="running") == [made[1]]
        assert await listed(store, state="interrupted") == [made[3], made[2]]
        assert await listed(store, state="open") == [made[5]]
        assert await listed(store, state="idle") == [made[at] for at in (4, 7, 6, 5)]
        for size in (1, 2, 3, 4, 5):
            where = SessionFilter(viewer="owner", state="idle")
            assert flat(await pages(store, where, size)) == [made[at] for at in (4, 7, 6, 5)]
            where = SessionFilter(viewer="owner", state="interrupted")
            assert flat(await pages(store, where, size)) == [made[3], made[2]]
        assert await listed(store, viewer=GUEST, state="waiting") == []
        assert await listed(store, state="running", platform="telegram") == []

    async def test_what_is_counted_or_named_has_no_state(self, store: Store) -> None:
        where = SessionFilter(viewer="owner", state="idle")

        with pytest.raises(InvalidInput):
            await store.count_sessions(where)
        with pytest.raises(InvalidInput):
            await store.list_names(where)

    async def test_facets_are_the_values_of_the_sessions_that_a_viewer_sees(
        self, store: Store
    ) -> None:
        empty = await store.list_facets("owner")
        await make(store, project="/p")
        archived = await make(store, project="/old", agent="research", platform="a\0b")
        await make(store, platform="telegram", kind="dm", person=GUEST)
        await make(store, platform="telegram", kind="group", person="telegram:8")
        gone = await make(store, platform="discord", project="/gone", agent="gone", kind="hook")
        await store.edit_session(archived.id, SessionEdit(archived=True))
        await store.delete_sessions([gone.id])

        assert empty == SessionFacets(agents=("main",), people=("owner",))
        assert await store.list_facets("owner") == SessionFacets(
            platforms=("a\0b", "cli", "telegram"),
            agents=("main", "research"),
            kinds=("cli", "dm", "group"),
            projects=("/old", "/p"),
            people=("owner", GUEST, "telegram:8"),
        )
        assert await store.list_facets(GUEST) == SessionFacets(
            platforms=("telegram",), agents=("main",), kinds=("dm",), people=(GUEST,)
        )
        assert await store.list_facets("telegram:9") == SessionFacets()

    async def test_archived_sessions_are_shown_when_asked_for(self, store: Store) -> None:
        active, archived = await make(store), await make(store)
        await store.edit_session(archived.id, SessionEdit(archived=True))

        assert await listed(store) == [active.id]
        assert await listed(store, archived=True) == [archived.id]
        assert set(await listed(store, archived=None)) == {active.id, archived.id}

    async def test_the_trash_lists_the_latest_deletion_first(
        self, store: Store, clock: FakeClock
    ) -> None:
        made = []
        for _ in range(3):
            made.append((await make(store)).id)
            clock.advance(1)
        for each in (made[2], made[0], made[1]):
            await store.delete_sessions([each])
            clock.advance(1)
        await store.purge_sessions([made[0]])

        assert await listed(store, trashed=True) == [made[1], made[2]]
        assert await listed(store, trashed=True, archived=None) == [made[1], made[2]]
        assert await store.count_sessions(SessionFilter(viewer="owner", trashed=True)) == 2
        assert await pages(store, SessionFilter(viewer="owner", trashed=True), 1) == [
            [made[1]],
            [made[2]],
        ]

    async def test_the_trash_lists_archived_sessions_too(
        self, store: Store, session: Session
    ) -> None:
        await store.edit_session(session.id, SessionEdit(archived=True))
        await store.delete_sessions([session.id])

        assert await listed(store, trashed=True) == [session.id]

    async def test_a_guest_sees_only_its_own_sessions(self, store: Store) -> None:
        owners, guests = await make(store), await make(store, person=GUEST)
        await make(store, person="telegram:8")
        gone = await make(store, person=GUEST)
        hidden = await make(store)
        await store.delete_sessions([gone.id, hidden.id])

        assert await listed(store, viewer=GUEST) == [guests.id]
        assert await listed(store, viewer=GUEST, archived=None) == [guests.id]
        assert await listed(store, viewer=GUEST, trashed=True) == [gone.id]
        assert await listed(store, viewer="nobody") == []
        assert await store.count_sessions(SessionFilter(viewer=GUEST)) == 1
        assert owners.id not in await listed(store, viewer=GUEST, text="")

    async def test_the_owner_sees_every_session(self, store: Store) -> None:
        made = {(await make(store)).id, (await make(store, person=GUEST)).id}

        assert set(await listed(store)) == made


async def named(store: Store, where: SessionFilter, limit: int) -> list[list[SessionName]]:
    """A list of names, page by page."""
    found = await list_pages(lambda cursor: store.list_names(where, limit=limit, cursor=cursor))
    return [list(page.names) for page in found]


async def begin(store: Store, session_id: str, holder: str, turn_id: str) -> Lease:
    """Take the lease and start a turn."""
    lease = await store.acquire_lease(session_id, holder)
    await store.record(session_id, lease.epoch, StartTurn(turn_id=turn_id))
    return lease


async def state(store: Store, session_id: str) -> SessionState:
    """The state of one session."""
    return (await store.list_states([session_id]))[session_id]


class OverviewContract(Contract):
    """Names and states."""

    async def test_a_name_shows_what_the_session_is_found_by(
        self, store: Store, clock: FakeClock
    ) -> None:
        session = await make(
            store, title="Tïtle\0", cwd="/hére\ud800", project="/p", platform="tg", kind="dm",
            person=GUEST,
        )  # fmt: skip
        clock.advance(SECOND)
        await say(store, session.id, "first\ufff9 prompt", "second")
        await store.describe_session(session.id, SessionFacts(short_summary="in short"))
        await store.edit_session(session.id, SessionEdit(pinned=True, archived=True))

        page = await store.list_names(SessionFilter(viewer="owner", archived=True))

        assert page.names == (name_of(await store.get_session(session.id)),)
        assert page.names[0].preview == "first\ufff9 prompt"
        assert (page.names[0].pinned, page.names[0].archived) == (True, True)
        assert page.cursor is None

    async def test_long_texts_are_cut_in_a_name(self, store: Store, session: Session) -> None:
        await say(store, session.id, "a prompt that goes on " * 100)
        long = "狐\0" * NAME_TEXT
        await record(
            store, session.id,
            AddCompaction(compaction_id="c", keep_from=1, summary="s", short_summary=long),
        )  # fmt: skip

        (name,) = (await store.list_names(SessionFilter(viewer="owner"))).names

        assert name.short_summary == long[:NAME_TEXT]
        assert name.preview is not None
        assert len(name.preview) <= NAME_TEXT

    async def test_names_are_the_list_in_its_order_whatever_the_filter(
        self, store: Store, clock: FakeClock
    ) -> None:
        for number in range(18):
            session = await make(
                store, title=f"number {number}", platform=("cli", "tg")[number % 2],
                person=("owner", GUEST)[number % 3 == 0], cwd=("/a", None)[number % 4 == 0],
            )  # fmt: skip
            edit = SessionEdit(pinned=number % 5 == 0, archived=number % 7 == 0)
            await store.edit_session(session.id, edit)
            if number % 6 == 1:
                await store.delete_sessions([session.id])
            clock.advance(number % 2)

        compared = 0
        for viewer, archived, trashed, platform in product(
            ("owner", GUEST), (False, True, None), (False, True), (None, "tg")
        ):
            where = SessionFilter(
                viewer=viewer, archived=archived, trashed=trashed, platform=platform
            )
            sessions = (await store.list_sessions(where, limit=100)).sessions
            pages = await named(store, where, 3)

            assert [name for page in pages for name in page] == list(map(name_of, sessions))
            assert all(len(page) == 3 for page in pages[:-1])
            compared += len(sessions)
        assert compared > 50

    async def test_names_and_sessions_go_on_from_each_others_cursors(
        self, store: Store, clock: FakeClock
    ) -> None:
        for _ in range(5):
            await make(store)
            clock.advance(1)
        where = SessionFilter(viewer="owner")
        whole = [name.id for name in (await store.list_names(where)).names]

        names = await store.list_names(where, limit=2)
        sessions = await store.list_sessions(where, limit=2, cursor=names.cursor)
        rest = await store.list_names(where, cursor=sessions.cursor)

        parts = (names.names, sessions.sessions, rest.names)
        assert [each.id for part in parts for each in part] == whole

    async def test_a_cursor_of_names_goes_on_while_rows_change(
        self, store: Store, clock: FakeClock
    ) -> None:
        made = []
        for _ in range(6):
            made.append((await make(store)).id)
            clock.advance(1)
        where = SessionFilter(viewer="owner")
        first = await store.list_names(where, limit=2)

        await say(store, made[1], "moves to the top")
        await store.delete_sessions([made[4], made[2]])
        rest = await store.list_names(where, cursor=first.cursor)

        assert [name.id for name in rest.names] == [made[3], made[0]]

    async def test_names_refuse_a_foreign_cursor(self, store: Store) -> None:
        with pytest.raises(InvalidCursor):
            await store.list_names(SessionFilter(viewer="owner"), cursor="x")

    # --- what goes on -------------------------------------------------------------------------

    async def test_an_idle_session_has_an_empty_state(self, store: Store) -> None:
        fresh, used = await make(store), await make(store)
        await take_turn(store, used.id, "hello")

        assert await store.list_states([fresh.id, used.id]) == {fresh.id: NOTHING, used.id: NOTHING}
        assert await store.list_states([]) == {}

    async def test_states_are_of_sessions_that_exist(self, store: Store) -> None:
        archived, trashed, purged = [(await make(store)).id for _ in range(3)]
        await store.edit_session(archived, SessionEdit(archived=True))
        await store.delete_sessions([trashed, purged])
        await store.purge_sessions([purged])

        states = await store.list_states([UNKNOWN, archived, trashed, purged, archived])

        assert states == {archived: NOTHING, trashed: NOTHING}

    async def test_an_id_that_is_no_text_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidInput):
            await store.list_states([5])  # type: ignore[list-item]  # on purpose

    async def test_a_session_runs_from_the_start_of_a_turn_to_its_end(
        self, store: Store, session: Session, other: Store
    ) -> None:
        lease = await store.acquire_lease(session.id, store.identity)
        assert await state(other, session.id) == NOTHING

        await store.record(session.id, lease.epoch, StartTurn(turn_id="t"))
        for each in (store, other):
            assert await state(each, session.id) == SessionState(running=True)

        await store.record(session.id, lease.epoch, EndTurn(turn_id="t", status="done"))
        assert await state(other, session.id) == NOTHING

    async def test_a_session_waits_until_its_question_is_answered(
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
        lease = await begin(store, session.id, store.identity, "t")
        await store.record(session.id, lease.epoch, ask("t", "a", clock() + 10 * SECOND))
        asked = await state(other, session.id)

        await other.decide_approval("a", "yes", by="owner")
        answered = await state(other, session.id)
        await store.record(session.id, lease.epoch, ResumeTurn("t"))

        assert asked == SessionState(running=True, waiting=True)
        assert answered == await state(other, session.id) == SessionState(running=True)

    async def test_a_session_waits_while_one_of_two_questions_is_open(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        lease = await begin(store, session.id, store.identity, "t")
        for each in ("a", "b"):
            await store.record(session.id, lease.epoch, ask("t", each, clock() + SECOND))
        await store.decide_approval("a", "yes", by="owner")
        await store.record(session.id, lease.epoch, ResumeTurn("t"))

        assert (await state(store, session.id)).waiting

    async def test_a_session_does_not_wait_for_an_expired_question(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        lease = await begin(store, session.id, store.identity, "t")
        await store.record(session.id, lease.epoch, ask("t", "a", clock() + SECOND))
        clock.advance(SECOND)

        assert await store.list_approvals(session.id) == ()
        assert await state(store, session.id) == SessionState(running=True)

    async def test_the_turn_of_a_dead_process_is_interrupted_and_does_not_wait(
        self, store: Store, session: Session, open_store: OpenStore, clock: FakeClock
    ) -> None:
        gone = await dead_identity(open_store, clock)
        lease = await begin(store, session.id, f"{gone}#lane", "t")
        await store.record(session.id, lease.epoch, ask("t", "a", clock() + DAY))

        assert await state(store, session.id) == SessionState(interrupted=True)

        await store.interrupt_turns(session.id)
        assert await state(store, session.id) == SessionState(interrupted=True)

    async def test_a_turn_whose_lease_ran_out_is_interrupted(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await begin(store, session.id, "somebody", "t")
        clock.advance(LEASE_MS - 1)
        assert await state(store, session.id) == SessionState(running=True)

        clock.advance(1)

        assert await state(store, session.id) == SessionState(interrupted=True)

    async def test_a_turn_whose_lease_was_given_back_is_interrupted(
        self, store: Store, session: Session
    ) -> None:
        await store.release_lease(await begin(store, session.id, store.identity, "t"))

        assert await state(store, session.id) == SessionState(interrupted=True)

    async def test_a_session_is_no_longer_interrupted_after_the_next_turn(
        self, store: Store, session: Session
    ) -> None:
        await store.release_lease(await begin(store, session.id, store.identity, "t"))
        await store.interrupt_turns(session.id)

        await take_turn(store, session.id, "again")

        assert await state(store, session.id) == NOTHING

    async def test_a_turn_that_was_taken_back_is_not_interrupted(
        self, store: Store, session: Session
    ) -> None:
        await record(
            store, session.id,
            StartTurn(turn_id="t"), EndTurn(turn_id="t", status="interrupted"), UndoTurn("t"),
        )  # fmt: skip

        assert await state(store, session.id) == NOTHING

    @pytest.mark.parametrize("status", ["done", "failed", "aborted"])
    async def test_other_ends_are_no_interruption(
        self, store: Store, session: Session, status: TurnEnd
    ) -> None:
        await record(store, session.id, StartTurn(turn_id="t"), EndTurn(turn_id="t", status=status))

        assert await state(store, session.id) == NOTHING

    async def test_a_fork_does_not_inherit_what_goes_on(
        self, store: Store, session: Session
    ) -> None:
        await begin(store, session.id, store.identity, "t")
        await store.attach(session.id)

        fork = await store.fork_session(session.id)

        assert await state(store, fork.id) == NOTHING

    async def test_an_open_terminal_is_seen_by_all(
        self, store: Store, other: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        mine, theirs, left = [(await make(store)).id for _ in range(3)]
        here, _ = await store.attach(mine, terminal="pts/1")
        there, _ = await other.attach(theirs)
        gone = await open_store(clock)
        await gone.attach(left)
        await gone.close()

        states = await store.list_states([mine, theirs, left])

        assert states == await other.list_states([mine, theirs, left])
        assert states == {
            mine: SessionState(attachment=here),
            theirs: SessionState(attachment=there),
            left: NOTHING,
        }
        assert store.identity == f"{here.process}@{here.host}" != f"{there.process}@{there.host}"

    async def test_many_states_are_asked_for_at_once(self, store: Store) -> None:
        made = [(await make(store)).id for _ in range(220)]
        for number, each in enumerate(made[:8]):
            await begin(store, each, store.identity, f"t{number}")
            if number % 2:
                await store.attach(each)

        states = await store.list_states(made)

        assert set(states) == set(made)
        assert [each for each in made if states[each].running] == made[:8]
        assert [each for each in made if states[each].attachment] == made[1:8:2]
