"""Handlers of a terminal's operations: finding its session, switching, leaving.

Only the owner has terminals. A terminal of this process holds its session exclusively
(`Parts.attachments`); at a gateway several terminals may use one session.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
from msgspec import UNSET

from clew.api.handlers.parts import Caller, Parts, get_visible, handles, view
from clew.api.seats import (
    BEGIN,
    LEAVE,
    LOCATE,
    SWITCH,
    BeginSession,
    LeaveSeat,
    Left,
    Located,
    LocateSeat,
    Seated,
    SwitchSeat,
    TerminalBreadcrumb,
    TerminalPlace,
    Wanted,
)
from clew.api.sessions import FORK, UPDATE, SessionView
from clew.core.channels.session_choice import is_platforms
from clew.core.keys import Identity, Place
from clew.core.resume import Breadcrumb
from clew.core.session import Session, SessionEdit
from clew.core.tokens import covers
from clew.errors import Forbidden, SessionNotFound
from clew.runtime.place.begin import Surface, begin, renew
from clew.runtime.place.directories import find_cli_key, find_identity, move_here
from clew.runtime.place.resume import locate_continue
from clew.runtime.place.switch import (
    Switch,
    Switched,
    branching,
    find_framework,
    leave,
    switching,
)


def make_surface(
    parts: Parts, place: Place, key: str, caller: Caller, *, asks: bool = False
) -> Surface:
    """The calling terminal, as a `Surface`."""
    return Surface(
        runtime=parts.runtime,
        models=parts.models,
        place=place,
        key=key,
        person=caller.person,
        asks=asks,
        attachments=parts.attachments,
        judge=parts.judge,
    )


def check_key_of(key: str, caller: Caller) -> None:
    """Raise `Forbidden` if other people read under the key and the token may not write."""
    if not covers(caller.scopes, UPDATE.scope) and is_platforms(key):
        caller.check(UPDATE)


@handles(LOCATE)
async def locate_seat(parts: Parts, params: LocateSeat, caller: Caller) -> Located:
    """Find the key of a place, and the session that it leads to."""
    place = read_place(parts, params.where, caller)
    if params.allows is not None:
        _remember(parts, place, params.allows, caller)
    continued, note = None, None
    if params.continues:
        found, chosen = await locate_continue(
            parts.store,
            place,
            _crumb(params.crumb),
            params.key,
            viewer=caller.person,
            asks=params.asks,
        )
        continued, note = chosen.session, chosen.note
    else:
        found = await find_cli_key(parts.store, place, params.key)
    return Located(
        key=found.key,
        session=await _view(parts, found.session),
        moved_from=found.moved_from,
        continued=await _view(parts, continued),
        note=note,
        resets=parts.judge is not None,
        doubt=parts.workspaces.find_doubt(place.cwd, place.project),
        refused=parts.workspaces.get_answer(place.project) is False,
    )


def _remember(parts: Parts, place: Place, answer: bool, caller: Caller) -> None:
    """Keep what the person says about a directory that is no workspace by itself."""
    if not caller.is_admin:
        raise Forbidden(
            "Only a token with the scope admin may say that the agent works in such a directory. "
            "Nothing was changed."
        )
    for each in dict.fromkeys((place.cwd, place.project)):
        if not answer or parts.workspaces.find_doubt(each) is not None:
            parts.workspaces.remember(each, answer)


def _crumb(told: TerminalBreadcrumb | None) -> Breadcrumb | None:
    return None if told is None else Breadcrumb(told.cwd, told.session, told.fresh, told.at)


@handles(BEGIN)
async def begin_session(parts: Parts, params: BeginSession, caller: Caller) -> SessionView:
    """Begin a session at a place; its key leads there from now on."""
    check_key_of(params.key, caller)
    place = read_place(parts, params.where, caller)
    at = make_surface(parts, place, params.key, caller, asks=params.asks)
    previous = None
    if params.previous is not None:
        previous = await get_visible(parts, params.previous, caller)
    if previous is not None and params.resets:
        return await view(parts, await renew(at, previous))
    session = await begin(
        at,
        edit_of(params),
        previous_id=None if previous is None else previous.id,
        transcript_path=params.transcript_path,
        yields=params.yields,
    )
    return await view(parts, session)


@handles(SWITCH)
async def switch_seat(parts: Parts, params: SwitchSeat, caller: Caller) -> Seated:
    """Switch from one session to another. If that fails, everything is restored."""
    check_key_of(params.key, caller)
    # Forking and moving need the scopes of the operations that do the same.
    for is_done, operation in ((params.forks, FORK), (params.moves, UPDATE)):
        if is_done:
            caller.check(operation)
    place = read_place(parts, params.where, caller)
    at = make_surface(parts, place, params.key, caller, asks=params.asks)
    previous = await _find_previous(parts, params.previous, caller)
    target = None
    if params.session is not None:
        target = await get_visible(parts, params.session, caller)
    if target is not None and params.moves:
        target = await move_here(parts.store, target, at.place)
    wanted = Switch(
        target=target,
        reason=params.reason,
        previous=previous,
        model=params.model,
        read_only=params.read_only,
        returns=params.returns,
        stops=params.stops,
        waiting=params.waiting,
    )
    framework = None
    if target is not None and not (params.forks or params.read_only):
        framework = await find_framework(parts.store, target)
    if framework is not None:
        caller.check(FORK)
    forks = target is not None and (params.forks or framework is not None)
    made = branching(at, wanted, title=params.title) if forks else switching(at, wanted)
    async with made as switched:
        seated = await _seated(parts, switched)
        if framework is None:
            return seated
        told = f"{framework} goes on with that session itself; this is a fork of it."
        return msgspec.structs.replace(seated, notices=(*seated.notices, told))


async def _find_previous(parts: Parts, session_id: str | None, caller: Caller) -> Session | None:
    """The terminal's previous session, which may be in the trash by now."""
    if session_id is None:
        return None
    with contextlib.suppress(SessionNotFound):
        return await get_visible(parts, session_id, caller)
    return None


