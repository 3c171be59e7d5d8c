"""A compaction that is killed at each commit: the session is as it was, or fully compacted.

In each case the history is whole, nobody has to wait for a dead process, and the next turn works.
The whole thing is `benchmarks.turns` with the life of `benchmarks.processes.compactor`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.sizes import pick

ROOT = Path(__file__).parents[2]

COMPACTED = "sessions+turns+compactions"
"""The summary, from where the thread goes on, and what it cost: one commit."""

WAYS = {
    # What is before and after these is sitting down and leaving; see `test_commit_points`.
    "asked": ["leases", COMPACTED, "leases", "inbox"],
    "due": ["leases", COMPACTED, "turns+inbox+messages+sessions"],
    "rescue": ["turns+inbox+messages+sessions", COMPACTED, "messages+sessions+turns"],
}

NEAR = pick(("--near", COMPACTED), ())
"""What is further away from it is killed in `test_commit_points`, and by `make proof`."""


@pytest.mark.parametrize("way", WAYS)
def test_a_compaction_killed_at_any_commit_is_whole_or_has_not_been(way: str) -> None:
    # A process of its own: it forks, and pytest may have threads.
    loop = subprocess.run(
        [sys.executable, "-m", "benchmarks.turns", "compacting", "--way", way, *NEAR],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert loop.returncode == 0, loop.stdout + loop.stderr
    for when in ("before", "after"):
        points = [line.split() for line in loop.stdout.splitlines() if line.startswith(when)]
        numbers = [int(number) for _, number, _ in points]
        assert numbers == list(range(numbers[0], numbers[0] + len(points)))
        tables = [each for _, _, each in points]
        assert tables.count(COMPACTED) == 1
        place = tables.index(COMPACTED) - WAYS[way].index(COMPACTED)
        assert tables[place : place + len(WAYS[way])] == WAYS[way]
