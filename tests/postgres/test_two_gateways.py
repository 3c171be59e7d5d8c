"""Two gateways on one store: one thread, one order, and each can do what the other is asked for.

Most of it holds on both stores; where processes find each other is the store's affair.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew.api import queue as queue_rows
from clew.api.frames import EventFrame, SubscribedFrame
from clew.api.queue import DropQueue
from clew.core.changes import AddMessage, StartTurn
from clew.core.delivery import NewInbound
from clew.core.live_events import Committed, Notice, TurnEnded
from clew.core.message import Draft, ToolCall
from clew.core.session import NewSession
from clew.core.turn import Approval
from clew.ports import LiveTurn
from clew.runtime.inbound.links import link
from clew.runtime.recovery import keep_up
from tests.client.conftest import next_of
from tests.patience import PATIENCE
from tests.postgres.two_gateways import Gateway, Opener, opener
from tests.runtime.conftest import Held, collect, saying, soon, until

REPLY_TO = {"channel": "telegram", "key": "telegram:1", "person": "owner", "address": {"chat": 1}}
MAIN = "agent:main:main"


@pytest.fixture(params=["sqlite", "postgres"])
def open_gateway(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    if request.param == "sqlite":
        return opener(f"sqlite://{tmp_path}/store/sessions.db", tmp_path / "home")
    return opener(request.getfixturevalue("url"), tmp_path / "home")


@pytest.fixture
async def two(open_gateway: Opener) -> AsyncIterator[tuple[Gateway, Gateway]]:
    async with open_gateway() as first, open_gateway() as second:
        yield first, second


Two = tuple[Gateway, Gateway]


async def is_held_up(gateway: Gateway, session_id: str | None, count: int) -> None:
    """Until so many messages wait."""

    async def is_so() -> bool:
        return len(await gateway.store.list_inbound(session_id)) == count

    await until(is_so)


# --- order --------------------------------------------------------------------------------------


async def test_messages_are_answered_in_their_order_whoever_has_them(two: Two) -> None:
    one, other = two
    one.actor.scenes.append(held := Held("first"))
    session = (await one.hear("1")).session_id
    await soon(held.began.wait())
    await other.hear("2")
    await one.hear("3")  # collects: alone it would be answered together with the next
    await other.hear("4")
    await is_held_up(one, session, 3)
    held.go_on.set()

    thread = await one.rest(session, 3)

    assert [line for line in thread if line.startswith("user")] == [
        "user: 1", "user: 2", "user: 3", "user: 4",
    ]  # fmt: skip
    assert thread[:2] == ["user: 1", "assistant: first"]


async def test_what_a_dead_one_had_accepted_comes_before_what_another_hears(
    open_gateway: Opener,
) -> None:
    async with open_gateway() as other:
        session = await other.store.create_session(NewSession(key=MAIN))
        async with open_gateway(takes_up=False) as gone:
            for number in (1, 2):
                new = NewInbound(
                    id=f"i{number}",
                    channel="telegram",
                    external_id=f"e{number}",
                    key=MAIN,
                    session_id=session.id,
                    payload={"text": str(number), "reply_to": REPLY_TO},
                )
                await gone.store.accept(new, claimant=f"{gone.store.identity}#i{number}")

        await other.hear("3")

        thread = await other.rest(session.id, 1)
        assert [line for line in thread if line.startswith("user")] == [
            "user: 1", "user: 2", "user: 3",
        ]  # fmt: skip


async def cut_off(gateway: Gateway, key: str = MAIN) -> str:
    """A session with a turn whose process is gone."""
    session = await gateway.store.create_session(NewSession(key=key))
    lease = await gateway.store.acquire_lease(session.id, f"{gateway.store.identity}")
    said = AddMessage(Draft(role="user", content="1"), "t")
    await gateway.store.record(
        session.id, lease.epoch, StartTurn(turn_id="t", reply_to=REPLY_TO), said
    )
    return session.id


async def test_an_answer_that_was_cut_off_goes_on_before_what_another_hears(
    open_gateway: Opener,
) -> None:
    async with open_gateway(saying("to 1"), saying("to 2")) as other:
        async with open_gateway(takes_up=False) as gone:
            session = await cut_off(gone)

        await other.hear("2")

        assert await other.rest(session, 2) == [
            "user: 1", "assistant: to 1", "user: 2", "assistant: to 2",
        ]  # fmt: skip
        turns = await other.store.list_turns(session)
        assert [each.status for each in turns] == ["interrupted", "done", "done"]


async def test_of_two_that_go_on_with_one_answer_only_one_does(open_gateway: Opener) -> None:
    async with open_gateway(takes_up=False) as one, open_gateway(takes_up=False) as other:
        async with open_gateway(takes_up=False) as gone:
            session = await cut_off(gone)

        await asyncio.gather(one.take_up(), other.take_up())
        await soon(asyncio.gather(one.runtime.join(session), other.runtime.join(session)))

        assert await one.thread(session) == ["user: 1", "assistant: ok"]
        assert len(await one.store.list_turns(session)) == 2


async def test_who_stays_takes_up_what_another_leaves(open_gateway: Opener) -> None:
    async with open_gateway() as one:
        keeping = asyncio.create_task(keep_up(one.runtime, every=0.05))
        try:
            async with open_gateway(takes_up=False) as gone:
                session = await cut_off(gone)
            assert await one.rest(session, 1) == ["user: 1", "assistant: ok"]
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping


async def test_one_that_lives_and_does_nothing_is_passed_over(open_gateway: Opener) -> None:
    async with open_gateway(lease_ms=300, renew_ms=100) as one, open_gateway() as asleep:
        session = await one.store.create_session(NewSession(key=MAIN))
        new = NewInbound(
            id="i1", channel="telegram", external_id="e1", key=MAIN, session_id=session.id
        )
        await asleep.store.accept(new, claimant=f"{asleep.store.identity}#i1")

        await one.hear("2")

        async def is_answered() -> bool:
            return len(await one.thread(session.id)) == 2

        await until(is_answered)
        assert await one.thread(session.id) == ["user: 2", "assistant: ok"]
        (left,) = await one.store.list_inbound(session.id)
        assert left.id == "i1"


# --- stopping -----------------------------------------------------------------------------------


async def begin(gateway: Gateway, held: Held) -> str:
    gateway.actor.scenes.append(held)
    session = (await gateway.hear("1")).session_id or ""
    await soon(held.began.wait())
    return session


async def test_a_turn_of_one_is_stopped_through_the_other(two: Two) -> None:
    one, other = two
    session = await begin(one, held := Held())
    waiting = await one.hear("2")

    stopped = await soon(other.client.sessions.stop(session))

    assert (stopped.stopped, stopped.dropped) == (True, (waiting.inbound_id,))
    (turn,) = await other.store.list_turns(session)
    assert turn.status == "aborted"
    await soon(one.runtime.join(session))
    assert held.stopped
    assert await other.thread(session) == ["user: 1"]
    assert await other.store.list_inbound() == ()
    assert await other.store.find_lease(session) is None


async def test_who_watches_at_the_one_is_told_that_it_was_stopped_elsewhere(two: Two) -> None:
    one, other = two
    session = await begin(one, Held())
    with one.runtime.watch(session, 1) as events:
        watching = asyncio.ensure_future(
            collect(events, lambda event: isinstance(event, TurnEnded))
        )
        await asyncio.sleep(0)
        await soon(other.client.sessions.stop(session))
        seen = await soon(watching)
    told = [each.text for each in seen if isinstance(each, Notice)]
    ends = [each.turn.status for each in seen if isinstance(each, TurnEnded)]
    assert (told, ends) == (["Another process stopped it."], ["aborted"])


async def test_what_was_stopped_from_elsewhere_can_write_nothing_more(two: Two) -> None:
    one, other = two
    wrote: list[str] = []

    async def stubborn(turn: LiveTurn) -> None:
        began.set()
        await stopped.wait()
        try:
            await turn.record(AddMessage(Draft(role="assistant", content="late"), turn.id))
        except Exception as error:
            wrote.append(type(error).__name__)
            raise

    began, stopped = asyncio.Event(), asyncio.Event()
    one.actor.scenes.append(stubborn)
    session = (await one.hear("1")).session_id or ""
    await soon(began.wait())
    assert (await soon(other.client.sessions.stop(session))).stopped
    stopped.set()
    await soon(one.runtime.join(session))

    assert wrote == ["StaleLease"]
    assert await other.thread(session) == ["user: 1"]
    await other.hear("2")
    assert (await other.rest(session, 1))[-2:] == ["user: 2", "assistant: ok"]


async def test_stop_on_a_channel_of_the_other_stops_it_too(two: Two) -> None:
    one, other = two
    session = await begin(one, held := Held())
    await one.hear("2")
    await other.hear("3")

    await other.hear("/stop")

    rows = await other.store.list_outbound(session_id=session)
    assert [row.content for row in rows] == ["Stopped. Took back 1 waiting message."]
    await soon(one.runtime.join(session))
    assert held.stopped
    assert await other.thread(session) == ["user: 1"]


async def test_where_nothing_runs_nothing_is_said_to_be_stopped(two: Two) -> None:
    one, other = two
    session = (await one.hear("1")).session_id or ""
    await one.rest(session, 1)
    await soon(one.runtime.join(session))

    assert not (await soon(other.client.sessions.stop(session))).stopped
    await other.hear("/stop")

    newest = (await other.store.list_outbound(session_id=session))[0]
    assert newest.content == "Nothing is running."


# --- what waits ---------------------------------------------------------------------------------


async def test_what_waits_at_one_is_seen_and_taken_back_through_the_other(two: Two) -> None:
    one, other = two
    session = await begin(one, held := Held())
    first, second = await one.hear("2"), await one.hear("3")

    listed = await soon(other.client.queue.list(session=session))
    assert [each.id for each in listed] == [first.inbound_id, second.inbound_id]
    await other.hear("/queue")
    newest = (await other.store.list_outbound(session_id=session))[0]
    assert newest.content.splitlines()[1:] == [
        "2 messages waiting (/queue clear takes back):", "  2", "  3",
    ]  # fmt: skip
    params = DropQueue(session=session, id=first.inbound_id)
    dropped = await soon(other.client.do(queue_rows.DROP, params))
    assert dropped.dropped == (first.inbound_id,)
    held.go_on.set()

    assert await one.rest(session, 2) == [
        "user: 1", "assistant: ok", "user: 3", "assistant: ok",
    ]  # fmt: skip


async def test_a_question_of_one_is_answered_through_the_other(two: Two) -> None:
    one, other = two
    answers: list[Approval] = []

    async def asking(turn: LiveTurn) -> None:
        answers.append(await turn.ask(ToolCall(id="c", name="look"), {}))
        await saying("looked")(turn)

    one.actor.scenes.append(asking)
    session = (await one.hear("1")).session_id
    found: list[Approval] = []

    async def is_asked() -> bool:
        found[:] = await other.client.approvals.list(session=session)
        return bool(found)

    await until(is_asked)
    await soon(other.client.approvals.decide(found[0].id, "yes"))

    assert await one.rest(session, 1) == ["user: 1", "assistant: looked"]
    assert [each.decision for each in answers] == ["yes"]


async def test_the_status_of_one_tells_what_the_other_is_at(two: Two) -> None:
    one, other = two
    session = await begin(one, held := Held())
    await one.hear("2")

    status = await soon(other.client.status())

    assert [(each.session, each.holder) for each in status.leases] == [
        (session, one.store.identity)
    ]
    assert status.queued == 1
    held.go_on.set()
    await one.rest(session, 2)


# --- continuity ---------------------------------------------------------------------------------


async def test_a_turn_of_one_appears_at_a_client_of_the_other(two: Two) -> None:
    one, other = two
    session = (await one.hear("before")).session_id or ""
    await one.rest(session, 1)
    async with other.client.live() as live:
        frames = aiter(live)
        await live.subscribe(session)
        await next_of(frames, SubscribedFrame)

        await one.hear("hello")

        seen: list[str] = []
        async with asyncio.timeout(PATIENCE):
            async for frame in frames:
                if isinstance(frame, EventFrame) and isinstance(frame.event, Committed):
                    seen.append(f"{frame.event.message.role}: {frame.event.message.content}")
                if isinstance(frame, EventFrame) and isinstance(frame.event, TurnEnded):
                    break
    assert seen == ["user: hello", "assistant: ok"]


async def test_the_terminals_key_and_a_chat_are_one_thread_over_both(two: Two) -> None:
    one, other = two
    sending = one.client.chat.send("from the terminal", key="cli:api")
    async with asyncio.timeout(PATIENCE):
        _ = [frame async for frame in sending]
    assert sending.accepted is not None
    session = await one.store.get_session(sending.accepted.session)
    await link(one.store, "telegram:1", session, 0)

    heard = await other.hear("from the chat")

    assert heard.session_id == session.id
    assert await other.rest(session.id, 2) == [
        "user: from the terminal", "assistant: ok", "user: from the chat", "assistant: ok",
    ]  # fmt: skip
    (row,) = await other.store.list_outbound(session_id=session.id)
    assert (row.channel, row.address["chat"], row.content) == ("telegram", "1", "ok")
