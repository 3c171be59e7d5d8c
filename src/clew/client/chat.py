"""`Client.chat`: send a message, and follow its answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from typing import Any, Final

from clew.api import chat
from clew.api.chat import Accepted, Platform, SendChat, Upload
from clew.api.frames import AcceptedFrame, EventFrame, StreamFrame
from clew.api.sessions import Stopped, StopSession
from clew.client.noun import Do
from clew.core.message import Earlier
from clew.errors import GatewayUnavailable, TooManyRequests

PAUSES: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
"""Seconds before each further attempt to reach a gateway; the last one repeats."""
ATTEMPTS: Final = 5
"""How often a message is tried again before it counts as not sent: about four seconds."""
PATIENCE: Final = 16
"""How often to ask what became of a stored message before giving up: about a minute."""
UNREACHED: Final = (GatewayUnavailable, TooManyRequests)
"""Errors after which another attempt may succeed. Calls in this process never raise them."""

Stream = Callable[[SendChat], AsyncGenerator[StreamFrame]]


class Chat:
    """Messages to sessions."""

    def __init__(self, do: Do, stream: Stream) -> None:
        self._do = do
        self._stream = stream

    def send(
        self,
        text: str,
        *,
        session: str | None = None,
        key: str | None = None,
        attachments: tuple[Upload, ...] = (),
        idempotency_key: str | None = None,
        attended: bool = True,
        platform: Platform | None = None,
        model: str | None = None,
        instructions: str | None = None,
        earlier: tuple[Earlier, ...] = (),
    ) -> Sending:
        """Send a message to a session, to the session of a key, or to a new one.

        `await` it, and it returns when the message is stored; or iterate over it for all events
        until the message is answered. If not `attended`, tools that need an approval are refused
        at once. See `SendChat` for the rest.
        """
        given = SendChat(
            text=text,
            session=session,
            key=key,
            attachments=attachments,
            idempotency_key=idempotency_key,
            attended=attended,
            platform=platform,
            model=model,
            instructions=instructions,
            earlier=earlier,
        )
        return Sending(self._do, self._stream, given)

    async def abort(
        self,
        session: str,
        *,
        queue: bool = True,
        only: tuple[str, ...] | None = None,
        message: str | None = None,
        anywhere: bool = True,
    ) -> Stopped:
        """Abort the turn that runs, and take back what waits; the same as `sessions.stop`."""
        params = StopSession(id=session, queue=queue, only=only, message=message, anywhere=anywhere)
        return await self._do(chat.ABORT, params)


class Sending:
    """A message on its way. `accepted` is set when it is stored.

    Nothing is sent before it is awaited or iterated over.
    """

    def __init__(self, do: Do, stream: Stream, params: SendChat) -> None:
        self.accepted: Accepted | None = None
        self._do = do
        self._stream = stream
        self._params = params

    def __await__(self) -> Generator[Any, Any, Accepted]:
        return self._keep().__await__()

    async def _keep(self) -> Accepted:
        self.accepted = await self._do(chat.SEND, self._params)
        return self.accepted

    async def persist(self) -> Accepted:
        """Send it and wait until it is stored, with several attempts to reach the gateway.

        It needs an idempotency key, so that it is stored once, however often it is sent.
        """
        for pause in PAUSES[:ATTEMPTS]:
            with contextlib.suppress(*UNREACHED):
                return await self
            await asyncio.sleep(pause)
        return await self

    async def follow(self) -> AsyncIterator[EventFrame]:
        """All events until it is answered, also if the connection breaks in between.

        It needs an idempotency key, so that sending it again only asks what became of it.
        """
        seen, attempt = 0, 0
        while True:
            try:
                async for frame in self:
                    if frame.seq is None or frame.seq > seen:  # else it came before the break
                        seen = frame.seq or seen
                        yield frame
            except UNREACHED:
                if attempt >= (ATTEMPTS if self.accepted is None else PATIENCE):
                    raise
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
                attempt += 1
            else:
                return

    async def __aiter__(self) -> AsyncIterator[EventFrame]:
        async with contextlib.aclosing(self._stream(self._params)) as frames:
            async for frame in frames:
                if isinstance(frame, AcceptedFrame):
                    self.accepted = frame.accepted
                elif isinstance(frame, EventFrame):
                    yield frame
