"""Handlers of the explanations: they call the deciding functions with the rules of this process.

They open, move and write nothing. Only the owner may ask: the answers reveal the configuration.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Final

from clew.api.explain import (
    CONTINUE,
    KEY,
    RESET,
    RESUME,
    ROUTE,
    SEND,
    SESSION,
    TRIGGER,
    ContinueExplained,
    ExplainContinue,
    ExplainKey,
    ExplainPlace,
    ExplainReset,
    ExplainResume,
    ExplainRoute,
    ExplainSend,
    ExplainSession,
    ExplainTrigger,
    KeyExplained,
    RejectedSession,
    ResetExplained,
    ResumeExplained,
    SendExplained,
    SessionExplained,
)
from clew.api.handlers.parts import Caller, Parts, get_visible, handles, view
from clew.api.sessions import SessionView
from clew.core.channels.resets import channel_of, choose_policy, decide_reset, reset_type
from clew.core.channels.routing import Arrival, Route, parse_peer, route
from clew.core.channels.send_policy import decide_send, describe_conversation
from clew.core.channels.triggers import Triggered, read_trigger
from clew.core.keys import Identity, Place
from clew.core.resume import Breadcrumb, candidate_of
from clew.errors import InvalidInput, SessionNotFound
from clew.runtime.place.directories import find_cli_key
from clew.runtime.place.resume import locate_continue, look_up
from clew.runtime.zones import get_zone

SHOWN: Final = 100
"""How many matches an explanation lists."""


@handles(ROUTE)
async def explain_route(parts: Parts, params: ExplainRoute, _caller: Caller) -> Route:
    """Which agent and which session key a message would have."""
    arrival = Arrival(
        channel=params.channel,
        account=params.account,
        peer=None if params.peer is None else parse_peer(params.peer),
        guild=params.guild,
        team=params.team,
        thread=params.thread,
        is_forum=params.is_forum,
        is_owner=params.is_owner,
    )
    return route(parts.rules.routing, arrival)


@handles(RESET)
async def explain_reset(parts: Parts, params: ExplainReset, _caller: Caller) -> ResetExplained:
    """Whether a conversation would continue or be reset."""
    zone = parts.rules.zone if params.timezone is None else get_zone(params.timezone)
    last = _read_time(params.updated_at, zone, "updated_at")
    now = parts.clock() if params.now is None else _read_time(params.now, zone, "now")
    kind = reset_type(params.key, thread=params.thread)
    channel = params.channel or channel_of(params.key)
    policy = choose_policy(parts.rules.resets, kind, channel)
    found = decide_reset(policy, last, now, zone)
    return ResetExplained(
        key=params.key,
        type=kind,
        channel=channel,
        policy=policy,
        fresh=found.fresh,
        reason=found.reason,
        boundary=None if found.boundary is None else _iso(found.boundary, zone),
        idle_until=None if found.idle_until is None else _iso(found.idle_until, zone),
        updated_at=_iso(last, zone),
        now=_iso(now, zone),
    )


def _read_time(text: str, zone: tzinfo, name: str) -> int:
    try:
        moment = datetime.fromisoformat(text.strip())
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            f"{name} must be a time such as 2026-03-10T08:00, not {text[:40]!r}."
        ) from error


def _iso(at: int, zone: tzinfo) -> str:
    moment = datetime.fromtimestamp(at / 1000, zone)
    return moment.isoformat(timespec="milliseconds" if at % 1000 else "seconds")


@handles(SEND)
async def explain_send(parts: Parts, params: ExplainSend, _caller: Caller) -> SendExplained:
    """Whether replies in a conversation would be delivered."""
    where = describe_conversation(params.key, params.channel, params.chat_type)
    found = decide_send(parts.rules.sending, where, override=params.override)
    return SendExplained(
        where.key, where.channel, where.chat_type, found.decision, found.rule, found.considered
    )


@handles(TRIGGER)
async def explain_trigger(parts: Parts, params: ExplainTrigger, _caller: Caller) -> Triggered:
    """Whether a message begins a new conversation, with which model and first message."""
    return read_trigger(
        params.message,
        extra=parts.rules.triggers,
        mention=params.mention,
        may_command=params.is_owner,
        models=parts.rules.models,
    )


@handles(RESUME)
async def explain_resume(parts: Parts, params: ExplainResume, _caller: Caller) -> ResumeExplained:
    """Which session `--resume VALUE` would find, at which step, and which were rejected."""
    place = Place(params.cwd, params.project, "", Identity(-1, -1), params.scope)
    found = await look_up(parts.store, params.value, place)
    short_ids = await parts.store.shorten_ids([each.session_id for each in found.rejected])
    rejected = [
        RejectedSession(
            candidate_of(
                await parts.store.get_session(each.session_id), short_ids[each.session_id]
            ),
            each.step,
            each.why,
        )
        for each in found.rejected
    ]
    matches = [await view(parts, each) for each in found.matches[:SHOWN]]
    return ResumeExplained(found.value, found.step, tuple(matches), tuple(rejected))


@handles(CONTINUE)
async def explain_continue(
    parts: Parts, params: ExplainContinue, _caller: Caller
) -> ContinueExplained:
    """Which session `--continue` would open."""
    crumb = None
    if params.crumb_cwd is not None:
        crumb = Breadcrumb(params.crumb_cwd, params.crumb_session, params.crumb_fresh)
    place = _place(params)
    _, found = await locate_continue(parts.store, place, crumb, params.key, follow=False)
    session = None if found.session is None else await view(parts, found.session)
    return ContinueExplained(session, found.why, found.note)


def _place(params: ExplainPlace) -> Place:
    identity = Identity(params.device, params.inode, params.born)
    return Place(params.cwd, params.project, params.basename, identity, params.scope)


@handles(KEY)
async def explain_key(parts: Parts, params: ExplainKey, _caller: Caller) -> KeyExplained:
    """Which key a directory has; sessions of a directory that moved are not updated."""
    found = await find_cli_key(parts.store, _place(params), params.key, follow=False)
    session = None if found.session is None else await view(parts, found.session)
    return KeyExplained(found.key, found.rule, session, found.moved_from)


@handles(SESSION)
async def explain_session(parts: Parts, params: ExplainSession, caller: Caller) -> SessionExplained:
    """What decided about a session, and what would be decided about its next message."""
    session = await get_visible(parts, params.id, caller)
    key, last = session.key, session.last_interaction_at
    reset = None
    if last is not None:
        asked = ExplainReset(key=key, updated_at=_iso(last, parts.rules.zone))
        reset = await explain_reset(parts, asked, caller)
    send = ExplainSend(key=key, override=session.send_policy)
    return SessionExplained(
        key=key,
        leading=await parts.store.list_routes(session.id),
        reset_reason=session.reset_reason,
        previous=await _find_view(parts, session.previous_id),
        parent=await _find_view(parts, session.parent_id),
        reset=reset,
        send=await explain_send(parts, send, caller),
    )


async def _find_view(parts: Parts, session_id: str | None) -> SessionView | None:
    """A session that another one refers to; None if it was purged."""
    if session_id is None:
        return None
    try:
        return await view(parts, await parts.store.get_session(session_id))
    except SessionNotFound:
        return None
