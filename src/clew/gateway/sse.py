"""Event streams (SSE): one session from a number on, or one message until it is answered.

`id:` is the session's seq, so `Last-Event-ID` resumes exactly; hints have no id. A comment every
quarter of a minute tells both ends that the other is there. What is streamed comes from `feeds`
and from `api.handlers`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Final, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from clew.api.chat import SendChat
from clew.api.fields import Seq, SessionId
from clew.api.frames import (
    UNAUTHORIZED,
    DoneFrame,
    ErrorFrame,
    EventFrame,
    GapFrame,
    StreamFrame,
    to_sse,
)
from clew.api.handlers.parts import Caller, get_visible
from clew.api.local import Calls
from clew.api.operation import Operation, Params
from clew.api.problems import problem_of
from clew.errors import ClewError, InvalidInput, Unauthorized
from clew.gateway.asking import read_request
from clew.gateway.auth import Pass
from clew.gateway.doors import Door
from clew.gateway.hub import Hub
from clew.gateway.outlet import Item, Outlet, item_of
from clew.gateway.sentry import Guest, Sentry

HEARTBEAT: Final = 15.0
"""Seconds without an event, after which a comment is sent."""
GOODBYE: Final = 1.0
"""Seconds in which a client has to take the end of the stream."""
ALIVE: Final = b": alive\n\n"
HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)

Chunks: TypeAlias = AsyncGenerator[bytes]


class FollowSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`after` is the last message that one has; left out, from now on.

    The header `Last-Event-ID` says the same, and counts before it.
    """

    id: SessionId
    after: Seq | None = None


EVENTS: Final[Operation[Any, Any]] = Operation(
    name="sessions.events",
    method="GET",
    path="/v1/sessions/{id}/events",
    scope="read",
    takes=FollowSession,
    gives=EventFrame,
    help="Follow a session as an event stream (SSE); `id` is a message's number.",
    answer="events",
)


def make_events_door(hub: Hub, sentry: Sentry, *, heartbeat: float = HEARTBEAT) -> Door:
    """The door to the events of one session."""

    async def enter(request: Request, given: Pass) -> Response:
        params: Any = await read_request(EVENTS, request)
        after = _read_last_id(request)
        after = params.after if after is None else after
        return EventStream(
            sentry, given, lambda: _follow(hub, params.id, after, given.caller, heartbeat)
        )

    return Door(operation=EVENTS, enter=enter)


def stream_chat(
    calls: Calls, sentry: Sentry, params: SendChat, given: Pass, *, heartbeat: float = HEARTBEAT
) -> EventStream:
    """The answer to `chat.send` with `stream`."""
    return EventStream(
        sentry, given, lambda: _answer(calls.stream(params, given.caller), heartbeat)
    )


