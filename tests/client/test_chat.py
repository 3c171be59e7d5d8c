from __future__ import annotations

import asyncio
import contextlib

import pytest

from clew.api.chat import Upload
from clew.client.client import Client
from clew.core.changes import AddMessage
from clew.core.delivery import NewInbound
from clew.core.live_events import ApprovalAsked, TextDelta, TurnEnded, TurnStarted
from clew.core.message import Draft, ToolCall
from clew.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    RecordNotFound,
    SessionNotFound,
    TurnFailed,
)
from clew.ports import LiveTurn
from clew.runtime.recovery import take_up
from tests.client.calling import FixedParts
from tests.client.conftest import Place, drain, outline, said
from tests.patience import PATIENCE
from tests.runtime.conftest import Held, added, failing, saying, soon, until, using_a_tool


async def test_a_message_is_kept_and_its_turn_comes(place: Place, client: Client) -> None:
    session = await place.session()
    accepted = await client.chat.send("hello", session=session.id)
    assert accepted.session == session.id
    assert accepted.is_new
    await soon(place.runtime.join(session.id))
    detail = await client.sessions.get(session.id)
    assert outline(detail.messages) == ["user: hello", "assistant: ok"]


async def test_the_events_of_a_message_go_until_it_is_answered(
    place: Place, client: Client
) -> None:
    session = await place.session()
    place.actor.scenes = [using_a_tool("seen it")]
    sending = client.chat.send("look", session=session.id)
    frames = await soon(drain(sending))
    assert said(frames) == ["user: look", "assistant: ", "tool: seen", "assistant: seen it"]
    assert [each.seq for each in frames if each.seq] == [1, 2, 3, 4]
    last = frames[-1].event
    assert isinstance(last, TurnEnded)
    assert last.turn.status == "done"
    assert sending.accepted is not None
    assert {each.inbound for each in frames} == {sending.accepted.inbound}
    assert {each.session for each in frames} == {session.id}


async def test_hints_come_while_the_turn_runs(place: Place, client: Client) -> None:
    session = await place.session()
    place.actor.scenes = [saying("good day")]
    frames = await soon(drain(client.chat.send("hello", session=session.id)))
    kinds = [type(each.event) for each in frames]
    assert kinds.index(TurnStarted) < kinds.index(TextDelta) < kinds.index(TurnEnded)


async def test_a_stream_is_about_its_own_message_only(place: Place, client: Client) -> None:
    session = await place.session()
    held = Held("the first answer")
    place.actor.scenes = [held, saying("the second answer")]
    first = asyncio.create_task(drain(client.chat.send("one", session=session.id)))
    await soon(held.began.wait())
    second = asyncio.create_task(drain(client.chat.send("two", session=session.id)))
    await until(lambda: _is_queued(client))
    held.go_on.set()
    assert said(await soon(first)) == ["user: one", "assistant: the first answer"]
    assert said(await soon(second)) == ["user: two", "assistant: the second answer"]


async def _is_queued(client: Client) -> bool:
    return [each.text for each in await client.queue.list()][-1:] == ["two"]


async def test_messages_that_are_answered_together_each_see_the_answer(
    place: Place, client: Client
) -> None:
    session = await place.session(metadata={"queue": "collect"})
    held = Held()
    place.actor.scenes = [held, saying("both")]
    first = asyncio.create_task(drain(client.chat.send("one", session=session.id)))
    await soon(held.began.wait())
    others = [
        asyncio.create_task(drain(client.chat.send(text, session=session.id)))
        for text in ("two", "three")
    ]

    async def both() -> bool:
        return {"two", "three"} <= {each.text for each in await client.queue.list(session.id)}

    await until(both)
    held.go_on.set()
    await soon(first)
    answers = [await soon(each) for each in others]
    for frames in answers:
        assert said(frames)[-1] == "assistant: both"
        assert len(said(frames)) == 3
    assert answers[0][0].inbound != answers[1][0].inbound


async def test_a_message_that_steers_a_turn_sees_it_from_there_to_its_end(
    place: Place, client: Client
) -> None:
    session = await place.session(metadata={"queue": "steer"})
    began, go_on = asyncio.Event(), asyncio.Event()

    async def scene(turn: LiveTurn) -> None:
        began.set()
        await go_on.wait()
        assert await turn.take_steering()
        await turn.finish(added(turn, "as you say"))

    place.actor.scenes = [scene]
    first = asyncio.create_task(drain(client.chat.send("one", session=session.id)))
    await soon(began.wait())
    second = asyncio.create_task(drain(client.chat.send("two", session=session.id)))
    await until(lambda: _is_queued(client))
    go_on.set()
    assert said(await soon(first)) == ["user: one", "user: two", "assistant: as you say"]
    assert said(await soon(second)) == ["user: two", "assistant: as you say"]


