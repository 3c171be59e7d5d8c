"""What became of a message that was sent: its row, its turn, taking it back, running it later."""

from __future__ import annotations

import asyncio

import pytest

from clew.api.frames import EventFrame, SubscribedFrame
from clew.client.client import Client
from clew.core.live_events import NotAnswered, TurnEnded
from clew.core.message import ToolCall
from clew.errors import Forbidden, ModelNotFound, NotFound
from clew.ports import LiveTurn
from tests.client.conftest import Place, next_of, outline
from tests.patience import PATIENCE
from tests.runtime.conftest import Held, inbound, soon

GUEST = "person:ann"


async def said_in(client: Client, session: str) -> list[str]:
    return outline((await client.sessions.messages(session)).messages)


# --- what became of it ------------------------------------------------------------------------


async def test_a_message_is_waiting_then_in_a_turn_then_answered(
    place: Place, client: Client
) -> None:
    session = (await place.session()).id
    place.actor.scenes = [held := Held()]
    first = await client.chat.send("one", session=session)
    await soon(held.began.wait())
    second = await client.chat.send("two", session=session)

    running, waiting = [await client.queue.get(each.inbound) for each in (first, second)]
    assert running.turn is not None
    assert running.turn.ended_at is None
    assert (waiting.turn, waiting.message.text) == (None, "two")

    held.go_on.set()
    await soon(place.runtime.join(session))
    over = await client.queue.get(second.inbound)
    assert over.turn is not None
    assert over.turn.status == "done"
    assert over.turn.id != running.turn.id


async def test_a_message_that_was_taken_back_says_so_and_who_follows_hears_it(
    place: Place, client: Client
) -> None:
    session = (await place.session()).id
    place.actor.scenes = [held := Held()]
    await client.chat.send("one", session=session)
    await soon(held.began.wait())
    waiting = await client.chat.send("two", session=session)
    async with client.live() as live:
        frames = aiter(live)
        await live.subscribe(session)
        await next_of(frames, SubscribedFrame)
        assert await client.queue.drop(session, waiting.inbound) == (waiting.inbound,)
        while not isinstance(event := (await next_of(frames, EventFrame)).event, NotAnswered):
            pass
    assert event == NotAnswered((waiting.inbound,))
    assert (await client.queue.get(waiting.inbound)).message.status == "dropped"
    held.go_on.set()
    await soon(place.runtime.join(session))


async def test_a_message_of_somebody_else_is_not_there(place: Place, client: Client) -> None:
    accepted = await client.chat.send("mine", session=(await place.session()).id)
    guest = await place.client(GUEST, "write")
    with pytest.raises(NotFound):
        await guest.queue.get(accepted.inbound)
    await soon(place.runtime.join(accepted.session))


# --- running it later -------------------------------------------------------------------------


async def test_a_message_that_a_crash_left_is_run_when_somebody_says_so(
    place: Place, client: Client
) -> None:
    session = await place.session()
    row, _ = await place.store.accept(inbound(session, "left"))
    accepted = await client.queue.run(row.id)
    assert (accepted.session, accepted.inbound) == (session.id, row.id)
    await soon(place.runtime.join(session.id))
    assert await said_in(client, session.id) == ["user: left", "assistant: ok"]


async def test_tools_of_a_message_that_is_run_unattended_are_refused(
    place: Place, client: Client
) -> None:
    answers: list[str | None] = []

    async def asking(turn: LiveTurn) -> None:
        answers.append((await turn.ask(ToolCall(id="c", name="shell"), {})).decided_by)

    place.actor.scenes = [asking]
    session = await place.session()
    row, _ = await place.store.accept(inbound(session, "left"))
    await client.queue.run(row.id, attended=False)
    await soon(place.runtime.join(session.id))
    assert answers == ["nobody"]


async def test_a_guest_runs_nothing(place: Place, client: Client) -> None:
    row, _ = await place.store.accept(inbound(await place.session(), "left"))
    guest = await place.client(GUEST, "chat")
    with pytest.raises(Forbidden):
        await guest.queue.run(row.id)
    assert await client.queue.list() != ()


# --- stopping ---------------------------------------------------------------------------------


