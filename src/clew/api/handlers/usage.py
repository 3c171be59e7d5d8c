"""Handler of the operation about usage."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.usage import USAGE, GetUsage, UsageReport, UsedSession
from clew.core.usage import UsageRow, by_days, dearest_first, sum_up
from clew.errors import SessionNotFound

SLOW: Final = 0.1
KEPT: Final = 20
"""Sums that took longer than so many seconds are kept for so many times as long."""
MAX_KEPT: Final = 32


@handles(USAGE)
async def get_usage(parts: Parts, params: GetUsage, _caller: Caller) -> UsageReport:
    """Sum up the usage of all sessions."""
    if params.by == "session":
        return await _rank_sessions(parts, params)
    by, since, store = params.by, params.since, parts.store
    rows = await _sums_of(parts).get((by, since), lambda: store.list_usage(by, since=since))
    if by == "day":
        from clew.runtime.zones import get_zone  # noqa: PLC0415  # only needed for days

        zone = parts.zone if params.timezone is None else get_zone(params.timezone)
        # There are as many rows as quarter-hours: in a thread, so that others don't wait for it.
        rows = await asyncio.to_thread(by_days, rows, lambda _at: zone)
    elif by == "model":
        rows = dearest_first(rows)
    return UsageReport(by, since, rows, len(rows), sum_up(rows, "total"))


async def _rank_sessions(parts: Parts, params: GetUsage) -> UsageReport:
    since, limit, store = params.since, params.limit, parts.store
    ranking = await _sums_of(parts).get(
        (since, limit), lambda: store.rank_usage(since=since, limit=limit)
    )
    names = await _name_sessions(parts, ranking.rows)
    return UsageReport("session", since, ranking.rows, ranking.count, ranking.total, names)


class KeptSums:
    """Sums over all turns of a store. In a large one a sum is computed once for all who ask for it.

    One is computed at a time, so that there is always a reader left for other calls. A sum that was
    quick is not kept: it is always up to date.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._kept: dict[object, tuple[float, Any]] = {}

    async def get(self, key: object, compute: Callable[[], Awaitable[Any]]) -> Any:
        """The sum with this key, computed anew if it is old."""
        async with self._turn:
            until, kept = self._kept.get(key, (0.0, None))
            began = self._clock()
            if began < until:
                return kept
            self._kept.pop(key, None)
            result = await compute()
            now = self._clock()
            if now - began > SLOW:
                if len(self._kept) >= MAX_KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = (now + KEPT * (now - began), result)
            return result


_SUMS: WeakKeyDictionary[object, KeptSums] = WeakKeyDictionary()


def _sums_of(parts: Parts) -> KeptSums:
    return _SUMS.setdefault(parts.store, KeptSums())


async def _name_sessions(parts: Parts, rows: Sequence[UsageRow]) -> dict[str, UsedSession]:
    ids = [row.name for row in rows]
    short_ids = await parts.store.shorten_ids(ids)
    return {each: UsedSession(short_ids[each], await _find_name(parts, each)) for each in ids}


async def _find_name(parts: Parts, session_id: str) -> str:
    try:
        return (await parts.store.get_session(session_id)).name
    except SessionNotFound:
        return ""  # it was purged; its usage stays
