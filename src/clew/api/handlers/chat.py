"""`chat.send`: sends a message to a session, and streams its answer.

A message under a key is accepted like one on a channel, with all its rules; a message to a given
session goes there as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final, Literal

import msgspec

from clew.api.chat import ABORT, SEND, Accepted, SendChat
from clew.api.frames import AcceptedFrame, DoneFrame, EventFrame, StreamFrame, event_frame
from clew.api.handlers.parts import CHOOSE, Caller, Parts, find_replacement, get_visible, handles
from clew.api.handlers.sessions import stop_session
from clew.core.channels.incoming import Incoming, Sender
from clew.core.channels.replies import API, Attached, reply_over_api
from clew.core.channels.routing import Arrival
from clew.core.decision import read_decision
from clew.core.delivery import Inbound
from clew.core.keys import check_key, complete_key
from clew.core.live_events import (
    ApprovalAsked,
    ApprovalDecided,
    Committed,
    Event,
    Notice,
    TurnEnded,
    TurnStarted,
)
from clew.core.session import NewSession, Session, may_see
from clew.core.turn import Turn
from clew.errors import Conflict, InvalidInput, RecordNotFound, SessionNotFound
from clew.runtime.inbound.reception import Ticket, ticket_of
from clew.runtime.watch import list_answers

PLATFORM: Final[Literal["sdk"]] = "sdk"
WEB: Final[Literal["web"]] = "web"
TERMINAL: Final = "cli"

LOOK: Final = 1.0
"""Seconds without an event after which the store is checked."""


TAIL: Final = 1_000
"""How many of the newest messages are searched for those of a turn."""


# --- saying it --------------------------------------------------------------------------------
@handles(SEND)
async def send(parts: Parts, params: SendChat, caller: Caller) -> Accepted:
    """Store a message; its turn follows."""
    return describe_accepted(await _say(parts, params, caller))


async def stream(parts: Parts, params: SendChat, caller: Caller) -> AsyncGenerator[StreamFrame]:
    """Store a message and stream its turn to the end: accepted, then events, then done.

    Errors before it is stored are raised before the first frame.
    """
    sent = await _say(parts, params, caller)
    session = sent.session or await parts.store.get_session(sent.row.session_id or "")
    # No await since the turn was put in its lane: none of its events can be missed.
    with parts.runtime.watch(session.id, session.head) as events:
        yield AcceptedFrame(describe_accepted(sent))
        async with contextlib.aclosing(answer(parts, sent, events)) as frames:
            async for frame in frames:
                yield frame


async def _say(parts: Parts, params: SendChat, caller: Caller) -> Ticket:
    if not params.text.strip() and not params.attachments:
        raise InvalidInput("The message is empty. Nothing was sent.")
    if params.platform is not None:
        caller.need_owner("say what a message is shown as")
    if params.key is None:
        return await _say_to_session(parts, params, caller)
    if params.session is not None:
        raise InvalidInput("Name a session or a key, not both. Nothing was sent.")
    # To the session that the key leads to, by the rules for incoming messages.
    key = complete_key(check_key(params.key))
    if parts.reception is None:
        raise InvalidInput("Keys can't be used here: name a session. Nothing was sent.")
    return await parts.reception.accept(_message(params, caller, key=key))


async def _say_to_session(parts: Parts, params: SendChat, caller: Caller) -> Ticket:
    """Send a message to the given session, or to a new one."""
    if params.model is not None:
        caller.need_owner(CHOOSE)
    session = await _open_session(parts, params, caller)
    message = _message(params, caller, key=session.key, session=session.id)
    if params.platform == TERMINAL and parts.is_terminal:
        message = _as_typed_here(message, params)
    # A second delivery counts as the first one, even if it names another session.
    model = find_replacement(parts, session, params.model)
    return await parts.runtime.accept(message, model=model)


def _message(params: SendChat, caller: Caller, *, key: str, session: str | None = None) -> Incoming:
    return Incoming(
        arrival=Arrival(channel=API, account=caller.person),
        sender=Sender(caller.person),
        person=caller.person,
        scopes=caller.scopes,
        session=session,
        key=key,
        text=params.text,
        attachments=_list_files(params),
        external_id=params.idempotency_key or secrets.token_hex(8),
        reply_to=reply_over_api(caller.person),
        attended=params.attended,
        platform=params.platform,
        instructions=params.instructions,
        earlier=params.earlier,
    )


def _as_typed_here(message: Incoming, params: SendChat) -> Incoming:
    """Mark a line typed in this process: after a crash it waits until the person confirms it."""
    return msgspec.structs.replace(
        message,
        arrival=Arrival(channel=TERMINAL),
        external_id=params.idempotency_key,
        reply_to=None,
        platform=None,
    )


def _list_files(params: SendChat) -> tuple[Attached, ...]:
    return tuple(Attached(each.media_type, each.data, each.name) for each in params.attachments)


# --- where to ---------------------------------------------------------------------------------
async def _open_session(parts: Parts, params: SendChat, caller: Caller) -> Session:
    """The session of the message, or a new one."""
    if params.session is not None:
        return await get_visible(parts, params.session, caller)
    # A second delivery has to find the same new session.
    name = secrets.token_hex(8)
    if params.idempotency_key is not None:
        named = f"{caller.person}\0{params.idempotency_key}".encode("utf-8", "surrogatepass")
        name = hashlib.sha256(named).hexdigest()[:32]
    platform: Literal["web", "sdk"] = WEB if params.platform == WEB else PLATFORM
    key = f"{platform}:{name}"
    return await open_conversation(
        parts, caller, key, platform=platform, kind=platform, model=params.model
    )


async def open_conversation(
    parts: Parts,
    caller: Caller,
    key: str,
    *,
    platform: str,
    kind: Literal["web", "sdk"] = PLATFORM,
    model: str | None = None,
) -> Session:
    """The session that a key leads to, made if there is none; only if the caller may see it."""
    if model is not None:
        caller.need_owner(CHOOSE)
    info = parts.models.get_model(model)
    new = NewSession(
        key=key,
        person=caller.person,
        platform=platform,
        kind=kind,
        model=info.name,
        provider=info.provider,
    )
    session, _ = await parts.store.open_session(new)
    if not may_see(caller.person, session.person):
        raise SessionNotFound(new.key)  # another person has begun a session with that id
    return session


handles(ABORT)(stop_session)


def describe_accepted(sent: Ticket) -> Accepted:
    """Describe a message that was stored, for the caller."""
    row = sent.row
    return Accepted(row.session_id or "", row.id, sent.is_new, row.turn_id)


async def answer(
    parts: Parts, sent: Ticket, events: AsyncIterator[Event]
) -> AsyncGenerator[EventFrame | DoneFrame]:
    """The events of the turn that answers a message, taken from the session's `events`."""
    watch = _Watch(parts, sent)
    for text in await _list_told(parts, sent.row):
        yield watch.frame(Notice(text))
    if read_decision(sent.row).command is not None:
        yield DoneFrame(sent.row.id)
        return
    if not sent.is_new:
        over = await watch.look()
        for frame in await watch.catch_up():
            yield frame
        if over is not None:
            yield watch.frame(over)
            yield DoneFrame(sent.row.id, over.turn.id)
            return
    async with contextlib.aclosing(_with_pauses(events, _own_turn(sent))) as steps:
        async for event in steps:
            ended = await watch.look() if event is None else None
            if event is not None and await watch.is_about(event):
                if isinstance(event, TurnEnded):
                    ended = event
                else:
                    yield watch.frame(event)
            if ended is not None:
                for frame in await watch.catch_up():
                    yield frame
                yield watch.frame(ended)
                yield DoneFrame(sent.row.id, ended.turn.id)
                return


