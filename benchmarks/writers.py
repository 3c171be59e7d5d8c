"""Many writers on one file: eight processes, and eight tasks in one process.

Run as a program, this module is one of those processes: it opens the store, waits for the word,
appends, and tells how long each append took.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import apsw
import msgspec

from benchmarks.corpora import Setting, open_at
from benchmarks.timing import Finding, seconds
from clew.core.message import Draft
from clew.core.session import NewSession
from clew.store.sqlite.store import SqliteStore

WRITERS = 8
RATE = 0.7
PER_SYNC = 3
HOUR = 3_600_000


class Job(msgspec.Struct, frozen=True):
    """What one writing process does. The lease is its parent's: all of them share one epoch."""

    path: str
    session_id: str
    epoch: int
    name: str
    count: int


async def many_writers(setting: Setting) -> list[Finding]:
    """Eight processes to eight sessions, and to one."""
    findings = []
    for sessions in (WRITERS, 1):
        rates = [await _race(setting, sessions) for _ in range(1 if setting.quick else 5)]
        findings.append(_summary(sessions, rates))
    return [*findings, await _grouped(setting)]


class Race(msgspec.Struct, frozen=True):
    """How eight processes did, beside one alone: before and after, since disks have moods."""

    alone: float
    together: float
    waits: list[float]
    problems: list[str]


async def _race(setting: Setting, sessions: int) -> Race:
    count = 50 if setting.quick else 500
    path = setting.folder() / "sessions.db"
    async with AsyncExitStack() as stack:
        store = await open_at(path, stack)
        ids, epochs = await _leased(store, sessions + 1)
        single = Job(str(path), ids[-1], epochs[-1], "alone", count)
        before, _ = await _run([single])
        jobs = [
            Job(str(path), ids[index % sessions], epochs[index % sessions], f"w{index}", count)
            for index in range(WRITERS)
        ]
        together, waits = await _run(jobs)
        after, _ = await _run([single])
        problems = await _check(store, ids[:-1], jobs)
    return Race(2 * count / (before + after), WRITERS * count / together, waits, problems)


def _summary(sessions: int, races: Sequence[Race]) -> Finding:
    share = statistics.median(race.together / race.alone for race in races)
    problems = [problem for race in races for problem in race.problems]
    waits = [wait for race in races for wait in race.waits]
    return Finding(
        topic="writers",
        what=f"8 processes, {sessions} session{'s' if sessions > 1 else ''}",
        floor=f"one alone: {statistics.median(race.alone for race in races):.0f}/s",
        clew=f"{statistics.median(race.together for race in races):.0f}/s",
        compared=problems[0] if problems else f"{share:.2f}x, worst wait {seconds(max(waits))}",
        bar=f"{RATE}x, all stored in order",
        ok=share >= RATE and not problems,
    )


async def _leased(store: SqliteStore, count: int) -> tuple[list[str], list[int]]:
    made = [await store.create_session(NewSession(key=f"bench:{index}")) for index in range(count)]
    leases = [await store.acquire_lease(session.id, "benchmark", ttl=HOUR) for session in made]
    return [session.id for session in made], [lease.epoch for lease in leases]


async def _run(jobs: list[Job]) -> tuple[float, list[float]]:
    """Seconds from the word until the last is done, and every wait."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "benchmarks.writers")
    writers = [
        await asyncio.create_subprocess_exec(
            *command, msgspec.json.encode(job).decode(), stdin=pipe, stdout=pipe, limit=2**24
        )
        for job in jobs
    ]
    for writer in writers:
        assert writer.stdout is not None
        if await writer.stdout.readline() != b"ready\n":
            raise SystemExit("A writing process did not start.")
    began = time.perf_counter()
    answers = await asyncio.gather(*(writer.communicate(b"go\n") for writer in writers))
    waits = [msgspec.json.decode(out, type=list[float]) for out, _ in answers]
    # Each process says when it ended; what Python takes to shut down is not writing.
    ended = max(wait.pop() for wait in waits)
    return ended - began, list(itertools.chain.from_iterable(waits))


async def _check(store: SqliteStore, ids: Sequence[str], jobs: Sequence[Job]) -> list[str]:
    """What is missing, or out of order."""
    problems = []
    for session_id in ids:
        messages = await store.get_messages(session_id)
        if [message.seq for message in messages] != list(range(1, len(messages) + 1)):
            problems.append(f"session {session_id} has gaps")
        for job in jobs:
            if job.session_id == session_id:
                said = [
                    each.content for each in messages if each.content.startswith(f"{job.name} ")
                ]
                if said != [f"{job.name} {number}" for number in range(job.count)]:
                    problems.append(
                        f"{job.name}: {len(said)} of {job.count} stored, or not in order"
                    )
    return problems


async def _grouped(setting: Setting) -> Finding:
    """Eight tasks in one process: how many appends share a sync."""
    count = 50 if setting.quick else 500
    syncs = CountingFiles()
    async with AsyncExitStack() as stack:
        stack.callback(syncs.unregister)
        store = await open_at(setting.folder() / "sessions.db", stack)
        ids, epochs = await _leased(store, WRITERS)
        syncs.count = 0
        began = time.perf_counter()

        async def write(session_id: str, epoch: int) -> None:
            for number in range(count):
                draft = Draft(role="user", content=f"Message {number}")
                await store.append(session_id, epoch, draft)

        await asyncio.gather(*map(write, ids, epochs))
        taken = time.perf_counter() - began
        counted = syncs.count
    per_sync = WRITERS * count / counted
    return Finding(
        topic="writers",
        what="8 tasks in one process, FULL",
        clew=f"{WRITERS * count / taken:.0f}/s",
        compared=f"{per_sync:.1f} appends per sync",
        bar=f"{PER_SYNC} per sync",
        ok=per_sync >= PER_SYNC,
    )


class CountingFiles(apsw.VFS):
    """SQLite's own files, with their syncs counted. The default while it is registered."""

    def __init__(self) -> None:
        self.count = 0
        self._base = apsw.vfs_names()[0]
        super().__init__("counting", self._base, makedefault=True)

    def xOpen(  # noqa: N802  # SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        """Open a file that reports its syncs here."""
        return _CountingFile(self, self._base, name, flags)


class _CountingFile(apsw.VFSFile):
    def __init__(
        self,
        counter: CountingFiles,
        base: str,
        name: str | apsw.URIFilename | None,
        flags: list[int],
    ) -> None:
        self._counter = counter
        super().__init__(base, name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802  # SQLite's name
        self._counter.count += 1
        super().xSync(flags)


async def _write(job: Job) -> list[float]:
    """Be one of the processes. The last number is when it ended."""
    waits = []
    async with AsyncExitStack() as stack:
        store = await open_at(Path(job.path), stack)
        await store.get_session(job.session_id)
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(job.count):
            began = time.perf_counter()
            draft = Draft(role="user", content=f"{job.name} {number}")
            await store.append(job.session_id, job.epoch, draft)
            waits.append(time.perf_counter() - began)
        waits.append(time.perf_counter())
    return waits


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.argv[1], type=Job)
    print(msgspec.json.encode(asyncio.run(_write(asked))).decode())
