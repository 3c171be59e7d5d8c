"""`/v1/openai/…`: programs that speak OpenAI's API talk to clew's agent.

A request is one `chat.send`, in a session of the token that asks, and is answered by its turn. What
a message may do is decided behind `chat.send`; how requests and answers look is in `openai_shapes`.
Nobody is asked for approvals: what would need one is refused, and the answer says so. A turn goes
on when its caller leaves, as any turn does.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from clew.api import models
from clew.api.chat import SEND, SendChat
from clew.api.frames import UNAUTHORIZED, AcceptedFrame, EventFrame, StreamFrame
from clew.api.handlers.chat import open_conversation
from clew.api.local import Calls
from clew.api.operation import NoParams, Operation, read_params
from clew.api.problems import problem_of
from clew.clock import host_clock
from clew.core.keys import check_key
from clew.core.live_events import Committed, Retrying, TextDelta, TurnEnded
from clew.core.text import to_wire
from clew.core.turn import UNASKED, Turn
from clew.errors import ClewError, Conflict, InvalidInput, ModelNotFound, TurnFailed, Unauthorized
from clew.gateway import openai_shapes as shapes
from clew.gateway.auth import Credential
from clew.gateway.call_limits import RunningCalls
from clew.gateway.endpoints import MAX_UPLOAD, Endpoint, read_json, read_query, read_request
from clew.gateway.event_streams import ALIVE, HEARTBEAT, EventStream, until_gone
from clew.gateway.problems import OPENAI, Refused, openai_error, respond
from clew.gateway.stream_guard import Listener, StreamGuard

PLATFORM: Final = "openai"
HEADER: Final = "x-clew-conversation"
LONGEST_HEADER: Final = 200
AGAIN: Final = "[The answer was interrupted; here it is from its beginning:]"
NO_RETRY: Final = {"x-should-retry": "false"}
"""Tells OpenAI's libraries not to send a message again whose turn has run."""

CHAT: Final[Operation[Any, Any]] = Operation(
    name="openai.chat",
    method="POST",
    path=f"{OPENAI}chat/completions",
    scope="chat",
    takes=shapes.CompletionRequest,
    gives=shapes.Completion,
    who="guest",
    help="OpenAI's chat completions: the last message goes to a session of this token.",
    answer="events",
    uploads=True,
)
RESPOND: Final[Operation[Any, Any]] = Operation(
    name="openai.respond",
    method="POST",
    path=f"{OPENAI}responses",
    scope="chat",
    takes=shapes.ResponseRequest,
    gives=shapes.Response,
    who="guest",
    help="OpenAI's responses: the last message goes to a session of this token.",
    answer="events",
    uploads=True,
)
MODELS: Final[Operation[Any, Any]] = Operation(
    name="openai.models",
    method="GET",
    path=f"{OPENAI}models",
    scope="chat",
    takes=NoParams,
    gives=shapes.ModelPage,
    who="guest",
    help="The models that requests in OpenAI's shape can name.",
)


def make_openai_endpoints(
    calls: Calls, guard: StreamGuard, running: RunningCalls, *, heartbeat: float = HEARTBEAT
) -> tuple[Endpoint, ...]:
    """The endpoints of the door."""
    door = _Door(calls, guard, running, heartbeat)
    return (
        Endpoint(operation=CHAT, respond=door.complete, frames=dict[str, Any]),
        Endpoint(operation=RESPOND, respond=door.respond, frames=dict[str, Any]),
        Endpoint(operation=MODELS, respond=door.list_models),
    )


