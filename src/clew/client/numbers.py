"""The calls about the whole: what was spent, and how it is doing."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

from clew.client.parts import Caller, Parts
from clew.core.overview import status_of
from clew.core.params import GetUsage, NoParams
from clew.core.session import OWNER, SessionFilter
from clew.core.usage import Usage, UsageRow
from clew.core.views import CronView, LeaseView, StatusReport, UsageReport
from clew.errors import ClewError
from clew.version import __version__

RECENT: Final = 100
"""Sessions among which one looks for those that somebody is at."""
MOST: Final = 1_000
DAY: Final = 24 * 60 * 60 * 1000


async def get_usage(parts: Parts, params: GetUsage, caller: Caller) -> UsageReport:
    """What was spent, of all sessions."""
    caller.need_owner("see what was spent")
    rows = await parts.store.list_usage(params.by, since=params.since)
    if params.by == "day":
        rows = _by_day(parts, rows)
    return UsageReport(params.by, params.since, rows)


def _by_day(parts: Parts, rows: tuple[UsageRow, ...]) -> tuple[UsageRow, ...]:
    """Quarters of an hour as the days of where the gateway is."""
    days: dict[str, UsageRow] = {}
    for row in rows:
        day = datetime.fromtimestamp(int(row.name) / 1000, parts.zone).date().isoformat()
        before = days.get(day, UsageRow(day, Usage(), 0))
        days[day] = UsageRow(day, before.usage + row.usage, before.turns + row.turns)
    return tuple(days[day] for day in sorted(days))


async def get_status(parts: Parts, _params: NoParams, caller: Caller) -> StatusReport:
    """How this clew is doing."""
    now = parts.runtime.clock()
    if not caller.is_owner:
        return StatusReport(__version__, now)
    store = parts.store
    return StatusReport(
        version=__version__,
        at=now,
        stats=await store.stats(),
        store=None if parts.describe is None else await parts.describe(),
        channels=parts.channels(),
        cron=await _describe_jobs(parts),
        queued=len(await store.list_inbound(limit=MOST)),
        waiting=len(await store.list_approvals()),
        leases=await _list_leases(parts),
        uncertain=len(await store.list_outbound(status="uncertain", limit=MOST)),
    )


async def _describe_jobs(parts: Parts) -> CronView | None:
    """The jobs. A file that can't be read is a problem of theirs, not of who asks."""
    if parts.jobs is None:
        return None
    problems = parts.job_problems()
    try:
        jobs = await asyncio.to_thread(parts.jobs.list_jobs)
    except (ClewError, OSError) as error:
        return CronView(0, problems={**problems, parts.jobs.path.name: str(error)})
    return CronView(len(jobs), min((each.due_at for each in jobs), default=None), problems)


async def _list_leases(parts: Parts) -> tuple[LeaseView, ...]:
    """Who is at work, among the newest sessions: a turn that runs makes its session one."""
    # Pinned sessions come first in a list: without a limit in time they could fill all of it.
    since = parts.runtime.clock() - DAY
    newest = await parts.store.list_sessions(
        SessionFilter(viewer=OWNER, archived=None, active_since=since), limit=RECENT
    )
    states = await parts.store.list_states([each.id for each in newest.sessions])
    found: list[LeaseView] = []
    for session_id, state in states.items():
        if not state.running:
            continue
        lease = await parts.store.find_lease(session_id)
        if lease is not None:
            status = status_of(state)
            found.append(LeaseView(session_id, lease.holder, lease.expires_at, status))
    return tuple(found)
