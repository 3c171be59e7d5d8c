"""`/compact`, `/uncompact` and `/context` at a desk, and compaction around the turns of a lane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from clew.clock import host_clock
from clew.core.changes import AddMessage, AddUsage
from clew.core.message import Draft
from clew.core.session import Session
from clew.core.turn import Turn
from clew.core.usage import Usage
from clew.errors import ContextTooLong
from clew.ports import LiveTurn, Store
from clew.runtime.commands import run_command
from clew.runtime.commands.desk import Desk
from clew.runtime.hooks import Hooks
from clew.runtime.runtime import Runtime
from tests.runtime.conftest import (
    Actor,
    Rules,
    Seat,
    Seats,
    ended,
    failing,
    saying,
    soon,
    typed,
    until,
)
from tests.runtime.upkeep.test_compaction import COST, Clerk, find, talk

TOO_LONG = ContextTooLong("too long")


@pytest.fixture
def clerk() -> Clerk:
    return Clerk()


@pytest.fixture
async def runtime(store: Store, actor: Actor, clerk: Clerk, rules: Rules) -> AsyncIterator[Runtime]:
    made = Runtime(
        store,
        actor,
        hooks=Hooks({}, clock=host_clock),
        remember_rule=rules,
        summariser=clerk,
    )
    yield made
    await soon(made.close())


@pytest.fixture
async def seat(runtime: Runtime, make_seat: Seats) -> Seat:
    return make_seat(runtime)


@pytest.fixture
def desk(seat: Seat) -> Desk:
    return seat


async def begun(seat: Seat, store: Store, turns: int, tokens: int = 1_000) -> Session:
    session = await seat.begin()
    await talk(store, session, turns, tokens=tokens)
    return session


async def test_compact_says_what_it_did_and_uncompact_takes_it_back(
    desk: Desk, seat: Seat, store: Store, clerk: Clerk
) -> None:
    session = await begun(seat, store, 10, 11_000)
    reply = await soon(run_command(desk, "compact", "keep the numbers"))
    assert not reply.is_error
    assert "Summarised 14 messages, kept 6 messages: 11,010 → ~" in reply.text
    assert clerk.asked[0]["wish"] == "keep the numbers"
    reply = await soon(run_command(desk, "uncompact", ""))
    assert "reads the whole again" in reply.text
    assert await store.find_compaction(session.id) is None


async def test_compact_has_nothing_to_do_in_a_short_session_or_in_none(
    desk: Desk, seat: Seat, store: Store
) -> None:
    assert (await run_command(desk, "compact", "")).is_error
    assert (await run_command(desk, "context", "")).is_error
    await begun(seat, store, 2)
    reply = await soon(run_command(desk, "compact", ""))
    assert reply.is_error
    assert "nothing to compact" in reply.text


async def test_compact_can_be_stopped_and_then_nothing_has_changed(
    desk: Desk, seat: Seat, store: Store, runtime: Runtime, clerk: Clerk
) -> None:
    session = await begun(seat, store, 10)
    clerk.go_on.clear()
    command = asyncio.create_task(run_command(desk, "compact", ""))
    await soon(clerk.began.wait())
    assert runtime.is_running(session.id)
    assert runtime.count_queued(session.id) == 0
    assert await soon(runtime.stop(session.id))
    reply = await soon(command)
    assert reply.is_error
    assert "as it was" in reply.text
    assert await store.find_compaction(session.id) is None
    clerk.go_on.set()
    assert not (await soon(run_command(desk, "compact", ""))).is_error


async def test_a_stop_that_comes_too_late_is_not_told_as_if_it_had_helped(
    desk: Desk, seat: Seat, store: Store, clerk: Clerk
) -> None:
    session = await begun(seat, store, 10)
    clerk.stopped_at_the_end = True
    reply = await soon(run_command(desk, "compact", ""))
    assert "Summarised" in reply.text
    assert await store.find_compaction(session.id) is not None
    assert await store.find_lease(session.id) is None


async def test_a_turn_that_is_stopped_while_its_thread_is_compacted_does_not_begin(
    seat: Seat, store: Store, runtime: Runtime, clerk: Clerk
) -> None:
    session = await begun(seat, store, 10, 13_000)
    clerk.stopped_at_the_end = True
    ticket = await runtime.accept(typed(session, "hello"))
    await soon(runtime.join(session.id))
    assert ticket.turn.cancelled()
    assert len(await store.get_messages(session.id)) == 20
    assert await store.find_compaction(session.id) is not None


async def test_a_message_waits_until_the_compaction_is_done(
    desk: Desk, seat: Seat, store: Store, runtime: Runtime, clerk: Clerk
) -> None:
    session = await begun(seat, store, 10)
    clerk.go_on.clear()
    command = asyncio.create_task(run_command(desk, "compact", ""))
    await soon(clerk.began.wait())
    ticket = await runtime.accept(typed(session, "hello"))
    assert runtime.count_queued(session.id) == 1
    clerk.go_on.set()
    assert not (await soon(command)).is_error
    assert (await ended(ticket)).status == "done"
    assert (await find(store, session)).made_at_seq == 20


async def test_a_thread_that_is_too_long_is_compacted_before_its_next_turn(
    seat: Seat, store: Store, runtime: Runtime
) -> None:
    session = await begun(seat, store, 10, 13_000)
    assert (await ended(await runtime.accept(typed(session, "hello")))).status == "done"
    assert (await find(store, session)).made_at_seq == 20


async def test_a_thread_that_has_become_too_long_is_compacted_after_its_turn(
    seat: Seat, store: Store, runtime: Runtime, actor: Actor
) -> None:
    session = await begun(seat, store, 10)

    async def scene(turn: LiveTurn) -> None:
        usage = Usage(13_500, 5, api_calls=1)
        answer = Draft(role="assistant", content="ok", usage=usage)
        await turn.finish(
            AddMessage(answer, turn.id, from_person=False),
            AddUsage(usage=usage, turn_id=turn.id, context_tokens=13_505),
        )

    actor.scenes.append(scene)
    assert (await ended(await runtime.accept(typed(session, "hello")))).status == "done"

    async def compacted() -> bool:
        return await store.find_compaction(session.id) is not None

    await until(compacted)
    assert (await find(store, session)).made_at_seq == 22


async def test_too_long_for_the_model_is_compacted_once_and_tried_again(
    seat: Seat, store: Store, runtime: Runtime, actor: Actor
) -> None:
    session = await begun(seat, store, 10)
    actor.scenes += [failing(TOO_LONG), saying("now it fits")]
    turn: Turn = await ended(await runtime.accept(typed(session, "hello")))
    assert turn.status == "done"
    assert turn.usage == COST
    thread = await store.get_messages(session.id, 2)
    assert [each.content for each in thread] == ["hello", "now it fits"]
    assert (await find(store, session)).keep_from <= thread[0].seq


async def test_too_long_twice_is_the_turns_end(
    seat: Seat, store: Store, runtime: Runtime, actor: Actor
) -> None:
    session = await begun(seat, store, 10)
    actor.scenes += [failing(TOO_LONG), failing(TOO_LONG)]
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert (turn.status, turn.error) == ("failed", "too long")
    assert (await store.get_session(session.id)).compactions == 1


async def test_undoing_what_a_summary_tells_of_takes_the_compaction_back(
    desk: Desk, seat: Seat, store: Store
) -> None:
    session = await begun(seat, store, 10)
    await soon(run_command(desk, "compact", ""))
    for _ in range(3):
        await soon(run_command(desk, "undo", ""))
    assert await store.find_compaction(session.id) is not None
    await soon(run_command(desk, "undo", ""))
    assert await store.find_compaction(session.id) is None


async def test_context_lists_the_parts_with_size_and_share(
    desk: Desk, seat: Seat, store: Store
) -> None:
    await begun(seat, store, 10, 11_000)
    await soon(run_command(desk, "compact", ""))
    reply = await soon(run_command(desk, "context", ""))
    lines = reply.text.splitlines()
    for name in ("personality", "environment", "tools", "summary", "what you said", "answers"):
        assert any(line.startswith(name) and line.endswith("%") for line in lines), name
    assert "together ~" in reply.text
    assert "read_file" not in reply.text
    detail = (await soon(run_command(desk, "context", "detail"))).text
    assert "read_file" in detail
    assert "largest messages" in detail
    assert "19 user: 9 qqq" in detail
    assert (await run_command(desk, "context", "nonsense")).is_error
