"""The operations in this process: no server, no wire, the same values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from clew.client.calls import Calls
from clew.client.following import follow_list, list_newest, make_state
from clew.client.parts import Caller, get_visible
from clew.client.transport import Live
from clew.core.frames import (
    ErrorFrame,
    LiveFrame,
    StateFrame,
    StreamFrame,
    SubscribedFrame,
    event_frame,
)
from clew.core.params import Params, SendChat
from clew.core.problems import problem_of
from clew.core.views import ListedSession
from clew.errors import ClewError
from clew.operations import Operation

BACKLOG: Final = 256
"""Frames that wait for a slow reader; behind them the session's own mailbox fills, and then the
store has what counts."""


class LocalTransport:
    """`Transport` over `Calls`."""

    def __init__(self, calls: Calls, caller: Caller) -> None:
        self._calls = calls
        self._caller = caller

    async def call(self, operation: Operation, params: Params) -> Any:
        """See `Transport`."""
        return await self._calls.call(operation.name, params, self._caller)

    def stream(self, params: SendChat) -> AsyncGenerator[StreamFrame]:
        """See `Transport`."""
        return self._calls.stream(params, self._caller)

    @asynccontextmanager
    async def live(self) -> AsyncIterator[Live]:
        """See `Transport`."""
        live = LocalLive(self._calls, self._caller)
        try:
            yield live
        finally:
            await live.close()

    async def close(self) -> None:
        """Whoever made the calls closes what is behind them."""


class LocalLive:
    """`Live` over the runtime's own watch."""

    def __init__(self, calls: Calls, caller: Caller) -> None:
        self._calls = calls
        self._parts = calls.parts
        self._caller = caller
        self._frames: asyncio.Queue[LiveFrame] = asyncio.Queue(BACKLOG)
        self._tasks: dict[str | None, asyncio.Task[None]] = {}
        self._shown: tuple[ListedSession, ...] | None = None
        """The list as the state has shown it: hints are about what differs from that."""

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
        """Follow nothing any more."""
        for session in tuple(self._tasks):
            await self.unsubscribe(session)

    def when_lost(self, tell: Callable[[], None]) -> None:
        """See `Live`. There is nothing to lose."""

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
            start = session.head if after is None else after
            with self._parts.runtime.watch(session_id, start) as events:
                await self._frames.put(SubscribedFrame(session_id, start))
                async for event in events:
                    await self._frames.put(event_frame(session_id, event))
        except ClewError as error:
            await self._frames.put(ErrorFrame(problem_of(error), session_id))

    async def _follow_list(self) -> None:
        shown = self._shown
        if shown is None:
            shown = await list_newest(self._parts, self._caller)
        await self._frames.put(SubscribedFrame(None))
        with suppress(ClewError):
            async for hint in follow_list(self._parts, self._caller, shown):
                await self._frames.put(hint)
