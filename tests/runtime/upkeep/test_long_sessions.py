"""A session that goes on and on: what `make proof` does with 2,000 turns, in small."""

from __future__ import annotations

from pathlib import Path

from benchmarks.context import World, live
from tests.runtime.conftest import soon


async def test_a_long_session_compacts_by_itself_and_stays_whole(tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    world.make()
    lived = await soon(live(world, 120))
    assert lived.problems == ()
    assert lived.turns == 120
    assert lived.compactions >= 3
