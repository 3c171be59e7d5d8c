"""Undo, redo and retry: what a person sees as one turn, whatever it was made of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.core.channels.replies import Attached
from clew.errors import ClewError, TurnFailed
from clew.ports import LiveTurn, Store
from clew.runtime.commands.desk import Reply
from clew.runtime.commands.turns import STEP, find_end, find_last, find_undone
from clew.store.sqlite.store import SqliteStore
from tests.runtime.conftest import (
    Actor,
    Held,
    Run,
    Seat,
    added,
    ended,
    failing,
    read,
    saying,
    sitting,
    soon,
    typed,
    using_a_tool,
)

FAILURE = TurnFailed("The model is away.")


async def retry(run: Run) -> None:
    reply = await run("/retry")
    assert reply.ticket is not None, reply.text
    await ended(reply.ticket)


async def test_undo_takes_a_turn_with_all_its_rows(
    store: Store, seat: Seat, actor: Actor, run: Run
) -> None:
    actor.scenes += [saying("first"), using_a_tool()]
    await ended(await seat.say("one"))
    await ended(await seat.say("two"))
    assert len(await read(store, seat.current)) == 6
    reply = await run("/undo")
    assert not reply.is_error
    assert '"two" (4 messages)' in reply.text
    assert await read(store, seat.current) == ["user: one", "assistant: first"]
    assert sitting(seat).message_count == 2


async def test_undo_goes_back_turn_by_turn_and_redo_comes_forward_in_order(
    store: Store, seat: Seat, run: Run
) -> None:
    for text in ("one", "two", "three"):
        await ended(await seat.say(text))
    whole = await read(store, seat.current)
    for left in (4, 2, 0):
        await run("/undo")
        assert await read(store, seat.current) == whole[:left]
    assert (await run("/undo")).is_error
    for back in (2, 4, 6):
        await run("/redo")
        assert await read(store, seat.current) == whole[:back]
    assert (await run("/redo")).is_error


async def test_there_is_nothing_to_redo_after_a_new_message(
    store: Store, seat: Seat, run: Run
) -> None:
    await ended(await seat.say("one"))
    await run("/undo")
    await ended(await seat.say("two"))
    reply = await run("/redo")
    assert (reply.is_error, reply.text) == (True, "There is nothing to bring back.")
    assert await read(store, seat.current) == ["user: two", "assistant: ok"]


async def test_retry_of_a_failed_turn_goes_on_without_saying_it_twice(
    store: Store, seat: Seat, actor: Actor, run: Run
) -> None:
    actor.scenes += [failing(FAILURE), saying("answer")]
    await ended(await seat.say("hello"))
    await retry(run)
    assert await read(store, seat.current) == ["user: hello", "assistant: answer"]
    states = [turn.status for turn in await store.list_turns(sitting(seat).id)]
    assert states == ["failed", "done"]


async def test_retry_of_a_stopped_turn_keeps_what_its_tools_did(
    store: Store, seat: Seat, actor: Actor, run: Run
) -> None:
    began = asyncio.Event()

    async def half(turn: LiveTurn) -> None:
        await turn.record(added(turn, "looking"))
        began.set()
        await asyncio.Event().wait()

    actor.scenes += [half, saying("answer")]
    ticket = await seat.say("hello")
    await soon(began.wait())
    await seat.stop()
    await ended(ticket)
    await retry(run)
    assert await read(store, seat.current) == [
        "user: hello",
        "assistant: looking",
        "assistant: answer",
    ]


async def test_retry_of_a_good_turn_takes_its_place(
    store: Store, seat: Seat, actor: Actor, run: Run
) -> None:
    actor.scenes += [using_a_tool("first"), saying("second")]
    file = Attached("text/plain", b"seen", "a")
    await ended(await seat.runtime.accept(typed(await seat.begin(), "hello", attachments=(file,))))
    await retry(run)
    assert await read(store, seat.current) == ["user: hello", "assistant: second"]
    user = (await store.get_messages(sitting(seat).id))[0]
    assert [part["name"] for part in user.parts] == ["a"]


async def test_undo_after_a_retry_takes_both_turns(
    store: Store, seat: Seat, actor: Actor, run: Run
) -> None:
    actor.scenes += [saying("before"), failing(FAILURE), saying("answer")]
    await ended(await seat.say("one"))
    await ended(await seat.say("two"))
    await retry(run)
    await run("/undo")
    assert await read(store, seat.current) == ["user: one", "assistant: before"]
    await run("/redo")
    assert await read(store, seat.current) == [
        "user: one",
        "assistant: before",
        "user: two",
        "assistant: answer",
    ]


async def test_undo_after_a_retry_of_a_good_turn_takes_the_exchange_back_whole(
    store: Store, seat: Seat, actor: Actor, run: Run
) -> None:
    actor.scenes += [saying("first"), saying("second")]
    await ended(await seat.say("hello"))
    await retry(run)
    await run("/undo")
    assert await read(store, seat.current) == []
    # What comes back is what was taken back, not what the retry had replaced.
    await run("/redo")
    assert await read(store, seat.current) == ["user: hello", "assistant: second"]
    assert (await run("/redo")).is_error


@pytest.mark.parametrize("line", ["/undo", "/redo", "/retry"])
async def test_nothing_is_taken_back_or_tried_while_a_turn_runs(
    store: Store, seat: Seat, actor: Actor, run: Run, line: str
) -> None:
    await ended(await seat.say("one"))
    actor.scenes.append(held := Held())
    ticket = await seat.say("two")
    await soon(held.began.wait())
    reply = await run(line)
    assert reply.is_error
    assert "A turn is running" in reply.text
    held.go_on.set()
    await ended(ticket)
    assert len(await read(store, seat.current)) == 4


@pytest.mark.parametrize("line", ["/undo", "/redo", "/retry"])
async def test_without_a_session_there_is_nothing_to_take_back(run: Run, line: str) -> None:
    reply: Reply = await run(line)
    assert reply.is_error
    assert reply.text == "There is no session yet; say something first."


async def test_a_fork_undoes_what_it_inherited_without_touching_its_parent(
    store: Store, seat: Seat, run: Run
) -> None:
    await ended(await seat.say("one"))
    await ended(await seat.say("two"))
    parent = sitting(seat)
    await run("/fork")
    assert sitting(seat).id != parent.id
    await run("/undo")
    assert await read(store, seat.current) == ["user: one", "assistant: ok"]
    await run("/undo")
    assert await read(store, seat.current) == []
    assert len(await read(store, parent)) == 4
    await run("/redo")
    assert await read(store, seat.current) == ["user: one", "assistant: ok"]


async def test_an_exchange_of_many_messages_is_found_whole(
    store: Store, seat: Seat, actor: Actor
) -> None:
    async def busy(turn: LiveTurn) -> None:
        for number in range(STEP + 5):
            await turn.record(added(turn, str(number)))
        await saying("done")(turn)

    await ended(await seat.say("one"))
    actor.scenes.append(busy)
    turn = await ended(await seat.say("two"))
    last = await find_last(store, sitting(seat).id)
    assert last is not None
    assert (last.turns, last.drafts[0].content, last.messages) == ((turn.id,), "two", STEP + 7)
    assert await find_end(store, last) == turn
    assert await find_undone(store, sitting(seat).id) is None


async def test_retry_runs_a_message_whose_turn_could_not_even_begin(
    store: Store, seat: Seat, run: Run
) -> None:
    assert isinstance(store, SqliteStore)
    await ended(await seat.say("one"))

    def refuse(connection: Any) -> None:
        connection.execute(
            """CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.turns
               BEGIN SELECT RAISE(ABORT, 'not now'); END"""
        )

    await store._db.write(refuse)
    with pytest.raises(ClewError):
        await ended(await seat.say("two"))
    assert await read(store, seat.current) == ["user: one", "assistant: ok"]
    await store._db.write(lambda connection: connection.execute("DROP TRIGGER refuse"))
    await retry(run)
    assert await read(store, seat.current) == [
        "user: one",
        "assistant: ok",
        "user: two",
        "assistant: ok",
    ]
    assert await store.list_inbound(sitting(seat).id) == ()