async def _seated(parts: Parts, switched: Switched) -> Seated:
    return Seated(
        session=await _view(parts, switched.session),
        previous_id=switched.previous_id,
        reason=switched.reason,
        model=switched.model,
        replacement=switched.replacement,
        taken_over=switched.taken_over,
        interrupted=switched.recovered.interrupted,
        unanswered=switched.recovered.unanswered,
        notices=switched.notices,
    )


@handles(LEAVE)
async def leave_seat(parts: Parts, params: LeaveSeat, caller: Caller) -> Left:
    """Leave: abort the caller's turn, detach the session, and tell the hooks."""
    session = await get_visible(parts, params.session, caller)
    at = make_surface(parts, read_place(parts, params.where, caller), session.key, caller)
    return Left(await leave(at, session, stops=params.stops, waiting=params.waiting))


async def _view(parts: Parts, session: Session | None) -> SessionView | None:
    return None if session is None else await view(parts, session)


def read_place(parts: Parts, at: TerminalPlace, caller: Caller) -> Place:
    """The place that a terminal described.

    `Forbidden` for a directory that the credential may not choose: any is the admin's to choose,
    other credentials those below `[gateway] workspaces`. For these it is looked at here, since
    nothing that they tell about it may be believed.
    """
    if caller.is_admin:
        identity = Identity(at.device, at.inode, at.born)
        return Place(at.cwd, at.project, at.basename, identity, at.scope)
    for each in (at.cwd, at.project):
        if not parts.workspaces.is_listed(each):
            raise Forbidden(
                "This token may not choose that directory: it needs the scope admin, or a "
                "directory below one of gateway.workspaces, in the configuration of the gateway. "
                "Nothing was changed."
            )
    cwd, project = (str(Path(each).resolve()) for each in (at.cwd, at.project))
    found = find_identity(project) or Identity(-1, -1)
    return Place(cwd, project, Path(project).name, found, at.scope)


def edit_of(wanted: Wanted | BeginSession) -> SessionEdit:
    """The chosen settings, as an edit of the future session."""
    given = {name: getattr(wanted, name) for name in Wanted.__struct_fields__}
    return SessionEdit(**{name: value for name, value in given.items() if value})


def wanted_of(edit: SessionEdit) -> Wanted:
    """The settings in an edit: the inverse of `edit_of`."""
    given = {name: getattr(edit, name) for name in Wanted.__struct_fields__}
    return Wanted(**{name: value for name, value in given.items() if value not in (UNSET, None)})