async def test_without_a_session_a_new_one_begins(place: Place, client: Client) -> None:
    accepted = await client.chat.send("hello")
    detail = await client.sessions.get(accepted.session)
    assert (detail.session.platform, detail.session.kind) == ("sdk", "sdk")
    assert detail.session.model == "script/one"


async def test_a_key_leads_to_one_session(place: Place, client: Client) -> None:
    one = await place.talked(client, "hello", key="agent:main:main")
    other = await place.talked(client, "again", key="agent:main:main")
    assert one == other
    session = (await client.sessions.get(one)).session
    assert (session.key, session.kind, session.agent) == ("agent:main:main", "main", "main")


async def test_a_second_delivery_is_the_first_one(place: Place, client: Client) -> None:
    frames = await soon(drain(client.chat.send("hello", idempotency_key="k1")))
    again = client.chat.send("hello", idempotency_key="k1")
    repeated = await soon(drain(again))
    assert again.accepted is not None
    assert not again.accepted.is_new
    assert said(repeated) == said(frames) == ["user: hello", "assistant: ok"]
    assert repeated[0].inbound == frames[0].inbound
    kept = await client.chat.send("hello", idempotency_key="k1")
    assert (kept.inbound, kept.is_new) == (again.accepted.inbound, False)
    assert len((await client.sessions.list()).sessions) == 1


async def test_a_second_delivery_follows_the_turn_that_runs(place: Place, client: Client) -> None:
    held = Held("at last")
    place.actor.scenes = [held]
    first = asyncio.create_task(drain(client.chat.send("hello", idempotency_key="k1")))
    await soon(held.began.wait())
    second = asyncio.create_task(drain(client.chat.send("hello", idempotency_key="k1")))
    await until(lambda: _is_followed(place))
    held.go_on.set()
    assert said(await soon(second)) == said(await soon(first))


async def _is_followed(place: Place) -> bool:
    """Whether both streams look at the session."""
    mailboxes = place.runtime.bus._mailboxes.values()  # nobody else needs to know
    return [len(each) for each in mailboxes] == [2]


async def test_a_failed_turn_ends_the_stream_with_its_reason(place: Place, client: Client) -> None:
    place.actor.scenes = [failing(TurnFailed("The model is asleep."))]
    frames = await soon(drain(client.chat.send("hello")))
    last = frames[-1].event
    assert isinstance(last, TurnEnded)
    assert (last.turn.status, last.turn.error) == ("failed", "The model is asleep.")


async def test_a_stop_ends_the_turn_and_takes_back_what_waits(place: Place, client: Client) -> None:
    session = await place.session()
    held = Held()
    place.actor.scenes = [held]
    first = asyncio.create_task(drain(client.chat.send("one", session=session.id)))
    await soon(held.began.wait())
    second = asyncio.create_task(drain(client.chat.send("two", session=session.id)))
    await until(lambda: _is_queued(client))
    stopped = await client.chat.abort(session.id)
    assert stopped.stopped
    assert len(stopped.dropped) == 1
    last = (await soon(first))[-1].event
    assert isinstance(last, TurnEnded)
    assert last.turn.status == "aborted"
    with pytest.raises(Conflict):
        await soon(second)
    assert not (await client.sessions.stop(session.id)).stopped


async def test_what_waits_can_be_taken_back_without_a_stop(place: Place, client: Client) -> None:
    session = await place.session()
    held = Held()
    place.actor.scenes = [held]
    first = asyncio.create_task(drain(client.chat.send("one", session=session.id)))
    await soon(held.began.wait())
    waiting = await client.chat.send("two", session=session.id)
    assert await client.queue.drop(session.id) == (waiting.inbound,)
    held.go_on.set()
    assert said(await soon(first)) == ["user: one", "assistant: ok"]
    assert await client.queue.list() == ()


async def test_leaving_a_stream_early_lets_the_turn_go_on(place: Place, client: Client) -> None:
    session = await place.session()
    held = Held("whole")
    place.actor.scenes = [held]
    async with contextlib.aclosing(client.chat.send("one", session=session.id).__aiter__()) as it:  # type: ignore[type-var]
        await soon(anext(it))
    await soon(held.began.wait())
    held.go_on.set()
    await soon(place.runtime.join(session.id))
    detail = await client.sessions.get(session.id)
    assert outline(detail.messages)[-1] == "assistant: whole"


async def test_an_approval_can_be_answered_by_the_owner(place: Place, client: Client) -> None:
    async def scene(turn: LiveTurn) -> None:
        call = ToolCall(id="call_1", name="shell")
        await turn.record(
            AddMessage(Draft(role="assistant", tool_calls=(call,)), turn.id, from_person=False)
        )
        approval = await turn.ask(call, {"command": "ls"})
        result = Draft(
            role="tool", content=str(approval.decision), tool_call_id="call_1", tool_name="shell"
        )
        await turn.record(AddMessage(result, turn.id, from_person=False))
        await turn.finish(added(turn, "done"))

    place.actor.scenes = [scene]
    frames = []
    async with asyncio.timeout(PATIENCE):
        async for frame in client.chat.send("list the files"):
            frames.append(frame)
            if isinstance(frame.event, ApprovalAsked):
                (waiting,) = await client.approvals.list()
                assert waiting == frame.event.approval
                assert (await client.approvals.decide(waiting.id, "yes")).decision == "yes"
    assert said(frames)[-2:] == ["tool: yes", "assistant: done"]
    assert await client.approvals.list() == ()


