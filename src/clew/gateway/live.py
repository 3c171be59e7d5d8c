"""`/v1/live`: one WebSocket for everything that a client follows.

The first frame is the state; then the client says what it follows, and gets that. Who may come in
is settled before (`doors`), what a person may see in `client.parts`. A client that sends what
nobody understands is told so a few times, and then the socket is closed.
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
from clew.gateway.auth import Pass
from clew.gateway.doors import Door
from clew.gateway.feeds import SessionFollower
from clew.gateway.hub import Hub
from clew.gateway.listfeeds import ListFollower
from clew.gateway.outlet import Item, Outlet, item_of
from clew.gateway.sentry import Guest, Sentry
from clew.gateway.sockets import send_together

MAX_FRAME: Final = 4_000
"""Characters that a client may send at once; it has little to say here."""
MAX_FOLLOWED: Final = 200
MAX_STRIKES: Final = 5
"""Frames that nobody understands, after which the socket is closed."""
BURST: Final = 500
PER_SECOND: Final = 20.0
"""Frames that a client may send: so many at once, and so many in a second in the long run."""
GOODBYE: Final = 1.0
"""Seconds in which a client has to take the last word."""

LIVE: Final[Operation[Any, Any]] = Operation(
    name="live",
    method="GET",
    path="/v1/live",
    scope="read",
    takes=NoParams,
    gives=None,
    help="Live events of sessions and of the list, over a WebSocket.",
)


def make_live_door(hub: Hub, sentry: Sentry) -> Door:
    """The door to live events."""

    async def enter(socket: WebSocket, given: Pass) -> None:
        with sentry.enter(given) as guest:
            state = await make_state(hub.parts, given.caller)
            await socket.accept()
            await _Line(hub, socket, guest, state).serve()

    return Door(operation=LIVE, enter=enter, is_socket=True)


class _Line:
    """One client's socket."""

    def __init__(self, hub: Hub, socket: WebSocket, guest: Guest, state: StateFrame) -> None:
        self._hub = hub
        self._socket = socket
        self._guest = guest
        self._state = state
        self._outlet = Outlet()
        self._followed: dict[str | None, SessionFollower | ListFollower] = {}
        self._strikes = 0
        self._allowed = float(BURST)
        self._counted_at = 0.0

    @property
    def _caller(self) -> Caller:
        return self._guest.given.caller

    async def serve(self) -> None:
        """Send and listen until one side has enough."""
        self._outlet.put(item_of(self._state))
        works: set[asyncio.Future[Any]] = {
            asyncio.create_task(self._send_all(), name="live out"),
            asyncio.create_task(self._listen(), name="live in"),
        }
        try:
            await asyncio.wait({*works, self._guest.ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in works:
                each.cancel()
            await asyncio.wait(works)
            for follower in self._followed.values():
                await self._hub.leave(follower, self._outlet)
        for each in works:
            if not each.cancelled():
                each.result()  # a bug is told where bugs are told
        if self._guest.ended.done():
            await self._say_goodbye(self._guest.ended.result())

    async def _say_goodbye(self, ending: Ending) -> None:
        # A client that does not read does not get this either: the server drops the connection.
        with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
            async with asyncio.timeout(GOODBYE):
                await self._socket.close(ending.code, ending.reason)

    # --- out ----------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                await self._outlet.wait()
                while items := self._outlet.take():
                    await self._send(items)
                follower = self._outlet.find_behind()
                if follower is not None:
                    for each in await follower.catch_up():
                        await self._send([each])

    async def _send(self, items: Sequence[Item]) -> None:
        try:
            with self._guest.sending():
                await send_together(self._socket, items)
        except RuntimeError as error:
            # What the server says when it has closed the socket by itself.
            raise WebSocketDisconnect(1006) from error

    # --- in -----------------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            # Who sends and does not read is not listened to.
            await self._outlet.room()
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            if not self._is_allowed():
                self._guest.end(FLOOD)
                return
            text = message.get("text")
            if len(text if text is not None else message.get("bytes") or b"") > MAX_FRAME:
                self._guest.end(TOO_LONG)
                return
            try:
                await self._obey(_read(text))
            except InvalidInput as error:
                self._refuse(error, None)
                self._strikes += 1
                if self._strikes >= MAX_STRIKES:
                    self._guest.end(UNREADABLE)
                    return

    def _is_allowed(self) -> bool:
        now = asyncio.get_running_loop().time()
        since = now - self._counted_at if self._counted_at else 0.0
        self._counted_at = now
        self._allowed = min(float(BURST), self._allowed + since * PER_SECOND) - 1
        return self._allowed >= 0

    async def _obey(self, frame: ClientFrame) -> None:
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
                f"One connection follows {MAX_FOLLOWED} sessions at most. Leave some first."
            )
        if session_id is None:
            self._outlet.put(item_of(SubscribedFrame(None)))
            shown = self._state.sessions
            self._followed[None] = self._hub.follow_list(self._caller, self._outlet, shown)
            return
        session = await get_visible(self._hub.parts, session_id, self._caller)
        start = session.head if after is None else after
        self._outlet.put(item_of(SubscribedFrame(session_id, start)))
        self._followed[session_id] = self._hub.follow(session_id, session.head, self._outlet, start)

    async def _leave(self, session_id: str | None) -> None:
        follower = self._followed.pop(session_id, None)
        if follower is not None:
            await self._hub.leave(follower, self._outlet)

    def _refuse(self, error: ClewError, session_id: str | None) -> None:
        self._outlet.put(item_of(ErrorFrame(problem_of(error), session_id)))


def _read(text: str | None) -> ClientFrame:
    if text is None:
        raise InvalidInput("A frame has to be text: one JSON object.")
    return read_client_frame(text)
