"""From a message that comes in to a turn that has its end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.config import Config
from clew.core.changes import AddMessage
from clew.core.channels.replies import Attached
from clew.core.live_events import ApprovalAsked, TextDelta
from clew.core.message import Draft
from clew.core.session import NewSession, Session
from clew.errors import (
    Conflict,
    InvalidInput,
    LeaseHeld,
    RecordNotFound,
    SessionNotFound,
    StaleLease,
    StoreFull,
    TurnFailed,
)
from clew.ports import LiveTurn, Store
from clew.runtime.runtime import Runtime
from clew.store.sqlite.store import SqliteStore
from clew.wiring import House
from tests.patience import PATIENCE
from tests.runtime.conftest import (
    Actor,
    Held,
    Runtimes,
    added,
    collect,
    ended,
    failing,
    outline,
    read,
    soon,
    typed,
    until,
)

# --- accept -----------------------------------------------------------------------------------


async def test_an_accepted_message_is_in_the_inbox_as_ours_before_its_turn_runs(
    store: Store, other: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    await runtime.accept(typed(session, "first"))
    ticket = await runtime.accept(typed(session, "second"))
    await soon(held.began.wait())
    (row,) = await other.list_inbound(session.id)
    assert ticket.inbound is not None
    assert (row.id, row.status) == (ticket.inbound.id, "claimed")
    assert row.claimant is not None
    assert row.claimant.startswith(store.identity)
    held.go_on.set()
    await ended(ticket)


async def test_a_message_without_a_session_is_refused(runtime: Runtime, session: Session) -> None:
    with pytest.raises(InvalidInput):
        await runtime.accept(msgspec.structs.replace(typed(session, "x"), session=None))


async def test_each_message_has_a_turn_of_its_own_and_their_order_is_kept(
    store: Store, session: Session, runtime: Runtime
) -> None:
    tickets = [await runtime.accept(typed(session, str(number))) for number in range(5)]
    turns = [await ended(ticket) for ticket in tickets]
    assert {turn.status for turn in turns} == {"done"}
    thread = await store.get_messages(session.id)
    assert outline(thread) == [
        line for number in range(5) for line in (f"user: {number}", "assistant: ok")
    ]
    assert [row.turn_id for row in thread[::2]] == [turn.id for turn in turns]


async def test_the_second_delivery_of_a_message_runs_nothing(
    store: Store, session: Session, runtime: Runtime
) -> None:
    first = await runtime.accept(typed(session, "hello", external_id="m1"))
    again = await runtime.accept(typed(session, "hello", external_id="m1"))
    assert first.inbound is not None
    assert again.inbound is not None
    assert (first.is_new, again.is_new) == (True, False)
    assert again.inbound.id == first.inbound.id
    assert again.turn.cancelled()
    await ended(first)
    assert await read(store, session) == ["user: hello", "assistant: ok"]


async def test_two_sessions_run_side_by_side(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    second = await store.create_session(NewSession(key="cli:second"))
    actor.scenes += [one := Held(), two := Held()]
    tickets = [await runtime.accept(typed(each, "x")) for each in (session, second)]
    await soon(asyncio.gather(one.began.wait(), two.began.wait()))
    one.go_on.set()
    two.go_on.set()
    assert [(await ended(each)).status for each in tickets] == ["done", "done"]


async def test_one_session_does_one_thing_at_a_time(
    session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes += [one := Held(), two := Held()]
    first = await runtime.accept(typed(session, "x"))
    second = await runtime.accept(typed(session, "y"))
    await soon(one.began.wait())
    assert runtime.is_running(session.id)
    assert runtime.count_queued(session.id) == 1
    assert not two.began.is_set()
    one.go_on.set()
    await ended(first)
    await soon(two.began.wait())
    two.go_on.set()
    await ended(second)


async def test_the_turn_row_its_message_and_the_inbox_change_in_one_commit(
    session: Session, other: Store, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    ticket = await runtime.accept(typed(session, "hello"))

    async def look() -> tuple[int, int, int]:
        rows = await other.list_inbound(session.id)
        turns = await other.list_turns(session.id)
        said = await other.get_messages(session.id)
        return len(rows), len(turns), len(said)

    seen = {await look()}
    while not held.began.is_set():
        seen.add(await look())
    # Three reads are not one: between them the commit may have come, but never backwards.
    assert seen <= {(1, 0, 0), (1, 1, 1), (1, 0, 1), (0, 1, 1)}
    assert await look() == (0, 1, 1)
    held.go_on.set()
    turn = await ended(ticket)
    (user, _) = await other.get_messages(session.id)
    assert user.turn_id == turn.id


async def test_what_the_user_sent_beside_the_text_is_kept(
    store: Store, session: Session, runtime: Runtime
) -> None:
    file = Attached("text/plain", b"seen", "a.txt")
    await ended(await runtime.accept(typed(session, "see", attachments=(file,))))
    (part,) = (await store.get_messages(session.id))[0].parts
    assert (part["type"], part["name"], part["media_type"]) == ("file", "a.txt", "text/plain")
    assert (await store.get_blob(part["blob"])).data == b"seen"


async def test_a_model_that_is_given_is_used_in_place_of_the_sessions_own(
    store: Store, actor: Actor, runtime: Runtime
) -> None:
    session = await store.create_session(NewSession(key="cli:test", model="script/gone"))
    turn = await ended(await runtime.accept(typed(session, "x"), model="script/one"))
    assert turn.model == "script/one"
    assert actor.turns[0].session.model == "script/one"
    assert (await store.get_session(session.id)).model == "script/gone"


# --- how a turn ends --------------------------------------------------------------------------


async def test_a_turn_that_fails_keeps_its_error_and_what_it_said_beside_the_thread(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(failing(TurnFailed("The model is away."), "I think"))
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert (turn.status, turn.error, turn.partial) == ("failed", "The model is away.", "I think")
    assert turn.ended_at is not None
    assert await read(store, session) == ["user: hello"]


async def test_only_what_was_said_since_the_last_message_is_partial(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    async def scene(turn: LiveTurn) -> None:
        turn.signal(TextDelta("whole"))
        await turn.record(added(turn, "whole"))
        await failing(TurnFailed("x"), "half")(turn)

    actor.scenes.append(scene)
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert turn.partial == "half"
    assert await read(store, session) == ["user: hello", "assistant: whole"]


async def test_a_bug_in_the_agent_is_a_failed_turn_that_says_so(
    session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(failing(ZeroDivisionError("division by zero")))
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert turn.status == "failed"
    assert turn.error == "ZeroDivisionError: division by zero (this is a bug in clew)"
    assert (await ended(await runtime.accept(typed(session, "again")))).status == "done"


async def test_an_agent_that_returns_without_finishing_has_done_its_turn(
    session: Session, actor: Actor, runtime: Runtime
) -> None:
    async def scene(_turn: LiveTurn) -> None:
        return

    actor.scenes.append(scene)
    assert (await ended(await runtime.accept(typed(session, "hello")))).status == "done"


async def test_a_stopped_turn_is_aborted_at_once_and_keeps_what_it_said(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    ticket = await runtime.accept(typed(session, "hello"))
    await soon(held.began.wait())
    began = time.monotonic()
    assert await runtime.stop(session.id)
    took = time.monotonic() - began
    turn = await ended(ticket)
    assert (turn.status, turn.error, turn.partial) == ("aborted", None, "so far")
    assert held.stopped
    assert await read(store, session) == ["user: hello"]
    assert await store.find_lease(session.id) is None
    assert took < 30  # 200 ms on a machine that does nothing else


async def test_nothing_is_stopped_where_nothing_runs(session: Session, runtime: Runtime) -> None:
    assert not await runtime.stop(session.id)
    await ended(await runtime.accept(typed(session, "hello")))
    assert not await runtime.stop(session.id)


async def test_the_next_message_runs_after_a_stop(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    await runtime.accept(typed(session, "one"))
    second = await runtime.accept(typed(session, "two"))
    await soon(held.began.wait())
    await runtime.stop(session.id)
    assert (await ended(second)).status == "done"
    assert await read(store, session) == ["user: one", "user: two", "assistant: ok"]


async def test_an_agent_that_ignores_a_stop_is_left_behind_and_can_write_no_more(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    began, go_on, outcome = asyncio.Event(), asyncio.Event(), asyncio.Queue[BaseException | None]()

    async def stubborn(turn: LiveTurn) -> None:
        began.set()
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        try:
            await turn.finish(added(turn, "too late"))
        except StaleLease as error:
            outcome.put_nowait(error)
        else:
            outcome.put_nowait(None)

    actor.scenes.append(stubborn)
    ticket = await runtime.accept(typed(session, "hello"))
    await soon(began.wait())
    await soon(runtime.stop(session.id))
    turn = await ended(ticket)
    assert (turn.status, turn.error) == ("aborted", "It did not stop when it was told to.")
    go_on.set()
    assert isinstance(await soon(outcome.get()), StaleLease)
    assert await read(store, session) == ["user: hello"]


async def test_a_stop_while_the_turn_finishes_leaves_it_with_one_end(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    """Whatever the moment: the turn is done with its answer, or aborted without one."""
    for number in range(40):
        finishing = asyncio.Event()

        async def scene(turn: LiveTurn, finishing: asyncio.Event = finishing) -> None:
            finishing.set()
            await turn.finish(added(turn, "answer"))

        actor.scenes.append(scene)
        ticket = await runtime.accept(typed(session, str(number)))
        await soon(finishing.wait())
        for _ in range(number % 5):
            await asyncio.sleep(0)
        await runtime.stop(session.id)
        turn = await ended(ticket)
        rows = [row for row in await store.get_messages(session.id) if row.turn_id == turn.id]
        expected = {"done": ["user", "assistant"], "aborted": ["user"]}
        assert [row.role for row in rows] == expected[turn.status]


async def test_a_full_disk_at_the_end_of_a_turn_is_told_and_the_turn_is_interrupted_later(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    assert isinstance(store, SqliteStore)
    database = store._db
    await ended(await runtime.accept(typed(session, "before")))

    def limit(connection: Any) -> None:
        connection.pragma("max_page_count", connection.pragma("page_count"))

    def grow(connection: Any) -> None:
        connection.pragma("max_page_count", 2**30)

    async def scene(turn: LiveTurn) -> None:
        await database.write(limit)
        turn.signal(TextDelta("x" * 200_000))
        raise TurnFailed("no")

    actor.scenes.append(scene)
    with pytest.raises(StoreFull):
        await ended(await runtime.accept(typed(session, "hello")))
    await database.write(grow)
    assert (await ended(await runtime.accept(typed(session, "after")))).status == "done"
    states = [turn.status for turn in await store.list_turns(session.id)]
    assert states == ["done", "interrupted", "done"]


async def test_a_message_for_a_session_that_is_gone_fails_and_is_not_kept(
    store: Store, session: Session, runtime: Runtime
) -> None:
    await store.delete_sessions([session.id])
    await store.purge_sessions([session.id])
    with pytest.raises(SessionNotFound):
        await runtime.accept(typed(session, "hello"))
    assert await store.list_inbound(session.id) == ()


async def test_a_waiter_that_gives_up_does_not_disturb_the_turn(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    ticket = await runtime.accept(typed(session, "hello"))
    await soon(held.began.wait())
    ticket.turn.cancel()  # what `await ticket.turn` does in a task that is cancelled
    assert runtime.is_running(session.id)
    assert await soon(runtime.stop(session.id))
    (turn,) = await store.list_turns(session.id)
    assert turn.status == "aborted"


async def test_the_session_is_idle_for_whoever_waited_for_its_turn(
    session: Session, runtime: Runtime
) -> None:
    ticket = await runtime.accept(typed(session, "hello"))
    async with asyncio.timeout(PATIENCE):
        await ticket.turn
    assert not runtime.is_running(session.id)


# --- before it begins -------------------------------------------------------------------------


async def test_a_message_that_is_stopped_before_its_turn_began_is_dropped(
    store: Store, other: Store, session: Session, runtime: Runtime
) -> None:
    lease = await other.acquire_lease(session.id, f"{other.identity}#x")
    ticket = await runtime.accept(typed(session, "hello"))
    await asyncio.sleep(0)
    assert await soon(runtime.stop(session.id))
    assert ticket.turn.cancelled()
    assert await store.list_inbound(session.id) == ()
    assert await read(store, session) == []
    await other.release_lease(lease)


async def test_queued_messages_can_be_taken_back(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    first = await runtime.accept(typed(session, "one"))
    tickets = [await runtime.accept(typed(session, text)) for text in ("two", "three")]
    await soon(held.began.wait())
    taken = await runtime.take_back(session.id)
    assert [row.payload["text"] for row in taken] == ["two", "three"]
    assert all(each.turn.cancelled() for each in tickets)
    assert await store.list_inbound(session.id) == ()
    held.go_on.set()
    await ended(first)
    assert await read(store, session) == ["user: one", "assistant: ok"]


async def test_closing_aborts_what_runs_and_puts_back_what_waits(
    store: Store, other: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    first = await runtime.accept(typed(session, "one"))
    await runtime.accept(typed(session, "two"))
    await soon(held.began.wait())
    await soon(runtime.close())
    turn = await ended(first)
    assert turn.status == "aborted"
    (row,) = await other.list_inbound(session.id)
    assert (row.payload["text"], row.status, row.claimant) == ("two", "queued", None)
    assert await other.find_lease(session.id) is None
    assert await read(other, session) == ["user: one"]


async def test_closing_puts_back_a_message_that_waits_for_the_lease(
    other: Store, session: Session, runtime: Runtime
) -> None:
    lease = await other.acquire_lease(session.id, f"{other.identity}#x")
    ticket = await runtime.accept(typed(session, "hello"))
    await asyncio.sleep(0)
    await soon(runtime.close())
    assert ticket.turn.cancelled()
    (row,) = await other.list_inbound(session.id)
    assert (row.status, row.claimant) == ("queued", None)
    await other.release_lease(lease)


async def test_a_closed_runtime_accepts_nothing(
    store: Store, session: Session, runtime: Runtime
) -> None:
    await runtime.close()
    with pytest.raises(Conflict, match="closing"):
        await runtime.accept(typed(session, "hello"))
    assert await store.list_inbound(session.id) == ()


async def test_a_session_that_begins_while_the_runtime_closes_is_closed_too(
    store: Store, session: Session, actor: Actor, make_runtime: Runtimes
) -> None:
    """A turn that spawns another just then."""
    runtime = make_runtime(store, actor)
    began = asyncio.Event()

    async def scene(turn: LiveTurn) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with pytest.raises(Conflict):
                await turn.spawn("more")
            raise

    actor.scenes.append(scene)
    ticket = await runtime.accept(typed(session, "hello"))
    await soon(began.wait())
    await soon(runtime.close())
    assert (await ended(ticket)).status == "aborted"


# --- beside the turns -------------------------------------------------------------------------


async def test_a_change_beside_the_turns_is_refused_while_one_runs(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    ticket = await runtime.accept(typed(session, "one"))
    await soon(held.began.wait())
    note = AddMessage(Draft(role="assistant", content="note"))
    with pytest.raises(LeaseHeld):
        await runtime.amend(session.id, note)
    held.go_on.set()
    await ended(ticket)
    await runtime.amend(session.id, note)
    assert await read(store, session) == ["user: one", "assistant: ok", "assistant: note"]


async def test_hooks_are_told_of_the_beginning_and_the_end_even_if_clew_closes_at_once(
    store: Store, session: Session, actor: Actor, make_runtime: Runtimes, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    program = tmp_path / "note"
    program.write_text(f"#!/bin/sh\ncat >> {log}\n", "utf-8")
    program.chmod(0o700)
    line = str(program)
    runtime = make_runtime(store, actor, hooks={"turn_start": [line], "turn_end": [line]})
    await ended(await runtime.accept(typed(session, "one")))
    await soon(runtime.close())
    begun, over = log.read_text("utf-8").splitlines()
    assert '"event":"turn_start"' in begun
    assert '"event":"turn_end"' in over
    assert '"status":"done"' in over
    assert session.id in begun
    assert session.id in over


async def test_an_end_that_somebody_else_wrote_is_the_turns_end(
    store: Store, other: Store, session: Session, actor: Actor, make_runtime: Runtimes
) -> None:
    """A lease that ran out while the machine slept, and a terminal that looked meanwhile."""
    runtime = make_runtime(store, actor, lease_ms=1, renew_ms=60_000)

    async def scene(turn: LiveTurn) -> None:
        async def interrupted() -> bool:
            return bool(await other.interrupt_turns(turn.session.id))

        await until(interrupted)
        with pytest.raises((StaleLease, RecordNotFound)):
            await turn.finish(added(turn, "answer"))
        raise TurnFailed("late")

    actor.scenes.append(scene)
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert turn.status == "interrupted"


# --- with the real agent, and a model that follows a script -----------------------------------


Houses = Callable[[Any], Awaitable[tuple[Runtime, Session]]]


@pytest.fixture
async def open_script(
    store: Store, config: Config, tmp_path: Path, directory: Path
) -> AsyncIterator[Houses]:
    """The house as it is wired for people, with a session whose model is a script."""
    house = House(config, store)

    async def open_it(script: Any) -> tuple[Runtime, Session]:
        path = tmp_path / "script.json"
        path.write_text(json.dumps(script), "utf-8")
        session = await store.create_session(
            NewSession(key="cli:real", model=f"script/{path}", cwd=str(directory))
        )
        return house.runtime, session

    yield open_it
    await soon(house.close())


async def test_the_real_agent_answers_and_names_the_session(
    store: Store, open_script: Houses
) -> None:
    runtime, session = await open_script({"answers": ["Hello to you"], "title": "A greeting"})
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert (turn.status, turn.error) == ("done", None)
    assert turn.usage.api_calls == 1
    assert await read(store, session) == ["user: hello", "assistant: Hello to you"]

    async def named() -> bool:
        return (await store.get_session(session.id)).title == "A greeting"

    await until(named)


async def test_the_real_agent_is_stopped_in_the_middle_of_its_answer(
    store: Store, open_script: Houses, tmp_path: Path
) -> None:
    never = str(tmp_path / "never")
    runtime, session = await open_script([{"text": "once upon a time", "hold": never}])
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "tell"))
        await collect(events, lambda event: isinstance(event, TextDelta))
        began = time.monotonic()
        await soon(runtime.stop(session.id))
        took = time.monotonic() - began
    turn = await ended(ticket)
    assert (turn.status, turn.partial) == ("aborted", "once upo")
    assert await read(store, session) == ["user: tell"]
    assert took < 30  # 200 ms on a machine that does nothing else


async def test_a_command_of_the_real_agent_runs_once_it_is_approved_for_the_session(
    store: Store, open_script: Houses, directory: Path
) -> None:
    call = {"name": "shell", "arguments": {"command": "touch made"}}
    answers = [{"tool_calls": [call]}, "made", {"tool_calls": [call]}, "again"]
    runtime, session = await open_script(answers)
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "make it"))
        asked = (await collect(events, lambda event: isinstance(event, ApprovalAsked)))[-1]
        assert isinstance(asked, ApprovalAsked)
        assert not (directory / "made").exists()
        await runtime.decide(asked.approval.id, "yes", by="owner", scope="session")
        await ended(ticket)
    assert (directory / "made").exists()
    # The second time nobody is there, and nobody is asked.
    turn = await ended(await runtime.accept(typed(session, "once more", attended=False)))
    assert turn.status == "done"
    results = [row for row in await store.get_messages(session.id) if row.role == "tool"]
    assert [row.is_error for row in results] == [False, False]


async def test_a_model_that_is_away_fails_the_turn_with_words(
    store: Store, open_script: Houses
) -> None:
    runtime, session = await open_script([{"error": {"status": 401}}])
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert turn.status == "failed"
    assert turn.error
    assert "bug in clew" not in turn.error
    assert await read(store, session) == ["user: hello"]


async def test_the_real_agent_spawns_another_and_hears_its_answer(
    store: Store, open_script: Houses
) -> None:
    call = {"name": "spawn", "arguments": {"task": "count the files"}}
    runtime, session = await open_script(
        {
            "rules": [
                {"when": "count the files", "answers": ["seven"]},
                {"when": "how many", "answers": [{"tool_calls": [call]}, {"echo": "results"}]},
            ]
        }
    )
    turn = await ended(await runtime.accept(typed(session, "how many")))
    assert (turn.status, turn.error) == ("done", None)
    assert "seven" in (await read(store, session))[-1]
