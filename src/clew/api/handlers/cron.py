"""Handlers of the operations about jobs. Jobs belong to the owner; the gateway runs them."""

from __future__ import annotations

import asyncio

import msgspec

from clew.api.chat import Accepted
from clew.api.cron import ADD, LIST, REMOVE, RUN, AddJob, JobList, OneJob
from clew.api.handlers.chat import describe_accepted
from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.operation import NoParams
from clew.core.channels.replies import parse_reply_to
from clew.core.channels.routing import normalise_agent
from clew.core.cron import FIXED, ISOLATED, CronJob, check_name, check_schedule, next_due
from clew.core.keys import check_key
from clew.errors import InvalidInput
from clew.runtime.cron import CronFile, begin_run
from clew.runtime.zones import find_zone


@handles(LIST)
async def list_jobs(parts: Parts, _params: NoParams, _caller: Caller) -> JobList:
    """All jobs, by name."""
    file = _open(parts)
    return JobList(await asyncio.to_thread(file.list_jobs))


@handles(ADD)
async def add_job(parts: Parts, params: AddJob, _caller: Caller) -> CronJob:
    """Add a job."""
    file = _open(parts)
    job = make_job(params, parts.clock(), parts.timezone)
    await asyncio.to_thread(file.add_job, job)
    return job


@handles(REMOVE)
async def remove_job(parts: Parts, params: OneJob, _caller: Caller) -> CronJob:
    """Remove a job; its sessions stay."""
    file = _open(parts)
    return await asyncio.to_thread(file.remove_job, params.name)


@handles(RUN)
async def run_job(parts: Parts, params: OneJob, _caller: Caller) -> Accepted:
    """Start a run now; the next due time does not change."""
    file = _open(parts)
    job = await asyncio.to_thread(file.get_job, params.name)
    now = parts.clock()
    if parts.reception is None:
        raise InvalidInput("Jobs can't be run here.")
    ticket = await begin_run(parts.runtime, parts.models, job, f"{job.name}@now-{now}")
    await asyncio.to_thread(file.note_run, job, ran_at=now)
    return describe_accepted(ticket)


def make_job(params: AddJob, now: int, timezone: str | None) -> CronJob:
    """Make a job from the parameters; `InvalidInput` says what is wrong with them."""
    if not params.text.strip():
        raise InvalidInput("Say what the agent is asked. Nothing was changed.")
    session = params.session.strip()
    job = CronJob(
        name=check_name(params.name),
        schedule=check_schedule(params.schedule),
        text=params.text.strip(),
        due_at=0,
        agent=normalise_agent(params.agent),
        session=session if session in (ISOLATED, FIXED) else check_key(session),
        deliver_to=params.deliver_to,
        timezone=params.timezone,
    )
    if job.deliver_to is not None:
        parse_reply_to(job.deliver_to)
    try:
        zone = find_zone(job.timezone or timezone)
    except (ValueError, OSError, KeyError) as error:
        raise InvalidInput(f'There is no time zone "{job.timezone}".') from error
    return msgspec.structs.replace(job, due_at=next_due(job.schedule, now, zone))


def _open(parts: Parts) -> CronFile:
    if parts.jobs is None:
        raise InvalidInput("No jobs are kept here.")
    return parts.jobs
