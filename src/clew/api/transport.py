"""How a `Client` reaches the operations: in process (`api.local`) or over HTTP (`client.http`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Final, Protocol

from clew.api.chat import SendChat
from clew.api.frames import LiveFrame, StreamFrame
from clew.api.operation import Operation, P, R


class Live(Protocol):
    """Live events of sessions and of the list. Iterate over it for frames; it does not end.

    The first frame is a `state`, again after every reconnection. Messages come exactly once and in
    order, however often the connection breaks; hints may be lost.
    """

    async def subscribe(self, session: str | None = None, *, after: int | None = None) -> None:
        """Follow a session from a message on (from now on if None); without one, the list."""
        ...

    async def unsubscribe(self, session: str | None = None) -> None:
        """Stop following."""
        ...

    def when_lost(self, tell: Callable[[], None]) -> None:
        """Call this function when the connection breaks. It then reconnects and sends a `state`."""
        ...

    def __aiter__(self) -> AsyncIterator[LiveFrame]: ...


class Transport(Protocol):
    """Calls, streams and live events. Errors are those of `clew.errors`, wherever they arose."""

    async def call(self, operation: Operation[P, R], params: P) -> R:
        """Call an operation; the answer has the type of the operation's row."""
        ...

    def stream(self, params: SendChat) -> AsyncGenerator[StreamFrame]:
        """Send a message; yields frames until it is answered. Close the generator if you leave."""
        ...

    def live(self) -> AbstractAsyncContextManager[Live]:
        """Open live events."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


# --- long calls --------------------------------------------------------------------------------

PAGE: Final = 100
"""Rows that are read at once; decoding them takes about a millisecond."""

GIVE_WAY: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("give_way", default=None)
"""Set by a transport that serves many callers: waits until a long call may go on."""


async def give_way() -> None:
    """Let other tasks go on; at a gateway, wait a moment for the short calls that run.

    Handlers of long calls await it after each millisecond of work, or each page that they read.
    """
    await asyncio.sleep(0)
    wait = GIVE_WAY.get()
    if wait is not None:
        await wait()
