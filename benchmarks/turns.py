"""Kill a talking process at each commit of a turn, and at random moments; see what it left.

    python -m benchmarks.turns points             at every commit point: just before, just after
    python -m benchmarks.turns compacting --way due    likewise, of a compaction; with `--near`
                                                  only at the commits around that of some tables
    python -m benchmarks.turns steering           likewise, of a turn into which more is said
    python -m benchmarks.turns arriving           likewise, of a message on a channel
    python -m benchmarks.turns random --rounds 300

A commit point is a write transaction of the store on the way of one message, from opening the
store to leaving it. The process dies inside SQLite: in its commit hook (nothing of it is durable),
or when the COMMIT has returned (it is durable, and nobody was told). The next life (`talker`)
checks everything that was acknowledged, recovers, and goes on; what it finds wrong ends the loop
with 1. This process has no threads and keeps no connection open, so forking it is safe.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Literal, get_args

import apsw
import msgspec

import benchmarks.processes.preload  # noqa: F401  # what every life needs is loaded once, here
from benchmarks.processes import arriver, compactor, steerer
from benchmarks.processes.talker import Fact, Ledger, Post, World, live

When = Literal["before", "after"]
Living = Callable[[Any, Ledger, Post], Coroutine[Any, Any, None]]
"""What a life does in its world."""

STUCK = 90.0
LONGEST_LIFE = 0.4
LIVES_PER_WORLD = 12
AROUND = 2
"""Commits before and after the one that `--near` names."""
MOST_POINTS = 300
"""A way with more commits than this has no end."""

_WRITES = re.compile(r"\s*(?:INSERT(?: OR \w+)? INTO|REPLACE INTO|UPDATE|DELETE FROM)\s+(\w+)")


class Posted(msgspec.Struct, frozen=True, array_like=True):
    """One line from a life."""

    fact: Fact
    text: str
    number: int


class Point(msgspec.Struct, frozen=True):
    """A commit, and the tables that it changed."""

    number: int
    tables: str


class Reaper:
    """Counts the commits of this process, and ends it at one of them."""

    def __init__(self, number: int, when: When, post: Callable[[Fact, str, int], None]) -> None:
        self._number = number
        self._when = when
        self._post = post
        self._count = 0

    def watch(self, connection: apsw.Connection) -> None:
        """Look at what a new connection does."""
        tables: dict[str, None] = {}
        committing = False

        def begin_commit() -> bool:
            nonlocal committing
            committing = True
            self._count += 1
            self._post("point", "+".join(tables) or "nothing", self._count)
            tables.clear()
            self._strike("before")
            return False

        def follow(event: dict[str, Any]) -> None:
            nonlocal committing
            sql = event["sql"]
            if event["code"] == apsw.SQLITE_TRACE_PROFILE:
                if committing and sql == "COMMIT":
                    committing = False
                    self._strike("after")
            elif not event["trigger"] and (match := _WRITES.match(sql)):
                tables[match[1]] = None

        connection.set_commit_hook(begin_commit)
        connection.trace_v2(apsw.SQLITE_TRACE_STMT | apsw.SQLITE_TRACE_PROFILE, follow)

    def _strike(self, when: When) -> None:
        if self._count == self._number and self._when == when:
            os.kill(os.getpid(), signal.SIGKILL)


class Life(msgspec.Struct):
    """How a life went."""

    points: list[Point]
    problems: list[str]
    finished: bool
    killed: bool
    counts: Counter[str]


def run_life(
    world: World,
    ledger: Ledger,
    *,
    reaper: tuple[int, When] | None = None,
    seconds: float = STUCK,
    living: Living = live,
) -> Life:
    """Fork, listen until the end or until the time is over, and note what was acknowledged."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _be_the_child(world, ledger, writer, reaper, living)
    os.close(writer)
    heard = _listen(reader, seconds)
    os.kill(pid, signal.SIGKILL)
    heard += _listen(reader, STUCK)
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    posts = [msgspec.json.decode(line, type=Posted) for line in heard.splitlines()]
    for post in posts:
        match post.fact:
            case "accepted":
                ledger.accepted.add(post.text)
            case "committed":
                ledger.committed[post.number] = post.text
            case "ended":
                turn_id, _, end = post.text.partition(" ")
                ledger.ended[turn_id] = end
    return Life(
        points=[Point(post.number, post.text) for post in posts if post.fact == "point"],
        problems=[post.text for post in posts if post.fact == "problem"],
        finished=any(post.fact == "finished" for post in posts),
        killed=os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
        counts=Counter(post.fact for post in posts),
    )


