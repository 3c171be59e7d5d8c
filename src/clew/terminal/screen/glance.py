"""A glance at the store: what the screen shows beside the conversation.

The session as it is now, its todos, what waits for its turn, and who else is at it. It draws
nothing, and changes nothing, not even what the seat knows.
"""

from __future__ import annotations

import msgspec

from clew.core.models import clamp_thinking
from clew.core.names import recent_name
from clew.core.notes import Todo
from clew.core.session import Session
from clew.ports import Store
from clew.runtime.commands.desk import Desk
from clew.terminal.screen.statusline import Facts

NEW = "New session"


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen. `queued` are messages that no turn has yet, oldest first."""

    session: Session | None = None
    todos: tuple[Todo, ...] = ()
    queued: tuple[str, ...] = ()
    elsewhere: str = ""


async def look(desk: Desk) -> Glance:
    """Look at the seat's session."""
    session, store = desk.seat.session, desk.store
    if session is None:
        return Glance()
    waiting = desk.seat.runtime.list_queued(session.id)
    return Glance(
        session=await store.get_session(session.id),
        todos=await store.get_todos(session.id),
        queued=tuple(str(each.payload.get("text", "")) for each in waiting),
        elsewhere=await _find_others(store, session.id),
    )


async def _find_others(store: Store, session_id: str) -> str:
    """Who else is at the session, in words."""
    lease = await store.find_lease(session_id)
    if lease is not None and lease.holder.partition("#")[0] != store.identity:
        return "runs elsewhere"
    held = await store.find_attachment(session_id)
    if held is not None and f"{held.process}@{held.host}" != store.identity:
        return f"open elsewhere (pid {held.pid})"
    return ""


def gather(desk: Desk, seen: Glance, *, working: int | None, waiting: int) -> Facts:
    """The facts of the status line."""
    seat, session = desk.seat, seen.session
    info = seat.model
    mine = seat.session
    queued = seat.runtime.count_queued(mine.id) if mine is not None else 0
    facts = Facts(
        title=seat.setting("title") or NEW,
        model=info.name,
        queued=queued,
        working=working,
        waiting=waiting,
        mode=seat.setting("mode"),
        thinking=clamp_thinking(seat.setting("thinking"), info.thinking),
        read_only=seat.read_only,
    )
    if mine is None or session is None or session.id != mine.id:
        return facts
    name = recent_name(session.title, session.short_summary, session.preview, session.id)
    return msgspec.structs.replace(
        facts,
        title=session.title or name,
        context_tokens=session.context_tokens,
        context_window=info.context_window,
        cost=session.usage.cost,
        calls=session.usage.api_calls,
        elsewhere=seen.elsewhere,
        mode=session.mode,
    )
