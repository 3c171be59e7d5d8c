"""Cron: jobs in a file of their own, and the runs that they start.

A run is a message like any other: it goes into the inbox under an identity made of the job and its
due time, so that a crash between writing the inbox and the file never runs it twice. A job that was
missed while no gateway ran runs once. `core.cron` says when a job is due.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import uuid
from collections.abc import Awaitable, Callable
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final

import msgspec

from clew.core.channels.incoming import message_for
from clew.core.channels.replies import parse_reply_to, read_reply_to
from clew.core.cron import FIXED, ISOLATED, CronJob, check_name, next_due
from clew.core.session import OWNER, NewSession, Session
from clew.core.text import from_json, to_json
from clew.errors import ClewError, Conflict, InvalidConfig, RecordNotFound
from clew.files.durable import find_bytes, make_directory, put_bytes
from clew.files.locks import held
from clew.ports import Clock, Models
from clew.runtime.inbound.reception import Ticket
from clew.runtime.runtime import Runtime
from clew.runtime.zones import find_zone

CHANNEL: Final = "cron"
POLL: Final = 1.0
"""Seconds between two checks of the file and the clock."""

PATIENCE: Final = 10.0
AGAIN: Final = 60_000
"""Milliseconds after which a run that could not be started is tried again."""

Begin = Callable[[CronJob, str], Awaitable[object]]
"""Start a run of a job, under this name; the run is durable when it returns."""


class _Jobs(msgspec.Struct, frozen=True):
    """The content of the file."""

    jobs: tuple[CronJob, ...] = ()


class CronFile:
    """The jobs, by name. Every method reads the file anew; several processes may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def list_jobs(self) -> tuple[CronJob, ...]:
        """All jobs, by name."""
        data = find_bytes(self.path)
        if data is None:
            return ()
        try:
            jobs = from_json(data.decode(), _Jobs).jobs
        except (ValueError, msgspec.MsgspecError) as error:
            raise InvalidConfig(
                f"{self.path} can't be read: {error}. Fix it, or move it away."
            ) from error
        return tuple(sorted(jobs, key=lambda each: each.name))

    def get_job(self, name: str) -> CronJob:
        """Get a job, or raise `RecordNotFound`."""
        wanted = check_name(name)
        for job in self.list_jobs():
            if job.name == wanted:
                return job
        raise RecordNotFound("job", wanted)

    def add_job(self, job: CronJob) -> None:
        """Add a job; `Conflict` if there is one of this name."""

        def add(jobs: dict[str, CronJob]) -> None:
            if job.name in jobs:
                raise Conflict(f'There is a job "{job.name}" already. `clew cron remove` it first.')
            jobs[job.name] = job

        self._change(add)

    def remove_job(self, name: str) -> CronJob:
        """Remove a job, or raise `RecordNotFound`."""
        job = self.get_job(name)
        self._change(lambda jobs: jobs.pop(job.name, None))
        return job

    def note_run(self, job: CronJob, *, ran_at: int, due_at: int | None = None) -> None:
        """Write down that a job ran and when it is due next, unless it was removed or replaced."""

        def note(jobs: dict[str, CronJob]) -> None:
            known = jobs.get(job.name)
            if known is not None and (known.schedule, known.due_at) == (job.schedule, job.due_at):
                due = known.due_at if due_at is None else due_at
                jobs[job.name] = msgspec.structs.replace(known, last_run_at=ran_at, due_at=due)

        self._change(note)

    def _change(self, change: Callable[[dict[str, CronJob]], object]) -> None:
        make_directory(self.path.parent)
        with held(self.path.with_suffix(".lock"), patience=PATIENCE):
            jobs = {each.name: each for each in self.list_jobs()}
            change(jobs)
            put_bytes(self.path, to_json(_Jobs(tuple(jobs.values()))).encode())

    def stamp(self) -> tuple[int, int] | None:
        """A value that changes when the file does."""
        with contextlib.suppress(OSError):
            status = self.path.stat()
            return (status.st_mtime_ns, status.st_ino)
        return None