def _be_the_child(
    world: World, ledger: Ledger, writer: int, reaper: tuple[int, When] | None, living: Living
) -> None:
    """Live until the signal comes; never return."""

    def post(fact: Fact, text: str, number: int) -> None:
        os.write(writer, msgspec.json.encode(Posted(fact, text, number)) + b"\n")

    try:
        if reaper is not None:
            apsw.connection_hooks.append(Reaper(*reaper, post).watch)
        asyncio.run(living(world, ledger, post))
    except BaseException:  # noqa: BLE001  # the parent must hear of anything
        post("problem", traceback.format_exc(), 0)
    finally:
        os._exit(0)


def _listen(reader: int, seconds: float) -> bytes:
    """What comes through a pipe in so much time; ends early when the other end is closed."""
    heard = b""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([reader], [], [], left)[0]:
            piece = os.read(reader, 65_536)
            if not piece:
                break
            heard += piece
    return heard


# --- every point --------------------------------------------------------------------------------


def walk_points(folder: Path, when: When, *, tools: int) -> tuple[list[Point], list[str]]:
    """Kill at the first commit of a turn, the second, …, until one comes to its end unharmed."""
    # The store is made before the way begins: its migrations are the subject of `kill`.
    prepared = World(folder / "prepared", questions=0)
    prepared.make()
    problems = run_life(prepared, Ledger()).problems
    points, found = _walk(
        when, lambda number: World(folder / f"{when}-{number}", tools=tools), prepared, live
    )
    return points, problems + found


def walk_compaction(
    folder: Path, when: When, way: compactor.Way, near: str | None
) -> tuple[list[Point], list[str]]:
    """The same for the compaction of a long conversation, and the turn around or after it."""

    def make(name: str) -> compactor.LongWorld:
        return compactor.LongWorld(folder / name, questions=compactor.EXCHANGES + 1, way=way)

    prepared = make("prepared")
    prepared.make()
    problems = run_life(prepared, Ledger(), living=compactor.prepare).problems
    points, found = _walk(
        when, lambda number: make(f"{when}-{number}"), prepared, compactor.live, near
    )
    return points, problems + found


def walk_steering(folder: Path, when: When) -> tuple[list[Point], list[str]]:
    """The same for a turn into which more is said while it runs."""
    prepared = steerer.SteeredWorld(folder / "prepared")
    prepared.make()
    problems = run_life(prepared, Ledger(), living=steerer.prepare).problems
    points, found = _walk(
        when, lambda number: steerer.SteeredWorld(folder / f"{when}-{number}"), prepared,
        steerer.live,
    )  # fmt: skip
    return points, problems + found


def walk_arrival(folder: Path, when: When) -> tuple[list[Point], list[str]]:
    """The same for a message on a channel that begins a new session."""
    prepared = arriver.ArrivingWorld(folder / "prepared")
    prepared.make()
    problems = run_life(prepared, Ledger(), living=arriver.prepare).problems
    points, found = _walk(
        when, lambda number: arriver.ArrivingWorld(folder / f"{when}-{number}"), prepared,
        arriver.live,
    )  # fmt: skip
    return points, problems + found


