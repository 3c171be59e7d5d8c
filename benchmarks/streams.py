"""Live clients, some of which stop reading: they slow no turn, cost little memory, miss nothing.

    python -m benchmarks.streams            200 clients, 20 of which stop, ten times
    python -m benchmarks.streams --quick    40, 4 of which stop, three times; times have no bar

A turn speaks like a fast model and uses tools. It is timed in three ways, one after the other in
every round: without any client, with all of them reading, and with a tenth of them stuck. Stuck
means that before the turn more was sent to them than the network and their queue hold. Afterwards
those read on where they are, with a gap that was announced, or come back from their last message;
and in the end all clients break off in the middle of a turn and come back. The gateway's CPU is
that of its whole process, from the message to the last frame that a reader waits for. Ends with 1
if a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from benchmarks.live_gateway import Stage, open_stage
from clew.gateway.client_queue import MAX_BYTES

Way: TypeAlias = Literal["without", "reading", "stuck"]
WAYS: Final[tuple[Way, ...]] = ("without", "reading", "stuck")
GROUPS = ("always", "changing")
SLACK = 1.10
SPARE = 24_000_000
"""Bytes that the process may grow by beyond the queues of those who are stuck."""


class Size(msgspec.Struct, frozen=True):
    """How much of it."""

    clients: int
    stuck: int
    rounds: int
    words: int
    is_timed: bool = True
    """Whether the turn's time has a bar, or is only stated: in a few rounds chance decides."""


FULL = Size(clients=200, stuck=20, rounds=10, words=300)
QUICK = Size(clients=40, stuck=4, rounds=3, words=100, is_timed=False)


class Found(msgspec.Struct):
    """What was measured, of the times and the CPU in seconds."""

    times: dict[Way, list[float]] = msgspec.field(default_factory=lambda: {w: [] for w in WAYS})
    cpu: dict[Way, list[float]] = msgspec.field(default_factory=lambda: {w: [] for w in WAYS})
    memory: list[int] = msgspec.field(default_factory=list)
    faults: list[str] = msgspec.field(default_factory=list)


async def run(size: Size, folder: Path) -> list[str]:
    """All of it; what is wrong in the end."""
    found = Found()
    async with open_stage(folder, size.words) as stage:
        await _join(stage, size, is_reading=True)
        await stage.say(stage.main)
        found.memory.append(_resident())
        await _leave(stage)
        for number in range(size.rounds):
            # Each comes first, second and last about as often.
            for each in range(len(WAYS)):
                way = WAYS[(number + each) % len(WAYS)]
                await _round(stage, size, found, way, is_staying=bool(number % 2))
            print(
                f"round {number + 1}: "
                + ", ".join(f"{way} {found.times[way][-1]:.3f} s" for way in WAYS)
                + f", {found.memory[-1] / 1e6:.0f} MB, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
        await _break_off(stage, size, found)
    return _judge(size, found)


async def _join(stage: Stage, size: Size, *, is_reading: bool) -> None:
    """All clients come; those that change read or not, and follow what floods them, too."""
    main, more = stage.main.id, [stage.flood.id]
    always = size.clients - size.stuck
    await stage.tell("join", group="always", count=always, main=main, more=[], reading=True)
    await stage.tell(
        "join", group="changing", count=size.stuck, main=main, more=more, reading=is_reading
    )


async def _leave(stage: Stage) -> None:
    for group in GROUPS:
        await stage.tell("leave", group=group)


async def _round(stage: Stage, size: Size, found: Found, way: Way, *, is_staying: bool) -> None:
    """A turn; then all who follow it have everything."""
    if way != "without":
        await _join(stage, size, is_reading=way == "reading")
    await stage.say(stage.flood)
    is_stuck = stage.stream_guard.count_stuck(0.1)
    began = time.process_time()
    took = await stage.say(stage.main)
    stuck = min(is_stuck, stage.stream_guard.count_stuck(took))
    last = await stage.head(stage.main)
    if way != "without":
        await stage.tell("wait", group="always", last=last)
    found.cpu[way].append(time.process_time() - began)
    found.times[way].append(took)
    found.memory.append(_resident())
    if way == "without":
        return
    if way == "stuck":
        if stuck < size.stuck:
            found.faults.append(f"only {stuck} were stuck")
        await _unblock(stage, is_staying=is_staying)
    gaps = await _check(stage, found, last)
    if way == "stuck" and is_staying and gaps < size.stuck:
        found.faults.append(f"only {gaps} of those who were stuck were told of a gap")
    await _leave(stage)


async def _unblock(stage: Stage, *, is_staying: bool) -> None:
    """Those who are stuck read on, or come back from the last message that they have."""
    if is_staying:
        await stage.tell("read", group="changing")
    else:
        await stage.tell("leave", group="changing")
        await stage.tell("again", group="changing")


async def _check(stage: Stage, found: Found, last: int) -> int:
    """Everybody has every message once; how many of those that change were told of a gap."""
    gaps = 0
    for group in GROUPS:
        await stage.tell("wait", group=group, last=last)
        told = await stage.tell("check", group=group, last=last)
        found.faults += told["faults"]
        gaps = told["gaps"]
    return gaps


async def _break_off(stage: Stage, size: Size, found: Found) -> None:
    """All at once, in the middle of a turn."""
    await _join(stage, size, is_reading=True)
    saying = asyncio.create_task(stage.say(stage.main))
    await _leave(stage)
    for group in GROUPS:
        await stage.tell("again", group=group)
    await saying
    await _check(stage, found, await stage.head(stage.main))
    await _leave(stage)


def _judge(size: Size, found: Found) -> list[str]:
    grown = max(found.memory) - found.memory[0]
    bound = size.stuck * MAX_BYTES + SPARE
    took = {way: statistics.median(found.times[way]) for way in WAYS}
    ratios = {
        f"{size.clients} clients, {size.stuck} stuck, against none": took["stuck"]
        / took["without"],
        f"{size.clients} clients reading, against none": took["reading"] / took["without"],
        f"{size.stuck} stuck, against all reading": took["stuck"] / took["reading"],
    }
    print(f"{size.rounds} rounds, medians:")
    for way in WAYS:
        cpu = statistics.median(found.cpu[way])
        print(f"  {way:8} {took[way]:.3f} s, {cpu * 1000:.0f} ms of the gateway's CPU")
    for name, ratio in ratios.items():
        print(f"  {name}: {ratio:.3f}x (bar {SLACK:.2f}x)")
    print(
        f"memory: grew by {grown / 1e6:.1f} MB from before to the largest "
        f"(bar {bound / 1e6:.0f} MB)\n"
        f"messages and gaps: {len(found.faults)} faults"
    )
    wrong = [f"a client missed something: {each}" for each in found.faults[:5]]
    if size.is_timed:
        slow = [(name, ratio) for name, ratio in ratios.items() if ratio > SLACK]
        wrong += [f"the turn is slowed: {name} {ratio:.3f}x" for name, ratio in slow]
    if grown > bound:
        wrong.append(f"memory grew by {grown:,} bytes")
    return wrong


def _resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = asyncio.run(run(QUICK if options.quick else FULL, Path(folder)))
    for each in wrong:
        print(f"MISSED: {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