async def _list_told(parts: Parts, row: Inbound) -> list[str]:
    """Notices without a turn: that a reset came first, or the answer of a command."""
    decision = read_decision(row)
    if decision.command is None and decision.opens is None:
        return []
    await parts.runtime.reception.answered(row)
    told = []
    for what in ("notice", "reply"):
        with contextlib.suppress(RecordNotFound):
            told.append((await parts.store.get_outbound(f"{row.id}-{what}")).content)
    return told


async def find_turn(parts: Parts, row: Inbound) -> Turn | None:
    """The turn that answers a message, running or ended; None if there is none."""
    return await _Watch(parts, ticket_of(row)).find_turn()


class _Watch:
    """Follows the turn that answers one message."""

    def __init__(self, parts: Parts, sent: Ticket) -> None:
        self._store = parts.store
        self._runtime = parts.runtime
        self._sent = sent
        self._session_id = sent.row.session_id or ""
        self._turn_id = sent.row.turn_id
        self._before: tuple[str, ...] = ()
        """Turns that were cut off; the answering turn may continue one of them."""
        self._is_cut_off = False
        self._seen = 0
        self._is_on = False
        """Whether the running turn is the one that answers: then every hint is about it."""

    def frame(self, event: Event) -> EventFrame:
        """The frame of an event, with the message that it answers."""
        return event_frame(self._session_id, event, inbound=self._sent.row.id)

    async def is_about(self, event: Event) -> bool:
        """Whether an event of the session belongs to the answer."""
        match event:
            case Committed(message):
                if message.role == "user":
                    await self._learn()
                self._is_on = message.turn_id is not None and message.turn_id == self._turn_id
                is_new = message.seq > self._seen
                self._seen = max(self._seen, message.seq)
                return self._is_on and is_new
            case TurnStarted(turn_id):
                await self._learn()
                if self._is_cut_off:
                    await self.look()
                self._is_on = turn_id == self._turn_id
            case TurnEnded(turn):
                return turn.id == self._turn_id
            case ApprovalAsked(approval) | ApprovalDecided(approval):
                await self._learn()  # a waiting question may come before its message
                return approval.turn_id == self._turn_id
            case Notice():
                return self._is_on or self._turn_id is None  # for example why it has to wait
            case _:
                pass
        return self._is_on

    async def catch_up(self) -> list[EventFrame]:
        """Frames for the turn's messages that were not sent yet."""
        if self._turn_id is None:
            return []
        messages = await self._store.get_messages(
            self._session_id, TAIL, after=self._seen, undone=True
        )
        turns = (*self._before, self._turn_id)
        missed = [each for each in messages if each.turn_id in turns]
        self._seen = messages[-1].seq if messages else self._seen
        return [self.frame(Committed(each)) for each in missed]

    async def find_turn(self) -> Turn | None:
        """The turn that answers the message, or continues that turn; None if there is none yet.

        A turn that was cut off and may still be continued has not ended.
        """
        if self._turn_id is None:
            return None
        turn = await self._find_last(await self._store.get_turn(self._turn_id))
        return msgspec.structs.replace(turn, ended_at=None) if self._is_cut_off else turn

    async def look(self) -> TurnEnded | None:
        """The turn, if it has ended; `Conflict` if there will be none."""
        await self._learn()
        turn = await self.find_turn()
        if turn is not None and turn.ended_at is None:
            return None
        if turn is not None:
            return TurnEnded(turn, await list_answers(self._store, turn.id))
        done = _own_turn(self._sent)
        if done is not None and done.done():
            error = None if done.cancelled() else done.exception()
            raise error or Conflict(
                "Its turn did not begin: it was taken back, or clew is closing."
            )
        return None

    async def _find_last(self, turn: Turn) -> Turn:
        """The turn, or the one that continues it if a restart cut it off."""
        self._is_cut_off = False
        if not _is_cut_off(turn):
            return turn
        turns = await self._store.list_turns(self._session_id, limit=TAIL)
        ids = [each.id for each in turns]
        later = list(turns[ids.index(turn.id) + 1 :]) if turn.id in ids else []
        messages = await self._store.get_messages(self._session_id, TAIL, undone=True)
        first = {each.turn_id: each.role for each in reversed(messages)}
        # A turn that continues another begins without a user message.
        while later and _is_cut_off(turn) and first.get(later[0].id) != "user":
            self._before, turn = (*self._before, turn.id), later.pop(0)
        self._turn_id = turn.id
        may_go_on = not later and self._runtime.is_running(self._session_id)
        self._is_cut_off = may_go_on and _is_cut_off(turn)
        return turn

    async def _learn(self) -> None:
        """Read from the inbox row which turn answers the message."""
        if self._turn_id is None:
            row = await self._store.get_inbound(self._sent.row.id)
            self._turn_id = row.turn_id
            if row.status == "dropped":
                raise Conflict("The message was taken back before its turn began.")


def _own_turn(sent: Ticket) -> asyncio.Future[Turn] | None:
    """The future turn of a message that this call has put in its lane."""
    return sent.turn if sent.is_new else None


def _is_cut_off(turn: Turn) -> bool:
    return turn.status == "interrupted"


async def _with_pauses(
    events: AsyncIterator[Event], turn: asyncio.Future[Turn] | None
) -> AsyncGenerator[Event | None]:
    """The events; None after a pause without one, and if there will be no turn."""
    loop = asyncio.get_running_loop()
    hopeless: asyncio.Future[None] = loop.create_future()

    def look(done: asyncio.Future[Turn]) -> None:
        if not hopeless.done() and (done.cancelled() or done.exception() is not None):
            hopeless.set_result(None)

    if turn is not None:
        turn.add_done_callback(look)
    coming = asyncio.ensure_future(anext(events))
    try:
        while True:
            waits: set[asyncio.Future[Any]] = {coming}
            waits |= set() if hopeless.done() else {hopeless}
            await asyncio.wait(waits, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                yield None
                continue
            event = coming.result()
            coming = asyncio.ensure_future(anext(events))
            yield event
    finally:
        if turn is not None:
            turn.remove_done_callback(look)
        coming.cancel()
        await asyncio.wait({coming})
