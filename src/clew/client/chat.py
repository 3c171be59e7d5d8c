"""`Client.chat`: say something, and see what comes of it."""

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
from clew.errors import GatewayUnavailable, TooManyRequests

PAUSES: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
"""Seconds before each further attempt to reach a gateway; the last of them for all that follow."""
ATTEMPTS: Final = 5
"""How often a message is tried again before it counts as not sent: about four seconds."""
PATIENCE: Final = 16
"""How often one asks what came of a message before one gives up: about a minute."""
UNREACHED: Final = (GatewayUnavailable, TooManyRequests)
"""What another attempt may find better. A call in this process never ends so."""

Stream = Callable[[SendChat], AsyncGenerator[StreamFrame]]


class Chat:
    """Talking to sessions."""

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
    ) -> Sending:
        """A message for a session, for where a key leads, or for a new session.

        `await` it to have it kept; or iterate over it, for everything until it is answered. Not
        `attended`, tools that need the owner's word are refused at once. See `SendChat` for the
        rest.
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
        )
        return Sending(self._do, self._stream, given)

    async def abort(self, session: str, *, queue: bool = True) -> Stopped:
        """Stop the turn that runs, and take back what waits; the same as `sessions.stop`."""
        return await self._do(chat.ABORT, StopSession(id=session, queue=queue))


class Sending:
    """A message on its way. `accepted` is there once it is kept: with the first event, or awaited.

    Nothing happens before somebody awaits it or asks for the first event.
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

    def frames(self) -> AsyncGenerator[StreamFrame]:
        """All that comes, from that it is kept to that it is answered. Close it when you leave."""
        return self._stream(self._params)

    async def persist(self) -> Accepted:
        """Have it kept, also if the gateway is not reached at once.

        It needs an idempotency key: under that a message is kept once, however often it is sent.
        """
        for pause in PAUSES[:ATTEMPTS]:
            with contextlib.suppress(*UNREACHED):
                return await self
            await asyncio.sleep(pause)
        return await self

    async def follow(self) -> AsyncIterator[EventFrame]:
        """Everything until it is answered, also if the connection breaks meanwhile.

        It needs an idempotency key: sent again, it only asks what came of it.
        """
        seen, attempt = 0, 0
        while True:
            try:
                async for frame in self:
                    if frame.seq is None or frame.seq > seen:  # else told before the break
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
        async with contextlib.aclosing(self.frames()) as frames:
            async for frame in frames:
                if isinstance(frame, AcceptedFrame):
                    self.accepted = frame.accepted
                elif isinstance(frame, EventFrame):
                    yield frame