def _read_last_id(request: Request) -> int | None:
    given = request.headers.getlist("last-event-id")
    if not given or given == [""]:
        return None
    try:
        if len(given) > 1 or not given[0].isascii() or not given[0].isdecimal():
            raise InvalidInput("Last-Event-ID has to be a message's number.")
        number: int = msgspec.convert(given[0], Seq, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput("Last-Event-ID has to be a message's number.") from error
    return number


# --- what is streamed ---------------------------------------------------------------------------


async def _follow(
    hub: Hub, session_id: str, after: int | None, caller: Caller, heartbeat: float
) -> Chunks:
    """A session, without an end but that of the session."""
    session = await get_visible(hub.parts, session_id, caller)
    start = session.head if after is None else after
    outlet = Outlet()
    follower = hub.follow(session_id, session.head, outlet, start)
    try:
        # So that who is cut off before the first message resumes exactly, too.
        yield b"id: %d\nretry: 1000\n\n" % start
        while True:
            if not await _within(outlet, heartbeat):
                yield ALIVE
            while items := outlet.take():
                yield b"".join([to_sse(each.frame) for each in items])
                if isinstance(items[-1].frame, ErrorFrame):
                    return
            if outlet.find_behind() is not None:
                for each in await follower.catch_up():
                    yield to_sse(each.frame)
    finally:
        await hub.leave(follower, outlet)


async def _answer(frames: AsyncGenerator[StreamFrame], heartbeat: float) -> Chunks:
    """A message until it is answered. What goes wrong before it is kept is raised at once."""
    async with contextlib.aclosing(frames):
        yield to_sse(await anext(frames))
        outlet = Outlet()
        pump = asyncio.create_task(_pump(frames, outlet), name="answer")
        try:
            while True:
                if not await _within(outlet, heartbeat):
                    yield ALIVE
                while items := outlet.take():
                    yield b"".join([to_sse(each.frame) for each in items])
                    if isinstance(items[-1].frame, DoneFrame | ErrorFrame):
                        return
                if pump.done() and not pump.cancelled() and pump.exception() is not None:
                    pump.result()
        finally:
            pump.cancel()
            await asyncio.wait({pump})


async def _pump(frames: AsyncIterator[StreamFrame], outlet: Outlet) -> None:
    """From the turn to the outlet: a hint that does not fit is lost, a message waits for room.

    While it waits, the session's own mailbox fills, and then the store has what counts.
    """
    last, has_gap = 0, False
    try:
        async for frame in frames:
            item = item_of(frame)
            if outlet.is_full and _is_hint(item):
                has_gap = True
                continue
            await outlet.room()
            if has_gap and isinstance(frame, EventFrame):
                outlet.put(item_of(GapFrame(frame.session, last)))
                has_gap = False
            last = item.seq or last
            outlet.put(item)
    except ClewError as error:
        outlet.put(item_of(ErrorFrame(problem_of(error))))


def _is_hint(item: Item) -> bool:
    return isinstance(item.frame, EventFrame) and item.seq is None


async def _within(outlet: Outlet, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await outlet.wait()
    except TimeoutError:
        return False
    return True


# --- how it goes out ----------------------------------------------------------------------------


class EventStream(Response):
    """An answer that goes on: until its events end, the client leaves, or the sentry says so."""

    def __init__(self, sentry: Sentry, given: Pass, open_chunks: Callable[[], Chunks]) -> None:
        super().__init__()
        self._sentry = sentry
        self._given = given
        self._open_chunks = open_chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What goes wrong before the first event is an answer like any other."""
        with self._sentry.enter(self._given) as guest:
            async with contextlib.aclosing(self._open_chunks()) as chunks:
                first = await anext(chunks)
                start = {"type": "http.response.start", "status": 200, "headers": list(HEADERS)}
                await send(start)
                await _send(send, guest, first)
                if scope["method"] != "HEAD":
                    await _stream(chunks, guest, receive, send)
            last = b""
            if guest.ended.done() and guest.ended.result().code == UNAUTHORIZED:
                error = Unauthorized(guest.ended.result().reason)
                last = to_sse(ErrorFrame(problem_of(error)))
            # A client that does not read does not get this either: the server drops it.
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(GOODBYE):
                    await send({"type": "http.response.body", "body": last, "more_body": False})


async def _stream(chunks: Chunks, guest: Guest, receive: Receive, send: Send) -> None:
    """All of it, unless the client or the sentry ends it before."""

    async def send_all() -> None:
        async for chunk in chunks:
            await _send(send, guest, chunk)

    works: set[asyncio.Future[Any]] = {
        asyncio.create_task(send_all(), name="events out"),
        asyncio.create_task(_until_gone(receive), name="events in"),
    }
    try:
        await asyncio.wait({*works, guest.ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in works:
            each.cancel()
        await asyncio.wait(works)
    for each in works:
        if not each.cancelled():
            each.result()  # a bug is told where bugs are told


async def _send(send: Send, guest: Guest, chunk: bytes) -> None:
    with guest.sending():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
