"""The live events of a terminal: which messages are its own, and what became of them after a break.

The other end is a script: it says what a gateway would say, in the order that a test needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
import pytest

from clew.api.chat import SendChat
from clew.api.frames import (
    EventFrame,
    GapFrame,
    LiveFrame,
    StateFrame,
    StreamFrame,
    SubscribedFrame,
)
from clew.api.operation import Operation, P, R
from clew.api.queue import Outcome, QueuedView
from clew.api.sessions import SessionDetail, SessionView, StateView
from clew.api.transport import Live
from clew.client.client import Client
from clew.core.live_events import (
    Event,
    NotAnswered,
    Notice,
    TextDelta,
    TurnEnded,
    TurnJoined,
    TurnStarted,
)
from clew.core.session import Session
from clew.core.turn import Turn, TurnStatus
from clew.core.usage import Usage
from clew.errors import ClewError, Unauthorized
from clew.terminal.live import BACK, LOST, LiveEvents, Sent, open_live
from tests.patience import PATIENCE

HERE = "3f0c6f1e-9a4b-4c7d-8e21-5b6a7c8d9e0f"
STATE = StateFrame("0", 0, "owner", ("admin",))


def make_session(**fields: Any) -> SessionView:
    blank: dict[str, Any] = dict.fromkeys(each.name for each in msgspec.structs.fields(Session))
    known = {"id": HERE, "head": 0, "short_id": "3f0c", "status": None, "total_tokens": 0}
    return SessionView(**(blank | known | fields))


def make_turn(turn_id: str, status: TurnStatus = "done") -> Turn:
    ended = None if status == "running" else 1
    return Turn(turn_id, HERE, status, None, None, Usage(), None, None, 0, ended)


class Gateway:
    """What the other end says, and what it answers."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[LiveFrame | ClewError] = asyncio.Queue()
        self.lose: Callable[[], None] = lambda: None
        self.running = False
        self.outcomes: dict[str, Outcome] = {}

    def tell(self, *events: Event) -> None:
        for each in events:
            self.frames.put_nowait(EventFrame(HERE, each))

    def answer(self, inbound: str, turn: Turn | None, status: str = "done") -> None:
        row = QueuedView(inbound, HERE, "api", "owner", "text", status, 0)
        self.outcomes[inbound] = Outcome(row, turn)

    # --- the transport --------------------------------------------------------------------------

    async def call(self, operation: Operation[P, R], params: P) -> R:
        answer: Any
        if operation.name == "sessions.get":
            answer = SessionDetail(make_session(), StateView(running=self.running), ())
        else:
            answer = self.outcomes[params.id]  # type: ignore[attr-defined]  # queue.get
        return answer  # type: ignore[no-any-return]  # as the row says

    def stream(self, params: SendChat) -> AsyncGenerator[StreamFrame]:
        raise NotImplementedError

    def live(self) -> AbstractAsyncContextManager[Live]:
        return self._live()

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[Live]:
        yield self

    async def close(self) -> None: ...

    # --- live -----------------------------------------------------------------------------------

    async def subscribe(self, session: str | None = None, *, after: int | None = None) -> None:
        self.frames.put_nowait(SubscribedFrame(session, after))

    async def unsubscribe(self, session: str | None = None) -> None: ...

    def when_lost(self, tell: Callable[[], None]) -> None:
        self.lose = tell

    async def __aiter__(self) -> AsyncIterator[LiveFrame]:
        while True:
            frame = await self.frames.get()
            if isinstance(frame, ClewError):
                raise frame
            yield frame


class Terminal:
    """A terminal that follows the session, and what it has shown."""

    def __init__(self, live: LiveEvents) -> None:
        self.live = live
        self.shown: list[Event] = []
        self.live.show = self.shown.append

    def send(self, inbound: str, text: str = "") -> Sent:
        return self.live.expect(Sent(HERE, inbound, text or inbound))

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_so():  # noqa: ASYNC110  # frames are taken one by one, in a task
                await asyncio.sleep(0)

    async def sees(self, event: Event) -> None:
        await self.until(lambda: event in self.shown)


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


@pytest.fixture
async def terminal(gateway: Gateway) -> AsyncIterator[Terminal]:
    async with open_live(Client(transport=gateway)) as live:
        made = Terminal(live)
        await live.follow(make_session())
        yield made


# --- own messages -----------------------------------------------------------------------------


async def test_a_message_is_answered_by_the_turn_that_names_it_and_by_no_other(
    gateway: Gateway, terminal: Terminal
) -> None:
    mine = terminal.send("mine")
    gateway.tell(TurnStarted("a", None, ("theirs",)), TurnEnded(make_turn("a"), ("theirs",)))
    gateway.tell(TurnStarted("b", None, ("mine",)))
    await terminal.until(lambda: mine.turn_id == "b")
    assert not mine.turn.done()
    gateway.tell(TextDelta("so far"), TurnEnded(make_turn("b"), ("mine",)))
    assert (await asyncio.wait_for(mine.turn, PATIENCE)).id == "b"
    assert not terminal.live.is_running


async def test_a_turn_that_ends_before_its_message_has_an_id_here_is_known_all_the_same(
    gateway: Gateway, terminal: Terminal
) -> None:
    with terminal.live.sending():
        end = TurnEnded(make_turn("a"), ("mine",))
        gateway.tell(TurnStarted("a", None, ("mine",)), end)
        await terminal.sees(end)
        mine = terminal.send("mine")
    assert mine.turn.result().id == "a"
    assert not terminal.live.is_busy


