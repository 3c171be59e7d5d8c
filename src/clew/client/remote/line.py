"""The line to a gateway: one socket of live events, handed to whoever watches a session.

It comes back by itself after a break, and says so to those who watch. Messages come once each; what
a turn did meanwhile is looked up. What events look like is not known here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from clew.api.frames import ErrorFrame, EventFrame, LiveFrame, StateFrame
from clew.api.transport import Live
from clew.client.client import Client
from clew.core.signals import Event, Notice, TextDelta, ThinkingDelta, TurnEnded, TurnStarted
from clew.core.turn import Turn
from clew.errors import ClewError, Unauthorized

LOST: Final = "The connection to the gateway is lost. Trying to come back …"
BACK: Final = "The gateway is there again."
GRACE: Final = 2.0
"""Seconds in which the socket may tell that a turn has ended, before somebody else does."""
AT_WORK: Final = ("running", "waiting")

Box = asyncio.Queue[Event]


@asynccontextmanager
async def open_line(client: Client) -> AsyncIterator[Line]:
    """The line of a client. The first connection has to succeed."""
    async with client.live() as live:
        line = Line(client, live)
        live.when_lost(line.lose)
        await live.subscribe()
        tasks = {
            asyncio.create_task(line.read(), name="line"),
            asyncio.create_task(line.wish(), name="line, wishes"),
        }
        try:
            yield line
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await line.hang_up()


class Line:
    """What is watched, what is known to run, and how often anything has happened."""

    def __init__(self, client: Client, live: Live) -> None:
        self.happened = 0
        """Goes up with everything that may have changed what a screen shows."""
        self.refused: asyncio.Future[Unauthorized] = asyncio.get_running_loop().create_future()
        """Done when the gateway accepts the token no longer: nothing will succeed any more."""
        self._client = client
        self._live = live
        self._running: set[str] = set()
        self._ended: dict[str, asyncio.Event] = {}
        self._ends: dict[str, int] = {}
        self._expected: dict[str, list[asyncio.Future[Turn]]] = {}
        self._boxes: dict[str, list[Box]] = {}
        self._wishes: asyncio.Queue[tuple[str, int | None]] = asyncio.Queue()
        self._waiters: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_lost = False

    # --- watching -------------------------------------------------------------------------------

    def open(self, session_id: str, after: int) -> Box:
        """Everything that happens in a session behind that message."""
        box: Box = asyncio.Queue()
        self._boxes.setdefault(session_id, []).append(box)
        self._wishes.put_nowait((session_id, after))
        self._beside(self._look(session_id))
        return box

    def close(self, session_id: str, box: Box) -> None:
        """Watch no longer."""
        boxes = self._boxes.get(session_id, [])
        if box in boxes:
            boxes.remove(box)
        if not boxes and self._boxes.pop(session_id, None) is not None:
            self._wishes.put_nowait((session_id, None))

    async def wish(self) -> None:
        """Subscribe and unsubscribe in the order in which that was wished."""
        while True:
            session_id, after = await self._wishes.get()
            if after is None:
                await self._live.unsubscribe(session_id)
            else:
                await self._live.subscribe(session_id, after=after)

    # --- reading --------------------------------------------------------------------------------

    async def read(self) -> None:
        """Hand on what comes, until the gateway wants to have nothing to do with us."""
        try:
            async for frame in self._live:
                self._take(frame)
        except Unauthorized as error:
            self.refuse(error)
        except ClewError as error:
            self._tell_all(Notice(f"{error} Nothing new is shown here any more."))

    def refuse(self, error: Unauthorized) -> None:
        """The token was revoked, or its time is over."""
        if not self.refused.done():
            self.refused.set_result(error)

    def lose(self) -> None:
        """The connection is broken."""
        if not self._is_lost:
            self._is_lost = True
            self._tell_all(Notice(LOST))

    def _take(self, frame: LiveFrame) -> None:
        match frame:
            case EventFrame(session=session_id, event=event):
                self._hear(session_id, event)
            case StateFrame():
                self._come_back()
            case ErrorFrame(problem=problem, session=str(session_id)):
                self._deliver(session_id, Notice(problem.detail or problem.title))
            case _:
                pass
        self.happened += not (
            isinstance(frame, EventFrame) and isinstance(frame.event, TextDelta | ThinkingDelta)
        )

    def _hear(self, session_id: str, event: Event) -> None:
        match event:
            case TurnStarted():
                self._running.add(session_id)
            case TurnEnded(turn):
                mark = self._mark(turn.id)
                if mark.is_set():
                    return  # it was told already
                mark.set()
                self._end(session_id, turn)
            case _:
                pass
        self._deliver(session_id, event)

    def _end(self, session_id: str, turn: Turn) -> None:
        self._running.discard(session_id)
        self._ends[session_id] = self._ends.get(session_id, 0) + 1
        for future in self._expected.pop(session_id, []):
            if not future.done():
                future.set_result(turn)
        self.wake()

    def _come_back(self) -> None:
        if not self._is_lost:
            return
        self._is_lost = False
        for session_id in {*self._boxes, *self._expected}:
            self._beside(self._return(session_id))

    async def _return(self, session_id: str) -> None:
        """Say that we are back when we know what runs: it may be the person's turn by now."""
        await self._look(session_id, again=True)
        self._deliver(session_id, Notice(BACK))

    def _deliver(self, session_id: str, event: Event) -> None:
        for box in self._boxes.get(session_id, ()):
            box.put_nowait(event)

    def _tell_all(self, event: Event) -> None:
        for session_id in self._boxes:
            self._deliver(session_id, event)
        self.happened += 1

    # --- what runs ------------------------------------------------------------------------------

    def is_running(self, session_id: str) -> bool:
        """Whether a turn runs there, as far as we have heard."""
        return session_id in self._running

    def expect_end(self, session_id: str) -> asyncio.Future[Turn]:
        """The end of the turn that is about to begin; cancelled if nobody can tell."""
        future: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._expected.setdefault(session_id, []).append(future)
        return future

    async def settle(self, session_id: str, turn: Turn) -> None:
        """A turn is known to be over: see to it that those who watch hear of it, once."""
        mark = self._mark(turn.id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await mark.wait()
        if not mark.is_set():
            self._hear(session_id, TurnEnded(turn))

    async def _look(self, session_id: str, *, again: bool = False) -> None:
        """Ask whether a turn runs: its beginning may have been before we came, or its end while
        the line was broken (`again`).
        """
        ends = self._ends.get(session_id, 0)
        try:
            detail = await self._client.sessions.get(session_id, messages=0)
        except ClewError:
            return
        if ends != self._ends.get(session_id, 0):
            return  # one has ended meanwhile; the answer may be older
        if detail.session.status in AT_WORK:
            self._running.add(session_id)
        else:
            self._running.discard(session_id)
            for future in self._expected.pop(session_id, []) if again else ():
                future.cancel()
        self.wake()

    def _mark(self, turn_id: str) -> asyncio.Event:
        return self._ended.setdefault(turn_id, asyncio.Event())

    async def wait(self) -> None:
        """Until something begins or ends."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        await future

    def wake(self) -> None:
        """Something has begun or ended."""
        waiters, self._waiters = self._waiters, []
        for future in waiters:
            if not future.done():
                future.set_result(None)
        self.happened += 1

    # --- tasks ----------------------------------------------------------------------------------

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def hang_up(self) -> None:
        """Nothing goes on."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
