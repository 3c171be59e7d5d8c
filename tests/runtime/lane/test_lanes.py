"""The lease of a turn: waited for, kept, and lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.core.changes import AddMessage, StartTurn
from clew.core.live_events import Event, Notice, TurnEnded, TurnStarted
from clew.core.message import Draft
from clew.core.session import Session
from clew.errors import ClewError, LeaseHeld, StaleLease
from clew.ports import LiveTurn, Store
from clew.runtime.runtime import Runtime
from clew.store import open_store
from clew.store.sqlite.store import SqliteStore
from tests.runtime.conftest import (
    Actor,
    Held,
    Runtimes,
    added,
    collect,
    ended,
    read,
    soon,
    typed,
    until,
)


def is_notice(event: Event) -> bool:
    return isinstance(event, Notice)


def is_end(event: Event) -> bool:
    return isinstance(event, TurnEnded)


async def test_a_turn_waits_for_the_lease_of_another_process_and_says_so(
    other: Store, session: Session, runtime: Runtime
) -> None:
    lease = await other.acquire_lease(session.id, f"{other.identity}#x")
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"))
        *before, notice = await collect(events, is_notice)
        assert before == []
        assert isinstance(notice, Notice)
        assert "Another process is busy" in notice.text
        assert not ticket.turn.done()
        await other.release_lease(lease)
        after = await collect(events, is_end)
    assert not any(map(is_notice, after))
    assert (await ended(ticket)).status == "done"


async def test_the_lease_of_a_dead_process_is_taken_over_at_once(
    store: Store, url: str, session: Session, runtime: Runtime
) -> None:
    dead = await open_store(url, durability="normal")
    lease = await dead.acquire_lease(session.id, dead.identity)
    await dead.record(
        session.id,
        lease.epoch,
        StartTurn(turn_id="left"),
        AddMessage(Draft(role="user", content="before"), "left"),
    )
    await dead.close()
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"))
        seen = await collect(events, is_end)
    assert not any(map(is_notice, seen))
    assert (await ended(ticket)).status == "done"
    assert (await store.get_turn("left")).status == "interrupted"


async def test_the_lease_is_renewed_while_the_turn_runs(
    store: Store, other: Store, session: Session, actor: Actor, make_runtime: Runtimes
) -> None:
    runtime = make_runtime(store, actor, lease_ms=60_000, renew_ms=5)
    actor.scenes.append(held := Held())
    ticket = await runtime.accept(typed(session, "hello"))
    await soon(held.began.wait())
    first = await other.find_lease(session.id)
    assert first is not None

    async def renewed() -> bool:
        now = await other.find_lease(session.id)
        assert now is not None
        return (now.epoch, now.holder) == (first.epoch, first.holder) and (
            now.expires_at > first.expires_at
        )

    await until(renewed)
    held.go_on.set()
    assert (await ended(ticket)).status == "done"
    assert await store.find_lease(session.id) is None


async def test_a_turn_that_was_taken_over_is_stopped_and_writes_nothing(
    store: Store, other: Store, session: Session, actor: Actor, make_runtime: Runtimes
) -> None:
    runtime = make_runtime(store, actor, lease_ms=1, renew_ms=200)
    actor.scenes.append(held := Held())
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"))
        await soon(held.began.wait())
        await take_over(other, session)
        seen = await collect(events, is_end)
    assert held.stopped
    assert [each.text for each in seen if isinstance(each, Notice)] == [
        "Another process has taken this session over; the work of this one is not stored."
    ]
    turn = await ended(ticket)
    assert (turn.status, turn.partial) == ("interrupted", None)
    assert await read(store, session) == ["user: hello"]
    taken = await other.find_lease(session.id)
    assert taken is not None
    assert taken.holder.startswith(other.identity)


async def test_a_fenced_record_ends_the_turn_as_taken_over(
    store: Store, other: Store, session: Session, actor: Actor, make_runtime: Runtimes
) -> None:
    runtime = make_runtime(store, actor, lease_ms=1, renew_ms=60_000)
    refused: list[StaleLease] = []

    async def scene(turn: LiveTurn) -> None:
        await take_over(other, turn.session)
        try:
            await turn.finish(added(turn, "answer"))
        except StaleLease as error:
            refused.append(error)
            raise

    actor.scenes.append(scene)
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert len(refused) == 1
    assert turn.status == "interrupted"
    assert await read(store, session) == ["user: hello"]


async def test_a_failure_of_a_turn_that_was_taken_over_is_not_written(
    store: Store, other: Store, session: Session, actor: Actor, make_runtime: Runtimes
) -> None:
    runtime = make_runtime(store, actor, lease_ms=1, renew_ms=60_000)

    async def scene(turn: LiveTurn) -> None:
        await take_over(other, turn.session)
        raise ZeroDivisionError

    actor.scenes.append(scene)
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert (turn.status, turn.error) == ("interrupted", None)


async def test_a_renewal_that_the_store_refuses_does_not_end_the_turn(
    store: Store, session: Session, actor: Actor, make_runtime: Runtimes
) -> None:
    assert isinstance(store, SqliteStore)
    database = store._db
    runtime = make_runtime(store, actor, renew_ms=5)

    def refuse(connection: Any) -> None:
        connection.execute(
            """CREATE TEMP TRIGGER refuse BEFORE UPDATE ON main.leases
               BEGIN SELECT RAISE(ABORT, 'not now'); END"""
        )

    async def scene(turn: LiveTurn) -> None:
        await database.write(refuse)
        lease = await store.find_lease(turn.session.id)
        assert lease is not None
        with pytest.raises(ClewError):
            await store.renew_lease(lease)
        await asyncio.sleep(0.1)  # several renewals; a turn that they end never gets further
        await database.write(lambda connection: connection.execute("DROP TRIGGER refuse"))
        await turn.finish(added(turn, "answer"))

    actor.scenes.append(scene)
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert (turn.status, turn.error) == ("done", None)


async def test_stopping_a_turn_while_it_takes_the_lease_leaves_no_lease(
    store: Store, session: Session, runtime: Runtime
) -> None:
    for steps in range(12):
        ticket = await runtime.accept(typed(session, "hello"))
        for _ in range(steps):
            await asyncio.sleep(0)
        await soon(runtime.stop(session.id))
        await soon(asyncio.wait({ticket.turn}))
        assert await store.find_lease(session.id) is None


async def test_the_lease_is_given_back_before_anybody_hears_of_the_end(
    other: Store, session: Session, runtime: Runtime
) -> None:
    await ended(await runtime.accept(typed(session, "hello")))
    lease = await other.acquire_lease(session.id, other.identity)
    await other.release_lease(lease)


async def test_two_processes_take_turns_in_one_session(
    store: Store, other: Store, session: Session, make_runtime: Runtimes
) -> None:
    here, there = make_runtime(store, Actor()), make_runtime(other, Actor())
    tickets = [
        await each.accept(typed(session, f"{name}{number}"))
        for number in range(2)
        for name, each in (("here", here), ("there", there))
    ]
    for ticket in tickets:
        assert (await ended(ticket)).status == "done"
    thread = await read(store, session)
    assert len(thread) == 8
    assert thread[1::2] == ["assistant: ok"] * 4


async def test_watchers_hear_of_the_beginning_with_its_model(
    store: Store, session: Session, runtime: Runtime
) -> None:
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"), model="script/two")
        seen = await collect(events, is_end)
    turn = await ended(ticket)
    assert ticket.inbound is not None
    assert TurnStarted(turn.id, "script/two", (ticket.inbound.id,)) in seen


async def take_over(other: Store, session: Session) -> None:
    """What a runtime in another process does with a lease that has run out."""

    async def taken() -> bool:
        await other.interrupt_turns(session.id)
        try:
            await other.acquire_lease(session.id, f"{other.identity}#taker")
        except LeaseHeld:
            return False
        return True

    await until(taken)


async def test_who_may_not_have_the_lease_is_told_who_has_it(
    other: Store, session: Session, actor: Actor, runtime: Runtime, store: Store
) -> None:
    actor.scenes.append(held := Held())
    ticket = await runtime.accept(typed(session, "hello"))
    await soon(held.began.wait())
    with pytest.raises(LeaseHeld) as refused:
        await other.acquire_lease(session.id, other.identity)
    assert refused.value.holder == store.identity
    held.go_on.set()
    await ended(ticket)