class CronRunner:
    """Starts the jobs that are due. `run` it as a task; cancel it to stop."""

    def __init__(
        self,
        file: CronFile,
        begin: Begin,
        *,
        clock: Clock,
        timezone: str | None = None,
        poll: float = POLL,
    ) -> None:
        self._file = file
        self._begin = begin
        self._clock = clock
        self._timezone = timezone
        self._poll = poll
        self._not_before: dict[str, int] = {}
        self.problems: dict[str, str] = {}
        """The last problem of each job, or of the file, for people to read."""

    async def run(self) -> None:
        """Start jobs when they are due, until cancelled."""
        jobs: tuple[CronJob, ...] = ()
        stamp: object = UNREAD
        while True:
            if stamp != (seen := await asyncio.to_thread(self._file.stamp)):
                jobs, stamp = await self._read(jobs), seen
            now = self._clock()
            due = [
                each for each in jobs if max(each.due_at, self._not_before.get(each.name, 0)) <= now
            ]
            for job in due:
                await self._run_job(job)
            if due:
                stamp = UNREAD
            await asyncio.sleep(self._poll)

    async def _read(self, known: tuple[CronJob, ...]) -> tuple[CronJob, ...]:
        try:
            jobs = await asyncio.to_thread(self._file.list_jobs)
        except (ClewError, OSError) as error:
            self.problems[self._file.path.name] = str(error)
            return known
        self.problems.pop(self._file.path.name, None)
        return jobs

    async def _run_job(self, job: CronJob) -> None:
        """Start a run, then write down that it ran: in the other order a crash would lose it."""
        now = self._clock()
        # Set first, so that other jobs still run if this one ends the runner by a bug.
        self._not_before[job.name] = now + AGAIN
        try:
            await self._begin(job, f"{job.name}@{job.due_at}")
            zone = zone_of(job, self._timezone)
            due_at = next_due(job.schedule, now, zone, last=job.due_at)
            await asyncio.to_thread(self._file.note_run, job, ran_at=now, due_at=due_at)
        except Exception as error:
            self.problems[job.name] = str(error)
            if not isinstance(error, ClewError | OSError):
                raise  # the supervisor reports it and restarts the runner
        else:
            self.problems.pop(job.name, None)
            self._not_before.pop(job.name, None)


UNREAD: Final = object()


def zone_of(job: CronJob, timezone: str | None) -> tzinfo:
    """The time zone of a job's schedule: its own, the configured one, or the host's."""
    return find_zone(job.timezone or timezone)


async def begin_run(runtime: Runtime, models: Models, job: CronJob, run: str) -> Ticket:
    """Put a run into the inbox and make its session. A second call changes nothing."""
    person = runtime.reception.find_keyholder(job.key) or OWNER
    session = await _open_session(runtime, models, job, run, person)
    to = parse_reply_to(job.deliver_to) if job.deliver_to else read_reply_to(session.last_route)
    message = message_for(
        session, job.text, channel=CHANNEL, external_id=run, reply_to=to, from_person=False,
        memory=job.memory,
    )  # fmt: skip
    return await runtime.accept(message)


async def _open_session(
    runtime: Runtime, models: Models, job: CronJob, run: str, person: str
) -> Session:
    """The session of a run. An isolated one gets its id from the run, so that it is made once."""
    new = NewSession(
        key=job.key, agent=job.agent, person=person, platform=CHANNEL, kind="cron",
        **_settings_of(runtime, models, job, person),
    )  # fmt: skip
    if job.session != ISOLATED:
        if job.session != FIXED:
            there = await runtime.store.find_route(job.key)
            if there is not None:
                return there
        return (await runtime.store.open_session(new))[0]
    identity = uuid.UUID(bytes=hashlib.sha256(f"cron {run}".encode()).digest()[:16], version=4)
    new = msgspec.structs.replace(new, id=str(identity))
    try:
        return await runtime.store.create_session(new)
    except Conflict:
        return await runtime.store.get_session(str(identity))


def _settings_of(runtime: Runtime, models: Models, job: CronJob, person: str) -> dict[str, Any]:
    """The model and the directory of a job's session; an agent's model is found at each turn."""
    agent, at = runtime.reception.find_agent(job.agent)
    told = {} if at is None or person != OWNER else {"cwd": at.cwd, "project": at.project}
    if agent is not None and agent.model is not None:
        return told
    model = models.get_model()
    return told | {"model": model.name, "provider": model.provider}
