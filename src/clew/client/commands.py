"""`commands.run`: a slash command, at a session of the gateway.

The commands are those of every surface; who may use one is what channels decide by, too. What a
command asks of a surface (a picker, another session) is left to the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from clew.client.parts import Caller, Parts, get_visible, view
from clew.client.seats import sit
from clew.core.people import may_command
from clew.core.session import Session
from clew.core.terminals import CommandReply, RunCommand, tell_place
from clew.core.turn import Turn
from clew.core.views import SessionView
from clew.errors import Forbidden, InvalidInput
from clew.ports import Context
from clew.runtime.commands import find_command, parse, run_command
from clew.runtime.commands.desk import Desk
from clew.runtime.ordering import ELSEWHERE
from clew.runtime.projects import locate
from clew.runtime.resuming import resolve_resume


async def run_order(parts: Parts, params: RunCommand, caller: Caller) -> CommandReply:
    """Run a command. What it refuses is an answer too; nothing was changed then."""
    parsed = parse(params.line)
    if parsed is None:
        raise InvalidInput("A command begins with a slash, like /status. Nothing was done.")
    name, rest = parsed
    _refuse(name, caller)
    session = None
    if params.session is not None:
        session = await get_visible(parts, params.session, caller)
    desk = _desk(parts, params, session, caller)
    reply = await run_command(desk, name, rest)
    if reply.ticket is not None:
        reply.ticket.turn.add_done_callback(_look_at)
    now = await desk.seat.refresh()
    return CommandReply(
        text=reply.text,
        is_error=reply.is_error,
        session=None if now is None else await view(parts, now),
        switched=reply.switched is not None,
        pick=None if reply.pick is None else await _views(parts, reply.pick),
        open=None if reply.open is None else await view(parts, reply.open),
        begins=reply.ticket is not None,
    )


def _refuse(name: str, caller: Caller) -> None:
    role = "owner" if caller.is_owner else "guest"
    if not may_command(role, name, is_direct=True):  # type: ignore[arg-type]  # one of the two
        raise Forbidden(f"Only the owner of this clew may use /{name[:40]}. Nothing was changed.")
    if name in ELSEWHERE and find_command(name) is not None:
        raise InvalidInput(f"/{name} is for a terminal. /help shows what there is.")


def _desk(parts: Parts, params: RunCommand, session: Session | None, caller: Caller) -> Desk:
    key = params.key or (None if session is None else session.key)
    if key is None:
        raise InvalidInput("Name the session that the command is about, or a key.")
    at = params.where if params.where is not None and caller.is_owner else tell_place(locate())
    seat = sit(parts, at, key, caller)
    if session is not None:
        seat.be_at(session)
    return Desk(
        seat=seat,
        models=parts.models,
        personalities=parts.personalities,
        memory=parts.memory,
        context=_context(parts),
        resolve=lambda value: resolve_resume(
            parts.store, value, seat.place, viewer=caller.person, files=False
        ),
        export=_refuse_export,
        zone=lambda _at: parts.zone,
    )


def _context(parts: Parts) -> Context:
    if parts.context is None:
        raise InvalidInput("Nobody here can run commands.")
    return parts.context


def _look_at(turn: asyncio.Future[Turn]) -> None:
    """Whoever watches the session sees how it ends; here nobody waits for it."""
    if not turn.cancelled():
        turn.exception()


async def _views(parts: Parts, sessions: Sequence[Session]) -> tuple[SessionView, ...]:
    return tuple([await view(parts, each) for each in sessions])


async def _refuse_export(_session: Session, _file: str | None) -> str:
    raise InvalidInput("/export is for a terminal.")
