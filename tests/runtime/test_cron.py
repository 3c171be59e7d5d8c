"""Jobs by the clock: kept in a file, begun when due, once each whatever happens in between."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.agent.models.catalogue import Catalogue
from clew.core.cron import CronJob
from clew.core.session import NewSession, SessionFacts
from clew.errors import Conflict, InvalidConfig, RecordNotFound, StoreBusy
from clew.ports import Store
from clew.runtime.cron import AGAIN, CronFile, CronRunner, begin_run
from clew.runtime.runtime import Runtime
from clew.testing.clock import DAY, FakeClock
from tests.patience import PATIENCE
from tests.runtime.conftest import ended, read, soon, until

MINUTE = 60_000


@pytest.fixture
def file(tmp_path: Path) -> CronFile:
    return CronFile(tmp_path / "data" / "cron.json")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def job(clock: Callable[[], int], name: str = "news", **fields: Any) -> CronJob:
    given: dict[str, Any] = {
        "schedule": "every 10m", "text": "What is new?", "due_at": clock() + 10 * MINUTE,
    }  # fmt: skip
    return CronJob(name=name, **(given | fields))


# --- the file ---------------------------------------------------------------------------------


def test_jobs_are_kept_by_name(file: CronFile, clock: FakeClock) -> None:
    first, second = job(clock, text="a\udcffb"), job(clock, "backup", deliver_to="telegram:1")
    file.add_job(first)
    file.add_job(second)

    assert file.list_jobs() == (second, first)
    assert file.get_job(" NEWS ") == first
    assert file.remove_job("news") == first
    assert file.list_jobs() == (second,)


def test_a_name_is_given_once_and_an_unknown_one_is_told(file: CronFile, clock: FakeClock) -> None:
    file.add_job(job(clock))

    with pytest.raises(Conflict):
        file.add_job(job(clock))
    for act in (file.get_job, file.remove_job):
        with pytest.raises(RecordNotFound):
            act("other")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"jobs": [{"name": 1}]}', "\xff"])
def test_a_broken_file_is_told_of_and_left_as_it_is(
    file: CronFile, clock: FakeClock, text: str
) -> None:
    file.path.parent.mkdir()
    file.path.write_bytes(text.encode("latin-1"))

    with pytest.raises(InvalidConfig, match=r"cron\.json"):
        file.add_job(job(clock))
    assert file.path.read_bytes() == text.encode("latin-1")


def test_a_run_is_noted_unless_the_job_is_another_by_now(file: CronFile, clock: FakeClock) -> None:
    old = job(clock)
    file.add_job(old)
    file.note_run(old, ran_at=5, due_at=6)
    assert (file.get_job("news").last_run_at, file.get_job("news").due_at) == (5, 6)

    file.note_run(old, ran_at=7, due_at=8)  # somebody has noted a later run
    assert file.get_job("news").due_at == 6
    file.remove_job("news")
    file.note_run(old, ran_at=7, due_at=8)
    assert file.list_jobs() == ()


def _add_many(path: str, first: int) -> None:
    for number in range(first, first + 8):
        CronFile(Path(path)).add_job(CronJob(name=f"j{number}", schedule="x", text="x", due_at=0))


def test_processes_that_add_at_once_lose_nothing(file: CronFile) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_add_many, args=(str(file.path), first)) for first in (0, 8)
    ]
    for each in processes:
        each.start()
    for each in processes:
        each.join(PATIENCE)

    assert [each.exitcode for each in processes] == [0, 0]
    assert len(file.list_jobs()) == 16


# --- running ----------------------------------------------------------------------------------


class Begun:
    """Who begins runs, and remembers them; fails as often as it is told."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.tries = 0
        self.failures = 0

    async def __call__(self, job: CronJob, run: str) -> None:
        self.tries += 1
        if self.failures:
            self.failures -= 1
            raise StoreBusy("The store is busy.")
        self.runs.append(run)


@asynccontextmanager
async def running(file: CronFile, begin: Any, clock: FakeClock) -> AsyncIterator[CronRunner]:
    runner = CronRunner(file, begin, clock=clock, timezone="Europe/Berlin", poll=0.005)
    task = asyncio.create_task(runner.run())
    try:
        yield runner
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_a_job_runs_when_it_is_due_and_again_when_it_is_due_again(
    file: CronFile, clock: FakeClock
) -> None:
    begun, start = Begun(), clock()
    async with running(file, begun, clock):
        file.add_job(job(clock))  # while it runs: it is noticed

        for count in (1, 2):
            clock.advance(10 * MINUTE)

            async def has_run(count: int = count) -> bool:
                return len(begun.runs) == count and file.get_job("news").due_at > clock()

            await until(has_run)

    assert begun.runs == [f"news@{start + 10 * MINUTE}", f"news@{start + 20 * MINUTE}"]
    kept = file.get_job("news")
    assert (kept.last_run_at, kept.due_at) == (clock(), clock() + 10 * MINUTE)


