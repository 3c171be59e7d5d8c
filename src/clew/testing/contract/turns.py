"""`ports.Log`: turns, what they cost, and the questions they ask."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.changes import (
    AddMessage,
    AddUsage,
    EndTurn,
    RedoTurn,
    ResumeTurn,
    StartTurn,
    UndoTurn,
    WaitForApproval,
)
from clew.core.message import Draft
from clew.core.session import NewSession, Session
from clew.core.turn import LEASE_MS, Lease, TurnEnd
from clew.core.usage import Usage, UsageBy, UsageRanking, UsageRow
from clew.errors import Conflict, InvalidInput, RecordNotFound
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import Contract, make, read, record, take_turn


def ask(turn_id: str, approval_id: str, expires_at: int) -> WaitForApproval:
    """A question about a tool call."""
    return WaitForApproval(
        approval_id=approval_id,
        turn_id=turn_id,
        tool_call_id="call_1",
        tool_name="shell",
        request={"command": "make"},
        expires_at=expires_at,
    )


class TurnsContract(Contract):
    """Turns and approvals."""

    async def test_a_turn_runs_until_it_ends(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        started = clock()
        await record(
            store, session.id, StartTurn(turn_id="t", model="m", reply_to={"channel": "cli"})
        )

        running = await store.get_turn("t")
        ended = clock.advance(SECOND)
        await record(store, session.id, EndTurn(turn_id="t", status="done"))
        done = await store.get_turn("t")

        assert (running.session_id, running.status) == (session.id, "running")
        assert (running.model, running.reply_to) == ("m", {"channel": "cli"})
        assert (running.started_at, running.ended_at) == (started, None)
        assert (done.status, done.started_at, done.ended_at) == ("done", started, ended)

    async def test_times_of_imported_turns_are_kept(self, store: Store, session: Session) -> None:
        await record(
            store,
            session.id,
            StartTurn(turn_id="t", at=5),
            EndTurn(turn_id="t", status="done", at=6),
            UndoTurn("t", at=7),
        )

        turn = await store.get_turn("t")
        assert (turn.started_at, turn.ended_at, turn.undone_at) == (5, 6, 7)

    async def test_a_failed_turn_keeps_what_it_had_said(
        self, store: Store, session: Session
    ) -> None:
        await record(
            store,
            session.id,
            StartTurn(turn_id="t"),
            AddMessage(Draft(role="user", content="question"), "t"),
            EndTurn(turn_id="t", status="failed", error="no network", partial="The answer is"),
        )

        turn = await store.get_turn("t")
        assert (turn.status, turn.error, turn.partial) == ("failed", "no network", "The answer is")
        assert await read(store, session.id) == ["question"]

    async def test_an_unknown_turn_is_not_found(self, store: Store) -> None:
        with pytest.raises(RecordNotFound):
            await store.get_turn("none")

    async def test_a_turn_id_is_used_once(self, store: Store, session: Session) -> None:
        turn = await take_turn(store, session.id, "1")

        with pytest.raises(Conflict):
            await record(store, (await make(store)).id, StartTurn(turn_id=turn))

    @pytest.mark.parametrize("status", ["done", "failed", "aborted", "interrupted"])
    async def test_an_ended_turn_stays_as_it_is(
        self, store: Store, session: Session, status: TurnEnd
    ) -> None:
        await record(store, session.id, StartTurn(turn_id="t"), EndTurn(turn_id="t", status=status))
        before = await store.get_turn("t")

        for change in (EndTurn(turn_id="t", status="done"), ResumeTurn("t"), ask("t", "a", 1)):
            with pytest.raises(RecordNotFound):
                await record(store, session.id, change)

        assert await store.get_turn("t") == before

    async def test_a_turn_is_ended_in_its_own_session(self, store: Store) -> None:
        session, stranger = await make(store), await make(store)
        await record(store, session.id, StartTurn(turn_id="t"))

        with pytest.raises(RecordNotFound):
            await record(store, stranger.id, EndTurn(turn_id="t", status="done"))

    async def test_turns_are_listed_as_they_began(self, store: Store, session: Session) -> None:
        turns = [await take_turn(store, session.id, str(number)) for number in range(25)]
        await record(store, session.id, StartTurn(turn_id="open"))
        await take_turn(store, (await make(store)).id, "elsewhere")

        assert [t.id for t in await store.list_turns(session.id)] == [*turns[-19:], "open"]
        assert [t.id for t in await store.list_turns(session.id, limit=2)] == [turns[-1], "open"]
        unfinished = await store.list_turns(session.id, unfinished=True)
        assert [turn.id for turn in unfinished] == ["open"]

    async def test_undo_marks_the_turn_and_redo_unmarks_it(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        turn = await take_turn(store, session.id, "1", "2")
        now = clock.advance(SECOND)

        await record(store, session.id, UndoTurn(turn))
        undone = await store.get_turn(turn)
        await record(store, session.id, RedoTurn(turn))
        redone = await store.get_turn(turn)

        assert (undone.undone_at, redone.undone_at) == (now, None)
        assert await read(store, session.id) == ["1", "2"]
        assert (await store.get_session(session.id)).message_count == 2

    async def test_undo_and_redo_twice_are_undo_and_redo(
        self, store: Store, session: Session
    ) -> None:
        turn = await take_turn(store, session.id, "1", "2")

        await record(store, session.id, UndoTurn(turn), UndoTurn(turn))
        assert (await store.get_session(session.id)).message_count == 0
        await record(store, session.id, RedoTurn(turn), RedoTurn(turn))
        assert (await store.get_session(session.id)).message_count == 2

    async def test_a_turn_of_another_session_can_not_be_undone(self, store: Store) -> None:
        session, stranger = await make(store), await make(store)
        turn = await take_turn(store, stranger.id, "1")

        for change in (UndoTurn("none"), UndoTurn(turn), RedoTurn(turn)):
            with pytest.raises(RecordNotFound):
                await record(store, session.id, change)

        assert await read(store, stranger.id) == ["1"]

    async def test_usage_is_added_to_session_and_turn(self, store: Store, session: Session) -> None:
        await record(store, session.id, StartTurn(turn_id="t"))
        first, second = Usage(10, 20, 30, 40, 50, 1), Usage(1, 2, 3, 4, 5, 1)

        await record(store, session.id, AddUsage(usage=first, turn_id="t", context_tokens=99))
        await record(store, session.id, AddUsage(usage=second))

        after = await store.get_session(session.id)
        assert (after.usage, after.context_tokens) == (first + second, 99)
        assert (await store.get_turn("t")).usage == first

    async def test_a_sum_with_an_unknown_cost_is_unknown(
        self, store: Store, session: Session
    ) -> None:
        for cost in (5, None, 7):
            await record(store, session.id, AddUsage(usage=Usage(1, cost=cost, api_calls=1)))

        assert (await store.get_session(session.id)).usage == Usage(3, cost=None, api_calls=3)

    @pytest.mark.parametrize("usage", [Usage(-1), Usage(cost=-1), Usage(api_calls=-1)])
    async def test_negative_usage_is_refused(
        self, store: Store, session: Session, usage: Usage
    ) -> None:
        with pytest.raises(InvalidInput):
            await record(store, session.id, AddUsage(usage=usage))

        assert (await store.get_session(session.id)).usage == Usage()

    async def test_usage_of_a_turn_that_is_not_there_is_refused(
        self, store: Store, session: Session
    ) -> None:
        with pytest.raises(RecordNotFound):
            await record(store, session.id, AddUsage(usage=Usage(1), turn_id="nobody"))
        assert (await store.get_session(session.id)).usage == Usage()

    async def test_what_turns_of_all_sessions_spent_since_a_time_is_added_up(
        self, store: Store, clock: FakeClock
    ) -> None:
        one, two = await make(store), await make(store)
        spent = {"a": Usage(1, 2, 3, 4, 50, 1), "b": Usage(10, 20, 30, 40, 500, 2),
                 "c": Usage(100, 200, 300, 400, 5000, 3)}  # fmt: skip
        times = {}
        for turn_id, session in (("a", one), ("b", two), ("c", one)):
            times[turn_id] = clock.advance(SECOND)
            usage = AddUsage(usage=spent[turn_id], turn_id=turn_id)
            await record(store, session.id, StartTurn(turn_id=turn_id), usage)
        await record(store, one.id, AddUsage(usage=Usage(7)))  # of no turn
        await store.delete_sessions([two.id])

        assert await store.get_usage(since=times["b"]) == spent["b"] + spent["c"]
        assert await store.get_usage(since=0) == spent["a"] + spent["b"] + spent["c"]
        assert await store.get_usage(since=times["c"] + 1) == Usage()

    async def test_what_was_spent_is_summed_by_day_model_session_and_platform(
        self, store: Store, clock: FakeClock
    ) -> None:
        one = await make(store)
        two = await store.create_session(NewSession(key="web:1", platform="web"))
        quarter = 15 * 60 * SECOND
        clock.advance(quarter - clock() % quarter)
        began = clock()
        for number, (session, model) in enumerate([(one, "a/x"), (two, "a/x"), (one, None)]):
            usage = AddUsage(usage=Usage(10**number, 1, cost=number), turn_id=f"t{number}")
            start = StartTurn(turn_id=f"t{number}", model=model)
            await record(store, session.id, start, usage)
            clock.advance(quarter)

        async def spent(by: UsageBy, since: int = 0) -> dict[str, tuple[int, int | None, int]]:
            rows = await store.list_usage(by, since=since)
            return {row.name: (row.usage.input_tokens, row.usage.cost, row.turns) for row in rows}

        assert await spent("day") == {
            str(began): (1, 0, 1),
            str(began + quarter): (10, 1, 1),
            str(began + 2 * quarter): (100, 2, 1),
        }
        assert await spent("model") == {"": (100, 2, 1), "a/x": (11, 1, 2)}
        assert await spent("session") == {one.id: (101, 2, 2), two.id: (10, 1, 1)}
        assert await spent("platform") == {"cli": (101, 2, 2), "web": (10, 1, 1)}
        assert await spent("platform", began + quarter) == {"cli": (100, 2, 1), "web": (10, 1, 1)}

    async def test_the_sessions_that_cost_most_come_first_with_the_total_of_all(
        self, store: Store, clock: FakeClock
    ) -> None:
        costs = {"free": 0, "dear": 900, "cheap": 5, "unknown": None, "talkative": 5}
        times, ids = {}, {}
        for name, cost in costs.items():
            metadata = {"estimated": True} if name == "cheap" else {}
            new = NewSession(key=f"cli:{name}", metadata=metadata)
            ids[name] = (await store.create_session(new)).id
            times[name] = clock.advance(SECOND)
            used = Usage(100 if name == "talkative" else 1, 2, 3, 4, cost=cost, api_calls=1)
            for number in range(2):
                turn_id = f"{name}{number}"
                usage = AddUsage(usage=used, turn_id=turn_id)
                await record(store, ids[name], StartTurn(turn_id=turn_id), usage)

        whole = await store.rank_usage(since=0, limit=10)
        order = [ids[name] for name in ("dear", "talkative", "cheap", "free", "unknown")]
        assert [row.name for row in whole.rows] == order
        by_name = {row.name: row for row in await store.list_usage("session", since=0)}
        assert {row.name: row for row in whole.rows} == by_name
        assert (whole.count, whole.total.turns, whole.total.estimated) == (5, 10, True)
        assert whole.total.usage == Usage(208, 20, 30, 40, cost=None, api_calls=10)

        some = await store.rank_usage(since=times["unknown"], limit=1)
        assert [row.name for row in some.rows] == [ids["talkative"]]
        assert (some.count, some.total.turns, some.total.estimated) == (2, 4, False)
        none = await store.rank_usage(since=clock() + SECOND, limit=5)
        assert none == UsageRanking((), 0, UsageRow("total", Usage(), 0))

    async def test_what_was_spent_in_a_session_that_is_estimated_is_said_to_be(
        self, store: Store
    ) -> None:
        one = await make(store)
        metadata = {"a": {"b": 1}, "estimated": True, "c": "\ud800"}
        two = await store.create_session(NewSession(key="w", platform="web", metadata=metadata))
        for session in (one, two):
            usage = AddUsage(usage=Usage(1), turn_id=session.id)
            await record(store, session.id, StartTurn(turn_id=session.id, model="m"), usage)

        rows = {row.name: row.estimated for row in await store.list_usage("session", since=0)}
        assert rows == {one.id: False, two.id: True}
        rows = {row.name: row.estimated for row in await store.list_usage("platform", since=0)}
        assert rows == {"cli": False, "web": True}
        assert [row.estimated for row in await store.list_usage("model", since=0)] == [True]

    async def test_one_unknown_price_makes_what_was_spent_unknown(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        for turn_id, cost in (("a", None), ("b", 5)):
            clock.advance(SECOND)
            usage = AddUsage(usage=Usage(1, cost=cost), turn_id=turn_id)
            await record(store, session.id, StartTurn(turn_id=turn_id), usage)

        assert (await store.get_usage(since=0)).cost is None
        assert (await store.get_usage(since=clock())).cost == 5

    async def test_a_dead_runners_turns_are_interrupted(
        self, store: Store, session: Session, lease: Lease, other: Store, clock: FakeClock
    ) -> None:
        await store.record(
            session.id,
            lease.epoch,
            StartTurn(turn_id="a"),
            EndTurn(turn_id="a", status="done"),
            StartTurn(turn_id="b"),
        )

        assert await other.interrupt_turns(session.id) == ()
        assert (await other.get_turn("b")).status == "running"
        now = clock.advance(LEASE_MS)
        interrupted = await other.interrupt_turns(session.id)

        assert [(t.id, t.status, t.ended_at) for t in interrupted] == [("b", "interrupted", now)]
        assert (await store.get_turn("a")).status == "done"
        assert await other.interrupt_turns(session.id) == ()

    async def test_an_interrupted_turns_question_becomes_a_no(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await record(store, session.id, StartTurn(turn_id="t"), ask("t", "a", clock() + SECOND))

        await store.interrupt_turns(session.id)

        assert await store.list_approvals() == ()
        late = await store.decide_approval("a", "yes", by="owner")
        assert late.decision == "no"

    async def test_a_question_waits_for_its_answer(
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
        await record(store, session.id, StartTurn(turn_id="t"), ask("t", "a", clock() + SECOND))

        (open_one,) = await other.list_approvals(session.id)
        assert (open_one.id, open_one.turn_id, open_one.tool_name) == ("a", "t", "shell")
        assert (open_one.request, open_one.decision) == ({"command": "make"}, None)
        assert (open_one.asked_at, open_one.expires_at) == (clock(), clock() + SECOND)
        assert (await store.get_turn("t")).status == "waiting"

        decided = await other.decide_approval("a", "yes", by="owner", scope="session")
        await record(store, session.id, ResumeTurn("t"))

        assert (decided.decision, decided.decided_by, decided.scope, decided.decided_at) == (
            "yes", "owner", "session", clock(),
        )  # fmt: skip
        assert (await store.get_turn("t")).status == "running"
        assert await store.list_approvals() == ()

    async def test_the_first_answer_stays(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await record(store, session.id, StartTurn(turn_id="t"), ask("t", "a", clock() + SECOND))

        first = await store.decide_approval("a", "no", by="telegram:7")
        clock.advance(10 * SECOND)
        late = await store.decide_approval("a", "yes", by="owner", scope="always")

        assert late == first
        assert (first.decision, first.decided_by) == ("no", "telegram:7")

    async def test_a_no_carries_its_reason(
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
        await record(store, session.id, StartTurn(turn_id="t"), ask("t", "a", clock() + SECOND))

        said = 'use "the other"\nfile'
        first = await store.decide_approval("a", "no", by="owner", reason=said)
        late = await other.decide_approval("a", "no", by="expired", reason="too late")

        assert (first.reason, first.request) == (said, {"command": "make"})
        assert late == first

    async def test_of_two_answers_at_once_both_hear_the_first(
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
        await record(store, session.id, StartTurn(turn_id="t"), ask("t", "a", clock() + SECOND))

        answers = await asyncio.gather(
            store.decide_approval("a", "yes", by="one"),
            other.decide_approval("a", "no", by="two"),
        )

        assert answers[0] == answers[1]

    async def test_an_answer_after_its_time_is_a_no_by_expired(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await record(store, session.id, StartTurn(turn_id="t"), ask("t", "a", clock() + SECOND))

        clock.advance(SECOND)

        assert await store.list_approvals() == ()
        late = await store.decide_approval("a", "yes", by="owner")
        assert (late.decision, late.decided_by) == ("no", "expired")

    async def test_open_questions_are_listed_oldest_first(
        self, store: Store, clock: FakeClock
    ) -> None:
        one, two = await make(store), await make(store)
        end = clock() + SECOND
        await record(store, one.id, StartTurn(turn_id="t"), ask("t", "z", end), ask("t", "b", end))
        clock.advance(1)
        await record(store, two.id, StartTurn(turn_id="u"), ask("u", "a", end))

        assert [approval.id for approval in await store.list_approvals()] == ["z", "b", "a"]
        assert [approval.id for approval in await store.list_approvals(two.id)] == ["a"]

    async def test_an_unknown_question_is_not_found(self, store: Store) -> None:
        with pytest.raises(RecordNotFound):
            await store.decide_approval("none", "yes", by="owner")