def _walk(
    when: When,
    make: Callable[[int], World],
    prepared: World,
    living: Living,
    near: str | None = None,
) -> tuple[list[Point], list[str]]:
    points: list[Point] = []
    problems: list[str] = []
    numbers = range(1, MOST_POINTS)
    if near is not None:
        numbers = _find_near(near, _copy(prepared, make(0)), living)
    for number in numbers:
        world = _copy(prepared, make(number))
        ledger = Ledger()
        life = run_life(world, ledger, reaper=(number, when), living=living)
        problems += [f"{when} commit {number}: {each}" for each in life.problems]
        if life.finished:
            shutil.rmtree(world.folder)
            return points, problems
        point = life.points[-1]
        points.append(point)
        where = f"{when} commit {number} ({point.tables})"
        if not life.killed or point.number != number:
            problems.append(f"{where}: it ended some other way, at {point}")
        problems += [f"{where}: {each}" for each in _end_well(world, ledger, living)]
        if not problems:
            shutil.rmtree(world.folder)
    if near is not None:
        return points, problems
    return points, [*problems, f"no end after {MOST_POINTS} commits"]


def _copy(prepared: World, world: World) -> World:
    """Make a world that begins as another one has ended."""
    world.make()
    for file in prepared.home.iterdir():
        if file.name in ("sessions.db", "before.json"):
            shutil.copy(file, world.home)
    return world


def _find_near(tables: str, world: World, living: Living) -> range:
    """The commits around the one that changes these tables, in a life that nobody ends."""
    life = run_life(world, Ledger(), reaper=(0, "before"), living=living)
    shutil.rmtree(world.folder)
    place = [point.tables for point in life.points].index(tables) + 1
    return range(max(1, place - AROUND), min(len(life.points), place + AROUND) + 1)


def _end_well(world: World, ledger: Ledger, living: Living = live) -> list[str]:
    """Let a last one live to its end; what was wrong with that."""
    life = run_life(world, ledger, living=living)
    return life.problems if life.finished else [*life.problems, "the next life did not end"]


# --- random moments -----------------------------------------------------------------------------


def kill_randomly(folder: Path, rounds: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Kill at any moment, recoveries included: each life begins with what the last one left."""
    rng = random.Random(seed)
    told: Counter[str] = Counter()
    problems: list[str] = []
    for start in range(0, rounds, LIVES_PER_WORLD):
        world = World(folder / f"random-{start}", questions=12, tools=4)
        world.make()
        ledger = Ledger()
        for number in range(start, min(start + LIVES_PER_WORLD, rounds)):
            life = run_life(world, ledger, seconds=rng.uniform(0, LONGEST_LIFE))
            told += life.counts
            problems += [f"world {start}, life {number}: {each}" for each in life.problems]
            if sys.stderr.isatty():
                print(f"\r{number + 1} of {rounds} killed", end="", file=sys.stderr, flush=True)
        problems += [f"world {start}, last life: {each}" for each in _end_well(world, ledger)]
        if not problems:
            shutil.rmtree(world.folder)
    return told, problems


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("part", choices=("points", "compacting", "steering", "arriving", "random"))
    parser.add_argument("--way", choices=get_args(compactor.Way), default="asked")
    parser.add_argument("--when", choices=("before", "after"), action="append")
    parser.add_argument("--near", metavar="TABLES", help="only at commits around that of these")
    parser.add_argument("--tools", type=int, default=2, help="tools that run together")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    assert threading.active_count() == 1, "a library has started a thread; forking is not safe"
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="clew-turns-"))
    problems: list[str] = []
    if options.part != "random":
        for when in options.when or ("before", "after"):
            match options.part:
                case "points":
                    points, found = walk_points(folder, when, tools=options.tools)
                case "compacting":
                    points, found = walk_compaction(folder, when, options.way, options.near)
                case "steering":
                    points, found = walk_steering(folder, when)
                case _:
                    points, found = walk_arrival(folder, when)
            problems += found
            shutil.rmtree(folder / "prepared", ignore_errors=True)
            for point in points:
                print(f"{when} {point.number} {point.tables}")
    else:
        told, problems = kill_randomly(folder, options.rounds, options.seed)
        facts = ", ".join(f"{count:,} {fact}" for fact, count in told.most_common())
        print(f"{options.rounds} kills in {time.monotonic() - began:.0f} s; told: {facts}")
    for problem in problems:
        print(f"PROBLEM {problem}")
    if problems:
        print(f"What they left is kept in {folder}.")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    print("Nothing told was lost, no tool ran twice, and every conversation went on.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
