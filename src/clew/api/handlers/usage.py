"""Handler of the operation about usage."""

from __future__ import annotations

from collections.abc import Sequence

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.usage import USAGE, GetUsage, UsageReport, UsedSession
from clew.core.usage import UsageRow, by_days, dearest_first, sum_up
from clew.errors import SessionNotFound


@handles(USAGE)
async def get_usage(parts: Parts, params: GetUsage, _caller: Caller) -> UsageReport:
    """Sum up the usage of all sessions."""
    by, since = params.by, params.since
    rows = await parts.store.list_usage(by, since=since)
    if by == "day":
        from clew.runtime.zones import get_zone  # noqa: PLC0415  # only needed for days

        zone = parts.zone if params.timezone is None else get_zone(params.timezone)
        rows = by_days(rows, lambda _at: zone)
    elif by in ("session", "model"):
        rows = dearest_first(rows)
    shown = rows[: params.limit] if by == "session" else rows
    names = await _name_sessions(parts, shown) if by == "session" else {}
    return UsageReport(by, since, shown, len(rows), sum_up(rows, "total"), names)


async def _name_sessions(parts: Parts, rows: Sequence[UsageRow]) -> dict[str, UsedSession]:
    ids = [row.name for row in rows]
    short_ids = await parts.store.shorten_ids(ids)
    return {each: UsedSession(short_ids[each], await _find_name(parts, each)) for each in ids}


async def _find_name(parts: Parts, session_id: str) -> str:
    try:
        return (await parts.store.get_session(session_id)).name
    except SessionNotFound:
        return ""  # it was purged; its usage stays
