"""`commands.run`: runs a slash command in a session.

The commands, and who may use them, are the same as on every surface. What a command asks of a
surface (a picker, another session) is left to the caller.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from clew.api.commands import LIST, RUN, CommandList, CommandReply, ListedCommand, RunCommand
from clew.api.handlers.parts import CHOOSE, Caller, Parts, get_visible, handles, view
from clew.api.handlers.seats import check_key_of, edit_of, make_surface, read_place, wanted_of
from clew.api.operation import NoParams
from clew.api.seats import Wanted
from clew.api.sessions import SessionView
from clew.core.channels.people import Role
from clew.core.commands import Issuer, find_command, list_commands, may_command, parse
from clew.core.session import Session
from clew.core.turn import Turn
from clew.errors import Forbidden, InvalidInput
from clew.ports import Context
from clew.runtime.commands import run_command
from clew.runtime.commands.desk import Desk


@handles(RUN)
async def run_order(parts: Parts, params: RunCommand, caller: Caller) -> CommandReply:
    """Run a command. A refusal is a reply too; then nothing was changed."""
    parsed = parse(params.line, is_path=os.path.exists)
    if parsed is None:
        raise InvalidInput("A command begins with a slash, like /status. Nothing was done.")
    name, rest = parsed
    _refuse(name, caller)
    session = None
    if params.session is not None:
        session = await get_visible(parts, params.session, caller)
    desk = _desk(parts, params, session, caller)
    reply = await run_command(desk, name, rest)
    ticket = reply.ticket
    if ticket is not None:
        ticket.turn.add_done_callback(_look_at)
    now = await desk.refresh()
    return CommandReply(
        text=reply.text,
        is_error=reply.is_error,
        session=None if now is None else await view(parts, now),
        switched=reply.switched is not None,
        pick=None if reply.pick is None else await _views(parts, reply.pick),
        open=None if reply.open is None else await view(parts, reply.open),
        begins=ticket is not None,
        answers=None if ticket is None or ticket.inbound is None else ticket.inbound.id,
        wanted=wanted_of(desk.wanted) if now is None else None,
    )


@handles(LIST)
async def list_orders(_parts: Parts, _params: NoParams, caller: Caller) -> CommandList:
    """The rows of the table of commands that this caller can use here."""
    return CommandList(
        tuple(
            ListedCommand(each.name, each.usage, each.help, each.aliases, each.needs_session)
            for each in list_commands(_issuer(caller))
        )
    )


def _refuse(name: str, caller: Caller) -> None:
    command, issuer = find_command(name), _issuer(caller)
    if command is None and caller.is_owner:
        return  # the reply says which commands there are
    if command is None or not may_command(issuer.role, name, is_direct=issuer.is_direct):
        raise Forbidden(f"Only the owner of this clew may use /{name[:40]}. Nothing was changed.")
    caller.need(command.scope, f"/{name}")
    if issuer.surface not in command.surfaces:
        raise InvalidInput(f"/{name} is for a terminal. /help shows what there is.")


def _issuer(caller: Caller) -> Issuer:
    role: Role = "owner" if caller.is_owner else "guest"
    return Issuer(role=role, surface="api", scopes=caller.scopes)


def _desk(parts: Parts, params: RunCommand, session: Session | None, caller: Caller) -> Desk:
    if params.model is not None or params.wanted is not None:
        caller.need_owner(CHOOSE)
    key = _get_key(params, session, caller)
    told = params.where if caller.is_owner else None
    place = parts.place if told is None else read_place(parts, told, caller)
    return Desk(
        at=make_surface(parts, place, key, caller),
        personalities=parts.personalities,
        memory=parts.memory,
        recall=parts.recall,
        context=_context(parts),
        zone=parts.zone,
        issuer=_issuer(caller),
        current=session,
        wanted=edit_of(params.wanted or Wanted()),
        model_name=params.model,
        read_only=params.read_only and session is not None,
        attended=caller.is_owner and params.attended,
        rules=parts.list_tool_rules(),
    )


def _get_key(params: RunCommand, session: Session | None, caller: Caller) -> str:
    """The key of sessions that the command begins. A guest may only use their session's key."""
    own = None if session is None else session.key
    if caller.is_owner:
        if params.key is not None:
            check_key_of(params.key, caller)
        key = params.key or own
        if key is None:
            raise InvalidInput("Name the session that the command is about, or a key.")
        return key
    if own is None or params.key not in (None, own):
        raise Forbidden(
            "Only the owner of this clew may give commands under a key; name a session of yours. "
            "Nothing was changed."
        )
    return own


def _context(parts: Parts) -> Context:
    if parts.context is None:
        raise InvalidInput("Commands can't be run here.")
    return parts.context


def _look_at(turn: asyncio.Future[Turn]) -> None:
    """Ignore the turn's result: watchers of the session see how it ends."""
    if not turn.cancelled():
        turn.exception()


async def _views(parts: Parts, sessions: Sequence[Session]) -> tuple[SessionView, ...]:
    return tuple([await view(parts, each) for each in sessions])
