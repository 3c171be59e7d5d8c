"""The command about what is said while a turn runs."""

from __future__ import annotations

from clew.core.decision import read_decision
from clew.core.delivery import Inbound
from clew.core.names import counted
from clew.core.text import cut, strip_controls
from clew.core.turn import QUEUE_MODES, read_mode
from clew.errors import InvalidInput
from clew.runtime.commands.desk import Desk, Reply
from clew.runtime.inbound.inbox import is_own

SHOWN = 60
"""Columns of a message that waits."""


async def queue(desk: Desk, rest: str) -> Reply:
    """`/queue [followup|steer|interrupt|collect|clear]`."""
    wanted = rest.lower()
    if not wanted:
        return Reply(text="\n".join([_mode(desk), *await _waiting(desk)]))
    if wanted == "clear":
        return Reply(text=await clear(desk) or "Nothing was waiting.")
    if wanted not in QUEUE_MODES:
        known = ", ".join(QUEUE_MODES)
        raise InvalidInput(f'/queue is {known}, or clear; not "{wanted[:40]}".')
    await desk.note("queue", read_mode(wanted))
    return Reply(text=_mode(desk))


async def clear(desk: Desk) -> str:
    """Take back what waits here, and say how many there were; nothing to say if there were none."""
    session = desk.current
    taken: tuple[Inbound, ...] = ()
    if session is not None:
        taken = await desk.runtime.take_back(session.id, anywhere=True)
    return f"Took back {counted(len(taken), 'waiting message')}." if taken else ""


def _mode(desk: Desk) -> str:
    mode = desk.queue_mode
    return f"While a turn runs ({mode}): {QUEUE_MODES[mode]}."


async def _waiting(desk: Desk) -> list[str]:
    session = desk.current
    rows: tuple[Inbound, ...] = ()
    if session is not None:
        waiting_here = desk.runtime.list_queued(session.id)
        others = await desk.store.list_inbound(session.id)
        rows = (*waiting_here, *(row for row in others if not is_own(desk.store, row)))
    if not rows:
        return ["Nothing waits."]
    texts = (" ".join(strip_controls(read_decision(row).text).split()) for row in rows)
    waiting = counted(len(rows), "message")
    return [f"{waiting} waiting (/queue clear takes back):", *(f"  {cut(t, SHOWN)}" for t in texts)]
