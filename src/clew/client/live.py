"""Live events of a gateway over one WebSocket, which reconnects by itself and misses no message.

For every session it remembers the number of the last message. After a reconnection it asks for what
comes after that, and skips what it has passed on already.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidStatus,
    WebSocketException,
)

from clew.api.frames import (
    FLOOD,
    TOO_LONG,
    UNAUTHORIZED,
    UNREADABLE,
    Ending,
    EventFrame,
    LiveFrame,
    StateFrame,
    Subscribe,
    SubscribedFrame,
    Unsubscribe,
    read_frame,
)
from clew.client.chat import PAUSES
from clew.client.http import is_here, read_problem, unreachable
from clew.core.text import to_wire
from clew.errors import (
    GatewayUnavailable,
    InvalidInput,
    Locked,
    StoreUnusable,
    TooManyRequests,
    Unauthorized,
)

PASSING: Final = (GatewayUnavailable, TooManyRequests, StoreUnusable, Locked)
"""Errors after which another attempt may succeed."""
MAX_FRAME: Final = 64_000_000


@asynccontextmanager
async def open_live(url: str, headers: Mapping[str, str]) -> AsyncIterator[HttpLive]:
    """Live events of a gateway. The first connection has to succeed; later ones are tried again."""
    live = HttpLive(url, headers)
    await live.connect()
    try:
        yield live
    finally:
        await live.close()


class HttpLive:
    """`Live` to a gateway."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = url
        self._address = f"ws{url.removeprefix('http')}/v1/live"
        self._headers = dict(headers)
        self._socket: ClientConnection | None = None
        self._tell_lost: Callable[[], None] = lambda: None
        self._seen: dict[str | None, int | None] = {}
        """The followed sessions (None: the list), each with the number of its last message."""

    async def subscribe(self, session: str | None = None, *, after: int | None = None) -> None:
        """See `Live`. While the connection is broken, it takes effect with the next one."""
        self._seen[session] = after
        await self._send(Subscribe(session, after))

    async def unsubscribe(self, session: str | None = None) -> None:
        """See `Live`."""
        self._seen.pop(session, None)
        await self._send(Unsubscribe(session))

    def when_lost(self, tell: Callable[[], None]) -> None:
        """See `Live`."""
        self._tell_lost = tell

    async def __aiter__(self) -> AsyncIterator[LiveFrame]:
        while True:
            socket = self._socket or await self._reconnect()
            try:
                data = await socket.recv()
            except ConnectionClosed as error:
                if error.rcvd is not None:
                    _refuse(Ending(error.rcvd.code, error.rcvd.reason))
                self._socket = None
                self._tell_lost()
                continue
            frame = self._read(data)
            if self._is_new(frame):
                yield frame

    def _read(self, data: str | bytes) -> LiveFrame:
        try:
            frame: Any = read_frame(data)
        except InvalidInput as error:
            # Skipping it could lose a message.
            raise GatewayUnavailable(
                f"{self._url} sent something that can't be read: {error} "
                "Check that it runs the same version of clew."
            ) from error
        return frame  # type: ignore[no-any-return]  # the others are for streams

    def _is_new(self, frame: LiveFrame) -> bool:
        """Whether to pass it on: not a second time, and not for a session no longer followed."""
        match frame:
            case SubscribedFrame(session, after) if session in self._seen:
                if self._seen[session] is None:
                    self._seen[session] = after
            case EventFrame(session=session) if session not in self._seen:
                return False
            case EventFrame(session=session, seq=int(seq)):
                last = self._seen[session]
                if last is not None and seq <= last:
                    return False
                self._seen[session] = seq
            case StateFrame() | _:
                pass
        return True

    async def connect(self) -> ClientConnection:
        """Connect, and subscribe again to what is followed."""
        try:
            socket = await connect(
                self._address,
                additional_headers=self._headers,
                max_size=MAX_FRAME,
                compression=None,
                proxy=None if is_here(self._url) else True,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            raise read_problem(status, bytes(error.response.body or b"")) from error
        except (OSError, TimeoutError, InvalidHandshake, WebSocketException) as error:
            raise unreachable(self._url, error) from error
        self._socket = socket
        for session, after in tuple(self._seen.items()):
            await self._send(Subscribe(session, after))
        return socket

    async def _reconnect(self) -> ClientConnection:
        attempt = 0
        while True:
            try:
                return await self.connect()
            except PASSING:
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
                attempt += 1

    async def _send(self, frame: Subscribe | Unsubscribe) -> None:
        if self._socket is not None:
            # If it is broken, the reader notices, reconnects and subscribes again.
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(to_wire(frame).decode())

    async def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            await self._socket.close()
            self._socket = None


def _refuse(ending: Ending) -> None:
    """Raise the error of a closing code, where reconnecting would not help."""
    words = (
        f"The gateway closed the connection: {ending.reason.rstrip('.') or 'it gave no reason'}."
    )
    if ending.code == UNAUTHORIZED:
        raise Unauthorized(words)
    if ending == FLOOD:
        raise TooManyRequests(f"{words} Follow fewer sessions, or change them less often.")
    if ending.code in (UNREADABLE.code, TOO_LONG.code):
        raise InvalidInput(f"{words} Check that it runs the same version of clew.")