async def test_what_waits_is_what_no_turn_has_begun_with(
    gateway: Gateway, terminal: Terminal
) -> None:
    sent = [terminal.send(each) for each in ("one", "two", "three")]
    assert [each.id for each in terminal.live.list_waiting()] == ["two", "three"]
    gateway.tell(TurnStarted("a", None, ("one",)))
    await terminal.until(lambda: sent[0].turn_id == "a")
    assert [each.id for each in terminal.live.list_waiting()] == ["two", "three"]
    gateway.tell(TurnJoined("a", ("two",)))
    await terminal.until(lambda: sent[1].turn_id == "a")
    assert [each.id for each in terminal.live.list_waiting()] == ["three"]
    gateway.tell(TurnEnded(make_turn("a"), ("one", "two")))
    await terminal.until(lambda: all(each.turn.done() for each in sent[:2]))
    assert terminal.live.list_waiting() == (), "the turn of the last is about to begin"
    assert terminal.live.has_turn


async def test_messages_whose_turn_does_not_come_are_waited_for_no_longer(
    gateway: Gateway, terminal: Terminal
) -> None:
    dropped, refused = terminal.send("dropped"), terminal.send("refused")
    gateway.tell(NotAnswered(("dropped",)), NotAnswered(("refused",), "The disk is full."))
    await terminal.until(lambda: not terminal.live.is_busy)
    assert dropped.turn.cancelled()
    assert str(refused.turn.exception()) == "The disk is full."


async def test_another_attempt_is_the_next_turn_that_answers_no_message(
    gateway: Gateway, terminal: Terminal
) -> None:
    attempt = terminal.live.expect(Sent(HERE, None))
    gateway.tell(TurnStarted("a", None, ("theirs",)), TurnEnded(make_turn("a"), ("theirs",)))
    gateway.tell(TurnStarted("b"), TurnEnded(make_turn("b")))
    assert (await asyncio.wait_for(attempt.turn, PATIENCE)).id == "b"


# --- a break ----------------------------------------------------------------------------------


async def break_and_return(gateway: Gateway, terminal: Terminal) -> None:
    gateway.lose()
    assert terminal.shown[-1] == Notice(LOST)
    gateway.frames.put_nowait(STATE)
    await terminal.sees(Notice(BACK))


async def test_what_was_answered_during_a_break_is_shown_once_and_settled(
    gateway: Gateway, terminal: Terminal
) -> None:
    mine = terminal.send("mine")
    gateway.tell(TurnStarted("a", None, ("mine",)))
    await terminal.until(lambda: mine.turn_id == "a")
    gateway.answer("mine", make_turn("a"))
    await break_and_return(gateway, terminal)
    end = TurnEnded(make_turn("a"), ("mine",))
    gateway.tell(end, TextDelta("next"))
    await terminal.sees(TextDelta("next"))
    assert terminal.shown.count(end) == 1
    assert mine.turn.result().id == "a"
    assert terminal.shown.index(end) < terminal.shown.index(Notice(BACK))


async def test_what_still_runs_after_a_break_is_waited_for(
    gateway: Gateway, terminal: Terminal
) -> None:
    mine = terminal.send("mine")
    gateway.running = True
    gateway.answer("mine", make_turn("b", "running"))
    await break_and_return(gateway, terminal)
    assert terminal.live.is_running
    # The turn that goes on with it after a restart names no message.
    gateway.tell(TurnEnded(make_turn("b")))
    assert (await asyncio.wait_for(mine.turn, PATIENCE)).id == "b"


async def test_what_was_taken_back_during_a_break_is_forgotten(
    gateway: Gateway, terminal: Terminal
) -> None:
    mine, attempt = terminal.send("mine"), terminal.live.expect(Sent(HERE, None))
    gateway.answer("mine", None, "dropped")
    await break_and_return(gateway, terminal)
    assert mine.turn.cancelled()
    assert attempt.turn.cancelled()
    assert not terminal.live.is_running


async def test_a_gap_is_asked_about_as_a_break_is(gateway: Gateway, terminal: Terminal) -> None:
    mine = terminal.send("mine")
    gateway.answer("mine", make_turn("a"))
    gateway.frames.put_nowait(GapFrame(HERE, 0))
    assert (await asyncio.wait_for(mine.turn, PATIENCE)).id == "a"


async def test_a_turn_that_ran_before_one_came_is_known(gateway: Gateway) -> None:
    gateway.running = True
    async with open_live(Client(transport=gateway)) as live:
        terminal = Terminal(live)
        await live.follow(make_session())
        await terminal.until(lambda: live.is_running)
        gateway.tell(TurnEnded(make_turn("a"), ("theirs",)))
        await terminal.until(lambda: not live.is_running)


# --- the end ----------------------------------------------------------------------------------


async def test_a_token_that_is_refused_is_told(gateway: Gateway, terminal: Terminal) -> None:
    gateway.frames.put_nowait(Unauthorized("The token was revoked."))
    assert str(await asyncio.wait_for(terminal.live.refused, PATIENCE)) == "The token was revoked."


async def test_a_bug_in_what_shows_events_is_told_and_not_waited_for(
    gateway: Gateway, terminal: Terminal
) -> None:
    def fail(_event: Event) -> None:
        raise LookupError("no screen")

    terminal.live.show = fail
    gateway.tell(TextDelta("hello"))
    with pytest.raises(LookupError, match="no screen"):
        await asyncio.wait_for(terminal.live.refused, PATIENCE)


async def test_events_of_a_session_that_was_left_are_not_shown(
    gateway: Gateway, terminal: Terminal
) -> None:
    mine = terminal.send("mine")
    terminal.live.unfollow()
    assert mine.turn.cancelled()
    gateway.tell(TextDelta("too late"))
    await terminal.live.follow(make_session())
    gateway.tell(TextDelta("again"))
    await terminal.sees(TextDelta("again"))
    assert TextDelta("too late") not in terminal.shown
