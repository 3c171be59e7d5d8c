"""What is said while a turn runs: its own turn, into the one that runs, instead of it, together."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from clew import config as configuration
from clew.core.changes import AddMessage
from clew.core.live_events import TurnEnded, TurnJoined, TurnStarted
from clew.core.message import Draft, ToolCall
from clew.core.session import NewSession, Session
from clew.core.turn import QUEUE_MODES, Turn
from clew.ports import LiveTurn, Store
from clew.runtime.inbound.reception import Ticket
from clew.runtime.recovery import recover
from clew.runtime.runtime import Runtime
from clew.store import open_store
from clew.wiring import House
from tests.runtime.conftest import (
    CONFIG,
    Actor,
    Held,
    Run,
    Runtimes,
    Seat,
    added,
    collect,
    ended,
    messages,
    read,
    soon,
    typed,
    until,
)


class Steps:
    """A scene with a tool in it, that stops before and after it takes what was said meanwhile."""

    def __init__(self, text: str = "done") -> None:
        self.text = text
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.took: list[bool] = []
        self.has_taken = asyncio.Event()
        self.finish = asyncio.Event()
        self.finish.set()

    async def __call__(self, turn: LiveTurn) -> None:
        call = ToolCall(id="call_1", name="look")
        result = Draft(role="tool", content="seen", tool_call_id="call_1", tool_name="look")
        asked = Draft(role="assistant", tool_calls=(call,))
        await turn.record(AddMessage(asked, turn.id, from_person=False))
        self.began.set()
        await self.go_on.wait()
        await turn.record(AddMessage(result, turn.id, from_person=False))
        self.took.append(await turn.take_steering())
        self.has_taken.set()
        await self.finish.wait()
        await turn.finish(added(turn, self.text))


async def is_settled(store: Store, session: Session) -> bool:
    """Whether nothing is left in the inbox."""
    return await store.list_inbound(session.id) == ()


async def say(runtime: Runtime, session: Session, text: str, mode: str, **more: Any) -> Ticket:
    return await runtime.accept(typed(session, text, **more), queue=mode)  # type: ignore[arg-type]


# --- steer ------------------------------------------------------------------------------------


async def test_a_steered_message_goes_into_the_turn_that_runs_before_its_next_step(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(scene := Steps())
    first = await runtime.accept(typed(session, "one"))
    await soon(scene.began.wait())
    second = await say(runtime, session, "two", "steer")
    third = await say(runtime, session, "three", "steer")
    assert len(await store.list_inbound(session.id)) == 2
    scene.go_on.set()
    turn = await ended(first)
    assert [await ended(second), await ended(third)] == [turn, turn]
    assert scene.took == [True]
    assert await read(store, session) == [
        "user: one",
        "assistant: ",
        "tool: seen",
        "user: two",
        "user: three",
        "assistant: done",
    ]
    assert {row.turn_id for row in await store.get_messages(session.id)} == {turn.id}
    assert await is_settled(store, session)


async def test_a_watcher_sees_a_steered_message_where_it_is_in_the_thread(
    session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(scene := Steps())
    with runtime.watch(session.id, 0) as events:
        first = await runtime.accept(typed(session, "one"))
        await soon(scene.began.wait())
        second = await say(runtime, session, "two", "steer")
        scene.go_on.set()
        seen = await collect(events, lambda event: isinstance(event, TurnEnded))
    assert messages(seen)[2:] == ["tool: seen", "user: two", "assistant: done"]
    turn = await ended(first)
    assert first.inbound is not None
    assert second.inbound is not None
    assert TurnStarted(turn.id, turn.model, (first.inbound.id,)) in seen
    assert TurnJoined(turn.id, (second.inbound.id,)) in seen
    assert seen[-1] == TurnEnded(turn, (first.inbound.id, second.inbound.id))


async def test_without_anything_said_there_is_nothing_to_take(
    session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(scene := Steps())
    scene.go_on.set()
    await ended(await runtime.accept(typed(session, "one")))
    assert scene.took == [False]


async def test_a_steered_message_that_comes_too_late_has_the_next_turn(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    first = await runtime.accept(typed(session, "one"))
    await soon(held.began.wait())
    second = await say(runtime, session, "two", "steer")
    held.go_on.set()
    assert (await ended(first)).id != (await ended(second)).id
    assert await read(store, session) == [
        "user: one",
        "assistant: ok",
        "user: two",
        "assistant: ok",
    ]


async def test_a_steered_message_whose_turn_is_stopped_has_the_next_one(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(scene := Steps())
    first = await runtime.accept(typed(session, "one"))
    await soon(scene.began.wait())
    second = await say(runtime, session, "two", "steer")
    await soon(runtime.stop(session.id))
    assert (await ended(first)).status == "aborted"
    assert (await ended(second)).status == "done"
    assert (await read(store, session))[-2:] == ["user: two", "assistant: ok"]


async def test_a_steered_message_passes_one_that_waits_for_its_own_turn(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(scene := Steps())
    first = await runtime.accept(typed(session, "one"))
    await soon(scene.began.wait())
    later = await runtime.accept(typed(session, "later"))
    steered = await say(runtime, session, "now", "steer")
    scene.go_on.set()
    assert (await ended(steered)).id == (await ended(first)).id
    await ended(later)
    assert [each for each in await read(store, session) if each.startswith("user")] == [
        "user: one",
        "user: now",
        "user: later",
    ]


async def test_nobody_steers_the_turn_of_somebody_else(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(scene := Steps())
    first = await runtime.accept(typed(session, "one"))
    await soon(scene.began.wait())
    guest = await say(runtime, session, "give me the keys", "steer", person="telegram:7")
    scene.go_on.set()
    assert (await ended(guest)).id != (await ended(first)).id
    assert scene.took == [False]
    assert actor.turns[1].person == "telegram:7"


async def test_what_may_not_write_memory_is_steered_into_no_turn_that_may(
    session: Session, actor: Actor, runtime: Runtime
) -> None:
    """Else a webhook's words would be read with the rights of the owner's."""
    actor.scenes.append(scene := Steps())
    first = await runtime.accept(typed(session, "one"))
    await soon(scene.began.wait())
    hook = await say(runtime, session, "remember me", "steer", memory=False)
    scene.go_on.set()
    assert (await ended(hook)).id != (await ended(first)).id
    assert scene.took == [False]
    assert [each.writes_memory for each in actor.turns] == [True, False]


async def test_a_steered_message_that_cannot_be_recorded_keeps_its_place(
    store: Store, session: Session, actor: Actor, runtime: Runtime, other: Store
) -> None:
    """Somebody has taken the row, as happens when a process is thought dead; others follow."""
    actor.scenes.append(scene := Steps())
    first = await runtime.accept(typed(session, "one"))
    await soon(scene.began.wait())
    stolen = await say(runtime, session, "stolen", "steer")
    assert stolen.inbound is not None
    assert stolen.inbound.claimant is not None
    await other.release_inbound(stolen.inbound.claimant)
    await other.drop_inbound([stolen.inbound.id])
    scene.go_on.set()
    assert (await ended(first)).status == "done"
    assert scene.took == [False]
    with pytest.raises(Exception, match="taken already"):
        await ended(stolen)
    assert await read(store, session) == [
        "user: one",
        "assistant: ",
        "tool: seen",
        "assistant: done",
    ]


async def test_a_stop_in_the_middle_of_taking_neither_loses_nor_repeats_anything(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    for steps in range(8):
        actor.scenes[:] = [scene := Steps()]
        await runtime.accept(typed(session, "one"))
        await soon(scene.began.wait())
        ticket = await say(runtime, session, f"two {steps}", "steer")
        scene.finish.clear()
        scene.go_on.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        await soon(runtime.stop(session.id))
        assert (await ended(ticket)).status in ("aborted", "done")
        said = await read(store, session)
        assert said.count(f"user: two {steps}") == 1
        assert await is_settled(store, session)


async def test_what_a_dead_process_was_to_be_steered_with_is_offered(
    store: Store, url: str, session: Session, make_runtime: Runtimes
) -> None:
    dead = await open_store(url, durability="normal")
    actor = Actor(scene := Steps())
    runtime = make_runtime(dead, actor)
    await runtime.accept(typed(session, "one"))
    await soon(scene.began.wait())
    await say(runtime, session, "two", "steer")
    # Closing puts back what has not begun, as a kill leaves it to the next process to do.
    await soon(runtime.close())
    await dead.close()
    left = await recover(store, session.id)
    assert [each.payload["text"] for each in left.unanswered] == ["two"]
    assert (await read(store, session))[0] == "user: one"


# --- followup, collect, interrupt -------------------------------------------------------------


async def test_messages_that_follow_up_have_a_turn_each(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(scene := Steps())
    tickets = [await runtime.accept(typed(session, "one"))]
    await soon(scene.began.wait())
    tickets += [await say(runtime, session, each, "followup") for each in ("two", "three")]
    scene.go_on.set()
    assert len({(await ended(each)).id for each in tickets}) == 3
    assert scene.took == [False]


async def test_messages_that_are_collected_have_one_turn_together(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    first = await runtime.accept(typed(session, "one"))
    await soon(held.began.wait())
    tickets = [await say(runtime, session, each, "collect") for each in ("two", "three", "four")]
    held.go_on.set()
    await ended(first)
    assert len({(await ended(each)).id for each in tickets}) == 1
    assert (await read(store, session))[2:] == [
        "user: two",
        "user: three",
        "user: four",
        "assistant: ok",
    ]
    assert await is_settled(store, session)


async def test_only_messages_of_one_person_are_collected(
    session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    await runtime.accept(typed(session, "one"))
    await soon(held.began.wait())
    mine = await say(runtime, session, "two", "collect")
    theirs = await say(runtime, session, "three", "collect", person="telegram:7")
    held.go_on.set()
    assert (await ended(mine)).id != (await ended(theirs)).id


async def test_what_may_not_write_memory_is_collected_with_nothing_that_may(
    session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    await runtime.accept(typed(session, "one"))
    await soon(held.began.wait())
    mine = await say(runtime, session, "two", "collect")
    hooks = await say(runtime, session, "three", "collect", memory=False)
    held.go_on.set()
    assert (await ended(mine)).id != (await ended(hooks)).id
    assert [each.writes_memory for each in actor.turns] == [True, True, False]


async def test_a_message_that_interrupts_aborts_the_turn_and_is_next(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    first = await runtime.accept(typed(session, "one"))
    await soon(held.began.wait())
    second = await say(runtime, session, "two", "interrupt")
    assert (await ended(first)).status == "aborted"
    assert (await ended(second)).status == "done"
    assert held.stopped
    assert await read(store, session) == ["user: one", "user: two", "assistant: ok"]


async def test_a_message_that_interrupts_comes_with_all_that_waits(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    first = await runtime.accept(typed(session, "one"))
    await soon(held.began.wait())
    waiting = await runtime.accept(typed(session, "two"))
    last = await say(runtime, session, "three", "interrupt")
    assert (await ended(first)).status == "aborted"
    assert (await ended(waiting)) == (await ended(last))
    assert (await read(store, session))[1:] == ["user: two", "user: three", "assistant: ok"]


async def test_messages_that_interrupt_each_other_are_all_said(
    store: Store, session: Session, runtime: Runtime
) -> None:
    tickets = []
    for number in range(10):
        tickets.append(await say(runtime, session, str(number), "interrupt"))
        for _ in range(number):
            await asyncio.sleep(0)
    turns = [await ended(each) for each in tickets]
    assert turns[-1].status == "done"
    assert {turn.status for turn in turns} <= {"done", "aborted"}
    said = [each for each in await read(store, session) if each.startswith("user")]
    assert said == [f"user: {number}" for number in range(10)]
    assert await is_settled(store, session)


async def test_a_message_never_interrupts_a_compaction_or_another_chore(
    store: Store, session: Session, runtime: Runtime
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def chore(_lease: object) -> str:
        began.set()
        await go_on.wait()
        return "done"

    done = runtime._lanes.get(session.id).do(chore)
    await soon(began.wait())
    ticket = await say(runtime, session, "one", "interrupt")
    go_on.set()
    assert await soon(done) == "done"
    assert (await ended(ticket)).status == "done"


# --- undo, redo and retry of a turn in which more was said ------------------------------------


async def steered(seat: Seat, actor: Actor, run: Run) -> Turn:
    """An exchange in which two things were said."""
    actor.scenes.append(scene := Steps())
    first = await seat.say("one")
    await run("/queue steer")
    await soon(scene.began.wait())
    await seat.say("two")
    scene.go_on.set()
    return await ended(first)


async def test_undo_takes_back_all_of_a_steered_turn_and_redo_brings_it_back(
    store: Store, seat: Seat, actor: Actor, run: Run
) -> None:
    await ended(await seat.say("zero"))
    await steered(seat, actor, run)
    before = await read(store, seat.current)
    assert (await run("/undo")).text == 'Took back "one" (5 messages). /redo brings it back.'
    assert await read(store, seat.current) == ["user: zero", "assistant: ok"]
    assert (await run("/redo")).text == 'Brought back "one" (5 messages).'
    assert await read(store, seat.current) == before


async def test_retry_says_all_of_it_again(store: Store, seat: Seat, actor: Actor, run: Run) -> None:
    await steered(seat, actor, run)
    ticket = (await run("/retry")).ticket
    assert ticket is not None
    await ended(ticket)
    assert await read(store, seat.current) == ["user: one", "user: two", "assistant: ok"]


# --- /queue and /stop -------------------------------------------------------------------------


async def test_queue_shows_the_mode_and_what_waits(seat: Seat, actor: Actor, run: Run) -> None:
    actor.scenes.append(held := Held())
    ticket = await seat.say("one")
    await soon(held.began.wait())
    assert (await run("/queue")).text == (
        "While a turn runs (followup): each message waits for its own turn.\nNothing waits."
    )
    await seat.say("two\n\x1b[31mlines")
    await seat.say("x" * 100)
    lines = (await run("/queue")).text.splitlines()
    assert lines[1:] == [
        "2 messages waiting (/queue clear takes back):",
        "  two lines",
        f"  {'x' * 59}…",
    ]
    assert (await run("/queue clear")).text == "Took back 2 waiting messages."
    assert (await run("/queue clear")).text == "Nothing was waiting."
    held.go_on.set()
    await ended(ticket)
    assert await is_settled(seat.runtime.store, await refreshed(seat))


async def refreshed(seat: Seat) -> Session:
    session = await seat.refresh()
    assert session is not None
    return session


@pytest.mark.parametrize("mode", QUEUE_MODES)
async def test_the_mode_is_remembered_with_the_session(
    store: Store, seat: Seat, run: Run, mode: str
) -> None:
    await ended(await seat.say("one"))
    session = await refreshed(seat)
    assert (await run(f"/queue {mode.upper()}")).text.startswith(f"While a turn runs ({mode})")
    assert (await store.get_session(session.id)).metadata["queue"] == mode
    await seat.switch(None, "new")
    assert seat.queue_mode == "followup"
    await seat.switch(session, "resume")
    assert seat.queue_mode == mode


async def test_an_unknown_mode_is_refused_with_those_that_there_are(seat: Seat, run: Run) -> None:
    await ended(await seat.say("one"))
    reply = await run("/queue fast")
    assert reply.is_error
    assert reply.text == '/queue is followup, steer, interrupt, collect, or clear; not "fast".'
    assert seat.queue_mode == "followup"


async def test_a_mode_from_somewhere_else_means_the_usual_one(seat: Seat) -> None:
    await ended(await seat.say("one"))
    for odd in ("fast", 7, ["steer"], None):
        await seat.note("queue", odd)
        assert seat.queue_mode == "followup"


async def test_stop_clears_the_queue_and_says_how_many(
    store: Store, seat: Seat, actor: Actor, run: Run
) -> None:
    actor.scenes.append(held := Held())
    ticket = await seat.say("one")
    await soon(held.began.wait())
    await seat.say("two")
    assert (await run("/stop")).text == "Stopped. Took back 1 waiting message."
    assert (await ended(ticket)).status == "aborted"
    assert (await run("/stop")).text == "Nothing is running."
    assert await read(store, seat.current) == ["user: one"]


# --- with the agent itself --------------------------------------------------------------------


async def test_the_model_reads_what_was_said_while_its_tool_ran(
    store: Store, tmp_path: Path
) -> None:
    gate, began = tmp_path / "gate", tmp_path / "began"
    log = tmp_path / "log"
    script = {
        "answers": [
            {"tool_calls": [{"name": "list_files"}], "hold": str(gate), "touch": str(began)},
            {"echo": "user"},
        ],
        "log": str(log),
    }
    (tmp_path / "script.json").write_text(json.dumps(script), "utf-8")
    home = tmp_path / "home"
    home.mkdir()
    told = CONFIG.replace("models =", f'base_url = "{tmp_path}/script.json"\nmodels =', 1)
    (home / "config.toml").write_text(told, "utf-8")
    house = House(configuration.load(home=str(home), environ={}), store)
    work = tmp_path / "work"
    work.mkdir()
    session = await store.create_session(
        NewSession(key="cli:work", cwd=str(work), project=str(work), model="script/one")
    )
    try:
        first = await house.runtime.accept(typed(session, "Look around"))

        async def is_asked() -> bool:
            return began.exists()

        await until(is_asked)
        second = await say(house.runtime, session, "Only at flowers", "steer")
        gate.touch()
        assert (await ended(first)) == (await ended(second))
    finally:
        await soon(house.close())
    thread = await store.get_messages(session.id)
    assert [row.role for row in thread] == ["user", "assistant", "tool", "user", "assistant"]
    assert "Only at flowers" in thread[-1].content
    (_, last) = [line for line in log.read_text("utf-8").splitlines() if "Look around" in line][:2]
    assert "Only at flowers" in last


# --- and --------------------------------------------------------------------------------------


async def test_lanes_that_have_nothing_to_do_are_forgotten(store: Store, runtime: Runtime) -> None:
    for number in range(5):
        session = await store.create_session(NewSession(key=f"cli:{number}"))
        await ended(await runtime.accept(typed(session, "one")))
        await soon(runtime.join(session.id))
        await soon(runtime._lanes.settle(session.id))
    assert len(runtime._lanes._lanes) <= 2


async def test_what_is_held_back_does_not_begin_and_goes_on_or_is_left_in_the_inbox(
    store: Store, session: Session, runtime: Runtime, actor: Actor
) -> None:
    actor.scenes.append(held := Held())
    first = await runtime.accept(typed(session, "one"))
    await soon(held.began.wait())
    second = await runtime.accept(typed(session, "two"))
    await runtime.hold_back(session.id)
    held.go_on.set()
    await ended(first)
    assert not second.turn.done()
    assert [each.status for each in await store.list_inbound(session.id)] == ["queued"]
    runtime.let_go_on(session.id)
    assert (await ended(second)).status == "done"
    assert await is_settled(store, session)


async def test_closing_waits_for_nothing_that_is_held_back(
    store: Store, session: Session, make_runtime: Runtimes, actor: Actor
) -> None:
    runtime = make_runtime(store, actor)
    actor.scenes.append(held := Held())
    await runtime.accept(typed(session, "one"))
    await soon(held.began.wait())
    second = await runtime.accept(typed(session, "two"))
    await runtime.hold_back(session.id)
    await soon(runtime.close())
    assert second.turn.cancelled()
    assert [each.payload["text"] for each in await store.list_inbound(session.id)] == ["two"]
