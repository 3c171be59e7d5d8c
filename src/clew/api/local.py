"""The operations in this process: no server, no wire, the same values."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from clew.api.handlers.parts import Caller, Parts, find_handler
from clew.api.operation import Operation, P, R, read_params

if TYPE_CHECKING:
    from clew.api.chat import SendChat
    from clew.api.frames import StreamFrame
    from clew.api.transport import Live


class Calls:
    """The public operations, over the parts of this process."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    async def call(
        self, operation: Operation[P, R], params: P | Mapping[str, Any], caller: Caller
    ) -> R:
        """Call an operation; parameters given as plain data are validated strictly."""
        caller.check(operation)
        if not isinstance(params, operation.takes):
            given = params if isinstance(params, Mapping) else {}
            params = read_params(operation, given)
        return await find_handler(operation)(self.parts, params, caller)

    def stream(self, params: SendChat, caller: Caller) -> AsyncGenerator[StreamFrame]:
        """`chat.send` as a stream of frames: accepted, events, done. Close it when you leave.

        Errors before the message is stored are raised before the first frame.
        """
        from clew.api.chat import SEND  # noqa: PLC0415  # most callers only call
        from clew.api.handlers import chat  # noqa: PLC0415  # a handler is loaded when it is called

        caller.check(SEND)
        return chat.stream(self.parts, params, caller)


class LocalTransport:
    """`Transport` over `Calls`."""

    def __init__(self, calls: Calls, caller: Caller) -> None:
        self._calls = calls
        self._caller = caller

    async def call(self, operation: Operation[P, R], params: P) -> R:
        """See `Transport`."""
        return await self._calls.call(operation, params, self._caller)

    def stream(self, params: SendChat) -> AsyncGenerator[StreamFrame]:
        """See `Transport`."""
        return self._calls.stream(params, self._caller)

    @asynccontextmanager
    async def live(self) -> AsyncIterator[Live]:
        """See `Transport`."""
        from clew.api.live import LocalLive  # noqa: PLC0415  # most callers only call

        live = LocalLive(self._calls.parts, self._caller)
        try:
            yield live
        finally:
            await live.close()

    async def close(self) -> None:
        """Does nothing: the parts are closed by their owner."""
