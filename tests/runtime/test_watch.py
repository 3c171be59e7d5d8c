"""The one door out: every message once and in order, whoever wrote it; hints while they last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from clew.core.changes import (
    AddMessage,
    EndTurn,
    StartTurn,
    TakeInbound,
    UndoTurn,
    WaitForApproval,
)
from clew.core.delivery import NewInbound
from clew.core.live_events import (
    ApprovalAsked,
    ApprovalDecided,
    Committed,
    Event,
    Notice,
    TextDelta,
    TurnEnded,
    TurnJoined,
    TurnStarted,
)
from clew.core.message import Draft, ToolCall
from clew.core.session import Session, SessionFacts
from clew.core.turn import Approval
from clew.errors import ClewError
from clew.ports import LiveTurn, Store
from clew.runtime.runtime import Runtime
from clew.runtime.watch import BACKLOG, LOOK
from clew.store import open_store
from clew.store.sqlite.store import SqliteStore
from tests.runtime.conftest import (
    Actor,
    Held,
    Runtimes,
    Scene,
    added,
    collect,
    ended,
    messages,
    saying,
    soon,
    typed,
    using_a_tool,
)


def is_end(event: Event) -> bool:
    return isinstance(event, TurnEnded)


def says(text: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, Committed) and event.message.content == text


async def said(store: Store, session: Session, *texts: str) -> None:
    lease = await store.acquire_lease(session.id, f"{store.identity}#said")
    for text in texts:
        await store.append(session.id, lease.epoch, Draft(role="user", content=text))
    await store.release_lease(lease)


async def test_a_watcher_catches_up_from_its_number(
    store: Store, session: Session, runtime: Runtime
) -> None:
    await said(store, session, "1", "2", "3")
    with runtime.watch(session.id, 1) as events:
        found = await collect(events, says("3"))
    assert messages(found) == ["user: 2", "user: 3"]


async def test_a_turn_is_seen_live_and_in_order(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    go_on = asyncio.Event()

    async def scene(turn: LiveTurn) -> None:
        await go_on.wait()
        await using_a_tool("done")(turn)

    actor.scenes.append(scene)
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"))
        found = await collect(events, lambda event: isinstance(event, TurnStarted))
        go_on.set()
        found += await collect(events, is_end)
    turn = await ended(ticket)
    kinds = [type(event).__name__ for event in found]
    assert kinds == ["Committed", "TurnStarted", "Committed", "Committed", "Committed", "TurnEnded"]
    assert messages(found) == ["user: hello", "assistant: ", "tool: seen", "assistant: done"]
    assert ticket.inbound is not None
    answers = (ticket.inbound.id,)
    assert TurnStarted(turn.id, turn.model, answers) in found
    assert found[-1] == TurnEnded(turn, answers)


async def test_what_is_shown_is_exactly_what_is_stored(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(using_a_tool())
    with runtime.watch(session.id, 0) as events:
        await runtime.accept(typed(session, "hello"))
        found = await collect(events, is_end)
    shown = tuple(each.message for each in found if isinstance(each, Committed))
    assert shown == await store.get_messages(session.id)


async def test_a_message_comes_once_even_if_it_was_caught_up_and_published(
    store: Store, session: Session, runtime: Runtime
) -> None:
    with runtime.watch(session.id, 0) as events:
        # Both are in the mailbox and in the store before the watcher first looks.
        await ended(await runtime.accept(typed(session, "one")))
        await ended(await runtime.accept(typed(session, "two")))
        await said(store, session, "last")
        found = await collect(events, says("last"))
    assert messages(found) == [
        "user: one",
        "assistant: ok",
        "user: two",
        "assistant: ok",
        "user: last",
    ]


async def test_messages_of_another_process_appear(
    store: Store, other: Store, session: Session, runtime: Runtime
) -> None:
    with runtime.watch(session.id, 0) as events:
        await said(store, session, "here")
        assert messages(await collect(events, says("here"))) == ["user: here"]
        await said(other, session, "there", "and there")
        found = await collect(events, says("and there"))
    assert messages(found) == ["user: there", "user: and there"]


async def test_a_live_message_after_those_of_another_process_is_in_its_place(
    store: Store, other: Store, session: Session, runtime: Runtime
) -> None:
    with runtime.watch(session.id, 0) as events:
        await said(store, session, "first")
        await collect(events, says("first"))
        await said(other, session, "there")
        await runtime.accept(typed(session, "here"))
        found = await collect(events, is_end)
    assert messages(found) == ["user: there", "user: here", "assistant: ok"]


async def test_the_messages_that_another_process_answers_are_told_with_its_turn(
    other: Store, session: Session, runtime: Runtime
) -> None:
    for name in ("one", "two"):
        new = NewInbound(id=name, channel="cli", key=session.key, session_id=session.id)
        await other.accept(new, claimant=f"{other.identity}#{name}")
    with runtime.watch(session.id, 0) as events:
        await said(other, session, "first")
        await collect(events, says("first"))
        lease = await other.acquire_lease(session.id, other.identity)
        hello = AddMessage(Draft(role="user", content="hello"), "there")
        start = StartTurn(turn_id="there", model="m", inbound=("one",))
        await other.record(session.id, lease.epoch, start, hello)
        found = await collect(events, lambda event: isinstance(event, TurnStarted))
        assert found[-1] == TurnStarted("there", "m", ("one",))
        more = AddMessage(Draft(role="user", content="and this"), "there")
        take = TakeInbound(turn_id="there", inbound=("two",))
        await other.record(session.id, lease.epoch, take, more)
        found = await collect(events, lambda event: isinstance(event, TurnJoined))
        assert found[-1] == TurnJoined("there", ("two",))
        await other.record(session.id, lease.epoch, EndTurn(turn_id="there", status="done"))
        found = await collect(events, is_end)
        await other.release_lease(lease)
    assert isinstance(found[-1], TurnEnded)
    assert found[-1].answers == ("one", "two")


async def test_turns_of_another_process_are_told_once_each_way(
    other: Store, session: Session, runtime: Runtime
) -> None:
    with runtime.watch(session.id, 0) as events:
        await said(other, session, "first")
        await collect(events, says("first"))
        lease = await other.acquire_lease(session.id, other.identity)
        start = StartTurn(turn_id="there", model="m")
        hello = AddMessage(Draft(role="user", content="hello"), "there")
        await other.record(session.id, lease.epoch, start, hello)
        found = await collect(events, lambda event: isinstance(event, TurnStarted))
        assert messages(found) == ["user: hello"]
        assert found[-1] == TurnStarted("there", "m")
        # That it waits for an approval is no second beginning.
        waiting = WaitForApproval(
            approval_id="a",
            turn_id="there",
            tool_call_id="c",
            tool_name="shell",
            request={},
            expires_at=2**50,
        )
        await other.record(session.id, lease.epoch, waiting)
        await other.append(session.id, lease.epoch, Draft(role="assistant", content="hm"))
        found = await collect(events, says("hm"))
        await other.record(session.id, lease.epoch, EndTurn(turn_id="there", status="done"))
        found += await collect(events, is_end)
        await other.release_lease(lease)
    assert not any(isinstance(event, TurnStarted) for event in found)
    assert isinstance(found[-1], TurnEnded)
    assert (found[-1].turn.id, found[-1].turn.status) == ("there", "done")


async def test_a_slow_watcher_loses_hints_but_no_message(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    async def talkative(turn: LiveTurn) -> None:
        await go_on.wait()
        for number in range(BACKLOG + 100):
            turn.signal(TextDelta(str(number)))
        await turn.record(added(turn, "one"))
        await turn.finish(added(turn, "two"))

    go_on = asyncio.Event()
    actor.scenes.append(talkative)
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"))
        found = await collect(events, says("hello"))
        go_on.set()
        await ended(ticket)
        found += await collect(events, is_end)
    deltas = [event for event in found if isinstance(event, TextDelta)]
    assert len(deltas) <= BACKLOG
    assert messages(found) == ["user: hello", "assistant: one", "assistant: two"]


async def test_a_message_behind_an_undone_turn_is_seen(
    store: Store, session: Session, runtime: Runtime
) -> None:
    turn = await ended(await runtime.accept(typed(session, "one")))
    await runtime.amend(session.id, UndoTurn(turn.id))
    with runtime.watch(session.id, 0) as events:
        await runtime.accept(typed(session, "two"))
        found = await collect(events, is_end)
    assert messages(found) == ["user: two", "assistant: ok"]


async def test_two_watchers_see_the_same(session: Session, runtime: Runtime) -> None:
    with runtime.watch(session.id, 0) as one, runtime.watch(session.id, 0) as two:
        await runtime.accept(typed(session, "hello"))
        assert messages(await collect(one, is_end)) == messages(await collect(two, is_end))


# --- questions of another process -------------------------------------------------------------


def is_question(event: Event) -> bool:
    return isinstance(event, ApprovalAsked)


def is_answer(event: Event) -> bool:
    return isinstance(event, ApprovalDecided)


def asking(answers: list[Approval]) -> Scene:
    """Ask for permission, then answer."""

    async def scene(turn: LiveTurn) -> None:
        answers.append(await turn.ask(ToolCall(id="c", name="shell"), {"command": "ls"}))
        await saying("done")(turn)

    return scene


async def test_a_question_of_another_process_is_seen_and_can_be_answered_here(
    other: Store, session: Session, runtime: Runtime, make_runtime: Runtimes
) -> None:
    answers: list[Approval] = []
    there = make_runtime(other, Actor(asking(answers)))
    with runtime.watch(session.id, 0) as events:
        ticket = await there.accept(typed(session, "list"))
        seen = await collect(events, is_question)
        assert messages(seen) == ["user: list"]
        question = seen[-1]
        assert isinstance(question, ApprovalAsked)
        assert (question.approval.tool_name, question.approval.request) == (
            "shell",
            {"command": "ls"},
        )
        await runtime.decide(question.approval.id, "yes", by="owner", scope="session")
        after = await collect(events, is_end)
    assert (await ended(ticket)).status == "done"
    assert [(each.decision, each.scope, each.decided_by) for each in answers] == [
        ("yes", "session", "owner")
    ]
    assert not any(map(is_question, after))
    assert sum(map(is_answer, after)) == 1


async def test_a_question_that_is_answered_where_it_was_asked_is_withdrawn_here(
    other: Store, session: Session, runtime: Runtime, make_runtime: Runtimes
) -> None:
    there = make_runtime(other, Actor(asking([])))
    with runtime.watch(session.id, 0) as events:
        await there.accept(typed(session, "list"))
        question = (await collect(events, is_question))[-1]
        assert isinstance(question, ApprovalAsked)
        await there.decide(question.approval.id, "no", by="somebody")
        answer = (await collect(events, is_answer))[-1]
        assert isinstance(answer, ApprovalDecided)
        assert (answer.approval.id, answer.approval.decision, answer.approval.decided_by) == (
            question.approval.id,
            "no",
            "somebody",
        )
        assert not any(map(is_answer, await collect(events, is_end)))


async def test_who_begins_to_watch_later_sees_a_question_that_waits(
    session: Session, actor: Actor, runtime: Runtime, other: Store, make_runtime: Runtimes
) -> None:
    answers: list[Approval] = []
    actor.scenes.append(asking(answers))
    ticket = await runtime.accept(typed(session, "list"))
    with runtime.watch(session.id, 0) as events:
        question = (await collect(events, is_question))[-1]
    assert isinstance(question, ApprovalAsked)
    elsewhere = make_runtime(other, Actor())
    with runtime.watch(session.id, 0) as here, elsewhere.watch(session.id, 0) as there:
        assert (await collect(here, is_question))[-1] == question
        assert (await collect(there, is_question))[-1] == question
        await elsewhere.decide(question.approval.id, "yes", by="owner")
        for events in (here, there):
            seen = await collect(events, is_end)
            assert sum(map(is_answer, seen)) == 1
            assert not any(map(is_question, seen))
    await ended(ticket)
    assert [each.decision for each in answers] == ["yes"]


async def test_an_own_question_comes_once(
    session: Session, actor: Actor, runtime: Runtime, store: Store
) -> None:
    actor.scenes.append(asking([]))
    with runtime.watch(session.id, 0) as events:
        await runtime.accept(typed(session, "list"))
        question = (await collect(events, is_question))[-1]
        assert isinstance(question, ApprovalAsked)
        # Something changes in the store, so that the watcher looks.
        await store.describe_session(session.id, SessionFacts(title="Changed"))
        await asyncio.sleep(2 * LOOK)  # two looks; a second question would have come
        await runtime.decide(question.approval.id, "no", by="owner")
        rest = await collect(events, is_end)
    assert not any(map(is_question, rest))
    assert sum(map(is_answer, rest)) == 1


async def test_the_question_of_a_dead_process_is_nobodys(
    store: Store, url: str, session: Session, runtime: Runtime
) -> None:
    dead = await open_store(url, durability="normal")
    lease = await dead.acquire_lease(session.id, dead.identity)
    waiting = WaitForApproval(
        approval_id="a",
        turn_id="left",
        tool_call_id="c",
        tool_name="shell",
        request={},
        expires_at=2**50,
    )
    hello = AddMessage(Draft(role="user", content="hello"), "left")
    await dead.record(session.id, lease.epoch, StartTurn(turn_id="left"), hello, waiting)
    await dead.close()
    with runtime.watch(session.id, 0) as events:
        await store.describe_session(session.id, SessionFacts(title="Changed"))
        await said(store, session, "last")
        seen = await collect(events, says("last"))
    assert not any(map(is_question, seen))
    assert len(await store.list_approvals(session.id)) == 1


async def test_a_turn_of_another_process_is_seen_to_its_end_while_a_message_waits_here(
    other: Store, session: Session, runtime: Runtime, make_runtime: Runtimes
) -> None:
    there = make_runtime(other, Actor(held := Held("there")))
    with runtime.watch(session.id, 0) as events:
        await said(other, session, "zero")
        await collect(events, says("zero"))
        first = await there.accept(typed(session, "one"))
        await soon(held.began.wait())
        await collect(events, lambda event: isinstance(event, TurnStarted))
        second = await runtime.accept(typed(session, "two"))
        await collect(events, lambda event: isinstance(event, Notice))
        held.go_on.set()
        await ended(first)
        ends = [event for event in await collect(events, says("ok")) if is_end(event)]
        ends += [event for event in await collect(events, is_end) if is_end(event)]
    ids = [event.turn.id for event in ends if isinstance(event, TurnEnded)]
    # The end there may fall between two looks; then what began here is the news.
    assert ids[-1] == (await ended(second)).id
    assert len(ids) == len(set(ids)) <= 2


# --- an end that can't be written -------------------------------------------------------------


async def test_watchers_hear_of_the_end_of_a_turn_that_the_store_could_not_keep(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    assert isinstance(store, SqliteStore)
    database = store._db

    def refuse(connection: Any) -> None:
        connection.execute(
            """CREATE TEMP TRIGGER refuse BEFORE UPDATE ON main.turns
               BEGIN SELECT RAISE(ABORT, 'no room'); END"""
        )

    async def scene(turn: LiveTurn) -> None:
        turn.signal(TextDelta("so far"))
        await database.write(refuse)
        await saying("never kept")(turn)

    actor.scenes.append(scene)
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"))
        seen = await collect(events, is_end)
        assert isinstance(seen[-1], TurnEnded)
        turn = seen[-1].turn
        assert (turn.status, turn.session_id) == ("interrupted", session.id)
        assert turn.error is not None
        with pytest.raises(ClewError):
            await ended(ticket)
        await database.write(lambda connection: connection.execute("DROP TRIGGER refuse"))
        # The next one finds that nobody runs it; that is no second end.
        await runtime.accept(typed(session, "again"))
        rest = await collect(events, is_end)
    assert messages(rest) == ["user: again", "assistant: ok"]
    assert [each.turn_id for each in rest if isinstance(each, TurnStarted)] != [turn.id]
    assert (await store.get_turn(turn.id)).status == "interrupted"


async def test_who_begins_to_read_late_is_told_in_order_and_nothing_twice(
    session: Session, actor: Actor, runtime: Runtime
) -> None:
    """All of it waits in the mailbox, and the messages are in the store too."""
    actor.scenes.append(saying("Here it is."))
    with runtime.watch(session.id, 0) as events:
        await ended(await runtime.accept(typed(session, "hello")))
        found = await collect(events, is_end)
    kinds = [type(event).__name__ for event in found]
    assert kinds == ["Committed", "TurnStarted", "TextDelta", "Committed", "TurnEnded"]
    assert messages(found) == ["user: hello", "assistant: Here it is."]
