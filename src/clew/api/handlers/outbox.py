"""Handlers of the operations about replies to channels."""

from __future__ import annotations

from clew.api.handlers.parts import Caller, Parts, _may_see, get_visible, handles
from clew.api.outbox import (
    CONFIRM,
    LIST,
    RETRY,
    ConfirmOutbound,
    ListOutbox,
    OutboxList,
    RetryOutbound,
)
from clew.core.delivery import Outbound
from clew.errors import Conflict


@handles(LIST)
async def list_outbox(parts: Parts, params: ListOutbox, caller: Caller) -> OutboxList:
    """List deliveries."""
    if params.session is not None:
        await get_visible(parts, params.session, caller)
    rows = await parts.store.list_outbound(
        session_id=params.session, status=params.state, limit=params.limit
    )
    shown = [each for each in rows if await _may_see(parts, each.session_id, caller)]
    return OutboxList(tuple(shown))


@handles(RETRY)
async def retry_outbound(parts: Parts, params: RetryOutbound, _caller: Caller) -> Outbound:
    """Send a reply again that did not arrive, or may not have. Refuses one that has arrived."""
    row = await parts.store.get_outbound(params.id)
    if row.status not in ("failed", "uncertain"):
        raise Conflict(f"That reply is {row.status}: only failed and uncertain ones are repeated.")
    now = parts.clock()
    return await parts.store.settle_outbound(row.id, "pending", due_at=now)


@handles(CONFIRM)
async def confirm_outbound(parts: Parts, params: ConfirmOutbound, caller: Caller) -> Outbound:
    """Record that a reply has arrived, and who says so. Refuses one that is not in doubt."""
    row = await parts.store.get_outbound(params.id)
    if row.status != "uncertain":
        raise Conflict(f"That reply is {row.status}: only uncertain ones can be confirmed.")
    receipt: dict[str, object] = {"confirmed_by": caller.signature}
    return await parts.store.settle_outbound(row.id, "sent", receipt=receipt)
