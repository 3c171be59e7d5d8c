"""A turn that is killed at each of its commits: nothing told is lost, nothing runs twice.

The whole thing is `benchmarks.turns`; `make proof` runs it with more tools, and at random moments.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]

WAY = [
    "sessions+routes",  # the session, and the directory's way to it
    "attachments",
    "inbox",  # the message is kept
    "turns+approvals",  # what a dead process left open
    "leases",
    "turns+inbox+messages+sessions",  # the turn, and what the user said
    *(
        "messages+sessions+turns",  # what the assistant said, and what it cost
        "messages+sessions",  # results of the tools that ran together
        "messages+sessions",
        "turns+approvals",  # the question
        "approvals",  # the answer
        "approvals",  # read by the turn
        "turns",  # going on
        "messages+sessions",  # the result of what was asked about
    )
    * 2,
    "messages+sessions+turns",  # the end
    "leases",
]
"""The tables that are written, commit by commit; then come title and goodbye, in any order."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_turn_killed_at_any_commit_loses_nothing_and_goes_on(when: str) -> None:
    # A process of its own: it forks, and pytest may have threads.
    loop = subprocess.run(
        [sys.executable, "-m", "benchmarks.turns", "points", "--when", when],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert loop.returncode == 0, loop.stdout + loop.stderr
    points = [line.split() for line in loop.stdout.splitlines() if line.startswith(when)]
    assert [int(number) for _, number, _ in points] == list(range(1, len(points) + 1))
    assert [tables for _, _, tables in points][: len(WAY)] == WAY
    assert len(points) > len(WAY)


STEERED = [
    "inbox",  # the message is kept
    "turns+approvals",
    "leases",
    "turns+inbox+messages+sessions",  # the turn, and what the user said
    "messages+sessions",  # the assistant asks for a tool
    "inbox",  # what is said meanwhile
    "inbox",
    "messages+sessions",  # the tool's result
    "turns+inbox+messages+sessions",  # what was said meanwhile, with its rows
    "messages+turns+sessions",  # the end
    "leases",
]


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_said_while_a_turn_runs_is_said_once_wherever_it_is_killed(when: str) -> None:
    loop = subprocess.run(
        [sys.executable, "-m", "benchmarks.turns", "steering", "--when", when],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert loop.returncode == 0, loop.stdout + loop.stderr
    points = [line.split()[2] for line in loop.stdout.splitlines() if line.startswith(when)]
    place = points.index("inbox")
    assert points[place : place + len(STEERED)] == STEERED
