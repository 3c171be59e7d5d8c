"""What the status report is made of."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.operation import NoParams
from clew.api.status import (
    STATUS,
    ConfigView,
    CronView,
    GatewayView,
    LeaseView,
    StatusReport,
)
from clew.core.session import OWNER, SessionFilter, status_of
from clew.errors import ClewError
from clew.version import __version__

RECENT: Final = 100
"""Sessions among which one looks for those that somebody is at."""


MOST: Final = 1_000


DAY: Final = 24 * 60 * 60 * 1000


@handles(STATUS)
async def get_status(parts: Parts, _params: NoParams, caller: Caller) -> StatusReport:
    """How this clew is doing."""
    now = parts.clock()
    if not caller.is_owner:
        return StatusReport(__version__, now)
    store = parts.store
    return StatusReport(
        version=__version__,
        at=now,
        stats=await store.stats(),
        store=None if parts.describe is None else await parts.describe(),
        channels=parts.list_channels(),
        errands=parts.list_errands(),
        cron=await _describe_jobs(parts),
        queued=len(await store.list_inbound(limit=MOST)),
        waiting=len(await store.list_approvals()),
        leases=await _list_leases(parts),
        uncertain=len(await store.list_outbound(status="uncertain", limit=MOST)),
        asking=sum(each.is_open(now) for each in await store.list_pairings()),
        config=_describe_config(parts),
        gateway=None if parts.started_at is None else GatewayView(os.getpid(), parts.started_at),
    )


def _describe_config(parts: Parts) -> ConfigView | None:
    file = parts.config_file
    return None if file is None else ConfigView(str(file), file.exists())


async def _describe_jobs(parts: Parts) -> CronView | None:
    """The jobs. A file that can't be read is a problem of theirs, not of who asks."""
    if parts.jobs is None:
        return None
    problems = parts.list_job_problems()
    try:
        jobs = await asyncio.to_thread(parts.jobs.list_jobs)
    except (ClewError, OSError) as error:
        return CronView(0, problems={**problems, parts.jobs.path.name: str(error)})
    return CronView(len(jobs), min((each.due_at for each in jobs), default=None), problems)


async def _list_leases(parts: Parts) -> tuple[LeaseView, ...]:
    """Who is at work, among the newest sessions: a turn that runs makes its session one."""
    # Pinned sessions come first in a list: without a limit in time they could fill all of it.
    since = parts.clock() - DAY
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