async def test_an_attachment_is_kept_with_its_message(place: Place, client: Client) -> None:
    picture = Upload(media_type="image/png", data=b"\x89PNG not really")
    session = await place.talked(client, "look at this", attachments=(picture,))
    message = (await client.sessions.get(session)).messages[0]
    (part,) = message.parts
    assert part["media_type"] == "image/png"
    assert (await place.store.get_blob(part["blob"])).data == picture.data


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_empty_message_is_refused(place: Place, client: Client, text: str) -> None:
    session = await place.session()
    with pytest.raises(InvalidInput):
        await client.chat.send(text, session=session.id)
    with pytest.raises(InvalidInput):
        await drain(client.chat.send(text, session=session.id))
    assert (await client.sessions.get(session.id)).messages == ()


async def test_a_session_and_a_key_at_once_are_refused(place: Place, client: Client) -> None:
    session = await place.session()
    with pytest.raises(InvalidInput):
        await client.chat.send("hello", session=session.id, key="cli:test")


async def test_a_message_for_a_session_in_the_trash_is_refused(
    place: Place, client: Client
) -> None:
    session = await place.session()
    await client.sessions.delete(session.id)
    with pytest.raises(SessionNotFound):
        await client.chat.send("hello", session=session.id)


# --- what a terminal says ---------------------------------------------------------------------


async def test_a_terminals_message_at_a_gateway_is_shown_as_what_it_is(
    place: Place, client: Client
) -> None:
    await take_up(place.runtime)
    session = await place.session()
    place.actor.scenes = [held := Held()]
    await client.chat.send("one", session=session.id, platform="cli")
    await soon(held.began.wait())
    accepted = await client.chat.send("two", session=session.id, platform="cli")
    assert [each.channel for each in await client.queue.list(session.id)] == ["cli"]
    row = await place.store.get_inbound(accepted.inbound)
    assert (row.channel, row.account) == ("api", "owner")
    held.go_on.set()
    await soon(place.runtime.join(session.id))


async def test_a_terminals_message_in_its_own_process_waits_for_its_person_if_that_dies(
    place: Place, client: Client
) -> None:
    assert isinstance(place.calls.parts, FixedParts)
    place.calls.parts = place.calls.parts._replace(is_terminal=True)
    session = await place.session()
    assert isinstance(place.calls.parts, FixedParts)
    place.calls.parts = place.calls.parts._replace(is_terminal=True)
    accepted = await client.chat.send("one", session=session.id, platform="cli")
    await soon(place.runtime.join(session.id))
    row = await place.store.get_inbound(accepted.inbound)
    assert row.channel == "cli"
    assert "reply_to" not in row.payload


async def test_only_the_owner_says_what_a_message_is_shown_as(place: Place) -> None:
    guest = await place.client("person:ann")
    session = await place.session(person="person:ann")
    with pytest.raises(Forbidden):
        await guest.chat.send("hello", session=session.id, platform="cli")
    assert await place.store.list_inbound() == ()


async def left(place: Place, text: str) -> str:
    """A message that a terminal's process has kept, and then died."""
    session = await place.session()
    new = NewInbound(
        id=f"left-{text}", channel="cli", key=session.key, session_id=session.id,
        payload={"text": text},
    )  # fmt: skip
    row, _ = await place.store.accept(new)
    return row.id


async def test_a_message_that_waits_for_its_persons_word_is_run(
    place: Place, client: Client
) -> None:
    waiting = await left(place, "left")
    accepted = await client.queue.run(waiting)
    assert (accepted.inbound, accepted.is_new) == (waiting, True)
    await soon(place.runtime.join(accepted.session))
    messages = (await client.sessions.messages(accepted.session)).messages
    assert outline(messages) == ["user: left", "assistant: ok"]


async def test_a_message_is_run_once_and_only_if_there_is_one(place: Place, client: Client) -> None:
    waiting = await left(place, "left")
    accepted = await client.queue.run(waiting)
    await soon(place.runtime.join(accepted.session))
    with pytest.raises(InvalidInput):
        await client.queue.run(waiting)
    with pytest.raises(RecordNotFound):
        await client.queue.run("nothing")


async def test_what_somebody_else_says_is_not_run_by_a_guest(place: Place) -> None:
    waiting = await left(place, "left")
    guest = await place.client("person:ann")
    with pytest.raises(Forbidden):
        await guest.queue.run(waiting)
    assert (await place.store.get_inbound(waiting)).status == "queued"
