"""The calls of a terminal that sits at a gateway: where it belongs, going elsewhere, leaving.

Each makes a seat for itself and lets it decide, as in a terminal that has the runtime in its own
process. Only the owner has terminals; sessions are not attached, for any number may look at one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from clew.api.handlers.parts import Caller, Parts, get_visible, handles, view
from clew.api.seats import (
    BEGIN,
    LEAVE,
    LOCATE,
    SWITCH,
    BeginSession,
    Crumb,
    LeaveSeat,
    Left,
    Located,
    LocateSeat,
    Seated,
    SwitchSeat,
    read_place,
)
from clew.api.sessions import SessionView
from clew.api.table import get_operation
from clew.core.breadcrumb import Breadcrumb
from clew.core.keys import Place
from clew.core.placing import is_platforms
from clew.core.session import Session
from clew.errors import SessionNotFound
from clew.runtime.continuing import find_continue
from clew.runtime.projects import find_cli_key, move_here
from clew.runtime.seat import Seat, Switched

WHAT = "open a terminal at this gateway"


def sit(parts: Parts, place: Place, key: str, caller: Caller, **wanted: Any) -> Seat:
    """A seat for one call."""
    return Seat(
        parts.runtime,
        parts.models,
        place=place,
        key=key,
        person=caller.person,
        holds=False,
        attended=caller.is_owner,
        defaults={name: value for name, value in wanted.items() if value is not None},
        judge=parts.judge,
    )


def check_key_of(key: str, caller: Caller) -> None:
    """`Forbidden` where others read what a key leads to, and the credential changes nothing."""
    if is_platforms(key):
        caller.check(get_operation("sessions.update"))


@handles(LOCATE)
async def locate_seat(parts: Parts, params: LocateSeat, caller: Caller) -> Located:
    """Which key a place has, and which sessions that leads to."""
    caller.need_owner(WHAT)
    place = read_place(params.where)
    found = await find_cli_key(parts.store, place, params.key)
    continued, note = None, None
    if params.continues:
        crumb = _crumb(params.crumb)
        chosen = await find_continue(parts.store, place, crumb, caller.person)
        continued, note = chosen.session, chosen.note
    return Located(
        key=found.key,
        session=await _view(parts, found.session),
        moved_from=found.moved_from,
        continued=await _view(parts, continued),
        note=note,
        resets=parts.judge is not None,
    )


def _crumb(told: Crumb | None) -> Breadcrumb | None:
    return None if told is None else Breadcrumb(told.cwd, told.session, told.fresh, told.at)


@handles(BEGIN)
async def begin_session(parts: Parts, params: BeginSession, caller: Caller) -> SessionView:
    """A new session of a place; its key leads there from now on."""
    caller.need_owner(WHAT)
    check_key_of(params.key, caller)
    previous = None
    if params.previous is not None:
        before = await get_visible(parts, params.previous, caller)
        if params.resets:
            seat = sit(parts, read_place(params.where), params.key, caller)
            seat.be_at(before)
            return await view(parts, (await seat.make_ready()).session)
        previous = before.id
    seat = sit(
        parts,
        read_place(params.where),
        params.key,
        caller,
        title=params.title,
        title_by="user" if params.title else None,
        pinned=params.pinned or None,
        personality=params.personality,
        model=params.model,
        thinking=params.thinking,
        service_tier=params.service_tier,
        mode=params.mode,
        send_policy=params.send_policy,
        previous_id=previous,
    )
    return await view(parts, await seat.begin())


@handles(SWITCH)
async def switch_seat(parts: Parts, params: SwitchSeat, caller: Caller) -> Seated:
    """Go from one session to another. Where that fails, everything is as it was."""
    caller.need_owner(WHAT)
    check_key_of(params.key, caller)
    # What a terminal does on the way needs what it needs on its own.
    for done, name in ((params.forks, "sessions.fork"), (params.moves, "sessions.update")):
        if done:
            caller.check(get_operation(name))
    seat = sit(parts, read_place(params.where), params.key, caller)
    previous = await _find_previous(parts, params.previous, caller)
    if previous is not None:
        seat.be_at(previous)
    target = None
    if params.session is not None:
        target = await get_visible(parts, params.session, caller)
    if target is not None and params.moves:
        target = await move_here(parts.store, target, seat.place)
    if target is not None and params.forks:
        switched = await seat.branch(target, title=params.title)
    else:
        how = {"read_only": params.read_only, "returns": params.returns}
        switched = await seat.switch(target, params.reason, **how)
    now = None if switched.session is None else switched.session.id
    if params.stops and previous is not None and previous.id != now:
        await _stop(parts, previous.id, params.waiting)
    return await _seated(parts, switched)


async def _find_previous(parts: Parts, session_id: str | None, caller: Caller) -> Session | None:
    """Where the terminal was; it may have been put in the trash meanwhile."""
    if session_id is None:
        return None
    with contextlib.suppress(SessionNotFound):
        return await get_visible(parts, session_id, caller)
    return None


async def _stop(parts: Parts, session_id: str, mine: Sequence[str]) -> bool:
    """Abort the turn; what waits behind it stays in the inbox, unless others wait there too."""
    runtime = parts.runtime
    if {each.id for each in runtime.list_queued(session_id)} - set(mine):
        return await runtime.stop(session_id)
    await runtime.hold_back(session_id)
    try:
        return await runtime.stop(session_id)
    finally:
        runtime.let_go_on(session_id, without_queue=True)


async def _seated(parts: Parts, switched: Switched) -> Seated:
    return Seated(
        session=await _view(parts, switched.session),
        previous_id=switched.previous_id,
        reason=switched.reason,
        interrupted=switched.recovered.interrupted,
        unanswered=switched.recovered.unanswered,
        notices=switched.notices,
    )


@handles(LEAVE)
async def leave_seat(parts: Parts, params: LeaveSeat, caller: Caller) -> Left:
    """Get up: abort the caller's turn, and tell the hooks."""
    caller.need_owner(WHAT)
    session = await get_visible(parts, params.session, caller)
    stopped = await _stop(parts, session.id, params.waiting) if params.stops else False
    seat = sit(parts, read_place(params.where), session.key, caller)
    seat.be_at(session)
    await seat.leave()
    return Left(stopped)


async def _view(parts: Parts, session: Session | None) -> SessionView | None:
    return None if session is None else await view(parts, session)
