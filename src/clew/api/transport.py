"""How a `Client` reaches the operations: the one seam between in-process and HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

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
        """Follow it no longer."""
        ...

    def when_lost(self, tell: Callable[[], None]) -> None:
        """Call this when the connection breaks. It comes back by itself, with a `state`."""
        ...

    def __aiter__(self) -> AsyncIterator[LiveFrame]: ...


class Transport(Protocol):
    """Calls, streams and live events. Errors are those of `clew.errors`, wherever they arose."""

    async def call(self, operation: Operation[P, R], params: P) -> R:
        """The answer, of the type that the table names."""
        ...

    def stream(self, params: SendChat) -> AsyncGenerator[StreamFrame]:
        """What comes of a message; close it when you leave."""
        ...

    def live(self) -> AbstractAsyncContextManager[Live]:
        """Live events."""
        ...

    async def close(self) -> None:
        """Let go."""
        ...