async def test_what_was_missed_runs_once(file: CronFile, clock: FakeClock) -> None:
    begun = Begun()
    file.add_job(job(clock))
    missed = file.get_job("news").due_at
    clock.advance(3 * DAY + MINUTE)

    async with running(file, begun, clock):

        async def has_run() -> bool:
            return file.get_job("news").due_at > clock()

        await until(has_run)

    assert begun.runs == [f"news@{missed}"]
    assert file.get_job("news").due_at == missed + 3 * DAY  # in step with what it was


async def test_a_run_that_could_not_begin_is_tried_again_and_told_of(
    file: CronFile, clock: FakeClock
) -> None:
    begun = Begun()
    begun.failures = 1
    file.add_job(job(clock))
    clock.advance(10 * MINUTE)

    async with running(file, begun, clock) as runner:

        async def has_failed() -> bool:
            return "news" in runner.problems

        await until(has_failed)
        assert runner.problems == {"news": "The store is busy."}
        clock.advance(AGAIN)

        async def has_run() -> bool:
            return bool(begun.runs) and not runner.problems

        await until(has_run)

    assert (begun.tries, len(begun.runs)) == (2, 1)


async def test_a_broken_file_stops_nothing_that_is_known(file: CronFile, clock: FakeClock) -> None:
    begun = Begun()
    file.add_job(job(clock))
    async with running(file, begun, clock) as runner:
        good = file.path.read_bytes()
        file.path.write_text("{")

        async def is_told() -> bool:
            return "cron.json" in runner.problems

        await until(is_told)
        file.path.write_bytes(good)

        async def is_well() -> bool:
            return not runner.problems

        await until(is_well)


# --- what a run is ----------------------------------------------------------------------------


async def test_an_isolated_job_has_a_fresh_session_each_time_under_one_key(
    runtime: Runtime, store: Store, models: Catalogue, clock: FakeClock
) -> None:
    begin = partial(begin_run, runtime, models, job(clock))
    turns = [await ended(await begin(run)) for run in ("news@1", "news@2")]

    assert turns[0].session_id != turns[1].session_id
    session = await store.find_route("agent:main:cron:news")
    assert session is not None
    assert (session.id, session.kind, session.model) == (turns[1].session_id, "cron", "script/one")
    assert await read(store, session) == ["user: What is new?", "assistant: ok"]
    # A job doesn't mean that somebody is there.
    assert session.last_interaction_at is None


async def test_the_same_run_twice_is_one(
    runtime: Runtime, store: Store, models: Catalogue, clock: FakeClock
) -> None:
    first = await begin_run(runtime, models, job(clock), "news@1")
    await ended(first)
    again = await begin_run(runtime, models, job(clock), "news@1")

    assert (first.is_new, again.is_new) == (True, False)
    assert (await store.stats()).sessions == 1


async def test_a_fixed_job_goes_on_in_its_session(
    runtime: Runtime, store: Store, models: Catalogue, clock: FakeClock
) -> None:
    fixed = job(clock, session="fixed")
    for run in ("news@1", "news@2"):
        await ended(await begin_run(runtime, models, fixed, run))

    session = await store.find_route("agent:main:cron:news")
    assert len(await read(store, session)) == 4


async def test_a_job_may_speak_in_a_conversation_and_its_answer_goes_where_that_was_last(
    runtime: Runtime, store: Store, models: Catalogue, clock: FakeClock
) -> None:
    main = await store.create_session(NewSession(key="agent:main:main"))
    place = {"channel": "telegram", "key": "k", "address": {"peer": {"kind": "dm", "id": "1"}}}
    await store.describe_session(main.id, SessionFacts(last_route=place))

    turn = await ended(
        await begin_run(runtime, models, job(clock, session="agent:main:main"), "news@1")
    )
    assert turn.session_id == main.id
    (row,) = await store.list_outbound()
    assert (row.channel, row.key, row.content) == ("telegram", "k", "ok")


async def test_a_job_delivers_where_it_is_told_to(
    runtime: Runtime, store: Store, models: Catalogue, clock: FakeClock
) -> None:
    await ended(
        await begin_run(runtime, models, job(clock, deliver_to="slack:channel:c1"), "news@1")
    )

    (row,) = await store.list_outbound()
    assert (row.channel, row.address["peer"]) == ("slack", {"kind": "channel", "id": "c1"})


async def test_a_job_of_the_whole_way_is_begun_by_the_clock(
    runtime: Runtime, store: Store, models: Catalogue, file: CronFile, clock: FakeClock
) -> None:
    file.add_job(msgspec.structs.replace(job(clock), due_at=clock()))

    async with running(file, partial(begin_run, runtime, models), clock):

        async def is_answered() -> bool:
            session = await store.find_route("agent:main:cron:news")
            return session is not None and session.head == 2

        await soon(until(is_answered))
