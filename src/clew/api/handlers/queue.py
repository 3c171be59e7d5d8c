"""What the operations about waiting messages do."""

from __future__ import annotations

from clew.api.handlers.parts import Caller, Parts, get_visible, handles
from clew.api.queue import DROP, LIST, Dropped, DropQueue, ListQueue, QueueList, view_queued
from clew.core.session import may_see


@handles(LIST)
async def list_queue(parts: Parts, params: ListQueue, caller: Caller) -> QueueList:
    """Messages that no turn has yet; a guest sees their own."""
    if params.session is not None:
        await get_visible(parts, params.session, caller)
    rows = await parts.store.list_inbound(params.session, limit=params.limit)
    shown = [each for each in rows if may_see(caller.person, each.person)]
    return QueueList(tuple(map(view_queued, shown)))


@handles(DROP)
async def drop_queue(parts: Parts, params: DropQueue, caller: Caller) -> Dropped:
    """Take back what waits in a session, here or in the inbox."""
    session = await get_visible(parts, params.session, caller)
    return Dropped(await take_back(parts, session.id, params.id))


async def take_back(parts: Parts, session_id: str, only: str | None = None) -> tuple[str, ...]:
    """Take waiting messages out of a session's queue, or only one; their ids."""
    named = None if only is None else {only}
    taken = await parts.runtime.take_back(session_id, named, anywhere=True)
    return tuple(each.id for each in taken)
