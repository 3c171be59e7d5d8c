"""Timing two things in turns, and saying what was found.

CPU time is that of the whole process, all threads, so work can't hide behind another thread; it is
what bars are about. Wall time is stated beside it, since it depends on who else is on the machine.
"""

from __future__ import annotations

import inspect
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from clew.core.text import columns, pad

Run = Callable[[], Awaitable[Any] | Any]


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the report. `ok` is None for what is stated and has no bar."""

    topic: str
    what: str
    clew: str
    floor: str = ""
    compared: str = ""
    bar: str = ""
    ok: bool | None = None


class Cost(NamedTuple):
    """Seconds that something took."""

    cpu: float
    wall: float


class Series:
    """What repeated runs of one thing cost."""

    def __init__(self) -> None:
        self.costs: list[Cost] = []

    @property
    def cpu(self) -> float:
        """The median CPU time of a run."""
        return statistics.median(cost.cpu for cost in self.costs)

    @property
    def wall(self) -> float:
        """The median wall time of a run."""
        return statistics.median(cost.wall for cost in self.costs)

    @property
    def slowest(self) -> float:
        """The longest wall time of a run."""
        return max(cost.wall for cost in self.costs)

    def __str__(self) -> str:
        return f"{seconds(self.cpu)} (wall {seconds(self.wall)})"


async def measure(run: Run, *, times: int = 1) -> Cost:
    """The cost of one run, averaged over `times` in a row."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        result = run()
        if inspect.isawaitable(result):
            await result
    return Cost((time.process_time() - cpu) / times, (time.perf_counter() - wall) / times)


async def in_turns(*runs: Run, rounds: int, times: int = 1) -> tuple[Series, ...]:
    """Measure several things round by round, so that a busy moment hits all of them."""
    all_series = tuple(Series() for _ in runs)
    for run in runs:
        await measure(run)  # warm caches and start threads
    for _ in range(rounds):
        for run, series in zip(runs, all_series, strict=True):
            series.costs.append(await measure(run, times=times))
    return all_series


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process, and the threads that it starts, on one core where that can be done."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def percentile(values: Iterable[float], share: float) -> float:
    """The value that `share` of all are below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def seconds(value: float) -> str:
    """A duration as people read it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e6:.0f} µs"


def table(findings: Sequence[Finding]) -> str:
    """The report."""
    rows = [("", "what", "bare SQL", "clew", "compared", "bar", "")]
    for each in findings:
        result = {True: "ok", False: "OVER", None: ""}[each.ok]
        rows.append((each.topic, each.what, each.floor, each.clew, each.compared, each.bar, result))
    widths = [max(columns(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = [
        "  ".join(pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)