async def test_of_what_waits_only_these_are_taken_back(place: Place, client: Client) -> None:
    session = (await place.session()).id
    place.actor.scenes = [held := Held()]
    await client.chat.send("one", session=session)
    await soon(held.began.wait())
    mine, theirs = [await client.chat.send(text, session=session) for text in ("two", "three")]
    stopped = await client.sessions.stop(session, only=(mine.inbound,), anywhere=False)
    assert (stopped.stopped, stopped.dropped) == (True, (mine.inbound,))
    await soon(place.runtime.join(session))
    assert await said_in(client, session) == ["user: one", "user: three", "assistant: ok"]
    assert theirs.inbound not in stopped.dropped


async def test_to_stop_a_message_that_waits_leaves_the_turn_before_it_alone(
    place: Place, client: Client
) -> None:
    session = (await place.session()).id
    place.actor.scenes = [held := Held()]
    await client.chat.send("one", session=session)
    await soon(held.began.wait())
    waiting = await client.chat.send("two", session=session)
    stopped = await client.sessions.stop(session, message=waiting.inbound)
    assert (stopped.stopped, stopped.dropped) == (False, (waiting.inbound,))
    held.go_on.set()
    await soon(place.runtime.join(session))
    assert await said_in(client, session) == ["user: one", "assistant: ok"]


async def test_to_stop_a_message_that_is_being_answered_aborts_its_turn(
    place: Place, client: Client
) -> None:
    session = (await place.session()).id
    place.actor.scenes = [held := Held()]
    accepted = await client.chat.send("one", session=session)
    await soon(held.began.wait())
    assert (await client.sessions.stop(session, message=accepted.inbound)).stopped
    found = await client.queue.get(accepted.inbound)
    assert found.turn is not None
    assert found.turn.status == "aborted"


async def test_to_stop_a_message_that_is_answered_stops_nobody_else(
    place: Place, client: Client
) -> None:
    session = (await place.session()).id
    place.actor.scenes = [over := Held(), held := Held()]
    over.go_on.set()
    first = await client.chat.send("one", session=session)
    await soon(place.runtime.join(session))
    await client.chat.send("two", session=session)
    await soon(held.began.wait())
    assert not (await client.sessions.stop(session, message=first.inbound)).stopped
    held.go_on.set()
    await soon(place.runtime.join(session))
    assert (await said_in(client, session))[-1] == "assistant: ok"


# --- as a terminal ----------------------------------------------------------------------------


async def test_only_the_owner_speaks_as_a_terminal(place: Place, client: Client) -> None:
    guest = await place.client(GUEST, "write")
    with pytest.raises(Forbidden):
        await guest.chat.send("hello", platform="cli")
    session = await place.session()
    accepted = await client.chat.send("hello", session=session.id, platform="cli")
    # This is no terminal's own process: after a crash a gateway goes on with it.
    assert (await place.store.get_inbound(accepted.inbound)).channel == "api"
    await soon(place.runtime.join(session.id))


async def test_a_model_that_is_gone_is_replaced_by_the_one_that_is_named(
    place: Place, client: Client
) -> None:
    session = (await place.session(model="vanished/model")).id
    accepted = await client.chat.send("hello", session=session, model="script/two")
    await soon(place.runtime.join(session))
    turn = (await client.queue.get(accepted.inbound)).turn
    assert turn is not None
    assert turn.model == "script/two"


async def test_a_model_is_known_by_its_name(client: Client) -> None:
    assert (await client.models.get()).name == "script/one"
    assert (await client.models.get("script/two")).name == "script/two"
    with pytest.raises(ModelNotFound):
        await client.models.get("nobody/nothing")


async def test_the_end_of_a_turn_names_the_messages_that_it_answers(
    place: Place, client: Client
) -> None:
    session = (await place.session()).id
    async with client.live() as live:
        frames = aiter(live)
        await live.subscribe(session)
        await next_of(frames, SubscribedFrame)
        accepted = await client.chat.send("hello", session=session)
        async with asyncio.timeout(PATIENCE):
            while not isinstance(event := (await next_of(frames, EventFrame)).event, TurnEnded):
                pass
    assert event.answers == (accepted.inbound,)
