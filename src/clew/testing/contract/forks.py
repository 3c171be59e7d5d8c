"""`ports.Sessions.fork_session`: threads that share a beginning and nothing else."""

from __future__ import annotations

import pytest

from clew.core.changes import (
    AddCompaction,
    AddMessage,
    AddUsage,
    RedoTurn,
    StartTurn,
    UndoTurn,
    WriteScratch,
    WriteTodos,
)
from clew.core.message import Draft
from clew.core.notes import Todo
from clew.core.search.hits import SearchFilter
from clew.core.session import OWNER, SessionFacts, SessionFilter
from clew.core.usage import Usage
from clew.errors import InvalidInput, RecordNotFound, SessionNotFound
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import (
    UNKNOWN,
    Contract,
    found,
    listed,
    make,
    purge,
    read,
    record,
    say,
    take_turn,
)


class ForksContract(Contract):
    """Forks, forks of forks, and what becomes of them when a parent goes."""

    async def test_a_fork_begins_with_its_parents_thread(
        self, store: Store, clock: FakeClock
    ) -> None:
        parent = await make(store, "cli:a", title="Plan", cwd="/here", person="telegram:1")
        await say(store, parent.id, "one", "two", "three")
        now = clock.advance(SECOND)

        fork = await store.fork_session(parent.id, at=2)

        assert (fork.parent_id, fork.forked_at_seq) == (parent.id, 2)
        assert (fork.head, fork.message_count, fork.preview) == (2, 2, "one")
        assert (fork.title, fork.key) == ("Plan (fork)", f"cli:a:fork:{now}")
        assert (fork.cwd, fork.person, fork.created_at) == ("/here", "telegram:1", now)
        assert await read(store, fork.id) == ["one", "two"]
        assert await store.list_routes(fork.id) == ()
        assert fork.id in await listed(store)

    async def test_the_forks_of_a_session_come_in_the_order_of_their_knots(
        self, store: Store
    ) -> None:
        parent = await make(store, "cli:a")
        await say(store, parent.id, "one", "two", "three")
        knots = (3, 1, 2)
        made = {at: (await store.fork_session(parent.id, at=at)).id for at in knots}
        await store.fork_session(made[1])
        await store.delete_sessions([made[2]])

        listed = await store.list_forks(parent.id)
        assert [each.id for each in listed] == [made[1], made[3]]
        assert [each.id for each in await store.list_forks(parent.id, limit=1)] == [made[1]]
        assert await store.list_forks(made[3]) == ()

    async def test_a_fork_without_a_knot_is_taken_at_the_head(self, store: Store) -> None:
        parent = await make(store)
        await say(store, parent.id, "one", "two")

        fork = await store.fork_session(parent.id, new_id=UNKNOWN)

        assert (fork.id, fork.forked_at_seq) == (UNKNOWN, 2)
        assert fork.title is None

    async def test_a_fork_goes_on_counting_from_its_knot(self, store: Store) -> None:
        parent = await make(store)
        await say(store, parent.id, "one", "two", "three")
        fork = await store.fork_session(parent.id, at=2)

        await say(store, fork.id, "mine")
        await say(store, parent.id, "theirs")

        messages = await store.get_messages(fork.id)
        assert [(m.seq, m.session_id, m.content) for m in messages] == [
            (1, parent.id, "one"),
            (2, parent.id, "two"),
            (3, fork.id, "mine"),
        ]
        assert await read(store, parent.id) == ["one", "two", "three", "theirs"]
        assert (await store.get_session(fork.id)).message_count == 3

    async def test_a_fork_belongs_to_the_one_who_forks(self, store: Store) -> None:
        route = {"channel": "telegram", "key": "telegram:5", "address": {"chat": 5}}
        parent = await make(store, person="telegram:5", send_policy="allow")
        await store.describe_session(parent.id, SessionFacts(last_route=route))
        await say(store, parent.id, "one")

        theirs = await store.fork_session(parent.id)
        same = await store.fork_session(parent.id, person="telegram:5")
        mine = await store.fork_session(parent.id, person=OWNER)

        for fork in (theirs, same):
            assert (fork.person, fork.last_route) == ("telegram:5", route)
            assert fork.send_policy == "allow"
        # What is said in it goes nowhere where the guest could read it.
        assert (mine.person, mine.last_route, mine.send_policy) == (OWNER, None, None)
        await say(store, mine.id, "between us")
        seen = await store.list_sessions(SessionFilter(viewer="telegram:5"))
        assert mine.id not in {each.id for each in seen.sessions}
        assert await read(store, mine.id) == ["one", "between us"]
        found = await store.search("between", SearchFilter(viewer="telegram:5"))
        assert found.hits == ()

    async def test_a_page_may_cross_the_knot(self, store: Store) -> None:
        parent = await make(store)
        await say(store, parent.id, "1", "2", "3", "4")
        fork = await store.fork_session(parent.id, at=3)
        await say(store, fork.id, "5", "6")

        assert await read(store, fork.id, 3) == ["3", "5", "6"]
        assert await read(store, fork.id, 2, offset=1) == ["3", "5"]
        assert await read(store, fork.id, 2, offset=3) == ["1", "2"]
        assert await read(store, fork.id, offset=4) == ["1"]
        assert await read(store, fork.id, before=5, after=1) == ["2", "3", "5"]
        assert await read(store, fork.id, 1, before=4) == ["3"]
        assert await read(store, fork.id, 0) == []

    async def test_a_fork_at_the_beginning_is_empty(self, store: Store) -> None:
        parent = await make(store)
        await say(store, parent.id, "one")

        fork = await store.fork_session(parent.id, at=0)

        assert (fork.message_count, fork.preview) == (0, None)
        assert await read(store, fork.id) == []
        await say(store, fork.id, "first")
        assert [m.seq for m in await store.get_messages(fork.id)] == [1]

    async def test_a_fork_before_the_first_thing_a_user_said_has_a_preview_of_its_own(
        self, store: Store
    ) -> None:
        parent = await make(store)
        await say(store, parent.id, "Welcome", role="assistant")
        await say(store, parent.id, "theirs")

        fork = await store.fork_session(parent.id, at=1)
        await say(store, fork.id, "mine")

        assert fork.preview is None
        assert (await store.get_session(fork.id)).preview == "mine"
        assert (await store.fork_session(fork.id)).preview == "mine"

    async def test_a_fork_of_a_fork_reads_all_three(self, store: Store) -> None:
        first = await make(store, title="T")
        await say(store, first.id, "1", "2")
        second = await store.fork_session(first.id)
        await say(store, second.id, "3", "4")

        third = await store.fork_session(second.id, at=3)
        await say(store, third.id, "5")

        assert await read(store, third.id) == ["1", "2", "3", "5"]
        assert third.title == "T (fork) (fork)"

    async def test_a_fork_can_be_taken_at_an_inherited_message(self, store: Store) -> None:
        first = await make(store)
        await say(store, first.id, "1", "2", "3")
        second = await store.fork_session(first.id)
        await say(store, second.id, "4")

        third = await store.fork_session(second.id, at=1)
        await say(store, third.id, "other")

        assert await read(store, third.id) == ["1", "other"]
        assert (await store.get_session(third.id)).message_count == 2

    @pytest.mark.parametrize("at", [-1, 3, 2**63, -(2**70)])
    async def test_a_knot_beyond_the_thread_is_refused(self, store: Store, at: int) -> None:
        parent = await make(store)
        await say(store, parent.id, "one", "two")

        with pytest.raises(InvalidInput):
            await store.fork_session(parent.id, at=at)

        assert await listed(store) == [parent.id]

    async def test_an_unknown_session_can_not_be_forked(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.fork_session(UNKNOWN)

    async def test_a_fork_has_spent_nothing(self, store: Store) -> None:
        parent = await make(store)
        await record(store, parent.id, AddUsage(usage=Usage(10, 5, cost=7, api_calls=1)))

        fork = await store.fork_session(parent.id)

        assert fork.usage == Usage()

    async def test_scratchpad_and_todos_are_copied(self, store: Store) -> None:
        parent = await make(store)
        await record(
            store, parent.id, WriteScratch("n", "old"), WriteTodos((Todo("a"), Todo("b", "done")))
        )
        fork = await store.fork_session(parent.id)

        await record(store, parent.id, WriteScratch("n", "new"), WriteTodos(()))

        entry = await store.find_scratch(fork.id, "n")
        assert entry is not None
        assert entry.content == "old"
        assert await store.get_todos(fork.id) == (Todo("a"), Todo("b", "done"))
        assert fork.content_bytes == len("old")

    async def test_the_compaction_that_holds_at_the_knot_is_copied(self, store: Store) -> None:
        parent = await make(store)
        await say(store, parent.id, "1", "2")
        await record(store, parent.id, AddCompaction(compaction_id="a", keep_from=2, summary="A"))
        await say(store, parent.id, "3")
        await record(store, parent.id, AddCompaction(compaction_id="b", keep_from=3, summary="B"))

        early = await store.fork_session(parent.id, at=2)
        before = await store.fork_session(parent.id, at=1)
        late = await store.fork_session(parent.id)

        held = [await store.find_compaction(fork.id) for fork in (early, before, late)]
        assert [each and each.summary for each in held] == ["A", None, "B"]
        assert held[0] is not None
        assert (held[0].session_id, held[0].keep_from) == (early.id, 2)

    async def test_what_was_undone_stays_undone_in_a_fork(self, store: Store) -> None:
        parent = await make(store)
        await say(store, parent.id, "1")
        turn = await take_turn(store, parent.id, "2", "3")
        await say(store, parent.id, "4")
        await record(store, parent.id, UndoTurn(turn))

        whole = await store.fork_session(parent.id)
        part = await store.fork_session(parent.id, at=2)

        assert await read(store, whole.id) == ["1", "4"]
        assert (whole.message_count, part.message_count) == (2, 1)
        assert await read(store, part.id) == ["1"]
        await record(store, part.id, RedoTurn(turn))
        assert await read(store, part.id) == ["1", "2"]
        assert (await store.get_session(part.id)).message_count == 2
        assert await read(store, parent.id) == ["1", "4"]

    async def test_an_undo_in_the_parent_does_not_change_the_fork(self, store: Store) -> None:
        parent = await make(store)
        turn = await take_turn(store, parent.id, "1", "2")
        fork = await store.fork_session(parent.id)

        await record(store, parent.id, UndoTurn(turn))

        assert await read(store, parent.id) == []
        assert await read(store, fork.id) == ["1", "2"]
        assert (await store.get_session(fork.id)).message_count == 2

    async def test_an_undo_in_the_fork_does_not_change_the_parent(self, store: Store) -> None:
        parent = await make(store)
        turn = await take_turn(store, parent.id, "1", "2")
        await say(store, parent.id, "3")
        fork = await store.fork_session(parent.id, at=1)

        await record(store, fork.id, UndoTurn(turn))

        assert await read(store, fork.id) == []
        assert (await store.get_session(fork.id)).message_count == 0
        assert await read(store, parent.id) == ["1", "2", "3"]
        assert (await store.get_session(parent.id)).message_count == 3
        assert (await store.get_turn(turn)).undone_at is None

    async def test_neither_changes_what_the_other_passes_over(self, store: Store) -> None:
        parent = await make(store)
        first = await take_turn(store, parent.id, "1")
        second = await take_turn(store, parent.id, "2")
        third = await take_turn(store, parent.id, "3")
        await record(store, parent.id, UndoTurn(first), UndoTurn(second))
        early = await store.fork_session(parent.id)

        await record(store, parent.id, RedoTurn(first), UndoTurn(third))
        late = await store.fork_session(parent.id)
        await record(store, early.id, RedoTurn(second), UndoTurn(third))
        grandchild = await store.fork_session(early.id)
        await record(store, early.id, RedoTurn(first), UndoTurn(second))
        await record(store, parent.id, RedoTurn(second), RedoTurn(third))

        async def shown() -> list[list[str]]:
            ids = (early.id, late.id, grandchild.id)
            counts = [(await store.get_session(each)).message_count for each in ids]
            threads = [await read(store, each) for each in ids]
            assert counts == [len(each) for each in threads]
            return threads

        assert await read(store, parent.id) == ["1", "2", "3"]
        assert await shown() == [["1"], ["1"], ["2"]]
        await store.delete_sessions([parent.id])
        assert await store.purge_sessions([parent.id]) == (parent.id,)
        assert await shown() == [["1"], ["1"], ["2"]]
        await record(store, grandchild.id, RedoTurn(first), UndoTurn(second), RedoTurn(third))
        assert await shown() == [["1"], ["1"], ["1", "3"]]

    async def test_a_turn_may_be_undone_and_redone_again_and_again(self, store: Store) -> None:
        parent = await make(store)
        turn = await take_turn(store, parent.id, "1", "2")
        forks = []
        for change in (UndoTurn(turn), RedoTurn(turn)) * 3:
            await record(store, parent.id, change, change)
            forks.append(await store.fork_session(parent.id))

        assert [await read(store, each.id) for each in forks] == [[], ["1", "2"]] * 3
        assert [each.message_count for each in forks] == [0, 2] * 3

    async def test_a_long_line_of_forks_that_all_undo_something_is_read(self, store: Store) -> None:
        session = await make(store)
        await say(store, session.id, "first")
        for number in range(150):
            turn = await take_turn(store, session.id, str(number))
            await record(store, session.id, UndoTurn(turn))
            session = await store.fork_session(session.id)

        assert await read(store, session.id) == ["first"]
        assert session.message_count == 1

    async def test_a_turn_after_the_knot_is_not_the_forks_to_undo(self, store: Store) -> None:
        parent = await make(store)
        await say(store, parent.id, "1")
        fork = await store.fork_session(parent.id)
        turn = await take_turn(store, parent.id, "2")

        with pytest.raises(RecordNotFound):
            await record(store, fork.id, UndoTurn(turn))

        assert await read(store, parent.id) == ["1", "2"]

    async def test_turns_are_listed_where_they_were_started(self, store: Store) -> None:
        parent = await make(store)
        theirs = await take_turn(store, parent.id, "1")
        fork = await store.fork_session(parent.id)
        mine = await take_turn(store, fork.id, "2")

        assert [turn.id for turn in await store.list_turns(fork.id)] == [mine]
        assert [turn.id for turn in await store.list_turns(parent.id)] == [theirs]

    async def test_a_turn_that_began_before_the_knot_goes_on_in_the_parent_alone(
        self, store: Store
    ) -> None:
        parent = await make(store)
        await record(store, parent.id, StartTurn(turn_id="t"), AddMessage(Draft(role="user"), "t"))
        fork = await store.fork_session(parent.id)
        await record(store, parent.id, AddMessage(Draft(role="assistant", content="answer"), "t"))

        await record(store, fork.id, UndoTurn("t"))

        assert await read(store, fork.id, undone=True) == [""]
        assert await read(store, fork.id) == []
        assert (await store.get_session(fork.id)).message_count == 0

    async def test_a_purged_parent_takes_nothing_from_its_forks(self, store: Store) -> None:
        first = await make(store)
        await say(store, first.id, "apple", "banana", "cherry")
        second = await store.fork_session(first.id, at=2)
        await say(store, second.id, "damson")
        third = await store.fork_session(second.id, at=1)
        await say(store, third.id, "elder")

        for gone in (second.id, first.id):
            await store.delete_sessions([gone])
            assert await store.purge_sessions([gone]) == (gone,)

        assert await read(store, third.id) == ["apple", "elder"]
        assert await found(store, "apple") == {(third.id, 1)}
        assert await found(store, "elder") == {(third.id, 2)}
        for gone in ("banana", "cherry", "damson"):
            assert await found(store, gone) == set()
        with pytest.raises(SessionNotFound):
            await store.get_messages(first.id)
        assert await listed(store, archived=None) == [third.id]
        assert await listed(store, trashed=True) == []
        await say(store, third.id, "fig")
        again = await store.fork_session(third.id)
        assert await read(store, again.id) == ["apple", "elder", "fig"]

    async def test_a_purged_parent_can_be_neither_restored_nor_opened(self, store: Store) -> None:
        parent = await make(store, "cli:a")
        await say(store, parent.id, "one")
        await store.fork_session(parent.id)
        await purge(store, parent.id)

        assert await store.restore_sessions([parent.id]) == ()
        assert await store.restore_last() == ()
        assert await store.delete_sessions([parent.id]) == ()
        assert await store.purge_sessions([parent.id]) == ()
        assert await store.find_sessions(parent.id) == ()
        assert await store.find_route("cli:a") is None
        with pytest.raises(SessionNotFound):
            await store.acquire_lease(parent.id, "late")

    async def test_the_last_fork_takes_the_parents_messages_along(self, store: Store) -> None:
        parent = await make(store)
        await say(store, parent.id, "apple")
        fork = await store.fork_session(parent.id)
        for gone in (parent.id, fork.id):
            await purge(store, gone)

        assert await found(store, "apple") == set()
        assert (await store.stats()).messages == 0

    async def test_shared_messages_are_one_hit_where_they_were_said(self, store: Store) -> None:
        parent = await make(store)
        await say(store, parent.id, "apple")
        fork = await store.fork_session(parent.id)
        await store.fork_session(fork.id)

        assert await found(store, "apple") == {(parent.id, 1)}

    async def test_a_deleted_parents_messages_are_found_under_a_living_fork(
        self, store: Store
    ) -> None:
        parent = await make(store)
        await say(store, parent.id, "apple", "banana")
        fork = await store.fork_session(parent.id, at=1)

        await store.delete_sessions([parent.id])

        assert await found(store, "apple") == {(fork.id, 1)}
        assert await found(store, "banana") == set()
        await store.restore_sessions([parent.id])
        assert await found(store, "apple") == {(parent.id, 1)}
        await store.delete_sessions([parent.id, fork.id])
        assert await found(store, "apple") == set()

    async def test_a_deleted_fork_leaves_the_parents_hits(self, store: Store) -> None:
        parent = await make(store)
        await say(store, parent.id, "apple")
        fork = await store.fork_session(parent.id)
        await say(store, fork.id, "banana")

        await purge(store, fork.id)

        assert await found(store, "apple") == {(parent.id, 1)}
        assert await found(store, "banana") == set()

    async def test_a_hit_passes_over_a_deleted_generation(self, store: Store) -> None:
        first = await make(store)
        await say(store, first.id, "apple")
        second = await store.fork_session(first.id)
        third = await store.fork_session(second.id)

        await store.delete_sessions([first.id, second.id])

        assert await found(store, "apple") == {(third.id, 1)}

    async def test_a_search_within_a_fork_reads_its_whole_thread(self, store: Store) -> None:
        parent = await make(store)
        await say(store, parent.id, "apple 1", "apple 2", "apple 3")
        fork = await store.fork_session(parent.id, at=2)
        await say(store, fork.id, "apple mine")

        assert {seq for _, seq in await found(store, "apple", session=fork.id)} == {1, 2, 3}
        assert await found(store, "mine", session=fork.id) == {(fork.id, 3)}
        assert await found(store, "mine", session=parent.id) == set()
        assert len(await found(store, "apple", session=parent.id)) == 3
