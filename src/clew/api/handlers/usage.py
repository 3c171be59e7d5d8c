"""Handler of the operation about usage."""

from __future__ import annotations

import asyncio

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.transport import give_way
from clew.api.usage import USAGE, GetUsage, UsageReport, UsedSession
from clew.core.usage import by_days, dearest_first, sum_up


@handles(USAGE)
async def get_usage(parts: Parts, params: GetUsage, _caller: Caller) -> UsageReport:
    """Sum up the usage of all sessions."""
    if params.by == "session":
        return await _rank_sessions(parts, params)
    by, since = params.by, params.since
    rows = await parts.store.list_usage(by, since=since)
    if by == "day":
        from clew.runtime.zones import get_zone  # noqa: PLC0415  # only needed for days

        zone = parts.zone if params.timezone is None else get_zone(params.timezone)
        # There are as many rows as quarter-hours: in a thread, so that others don't wait for it.
        rows = await asyncio.to_thread(by_days, rows, lambda _at: zone)
    elif by in ("model", "person"):
        rows = dearest_first(rows)
    return UsageReport(by, since, rows, len(rows), sum_up(rows, "total"))


async def _rank_sessions(parts: Parts, params: GetUsage) -> UsageReport:
    store, since = parts.store, params.since
    ranking = await store.rank_usage(since=since, limit=params.limit)
    ids = [row.name for row in ranking.rows]
    await give_way()
    short_ids = await store.shorten_ids(ids)
    await give_way()
    names = await store.get_names(ids)  # one that was purged has none; its usage stays
    sessions = {each: UsedSession(short_ids[each], names.get(each, "")) for each in ids}
    return UsageReport("session", since, ranking.rows, ranking.count, ranking.total, sessions)
