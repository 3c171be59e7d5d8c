"""Requests of random shape, over a gateway that is a process of its own.

The whole thing is `benchmarks.fuzz`, with ten thousand of them, and others each time.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.fuzz import run

REQUESTS = 300
SEED = 14


async def test_requests_of_random_shape_break_nothing_and_find_nothing(tmp_path: Path) -> None:
    found = await run(REQUESTS, SEED, tmp_path)
    assert found.faults == []
    assert sum(found.statuses.values()) == REQUESTS
    assert found.statuses[200] > REQUESTS // 10