class _Door:
    """Answers the requests of the door."""

    def __init__(
        self, calls: Calls, guard: StreamGuard, running: RunningCalls, heartbeat: float
    ) -> None:
        self._calls = calls
        self._guard = guard
        self._running = running
        self._heartbeat = heartbeat

    async def complete(self, request: Request, given: Credential) -> Response:
        """`POST chat/completions`."""
        body: Any = await self._read(CHAT, request, given)
        asked = shapes.read_completion(body)
        stream = shapes.CompletionStream(has_usage=asked.has_usage)
        return await self._answer(request, given, asked, stream, shapes.make_completion)

    async def respond(self, request: Request, given: Credential) -> Response:
        """`POST responses`."""
        body: Any = await self._read(RESPOND, request, given)
        asked = shapes.read_response(body)
        return await self._answer(
            request, given, asked, shapes.ResponseStream(), shapes.make_response
        )

    async def list_models(self, request: Request, given: Credential) -> Response:
        """`GET models`: the agent, and for the owner the models of the configuration."""
        await read_request(MODELS, request)
        names = await self._list_models(given)
        page = shapes.ModelPage(data=[shapes.ModelEntry(id=each) for each in names])
        return Response(to_wire(page), media_type="application/json")

    async def _list_models(self, given: Credential) -> tuple[str, ...]:
        if not given.caller.is_owner:
            return (shapes.AGENT,)
        listed = await self._calls.call(models.LIST, NoParams(), given.caller)
        return (shapes.AGENT, *(each.name for each in listed.models))

    async def _read(
        self, operation: Operation[Any, Any], request: Request, given: Credential
    ) -> Any:
        async with self._running.receive(operation, given):
            body = await read_json(request, MAX_UPLOAD)
        if read_query(request):
            raise InvalidInput("Nothing is taken from the query here. Nothing was sent.")
        return read_params(operation, body)

    async def _answer(
        self,
        request: Request,
        given: Credential,
        asked: shapes.Asked,
        stream: shapes.CompletionStream | shapes.ResponseStream,
        make: Callable[[shapes.Told], shapes.Completion | shapes.Response],
    ) -> Response:
        if asked.model is not None and asked.model not in await self._list_models(given):
            raise ModelNotFound(
                f'There is no model "{asked.model[:100]}" here for this token: "{shapes.AGENT}" is '
                f"the agent with its own choice, and GET {OPENAI}models lists all. "
                "Nothing was sent."
            )
        message, name = await self._address(request, given, asked)
        heard = _Heard(name)
        frames = self._calls.stream(message, given.caller)
        if asked.is_streamed:
            return EventStream(
                self._guard,
                given,
                lambda: _stream(frames, heard, stream, self._heartbeat),
                farewell=lambda error: stream.fail(heard.told, openai_error(problem_of(error))),
            )
        with self._guard.enter(given) as listener:
            error = await _wait(request, listener, frames, heard)
        if error is None:
            return Response(to_wire(make(heard.told)), media_type="application/json")
        failed = respond(error, request.url.path)
        # With its key it would find the same turn; without, it would begin another.
        failed.headers.update({} if message.idempotency_key else NO_RETRY)
        return failed

    async def _address(
        self, request: Request, given: Credential, asked: shapes.Asked
    ) -> tuple[SendChat, str | None]:
        """The message with its session, which is made if there is none; and the session's name."""
        caller = given.caller
        key = _digest_key(request, caller.token_id)
        name = _read_header(request) or asked.name
        # All is checked before a session is made.
        fields = asked.message | ({"earlier": []} if name else {}) | {"attended": False}
        message = read_params(SEND, fields | ({"idempotency_key": key} if key else {}))
        if not message.text.strip() and not message.attachments:
            raise InvalidInput("The last message is empty. Nothing was sent.")
        # A second delivery has to find the same session.
        own = name or f"-{key or secrets.token_hex(16)}"
        session = await open_conversation(
            self._calls.parts,
            caller,
            check_key(f"{PLATFORM}:{caller.token_id or caller.person}:{own}"),
            platform=PLATFORM,
            model=asked.model,
        )
        return read_params(SEND, _with_session(message, session.id)), name


def _with_session(message: SendChat, session_id: str) -> dict[str, Any]:
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return fields | {"session": session_id}


def _read_header(request: Request) -> str | None:
    given = request.headers.getlist(HEADER)
    if len(given) > 1 or any(not each or len(each) > LONGEST_HEADER for each in given):
        raise InvalidInput(
            f"X-Clew-Conversation has to be one name of 1 to {LONGEST_HEADER} letters."
        )
    return given[0] if given else None


def _digest_key(request: Request, token_id: str | None) -> str | None:
    """The idempotency key of a request, apart from those of other tokens."""
    given = request.headers.getlist("idempotency-key")
    if len(given) > 1 or any(not each for each in given):
        raise InvalidInput("Idempotency-Key has to be one text. Nothing was sent.")
    if not given:
        return None
    named = f"{PLATFORM}\0{token_id}\0{given[0]}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(named).hexdigest()[:40]


