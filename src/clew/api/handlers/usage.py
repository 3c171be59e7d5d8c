"""What the operation about usage does."""

from __future__ import annotations

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.usage import USAGE, GetUsage, UsageReport
from clew.core.usage import by_days, dearest_first, sum_up


@handles(USAGE)
async def get_usage(parts: Parts, params: GetUsage, caller: Caller) -> UsageReport:
    """What was spent, of all sessions."""
    caller.need_owner("see what was spent")
    rows = await parts.store.list_usage(params.by, since=params.since)
    if params.by == "day":
        rows = by_days(rows, lambda _at: parts.zone)
    shown = dearest_first(rows)[: params.limit] if params.by == "session" else rows
    return UsageReport(params.by, params.since, shown, len(rows), sum_up(rows, "total"))
