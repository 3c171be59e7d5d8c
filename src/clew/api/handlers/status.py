"""Handlers of the status report, and of the last events."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.operation import NoParams
from clew.api.status import (
    EVENTS,
    STATUS,
    ConfigView,
    CronView,
    EventList,
    GatewayView,
    LeaseView,
    ListEvents,
    StatusReport,
)
from clew.core.session import OWNER, SessionFilter, status_of
from clew.errors import ClewError
from clew.version import __version__

RECENT: Final = 100
"""How many of the newest sessions are checked for leases."""


MOST: Final = 1_000


DAY: Final = 24 * 60 * 60 * 1000


@handles(STATUS)
async def get_status(parts: Parts, _params: NoParams, caller: Caller) -> StatusReport:
    """Make the status report of this clew."""
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
        config=await asyncio.to_thread(_describe_config, parts),
        gateway=None if parts.started_at is None else GatewayView(os.getpid(), parts.started_at),
        inbox=await store.count_inbound(),
        outbox=await store.count_outbound(),
        findings=() if parts.examine is None else await parts.examine(),
        backed_up_at=await asyncio.to_thread(parts.find_backup_time),
    )


def _describe_config(parts: Parts) -> ConfigView | None:
    file = parts.config_file
    if file is None:
        return None
    changed, problem = ((), None) if parts.reloader is None else parts.reloader.find_changes()
    return ConfigView(str(file), file.exists(), changed, problem)


async def _describe_jobs(parts: Parts) -> CronView | None:
    """Describe the jobs. A file that can't be read is reported, not raised."""
    if parts.jobs is None:
        return None
    problems = parts.list_job_problems()
    try:
        jobs = await asyncio.to_thread(parts.jobs.list_jobs)
    except (ClewError, OSError) as error:
        return CronView(0, problems={**problems, parts.jobs.path.name: str(error)})
    return CronView(len(jobs), min((each.due_at for each in jobs), default=None), problems)


async def _list_leases(parts: Parts) -> tuple[LeaseView, ...]:
    """The leases of the newest sessions: a session with a running turn is among them."""
    # Limited by time, because pinned sessions come first and could fill the whole list.
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


@handles(EVENTS)
async def list_events(parts: Parts, params: ListEvents, _caller: Caller) -> EventList:
    """The last events of this process."""
    events = parts.runtime.events
    return EventList(events.list_events(after=params.after, limit=params.limit), events.head)
