"""Live events in this process: the runtime's own watch, as frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from clew.api.frames import (
    ErrorFrame,
    GapFrame,
    LiveFrame,
    StateFrame,
    SubscribedFrame,
    event_frame,
)
from clew.api.handlers.live import follow_list, list_newest, make_state
from clew.api.handlers.parts import Caller, Parts, get_visible
from clew.api.problems import problem_of
from clew.api.sessions import ListedSession
from clew.core.live_events import Event, TurnEnded, TurnStarted
from clew.errors import ClewError
from clew.runtime.watch import BACKLOG, find_newest


class LocalLive:
    """`Live` over the runtime's own watch.

    If the backlog of a slow reader is full, there is a gap: hints are lost, and messages are read
    from the store.
    """

    def __init__(self, parts: Parts, caller: Caller) -> None:
        self._parts = parts
        self._caller = caller
        self._frames: asyncio.Queue[LiveFrame] = asyncio.Queue(BACKLOG)
        self._tasks: dict[str | None, asyncio.Task[None]] = {}
        self._shown: tuple[ListedSession, ...] | None = None
        """The list in the last `state`: hints are about differences from it."""

    async def subscribe(self, session: str | None = None, *, after: int | None = None) -> None:
        """See `Live`."""
        await self.unsubscribe(session)
        work = self._follow_list() if session is None else self._follow(session, after)
        self._tasks[session] = asyncio.create_task(work, name=f"live {session}")

    async def unsubscribe(self, session: str | None = None) -> None:
        """See `Live`."""
        task = self._tasks.pop(session, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def close(self) -> None:
        """Stop following everything."""
        for session in tuple(self._tasks):
            await self.unsubscribe(session)

    def when_lost(self, tell: Callable[[], None]) -> None:
        """See `Live`. In process there is no connection to lose."""

    async def __aiter__(self) -> AsyncIterator[LiveFrame]:
        yield await self._state()
        while True:
            yield await self._frames.get()

    async def _state(self) -> StateFrame:
        state = await make_state(self._parts, self._caller)
        self._shown = state.sessions
        return state

    async def _follow(self, session_id: str, after: int | None) -> None:
        try:
            session = await get_visible(self._parts, session_id, self._caller)
            cursor = session.head if after is None else after
            with self._parts.runtime.watch(session_id, cursor) as events:
                await self._frames.put(SubscribedFrame(session_id, cursor))
                cursor = await self._pass_on(events, session_id, cursor, session.head, None)
            while True:
                await self._frames.put(GapFrame(session_id, cursor))
                with self._parts.runtime.watch(session_id, cursor) as events:
                    turn = await find_newest(self._parts.store, session_id)
                    head = (await self._parts.store.get_session(session_id)).head
                    cursor = await self._pass_on(events, session_id, cursor, head, turn)
        except ClewError as error:
            await self._frames.put(ErrorFrame(problem_of(error), session_id))

    async def _pass_on(
        self,
        events: AsyncIterator[Event],
        session_id: str,
        cursor: int,
        head: int,
        turn: TurnStarted | TurnEnded | None,
    ) -> int:
        """Pass on events until the reader is too slow; returns the last message's number.

        Messages up to `head` are already stored, and wait for the reader; then the turn's state is
        sent, if it may have been lost.
        """
        untold = turn
        while True:
            if untold is not None and cursor >= head:
                await self._frames.put(event_frame(session_id, untold))
                untold = None
            event = await anext(events)
            if isinstance(event, TurnStarted | TurnEnded):
                if turn is not None and _is_old(event, turn):
                    continue
                untold = None
            frame = event_frame(session_id, event)
            if frame.seq is not None and frame.seq <= head:
                await self._frames.put(frame)
            elif self._frames.full():
                return cursor
            else:
                self._frames.put_nowait(frame)
            cursor = frame.seq or cursor

    async def _follow_list(self) -> None:
        shown = self._shown
        if shown is None:
            shown = await list_newest(self._parts, self._caller)
        await self._frames.put(SubscribedFrame(None))
        with suppress(ClewError):
            async for hint in follow_list(self._parts, self._caller, shown):
                await self._frames.put(hint)


def _is_old(event: TurnStarted | TurnEnded, turn: TurnStarted | TurnEnded) -> bool:
    """Whether the event reports what was already read from the store about the turn."""
    match turn, event:
        case TurnStarted(mine), TurnStarted(theirs):
            return mine == theirs
        case TurnEnded(mine), TurnStarted(theirs):
            return mine.id == theirs
        case TurnEnded(mine), TurnEnded(theirs):
            return mine.id == theirs.id
        case _:
            return False
