"""The calls about what waits: messages, questions to the owner, deliveries."""

from __future__ import annotations

from typing import Final

from clew.client.parts import Caller, Parts, get_visible
from clew.core.delivery import Outbound
from clew.core.params import (
    DecideApproval,
    DropQueue,
    ListApprovals,
    ListOutbox,
    ListQueue,
    RetryOutbound,
    StopSession,
)
from clew.core.session import may_see
from clew.core.turn import Approval
from clew.core.views import (
    ApprovalList,
    Dropped,
    OutboxList,
    QueueList,
    Stopped,
    view_queued,
)
from clew.errors import Conflict, RecordNotFound, SessionNotFound

MOST: Final = 1_000


async def list_queue(parts: Parts, params: ListQueue, caller: Caller) -> QueueList:
    """Messages that no turn has yet; a guest sees their own."""
    if params.session is not None:
        await get_visible(parts, params.session, caller)
    rows = await parts.store.list_inbound(params.session, limit=params.limit)
    shown = [each for each in rows if may_see(caller.person, each.person)]
    return QueueList(tuple(map(view_queued, shown)))


async def drop_queue(parts: Parts, params: DropQueue, caller: Caller) -> Dropped:
    """Take back what waits in a session, here or in the inbox."""
    session = await get_visible(parts, params.session, caller)
    return Dropped(await _take_back(parts, session.id, params.id))


async def stop_session(parts: Parts, params: StopSession, caller: Caller) -> Stopped:
    """The turn, its sub-agents with it, and what waits behind it."""
    session = await get_visible(parts, params.id, caller)
    dropped = await _take_back(parts, session.id) if params.queue else ()
    agents = parts.runtime.count_spawned(session.id)
    stopped = await parts.runtime.stop(session.id, anywhere=True)
    return Stopped(session.id, stopped, dropped, agents)


async def _take_back(parts: Parts, session_id: str, only: str | None = None) -> tuple[str, ...]:
    named = None if only is None else {only}
    taken = await parts.runtime.take_back(session_id, named, anywhere=True)
    return tuple(each.id for each in taken)


async def list_approvals(parts: Parts, params: ListApprovals, caller: Caller) -> ApprovalList:
    """What waits for the owner's word; a guest sees what their own sessions wait for."""
    if params.session is not None:
        await get_visible(parts, params.session, caller)
    waiting = await parts.store.list_approvals(params.session)
    shown = [each for each in waiting if await _may_see(parts, each.session_id, caller)]
    return ApprovalList(tuple(shown))


async def decide_approval(parts: Parts, params: DecideApproval, caller: Caller) -> Approval:
    """The owner's word."""
    caller.need_owner("answer for tools")
    by = f"{caller.person}:{caller.token_id}" if caller.token_id else caller.person
    return await parts.runtime.decide(params.id, params.decision, by=by, scope=params.scope)


async def list_outbox(parts: Parts, params: ListOutbox, caller: Caller) -> OutboxList:
    """Deliveries."""
    if params.session is not None:
        await get_visible(parts, params.session, caller)
    rows = await parts.store.list_outbound(
        session_id=params.session, status=params.state, limit=params.limit
    )
    shown = [each for each in rows if await _may_see(parts, each.session_id, caller)]
    return OutboxList(tuple(shown))


async def retry_outbound(parts: Parts, params: RetryOutbound, caller: Caller) -> Outbound:
    """Send again what did not arrive, or may not have. What has arrived is not sent twice."""
    caller.need_owner("send replies again")
    row = await _find_outbound(parts, params.id)
    if row.status not in ("failed", "uncertain"):
        raise Conflict(f"That reply is {row.status}: only failed and uncertain ones are repeated.")
    now = parts.runtime.clock()
    return await parts.store.settle_outbound(row.id, "pending", due_at=now)


async def _find_outbound(parts: Parts, outbound_id: str) -> Outbound:
    for row in await parts.store.list_outbound(limit=MOST):
        if row.id == outbound_id:
            return row
    raise RecordNotFound("delivery", outbound_id)


async def _may_see(parts: Parts, session_id: str | None, caller: Caller) -> bool:
    if caller.is_owner:
        return True
    if session_id is None:
        return False
    try:
        session = await parts.store.get_session(session_id)
    except SessionNotFound:
        return False
    return may_see(caller.person, session.person)
