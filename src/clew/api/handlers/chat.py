"""Saying something: `chat.send`, and to which session it goes.

Under a key it is taken in like a message on a channel, with all the rules for those; in a session
that is named it is said as it is. What comes of it is told in `answers`.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from clew.api.chat import ABORT, SEND, Accepted, SendChat
from clew.api.frames import AcceptedFrame, StreamFrame
from clew.api.handlers.answers import Sent, answer
from clew.api.handlers.parts import Caller, Parts, get_visible, handles
from clew.api.handlers.sessions import stop_session
from clew.core.arrivals import Attached, Incoming, Sender
from clew.core.channelkeys import complete_key
from clew.core.delivery import NewInbound
from clew.core.keys import check_key
from clew.core.queue_modes import read_mode
from clew.core.replies import API, reply_over_api
from clew.core.routing import Arrival
from clew.core.session import NewSession, Session, may_see
from clew.errors import InvalidInput, ModelNotFound, SessionNotFound
from clew.runtime.intake import keep_file

PLATFORM: Final = "sdk"


# --- saying it --------------------------------------------------------------------------------
@handles(SEND)
async def send(parts: Parts, params: SendChat, caller: Caller) -> Accepted:
    """Keep a message; its turn comes."""
    return _accepted(await _say(parts, params, caller))


async def stream(parts: Parts, params: SendChat, caller: Caller) -> AsyncGenerator[StreamFrame]:
    """Keep a message, and tell of its turn to the end: accepted, then events, then done.

    What goes wrong before it is kept comes before the first frame.
    """
    sent = await _say(parts, params, caller)
    session_id, head = sent.row.session_id or "", sent.head
    if head is None:
        head = (await parts.store.get_session(session_id)).head
    # Nothing was awaited since the turn was put in its lane: nothing of it has happened yet.
    with parts.runtime.watch(session_id, head) as events:
        yield AcceptedFrame(_accepted(sent))
        async with contextlib.aclosing(answer(parts, sent, events)) as frames:
            async for frame in frames:
                yield frame


async def _say(parts: Parts, params: SendChat, caller: Caller) -> Sent:
    if not params.text.strip() and not params.attachments:
        raise InvalidInput("The message is empty. Nothing was sent.")
    if params.key is None:
        return await _say_to_session(parts, params, caller)
    if params.session is not None:
        raise InvalidInput("Name a session or a key, not both. Nothing was sent.")
    return await _say_under_key(parts, params, params.key, caller)


async def _say_to_session(parts: Parts, params: SendChat, caller: Caller) -> Sent:
    """Into that session as it is, or into a new one."""
    if params.platform is not None:
        caller.need_owner("speak as a terminal")
    session = await _open_session(parts, params, caller)
    blobs = [await keep_file(parts.store, each) for each in _list_files(params)]
    inbound_id = secrets.token_hex(8)
    payload: dict[str, Any] = {"text": params.text} | ({"parts": blobs} if blobs else {})
    payload |= {} if params.attended else {"attended": False}
    # What is said in the terminal of this process waits for its person after a crash; what comes
    # over the API is gone on with by the next gateway.
    is_here = params.platform == "cli" and parts.is_terminal
    if not is_here:
        payload["reply_to"] = msgspec.to_builtins(reply_over_api(caller.person))
    new = NewInbound(
        id=inbound_id,
        channel="cli" if is_here else API,
        account=caller.person,
        external_id=params.idempotency_key or inbound_id,
        key=session.key,
        session_id=session.id,
        person=caller.person,
        payload=payload,
    )
    ticket = await parts.runtime.accept(
        new,
        attended=caller.is_owner and params.attended,
        model=_replacement(parts, session, params.model),
        queue=read_mode(session.metadata.get("queue")),
    )
    if ticket.inbound is None:
        raise TypeError("a message that was given has a row in the inbox")
    if not ticket.is_new:
        # One that names another session is the first one all the same.
        return Sent(ticket.inbound, is_new=False)
    return Sent(ticket.inbound, is_new=True, head=session.head, turn=ticket.turn)


def _list_files(params: SendChat) -> tuple[Attached, ...]:
    return tuple(Attached(each.media_type, each.data) for each in params.attachments)


def _replacement(parts: Parts, session: Session, wanted: str | None) -> str | None:
    """What answers in the place of a model that is no longer configured."""
    try:
        parts.models.get_model(session.model)
    except ModelNotFound:
        return parts.models.get_model(wanted).name
    return None


async def _say_under_key(parts: Parts, params: SendChat, key: str, caller: Caller) -> Sent:
    """To wherever the key leads, by the rules of all that comes in."""
    if parts.reception is None:
        raise InvalidInput("Keys lead nowhere here: name a session. Nothing was sent.")
    taken = await parts.reception.take_in(
        Incoming(
            arrival=Arrival(channel=API, account=caller.person),
            sender=Sender(caller.person),
            person=caller.person,
            scope=caller.scope,
            key=complete_key(check_key(key)),
            text=params.text,
            attachments=_list_files(params),
            external_id=params.idempotency_key or secrets.token_hex(8),
            received_at=parts.clock(),
            reply_to=reply_over_api(caller.person),
            attended=params.attended,
        )
    )
    head = None if taken.session is None else taken.session.head
    turn = None if taken.ticket is None else taken.ticket.turn
    return Sent(taken.inbound, is_new=taken.is_new, head=head, turn=turn)


def _accepted(sent: Sent) -> Accepted:
    row = sent.row
    return Accepted(row.session_id or "", row.id, sent.is_new, row.turn_id)


# --- where to ---------------------------------------------------------------------------------
async def _open_session(parts: Parts, params: SendChat, caller: Caller) -> Session:
    """The session that is meant, or a new one."""
    if params.session is not None:
        return await get_visible(parts, params.session, caller)
    # A second delivery has to come to the same new session.
    name = secrets.token_hex(8)
    if params.idempotency_key is not None:
        named = f"{caller.person}\0{params.idempotency_key}".encode("utf-8", "surrogatepass")
        name = hashlib.sha256(named).hexdigest()[:32]
    model = parts.models.get_model()
    new = NewSession(
        key=f"{PLATFORM}:{name}",
        person=caller.person,
        platform=PLATFORM,
        kind="sdk",
        model=model.name,
        provider=model.provider,
    )
    session, _ = await parts.store.open_session(new)
    if not may_see(caller.person, session.person):
        raise SessionNotFound(new.key)  # somebody else has begun one under that name
    return session


handles(ABORT)(stop_session)
