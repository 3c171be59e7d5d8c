"""SIGKILL a writing process at random moments, again and again, and inspect what it left.

    python -m benchmarks.kill --rounds 200

A round forks a child (`processes.writer`), which works on a store and posts what the store
acknowledged. After a random time it is killed. Then every acknowledged fact must hold, nothing may
be half done, SQLite must find its file sound and the indexes in step; the next child starts on the
remains. This process has no threads and keeps no connection open, so forking it is safe.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import get_args

import apsw
import msgspec

from benchmarks.inspector import inspect_file
from benchmarks.processes.writer import Act, Fact, Ledger, Order, live

START = 0.02
"""Seconds in which a child opens or makes a store: as long as nothing is written, it is killed in
this time."""

LONGEST_LIFE = 0.25

LIVES_PER_STORE = 25
"""After so many a new store is begun, so that some are killed while they make it."""

STUCK = 30.0


class Posted(msgspec.Struct, frozen=True, array_like=True):
    """One line from the child."""

    fact: Fact
    session: str
    number: int


class Loop:
    """Rounds of life and death."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.problems: list[str] = []
        self.acknowledged: Counter[str] = Counter()
        self._rng = random.Random(seed)
        self._folder = folder
        self._stores = 0
        self._begin_store()

    def _begin_store(self) -> None:
        self._stores += 1
        self._path = self._folder / str(self._stores) / "sessions.db"
        self._ledger = Ledger()
        self._lives = 0

    def round(self) -> None:
        """One life, its end, and the inspection."""
        act: Act = self._rng.choices(get_args(Act), (70, 10, 10, 10))[0]
        longest = START if self._ledger == Ledger() else LONGEST_LIFE
        order = Order(self._path, self._lives, act, self._ledger)
        self._live(order, self._rng.uniform(0, longest))
        self._lives += 1
        last = self._lives == LIVES_PER_STORE
        # Whoever opens the file first repairs it: half of the time an inspector, half clew.
        if last or self._rng.random() < 0.5:
            self._inspect()
        if last:
            self.finish()
            self._begin_store()

    def finish(self) -> None:
        """Let a last one live to its end: what was killed over and over still works."""
        order = Order(self._path, self._lives, "append", self._ledger, endless=False)
        if not self._live(order, STUCK):
            self._blame("a life that was left alone did not come to its end")
        self._inspect()
        if not self.problems:
            shutil.rmtree(self._path.parent)

    def _live(self, order: Order, seconds: float) -> bool:
        """Fork, listen, kill, and note what was acknowledged; whether it ended by itself."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _be_the_child(order, writer)
        os.close(writer)
        heard = _listen(reader, seconds)
        os.kill(pid, signal.SIGKILL)
        heard += _listen(reader, STUCK)
        os.close(reader)
        os.waitpid(pid, 0)
        self._ledger.leased.clear()
        posts = [msgspec.json.decode(line, type=Posted) for line in heard.splitlines()]
        for post in posts:
            self._note(post)
        return any(post.fact == "finished" for post in posts)

    def _note(self, post: Posted) -> None:
        self.acknowledged[post.fact] += 1
        ledger = self._ledger
        match post.fact:
            case "leased":
                ledger.leased[post.session] = post.number
            case "said":
                ledger.said[post.session] = post.number
            case "imported":
                ledger.imported[post.session] = post.number
            case "forked":
                ledger.forks[post.session] = post.number
            case "trashed":
                ledger.trashed.add(post.session)
            case "purged":
                ledger.purged.add(post.session)
            case "problem":
                self._blame(post.session)

    def _blame(self, problem: str) -> None:
        self.problems.append(f"store {self._stores}, life {self._lives}: {problem}")

    def _inspect(self) -> None:
        """Look into the file with SQLite alone."""
        if not self._path.exists():
            if self._ledger != Ledger():
                self._blame("the store is gone")
            return
        with contextlib.closing(apsw.Connection(str(self._path))) as connection:
            for problem in inspect_file(connection, self._ledger):
                self._blame(problem)


def _be_the_child(order: Order, writer: int) -> None:
    """Work until the signal comes; never return."""

    def post(fact: Fact, session: str, number: int) -> None:
        os.write(writer, msgspec.json.encode(Posted(fact, session, number)) + b"\n")

    try:
        asyncio.run(live(order, post))
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


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="clew-kill-"))
    loop = Loop(folder, seed=options.seed)
    for number in range(1, options.rounds + 1):
        loop.round()
        if sys.stderr.isatty():
            print(f"\r{number} of {options.rounds} killed", end="", file=sys.stderr, flush=True)
    loop.finish()
    facts = ", ".join(f"{count:,} {fact}" for fact, count in loop.acknowledged.most_common())
    print(f"{options.rounds} kills in {time.monotonic() - began:.0f} s; acknowledged: {facts}")
    for problem in loop.problems:
        print(f"PROBLEM {problem}")
    if loop.problems:
        print(f"The stores are kept in {folder}.")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    print("Nothing acknowledged was lost, nothing was half done, every index is in step.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
