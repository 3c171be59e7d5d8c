"""Saying something: `chat.send`, and to which session it goes.

Under a key it is taken in like a message on a channel, with all the rules for those; in a session
that is named it is said as it is. What comes of it is told in `answers`.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from clew.api.chat import ABORT, SEND, Accepted, SendChat
from clew.api.frames import AcceptedFrame, StreamFrame
from clew.api.handlers.answers import answer, describe_accepted
from clew.api.handlers.parts import Caller, Parts, find_replacement, get_visible, handles
from clew.api.handlers.sessions import stop_session
from clew.core.channels.incoming import Attached, Incoming, Sender
from clew.core.channels.replies import API, reply_over_api
from clew.core.channels.routing import Arrival
from clew.core.keys import check_key, complete_key
from clew.core.session import NewSession, Session, may_see
from clew.errors import InvalidInput, SessionNotFound
from clew.runtime.inbound.reception import Ticket

PLATFORM: Final = "sdk"
TERMINAL: Final = "cli"


# --- saying it --------------------------------------------------------------------------------
@handles(SEND)
async def send(parts: Parts, params: SendChat, caller: Caller) -> Accepted:
    """Keep a message; its turn comes."""
    return describe_accepted(await _say(parts, params, caller))


async def stream(parts: Parts, params: SendChat, caller: Caller) -> AsyncGenerator[StreamFrame]:
    """Keep a message, and tell of its turn to the end: accepted, then events, then done.

    What goes wrong before it is kept comes before the first frame.
    """
    sent = await _say(parts, params, caller)
    session = sent.session or await parts.store.get_session(sent.row.session_id or "")
    # Nothing was awaited since the turn was put in its lane: nothing of it has happened yet.
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
    # To wherever the key leads, by the rules of all that comes in.
    key = complete_key(check_key(params.key))
    if parts.reception is None:
        raise InvalidInput("Keys lead nowhere here: name a session. Nothing was sent.")
    return await parts.reception.accept(_message(params, caller, key=key))


async def _say_to_session(parts: Parts, params: SendChat, caller: Caller) -> Ticket:
    """Into that session as it is, or into a new one."""
    if params.platform is not None:
        caller.need_owner("speak as a terminal")
    session = await _open_session(parts, params, caller)
    message = _message(params, caller, key=session.key, session=session.id)
    if params.platform == TERMINAL and parts.is_terminal:
        message = _as_typed_here(message, params)
    # A second delivery that names another session is the first one all the same.
    model = find_replacement(parts, session, params.model)
    return await parts.runtime.accept(message, model=model)


def _message(params: SendChat, caller: Caller, *, key: str, session: str | None = None) -> Incoming:
    return Incoming(
        arrival=Arrival(channel=API, account=caller.person),
        sender=Sender(caller.person),
        person=caller.person,
        scope=caller.scope,
        session=session,
        key=key,
        text=params.text,
        attachments=_list_files(params),
        external_id=params.idempotency_key or secrets.token_hex(8),
        reply_to=reply_over_api(caller.person),
        attended=params.attended,
        platform=params.platform,
    )


def _as_typed_here(message: Incoming, params: SendChat) -> Incoming:
    """A line of a terminal in this process: if that dies, the line waits for its person's word."""
    return msgspec.structs.replace(
        message,
        arrival=Arrival(channel=TERMINAL),
        external_id=params.idempotency_key,
        reply_to=None,
        platform=None,
    )


def _list_files(params: SendChat) -> tuple[Attached, ...]:
    return tuple(Attached(each.media_type, each.data) for each in params.attachments)


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