# --- hearing a turn -----------------------------------------------------------------------------
class _Heard:
    """What was heard of a turn so far, and how much of its text was sent."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._inbound, self._session = "", ""
        self._created = host_clock() // 1000
        self._turn: Turn | None = None
        self._texts: list[str] = []
        self._refused: list[str] = []
        self._sent, self._now = "", ""
        """What was sent of the message that streams, and what the present attempt has of it."""
        self._has_gap = False

    @property
    def told(self) -> shapes.Told:
        """The turn as it is told."""
        return shapes.Told(
            inbound=self._inbound,
            session=self._session,
            created=self._created,
            texts=tuple(self._texts),
            refused=tuple(self._refused),
            turn=self._turn,
            name=self._name,
        )

    def hear(self, frame: StreamFrame) -> str:
        """Take in a frame; returns the text to send for it. Raises if the turn has failed."""
        if isinstance(frame, AcceptedFrame):
            self._inbound, self._session = frame.accepted.inbound, frame.accepted.session
        event = frame.event if isinstance(frame, EventFrame) else None
        match event:
            case TextDelta(text):
                return self._add(text)
            case Retrying():
                # What was sent can't be taken back; the next attempt may say the same.
                self._now, self._has_gap = "", bool(self._sent)
            case Committed(message) if message.role == "assistant" and message.content:
                return self._complete(message.content)
            case Committed(message) if message.role == "tool" and message.content == UNASKED:
                self._refused.append(message.tool_name or "a tool")
            case TurnEnded(turn):
                return self._end(turn)
        return ""

    def _add(self, text: str) -> str:
        self._now += text
        if self._has_gap:
            if not self._now.startswith(self._sent):
                return ""
            text, self._has_gap = self._now[len(self._sent) :], False
        begins = not self._sent and bool(self._texts) and bool(text)
        self._sent = self._now
        return f"\n\n{text}" if begins else text

    def _complete(self, content: str) -> str:
        """A whole message: send what is missing, or all of it again if what was sent differs."""
        begins = not self._sent and bool(self._texts)
        if content.startswith(self._sent):
            rest = content[len(self._sent) :]
        else:
            rest = f"\n\n{AGAIN}\n\n{content}"
        self._texts.append(content)
        self._sent, self._now, self._has_gap = "", "", False
        return f"\n\n{rest}" if begins and rest else rest

    def _end(self, turn: Turn) -> str:
        self._turn = turn
        if turn.status == "failed":
            raise TurnFailed(turn.error or "The turn failed.")
        if turn.status != "done":
            raise Conflict(f"The turn was {turn.status} before it was answered.")
        note = shapes.note_refused(self._refused)
        return f"\n\n{note}" if note and self._texts else note


async def _wait(
    request: Request, listener: Listener, frames: AsyncGenerator[StreamFrame], heard: _Heard
) -> ClewError | Refused | None:
    """Hear a turn to its end. Returns the error of a turn that was accepted and has no answer."""
    failed: list[ClewError | Refused] = []

    async def listen() -> None:
        async with contextlib.aclosing(frames):
            heard.hear(await anext(frames))
            try:
                async for frame in frames:
                    heard.hear(frame)
            except ClewError as error:
                failed.append(error)

    leaving = False

    async def leave() -> None:
        nonlocal leaving
        await until_gone(request.receive)
        leaving = True

    await listener.run(listen(), leave())
    if failed:
        return failed[0]
    if heard.told.turn is not None:
        return None
    if leaving:
        raise ClientDisconnect
    ending = listener.ended.result()
    if ending.code == UNAUTHORIZED:
        raise Unauthorized(ending.reason)
    return Refused(503, "closing", f"The gateway ends: {ending.reason}.")


async def _stream(
    frames: AsyncGenerator[StreamFrame],
    heard: _Heard,
    stream: shapes.CompletionStream | shapes.ResponseStream,
    heartbeat: float,
) -> AsyncGenerator[bytes]:
    """The events of a turn. Errors before its message is stored are raised."""
    async with contextlib.aclosing(frames):
        heard.hear(await anext(frames))
        yield stream.begin(heard.told)
        try:
            async with contextlib.aclosing(_with_pauses(frames, heartbeat)) as steps:
                async for frame in steps:
                    piece = "" if frame is None else heard.hear(frame)
                    if frame is None:
                        yield ALIVE
                    elif piece:
                        yield stream.add(heard.told, piece)
        except ClewError as error:
            yield stream.fail(heard.told, openai_error(problem_of(error)))
        else:
            yield stream.end(heard.told)


async def _with_pauses(
    frames: AsyncIterator[StreamFrame], seconds: float
) -> AsyncGenerator[StreamFrame | None]:
    """The frames, and None after so many seconds without one."""
    ending = object()
    coming: asyncio.Future[Any] = asyncio.ensure_future(anext(frames, ending))
    try:
        while True:
            await asyncio.wait({coming}, timeout=seconds)
            if not coming.done():
                yield None
                continue
            frame = coming.result()
            if frame is ending:
                return
            coming = asyncio.ensure_future(anext(frames, ending))
            yield frame
    finally:
        coming.cancel()
        await asyncio.wait({coming})
