"""The one door out: every message once and in order, whoever wrote it; hints while they last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clew.core.changes import AddMessage, EndTurn, StartTurn, UndoTurn, WaitForApproval
from clew.core.message import Draft
from clew.core.session import Session
from clew.core.signals import Committed, Event, TextDelta, TurnEnded, TurnStarted
from clew.ports import LiveTurn, Store
from clew.runtime.bus import BACKLOG
from clew.runtime.runtime import Runtime
from tests.runtime.conftest import (
    Actor,
    added,
    collect,
    ended,
    inbound,
    messages,
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
        ticket = await runtime.accept(inbound(session, "hello"))
        found = await collect(events, lambda event: isinstance(event, TurnStarted))
        go_on.set()
        found += await collect(events, is_end)
    turn = await ended(ticket)
    kinds = [type(event).__name__ for event in found]
    assert kinds == ["Committed", "TurnStarted", "Committed", "Committed", "Committed", "TurnEnded"]
    assert messages(found) == ["user: hello", "assistant: ", "tool: seen", "assistant: done"]
    assert found[-1] == TurnEnded(turn)


async def test_what_is_shown_is_exactly_what_is_stored(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(using_a_tool())
    with runtime.watch(session.id, 0) as events:
        await runtime.accept(inbound(session, "hello"))
        found = await collect(events, is_end)
    shown = tuple(each.message for each in found if isinstance(each, Committed))
    assert shown == await store.get_messages(session.id)


async def test_a_message_comes_once_even_if_it_was_caught_up_and_published(
    store: Store, session: Session, runtime: Runtime
) -> None:
    with runtime.watch(session.id, 0) as events:
        # Both are in the mailbox and in the store before the watcher first looks.
        await ended(await runtime.accept(inbound(session, "one")))
        await ended(await runtime.accept(inbound(session, "two")))
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
        await runtime.accept(inbound(session, "here"))
        found = await collect(events, is_end)
    assert messages(found) == ["user: there", "user: here", "assistant: ok"]


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
        ticket = await runtime.accept(inbound(session, "hello"))
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
    turn = await ended(await runtime.accept(inbound(session, "one")))
    await runtime.amend(session.id, UndoTurn(turn.id))
    with runtime.watch(session.id, 0) as events:
        await runtime.accept(inbound(session, "two"))
        found = await collect(events, is_end)
    assert messages(found) == ["user: two", "assistant: ok"]


async def test_two_watchers_see_the_same(session: Session, runtime: Runtime) -> None:
    with runtime.watch(session.id, 0) as one, runtime.watch(session.id, 0) as two:
        await runtime.accept(inbound(session, "hello"))
        assert messages(await collect(one, is_end)) == messages(await collect(two, is_end))
