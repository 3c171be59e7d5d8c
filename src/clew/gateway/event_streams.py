"""Event streams (SSE): a session from a message on, or a message until it is answered.

`id:` is the session's seq, so `Last-Event-ID` resumes exactly; hints have no id. A comment every
15 seconds tells both ends that the connection still works. The events come from `feeds` and from
`api.handlers`.
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
from clew.gateway.auth import Credential
from clew.gateway.client_queue import ClientQueue, Item, item_of
from clew.gateway.endpoints import Endpoint, read_request
from clew.gateway.feeds import Feeds
from clew.gateway.stream_guard import Listener, StreamGuard

HEARTBEAT: Final = 15.0
"""Seconds without an event, after which a comment is sent."""
GOODBYE: Final = 1.0
"""Seconds that a client has to read the end of the stream."""
ALIVE: Final = b": alive\n\n"
HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)

Chunks: TypeAlias = AsyncGenerator[bytes]


class FollowSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`after` is the number of the last message that the client has; left out, from now on.

    The header `Last-Event-ID` says the same, and wins over it.
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
    who="guest",
    help="Follow a session as an event stream (SSE); `id` is a message's number.",
    answer="events",
)


def make_events_endpoint(
    feeds: Feeds, guard: StreamGuard, *, heartbeat: float = HEARTBEAT
) -> Endpoint:
    """The endpoint of a session's events."""

    async def respond(request: Request, given: Credential) -> Response:
        params: Any = await read_request(EVENTS, request)
        after = _read_last_id(request)
        after = params.after if after is None else after
        return EventStream(
            guard, given, lambda: _follow(feeds, params.id, after, given.caller, heartbeat)
        )

    return Endpoint(operation=EVENTS, respond=respond)


def stream_chat(
    calls: Calls,
    guard: StreamGuard,
    params: SendChat,
    given: Credential,
    *,
    heartbeat: float = HEARTBEAT,
) -> EventStream:
    """The answer to `chat.send` with `stream`."""
    return EventStream(guard, given, lambda: _answer(calls.stream(params, given.caller), heartbeat))


def _read_last_id(request: Request) -> int | None:
    given = ",".join(request.headers.getlist("last-event-id"))
    if not given:
        return None
    with contextlib.suppress(msgspec.ValidationError):
        if given.isascii() and given.isdecimal():
            number: int = msgspec.convert(given, Seq, strict=False)
            return number
    raise InvalidInput("Last-Event-ID has to be a message's number.")


# --- what is streamed ---------------------------------------------------------------------------
async def _follow(
    feeds: Feeds, session_id: str, after: int | None, caller: Caller, heartbeat: float
) -> Chunks:
    """The events of a session, until the session is gone."""
    session = await get_visible(feeds.parts, session_id, caller)
    start = session.head if after is None else after
    queue = ClientQueue()
    follower = feeds.follow(session_id, session.head, queue, start)
    try:
        # A client that is cut off before the first message can resume exactly, too.
        yield b"id: %d\nretry: 1000\n\n" % start
        while True:
            if not await _within(queue, heartbeat):
                yield ALIVE
            while items := queue.take():
                yield b"".join([to_sse(each.frame) for each in items])
                if isinstance(items[-1].frame, ErrorFrame):
                    return
            if queue.find_behind() is not None:
                for each in await follower.catch_up():
                    yield to_sse(each.frame)
    finally:
        await feeds.leave(follower, queue)


async def _answer(frames: AsyncGenerator[StreamFrame], heartbeat: float) -> Chunks:
    """The events of a message until it is answered. Errors before it is stored are raised."""
    async with contextlib.aclosing(frames):
        yield to_sse(await anext(frames))
        queue = ClientQueue()
        pump = asyncio.create_task(_pump(frames, queue), name="answer")
        try:
            while True:
                if not await _within(queue, heartbeat):
                    yield ALIVE
                while items := queue.take():
                    yield b"".join([to_sse(each.frame) for each in items])
                    if isinstance(items[-1].frame, DoneFrame | ErrorFrame):
                        return
                if pump.done() and not pump.cancelled() and pump.exception() is not None:
                    pump.result()
        finally:
            pump.cancel()
            await asyncio.wait({pump})


async def _pump(frames: AsyncIterator[StreamFrame], queue: ClientQueue) -> None:
    """Fill the queue from the turn: a hint that does not fit is lost, a message waits for room.

    While it waits, the runtime's own backlog fills; what is lost there is read from the store.
    """
    last, has_gap = 0, False
    try:
        async for frame in frames:
            item = item_of(frame)
            if queue.is_full and _is_hint(item):
                has_gap = True
                continue
            await queue.room()
            if has_gap and isinstance(frame, EventFrame):
                queue.put(item_of(GapFrame(frame.session, last)))
                has_gap = False
            last = item.seq or last
            queue.put(item)
    except ClewError as error:
        queue.put(item_of(ErrorFrame(problem_of(error))))


def _is_hint(item: Item) -> bool:
    return isinstance(item.frame, EventFrame) and item.seq is None


async def _within(queue: ClientQueue, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await queue.wait()
    except TimeoutError:
        return False
    return True


# --- how it goes out ----------------------------------------------------------------------------
class EventStream(Response):
    """A response that lasts until its events end, the client leaves, or `StreamGuard` ends it."""

    def __init__(
        self,
        guard: StreamGuard,
        given: Credential,
        open_chunks: Callable[[], Chunks],
        *,
        farewell: Callable[[ClewError], bytes] = lambda error: to_sse(
            ErrorFrame(problem_of(error))
        ),
    ) -> None:
        """`farewell` makes the last event of a stream whose credential has ended."""
        super().__init__()
        self._farewell = farewell
        self._guard = guard
        self._given = given
        self._open_chunks = open_chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. An error before the first event is raised, for an ordinary answer."""
        with self._guard.enter(self._given) as listener:
            async with contextlib.aclosing(self._open_chunks()) as chunks:
                first = await anext(chunks)
                start = {"type": "http.response.start", "status": 200, "headers": list(HEADERS)}
                await send(start)
                await _send(send, listener, first)
                if scope["method"] != "HEAD":
                    await _stream(chunks, listener, receive, send)
            last = b""
            if listener.ended.done() and listener.ended.result().code == UNAUTHORIZED:
                last = self._farewell(Unauthorized(listener.ended.result().reason))
            # A client that does not read does not get this either, and the server drops it.
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(GOODBYE):
                    await send({"type": "http.response.body", "body": last, "more_body": False})


async def _stream(chunks: Chunks, listener: Listener, receive: Receive, send: Send) -> None:
    """Send all chunks, unless the client leaves or the stream has to end."""

    async def send_all() -> None:
        async for chunk in chunks:
            await _send(send, listener, chunk)

    await listener.run(send_all(), until_gone(receive))


async def _send(send: Send, listener: Listener, chunk: bytes) -> None:
    with listener.sending():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def until_gone(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
