"""The live events of a terminal: one reader for the session that it shows, here or at a gateway.

Each event is passed on once. The reader also knows which turn runs in the session, and which of the
terminal's own messages are not answered yet: the start and the end of a turn name the inbox ids
that it answers. A broken connection comes back by itself; then the reader asks what became of the
messages. Displays decide how events look.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from clew.api.frames import (
    ErrorFrame,
    EventFrame,
    GapFrame,
    HintFrame,
    LiveFrame,
    StateFrame,
    SubscribedFrame,
)
from clew.api.transport import Live
from clew.client.client import Client
from clew.core.live_events import (
    Committed,
    Event,
    NotAnswered,
    Notice,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
    TurnJoined,
    TurnStarted,
)
from clew.core.session import Session
from clew.core.turn import Turn
from clew.errors import ClewError, GatewayUnavailable, Unauthorized

LOST: Final = "The connection to the gateway is lost. Connecting again …"
BACK: Final = "The gateway is there again."
GONE: Final = "The gateway has not come back."
GRACE: Final = 2.0
"""Seconds to wait for missed messages before the end of their turn is shown."""
SUBSCRIBING: Final = 5.0
"""Seconds to wait for a subscription."""
PATIENCE: Final = 60.0
"""Seconds without a connection after which unanswered messages are given up."""


Mark = TurnStarted | TurnJoined | TurnEnded | NotAnswered
"""Events that say which messages a turn answers."""


class Sent:
    """A message of this terminal that waits for its answer, or another attempt at a turn.

    `id` is its row in the inbox; an attempt (`/retry`) has none. `turn` gives the turn that
    answered it: cancelled if the message was taken back, an error if the outcome is unknown.
    """

    def __init__(self, session_id: str, inbound_id: str | None, text: str = "") -> None:
        self.session_id = session_id
        self.id = inbound_id
        self.text = text
        self.turn_id: str | None = None
        """The turn that answers it, as soon as that runs."""
        self.turn: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self.turn.add_done_callback(_read_error)

    def settle(self, turn: Turn) -> None:
        """Set the turn that has answered it."""
        if not self.turn.done():
            self.turn.set_result(turn)

    def fail(self, error: ClewError) -> None:
        """Set an error: its outcome is unknown."""
        if not self.turn.done():
            self.turn.set_exception(error)


def _read_error(turn: asyncio.Future[Turn]) -> None:
    """Read the error, so that asyncio does not report it as forgotten."""
    if not turn.cancelled():
        turn.exception()


@asynccontextmanager
async def open_live(client: Client) -> AsyncIterator[LiveEvents]:
    """The live events of a client. The first connection has to succeed."""
    async with client.live() as live:
        events = LiveEvents(client, live)
        live.when_lost(events.lose)
        await live.subscribe()
        reader = asyncio.create_task(events.read(live), name="live events")
        reader.add_done_callback(events.end)
        try:
            yield events
        finally:
            reader.cancel()
            await asyncio.wait({reader})
            await events.close()


class LiveEvents:
    """The events of the followed session, its running turn, and messages not answered yet."""

    def __init__(self, client: Client, live: Live | None = None) -> None:
        """Without `live`, nothing is followed: for a command that reads one answer only."""
        self.show: Callable[[Event], None] = lambda _event: None
        """Called with each event of the session, once and in order."""
        self.changed: Callable[[], None] = lambda: None
        """Called when the state of the session may have changed."""
        self.refused: asyncio.Future[Unauthorized] = asyncio.get_running_loop().create_future()
        """Done when the gateway does not accept the token any more."""
        self._client = client
        self._live = live
        self._session_id: str | None = None
        self._seen = 0
        self._seen_more = asyncio.Event()
        self._is_subscribed = asyncio.Event()
        self._turn_id: str | None = None
        self._turns = 0
        """How often a turn has begun or ended; an answer from before a change is out of date."""
        self._over: set[str] = set()
        """Turns whose end was shown."""
        self._sent: list[Sent] = []
        self._sending = 0
        self._early: list[Mark] = []
        """Events that came while a message was being sent, before its id was known."""
        self._is_lost = False
        self._timer: asyncio.TimerHandle | None = None
        self._leaving: asyncio.Task[None] | None = None
        """The end of the last subscription."""
        self._tasks: set[asyncio.Task[None]] = set()

    # --- the session ----------------------------------------------------------------------------

    async def follow(self, session: Session, *, is_new: bool = False) -> None:
        """Follow a session from its last message on, in place of the one before.

        Returns when no event can be missed any more. `is_new`: no turn can run there yet.
        """
        if self._session_id != session.id:
            self.unfollow()
        self._session_id, self._seen = session.id, session.head
        if self._live is None:
            return
        self._is_subscribed.clear()
        if self._leaving is not None:
            await asyncio.wait({self._leaving})
        await self._live.subscribe(session.id, after=session.head)
        if self._is_lost:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SUBSCRIBING):
                await self._is_subscribed.wait()
        if not is_new:
            self._run(self._catch_up() if self._sent else self._look())

    def unfollow(self) -> None:
        """Follow no session. Messages sent to the last one are still answered there."""
        before, self._session_id = self._session_id, None
        self._turn_id = None
        self._over.clear()
        for each in self._sent:
            each.turn.cancel()
        self._sent = []
        if before is not None and self._live is not None:
            self._leaving = self._run(self._live.unsubscribe(before))

    @property
    def is_running(self) -> bool:
        """Whether a turn runs in the session, or one of this terminal's is about to."""
        return self._turn_id is not None or bool(self._sent)

    @property
    def is_busy(self) -> bool:
        """Whether a message of this terminal is not answered yet."""
        return bool(self._sent)

    def list_waiting(self) -> tuple[Sent, ...]:
        """The messages of this terminal that wait behind the turn that runs, oldest first."""
        waiting = tuple(each for each in self._sent if each.turn_id is None)
        if self._turn_id is None and len(waiting) == len(self._sent):
            waiting = waiting[1:]  # the turn of the first one is about to begin
        return waiting

    @property
    def has_turn(self) -> bool:
        """Whether the turn that runs, or is about to, answers something of this terminal."""
        return len(self._sent) > len(self.list_waiting())

    # --- what is sent ---------------------------------------------------------------------------

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Keep events while a message is sent: its turn may begin before its id is known."""
        self._sending += 1
        try:
            yield
        finally:
            self._sending -= 1
            if not self._sending:
                self._early.clear()

    def expect(self, sent: Sent) -> Sent:
        """Count a message, or an attempt, until it is answered."""
        self._sent.append(sent)
        for event in self._early:
            for each, turn in self._note(event):
                each.settle(turn)
        self.changed()
        return sent

    def forget(self, sent: Sent) -> None:
        """Stop waiting for an answer."""
        self._sent = [each for each in self._sent if each is not sent]
        sent.turn.cancel()
        self.changed()

    # --- reading --------------------------------------------------------------------------------

    async def read(self, live: Live) -> None:
        """Handle frames until the gateway refuses the token."""
        try:
            async for frame in live:
                self._take(frame)
        except Unauthorized as error:
            self.refuse(error)
        except ClewError as error:
            self._show(Notice(f"{error} Nothing new is shown here any more."))

    def end(self, reader: asyncio.Task[None]) -> None:
        """End the chat if a bug ends the reader: without events it would wait for ever."""
        if not reader.cancelled() and (error := reader.exception()) and not self.refused.done():
            self.refused.set_exception(error)

    def refuse(self, error: Unauthorized) -> None:
        """The token was revoked, or has expired."""
        if not self.refused.done():
            self.refused.set_result(error)

    def lose(self) -> None:
        """The connection is lost."""
        if not self._is_lost:
            self._is_lost = True
            self._is_subscribed.set()  # it is sent again after the reconnection
            self._show(Notice(LOST))
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(PATIENCE, self._give_up)

    def _take(self, frame: LiveFrame) -> None:
        match frame:
            case EventFrame(session=session_id, event=event) if session_id == self._session_id:
                if self._is_subscribed.is_set():  # else from an earlier subscription
                    self._hear(event)
            case SubscribedFrame(session=str(session_id)) if session_id == self._session_id:
                self._is_subscribed.set()
            case StateFrame():
                self._come_back()
            case GapFrame(session=session_id) if session_id == self._session_id:
                self._run(self._catch_up())
            case HintFrame(session=session_id) if session_id == self._session_id:
                self.changed()
            case ErrorFrame(problem=problem, session=str(session_id)):
                if session_id == self._session_id:
                    self._is_subscribed.set()
                    self._show(Notice(problem.detail or problem.title))
            case _:
                pass

    def _hear(self, event: Event) -> None:
        """Handle an event and show it; futures of messages are settled after that."""
        match event:
            case TurnEnded(turn) if turn.id in self._over:
                return
            case Committed(message):
                self._seen = max(self._seen, message.seq)
                self._seen_more.set()
            case TurnStarted(turn_id):
                self._turn_id = turn_id
                self._turns += 1
            case TurnEnded(turn):
                self._over.add(turn.id)
                self._turn_id = None
                self._turns += 1
            case _:
                pass
        settled: list[tuple[Sent, Turn]] = []
        if isinstance(event, Mark):
            settled = self._note(event)
            if self._sending:
                self._early.append(event)
        self._show(event)
        for sent, turn in settled:
            sent.settle(turn)

    def _note(self, event: Mark) -> list[tuple[Sent, Turn]]:
        """Update the terminal's messages. Returns those that are answered now, with their turns."""
        settled: list[tuple[Sent, Turn]] = []
        match event:
            case TurnStarted(turn_id=turn_id, answers=answers) | TurnJoined(turn_id, answers):
                for each in self._list_answered(turn_id, answers):
                    each.turn_id = turn_id
            case TurnEnded(turn=turn, answers=answers):
                settled = [(each, turn) for each in self._list_answered(turn.id, answers)]
                self._sent = [each for each in self._sent if all(each is not s for s, _ in settled)]
            case NotAnswered(ids=ids, error=error):
                for each in [each for each in self._sent if each.id in ids]:
                    if error is not None:
                        each.fail(ClewError(error))
                    self.forget(each)
        return settled

    def _list_answered(self, turn_id: str, answers: Collection[str]) -> list[Sent]:
        """The messages that a turn answers; a turn that answers none belongs to an attempt."""
        found = [each for each in self._sent if each.turn_id == turn_id or each.id in answers]
        if not found and not answers:
            attempts = (each for each in self._sent if each.id is None and each.turn_id is None)
            found = [each for each in (next(attempts, None),) if each is not None]
        return found

    def _show(self, event: Event) -> None:
        self.show(event)
        if not isinstance(event, TextDelta | ThinkingDelta):
            self.changed()

    # --- what was missed ------------------------------------------------------------------------

    def _come_back(self) -> None:
        if self._is_lost:
            self._is_lost = False
            self._stop_timer()
            self._run(self._return())

    async def _return(self) -> None:
        """Show that the connection is back, once it is known what runs."""
        await self._catch_up()
        if not self._is_lost:
            self._show(Notice(BACK))

    def _give_up(self) -> None:
        """Stop waiting for answers, after a while without a gateway."""
        for each in tuple(self._sent):
            each.fail(GatewayUnavailable(GONE))
            self.forget(each)
        self._turn_id = None
        self.changed()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _catch_up(self) -> None:
        """Ask what runs now, and what became of the messages that are not answered yet."""
        with contextlib.suppress(ClewError):
            head = await self._look(again=True)
            for sent in tuple(self._sent):
                if sent.id is not None:
                    await self._ask_about(sent, sent.id, head)

    async def _look(self, *, again: bool = False) -> int:
        """Ask whether a turn runs: it may have begun or ended while nothing was followed.

        Returns the number of the session's last message.
        """
        session_id, turns = self._session_id, self._turns
        if session_id is None:
            return 0
        detail = await self._client.sessions.get(session_id, messages=0)
        if (session_id, turns) != (self._session_id, self._turns):
            return detail.session.head  # a turn has begun or ended since
        if detail.state.running and self._turn_id is None:
            self._turn_id = ""
        elif not detail.state.running:
            self._turn_id = None
            for attempt in [each for each in self._sent if again and each.id is None]:
                self.forget(attempt)
        self.changed()
        return detail.session.head

    async def _ask_about(self, sent: Sent, inbound_id: str, head: int) -> None:
        found = await self._client.queue.get(inbound_id)
        if sent.turn.done():
            return
        if found.message.status == "dropped":
            self.forget(sent)
        elif found.turn is not None:
            sent.turn_id = found.turn.id
            if found.turn.ended_at is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GRACE):
                        await self._wait_for(head)
                self._hear(TurnEnded(found.turn, (inbound_id,)))

    async def _wait_for(self, seq: int) -> None:
        while self._seen < seq:
            self._seen_more.clear()
            await self._seen_more.wait()

    # --- tasks ----------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        async def run() -> None:
            with contextlib.suppress(ClewError):
                await work

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Cancel all requests."""
        self._stop_timer()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
