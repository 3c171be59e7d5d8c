"""The full-size loops: what `make test` does a part of, done whole.

    python -m benchmarks.proof              everything
    python -m benchmarks.proof kill machine only these parts

Each part is a command of its own, so that none of them can disturb another. Ends with 1 if one of
them fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

import msgspec

PYTHON = sys.executable


class Part(msgspec.Struct, frozen=True):
    """Something to prove, and the command that does it."""

    shows: str
    command: tuple[str, ...]


MILLION = ("list", "resolve", "search", "disk", "update", "worst", "startup", "picking", "api")

PARTS = {
    "kill": Part(
        "2,000 kills lose nothing that was acknowledged",
        (PYTHON, "-m", "benchmarks.kill", "--rounds", "2000"),
    ),
    "points": Part(
        "a turn killed at each of its commits goes on",
        (PYTHON, "-m", "benchmarks.turns", "points", "--tools", "6"),
    ),
    "turns": Part(
        "300 kills of a talking process run no tool twice",
        (PYTHON, "-m", "benchmarks.turns", "random", "--rounds", "300"),
    ),
    "storm": Part(
        "200 messages over 20 kills: one turn each, in order",
        (PYTHON, "-m", "benchmarks.storm"),
    ),
    "storm-postgres": Part(
        "the same on PostgreSQL",
        (PYTHON, "-m", "benchmarks.storm", "--store", "postgres"),
    ),
    "storm-two": Part(
        "the same with two gateways on one PostgreSQL",
        (PYTHON, "-m", "benchmarks.storm", "--store", "postgres", "--gateways", "2"),
    ),
    "platforms": Part(
        "500 messages on real platforms, 50 kills, the store away: one turn each",
        (PYTHON, "-m", "benchmarks.platforms"),
    ),
    "platforms-postgres": Part(
        "the same on PostgreSQL, which is stopped for 20 seconds",
        (PYTHON, "-m", "benchmarks.platforms", "--store", "postgres"),
    ),
    "arriving": Part(
        "a message killed at each of its commits arrives once",
        (PYTHON, "-m", "benchmarks.turns", "arriving"),
    ),
    "tests": Part(
        "the tests of `make test`, the long ones at their full size",
        (PYTHON, "-m", "pytest", "--quiet", "--full", "-n", "2", "--dist", "worksteal"),
    ),
    "machine": Part(
        "5,000 random histories agree with a model in memory",
        (PYTHON, "-m", "benchmarks.histories", "--examples", "5000"),
    ),
    "fencing": Part(
        "1,000 paused holders of a lease never write again",
        (PYTHON, "-m", "benchmarks.fencing", "--rounds", "1000"),
    ),
    "postgres": Part(
        "the bars hold on PostgreSQL at 200,000 messages",
        (PYTHON, "-m", "benchmarks", "postgres"),
    ),
    "writers": Part(
        "8 processes share one file",
        (PYTHON, "-m", "benchmarks", "writers"),
    ),
    "context": Part(
        "2,000 turns in a window of 16,000 tokens stay whole",
        (PYTHON, "-m", "benchmarks.context", "--turns", "2000"),
    ),
    "streams": Part(
        "200 live clients, 20 of which stop reading, slow no turn and miss nothing",
        (PYTHON, "-m", "benchmarks.streams"),
    ),
    "crowd": Part(
        "2,000 slow connections without a credential leave the owner alone",
        (PYTHON, "-m", "benchmarks.crowd"),
    ),
    "fuzz": Part(
        "10,000 requests of random shape: no 5xx, no foreign byte, nothing grows",
        (PYTHON, "-m", "benchmarks.fuzz"),
    ),
    "load": Part(
        "a gateway over 50,000 sessions, 100 turns at once",
        (PYTHON, "-m", "benchmarks", "load"),
    ),
    "dear": Part(
        "thirty of the dearest calls leave the owner's list alone",
        (PYTHON, "-m", "benchmarks", "dear"),
    ),
    "million": Part(
        "the bars hold at a million messages",
        (PYTHON, "-m", "benchmarks", *MILLION),
    ),
    "import": Part(
        "2,000 sessions of another agent: a third of the rate",
        (PYTHON, "-m", "benchmarks", "import"),
    ),
    "adapters": Part(
        "100 runs of 100 random steps: an adapter does what the framework's own store does",
        (PYTHON, "-m", "benchmarks.adapters", "--compare"),
    ),
    "dashboard": Part(
        "50,000 sessions in a browser like fifty, 10,000 messages like 100; its memory stays flat",
        (PYTHON, "-m", "benchmarks", "dashboard", "transcript", "page"),
    ),
    "screen": Part(
        "an answer of 5,000 tokens leaves the keys alone",
        (PYTHON, "-m", "benchmarks", "screen"),
    ),
}


class Outcome(msgspec.Struct, frozen=True):
    """How a part went."""

    name: str
    shows: str
    code: int
    seconds: float


def prove(names: Sequence[str]) -> list[Outcome]:
    """Run the parts, one after the other, showing what they print."""
    outcomes = []
    for name in names:
        part = PARTS[name]
        print(f"── {name}: {part.shows}", flush=True)
        began = time.monotonic()
        code = subprocess.run(part.command, check=False).returncode
        outcomes.append(Outcome(name, part.shows, code, time.monotonic() - began))
        print(flush=True)
    return outcomes


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proof", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    outcomes = prove(options.parts or tuple(PARTS))
    for each in outcomes:
        result = "ok" if each.code == 0 else f"FAILED ({each.code})"
        print(f"{each.name:<14}  {each.shows:<52}  {each.seconds:>6.0f} s  {result}")
    return 1 if any(each.code for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
