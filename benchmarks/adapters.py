"""How appending and reading through an adapter grow with the conversation, and random steps.

`python -m benchmarks.adapters` prints the growth from 200 to 5,000 items, and the ratio to the
framework's own store in SQLite; `--compare` makes 100 runs of 100 random steps in both.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from agents import SQLiteSession
from agents.memory.session import SessionABC

from clew.adapters.openai_agents import ClewSession
from clew.store import open_store
from tests.adapters.openai_model import compare

SIZES = (200, 5_000)
ROUNDS = 60


async def measure(session: SessionABC, size: int) -> tuple[float, float]:
    """CPU milliseconds of one append and of reading the newest 100, at this size."""
    have = len(await session.get_items())
    items: list[Any] = [{"role": "user", "content": f"message {at}"} for at in range(have, size)]
    for at in range(0, len(items), 200):
        await session.add_items(items[at : at + 200])
    adds, reads = [], []
    for at in range(ROUNDS):
        begun = time.process_time()
        await session.add_items([{"role": "user", "content": f"one more {at}"}])
        middle = time.process_time()
        await session.get_items(100)
        adds.append(middle - begun)
        reads.append(time.process_time() - middle)
    return median(adds) * 1000, median(reads) * 1000


async def grow(place: Path) -> None:
    """Print the growth and the ratio."""
    async with await open_store(str(place / "clew.db")) as store:
        mine: SessionABC = ClewSession("s", store)
        found = [await measure(mine, size) for size in SIZES]
    theirs = SQLiteSession("s", place / "theirs.db")
    own = [await measure(theirs, size) for size in SIZES]
    theirs.close()
    for name, at in (("append", 0), ("read 100", 1)):
        small, large = found[0][at], found[1][at]
        print(
            f"openai-agents {name}: {small:.2f} ms at {SIZES[0]}, {large:.2f} ms at "
            f"{SIZES[1]} items: growth {large / small:.2f}; the SDK's own {own[1][at]:.2f} ms: "
            f"ratio {large / own[1][at]:.2f}"
        )


async def compare_all(place: Path, runs: int = 100, steps: int = 100) -> None:
    """Compare random steps with the SDK's own store."""
    async with await open_store(str(place / "compare.db"), durability="normal") as store:
        for seed in range(runs):
            theirs = SQLiteSession(f"s{seed}")
            await compare(ClewSession(f"s{seed}", store), theirs, seed=seed, steps=steps)
            theirs.close()
    print(f"openai-agents: {runs} runs of {steps} random steps, equal to the SDK's own store")


def main() -> None:
    """Run what is asked for."""
    with tempfile.TemporaryDirectory() as place:
        run = compare_all if "--compare" in sys.argv else grow
        asyncio.run(run(Path(place)))


if __name__ == "__main__":
    main()
