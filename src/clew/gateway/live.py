"""`/v1/live`: one WebSocket for everything that a client follows.

The first frame is the state; then the client says what it follows, and gets that. The credential
was checked before (`endpoints`); what a person may see is decided in `api.handlers`. A client that
sends unreadable frames gets an error for each, and after a few the socket is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from clew.api.frames import (
    FLOOD,
    TOO_LONG,
    UNREADABLE,
    ClientFrame,
    Ending,
    ErrorFrame,
    StateFrame,
    Subscribe,
    SubscribedFrame,
    Unsubscribe,
    read_client_frame,
)
from clew.api.handlers.live import make_state
from clew.api.handlers.parts import Caller, get_visible
from clew.api.operation import NoParams, Operation
from clew.api.problems import problem_of
from clew.errors import ClewError, InvalidInput, TooManyRequests
from clew.gateway.auth import Credential
from clew.gateway.client_queue import WIRE, ClientQueue, Item, item_of
from clew.gateway.endpoints import Endpoint
from clew.gateway.feeds import Feeds, ListFollower, SessionFollower
from clew.gateway.stream_guard import Listener, StreamGuard

MAX_FRAME: Final = 4_000
"""Characters of a frame from a client."""
MAX_FOLLOWED: Final = 200
MAX_STRIKES: Final = 5
"""Unreadable frames after which the socket is closed."""
BURST: Final = 500
PER_SECOND: Final = 20.0
"""Frames that a client may send: at once, and per second in the long run."""
GOODBYE: Final = 1.0
"""Seconds that a client has to read the closing frame."""

LIVE: Final[Operation[Any, Any]] = Operation(
    name="live",
    method="GET",
    path="/v1/live",
    scope="read",
    takes=NoParams,
    gives=None,
    who="guest",
    help="Live events of sessions and of the list, over a WebSocket.",
)


def make_live_endpoint(feeds: Feeds, guard: StreamGuard) -> Endpoint:
    """The endpoint of live events."""

    async def serve(socket: WebSocket, given: Credential) -> None:
        with guard.enter(given) as listener:
            state = await make_state(feeds.parts, given.caller)
            await socket.accept()
            await _Connection(feeds, socket, listener, state).serve()

    return Endpoint(operation=LIVE, respond=serve, is_socket=True)


class _Connection:
    """The socket of one client, and what it follows."""

    def __init__(
        self, feeds: Feeds, socket: WebSocket, listener: Listener, state: StateFrame
    ) -> None:
        self._feeds = feeds
        self._socket = socket
        self._listener = listener
        self._state = state
        self._queue = ClientQueue()
        self._followed: dict[str | None, SessionFollower | ListFollower] = {}
        self._strikes = 0
        self._allowed = float(BURST)
        self._counted_at = 0.0

    @property
    def _caller(self) -> Caller:
        return self._listener.given.caller

    async def serve(self) -> None:
        """Send and listen until the client leaves or the stream has to end."""
        self._queue.put(item_of(self._state))
        try:
            await self._listener.run(self._send_all(), self._listen())
        finally:
            for follower in self._followed.values():
                await self._feeds.leave(follower, self._queue)
        if self._listener.ended.done():
            await self._say_goodbye(self._listener.ended.result())

    async def _say_goodbye(self, ending: Ending) -> None:
        # A client that does not read does not get this either: the server drops the connection.
        with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
            async with asyncio.timeout(GOODBYE):
                await self._socket.close(ending.code, ending.reason)

    # --- out ----------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                await self._queue.wait()
                while items := self._queue.take():
                    await self._send(items)
                follower = self._queue.find_behind()
                if follower is not None:
                    for each in await follower.catch_up():
                        await self._send([each])

    async def _send(self, items: Sequence[Item]) -> None:
        try:
            with self._listener.sending():
                await send_together(self._socket, items)
        except RuntimeError as error:
            # The server raises this when it has closed the socket by itself.
            raise WebSocketDisconnect(1006) from error

    # --- in -----------------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            # A client that sends but does not read is not listened to.
            await self._queue.room()
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            if not self._is_allowed():
                self._listener.end(FLOOD)
                return
            text = message.get("text")
            if len(text if text is not None else message.get("bytes") or b"") > MAX_FRAME:
                self._listener.end(TOO_LONG)
                return
            try:
                await self._carry_out(_read(text))
            except InvalidInput as error:
                self._refuse(error, None)
                self._strikes += 1
                if self._strikes >= MAX_STRIKES:
                    self._listener.end(UNREADABLE)
                    return

    def _is_allowed(self) -> bool:
        now = asyncio.get_running_loop().time()
        since = now - self._counted_at if self._counted_at else 0.0
        self._counted_at = now
        self._allowed = min(float(BURST), self._allowed + since * PER_SECOND) - 1
        return self._allowed >= 0

    async def _carry_out(self, frame: ClientFrame) -> None:
        match frame:
            case Subscribe(session, after):
                try:
                    await self._follow(session, after)
                except ClewError as error:
                    self._refuse(error, session)
            case Unsubscribe(session):
                await self._leave(session)

    async def _follow(self, session_id: str | None, after: int | None) -> None:
        await self._leave(session_id)
        if len(self._followed) >= MAX_FOLLOWED:
            raise TooManyRequests(
                f"One connection can follow {MAX_FOLLOWED} sessions. Unsubscribe from some first."
            )
        if session_id is None:
            self._queue.put(item_of(SubscribedFrame(None)))
            shown = self._state.sessions
            self._followed[None] = self._feeds.follow_list(self._caller, self._queue, shown)
            return
        session = await get_visible(self._feeds.parts, session_id, self._caller)
        start = session.head if after is None else after
        self._queue.put(item_of(SubscribedFrame(session_id, start)))
        self._followed[session_id] = self._feeds.follow(
            session_id, session.head, self._queue, start
        )

    async def _leave(self, session_id: str | None) -> None:
        follower = self._followed.pop(session_id, None)
        if follower is not None:
            await self._feeds.leave(follower, self._queue)

    def _refuse(self, error: ClewError, session_id: str | None) -> None:
        self._queue.put(item_of(ErrorFrame(problem_of(error), session_id)))


def _read(text: str | None) -> ClientFrame:
    if text is None:
        raise InvalidInput("A frame has to be text: one JSON object.")
    return read_client_frame(text)


async def send_together(socket: WebSocket, items: Sequence[Item]) -> None:
    """Send frames, in one write where the server can."""
    if WIRE in socket.scope.get("extensions", {}):
        wire = b"".join([each.wire for each in items])
        await socket.send({"type": "websocket.send", WIRE: wire})
        return
    for each in items:
        await socket.send_text(each.text)
