"""Half-open and slow clients while the owner chats, over a gateway that is a process of its own.

The whole thing is `benchmarks.crowd`, with two thousand of them and by the CPU.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.crowd import QUICK, judge, run


async def test_the_owner_is_answered_in_a_crowd_with_few_descriptors(tmp_path: Path) -> None:
    assert judge(QUICK, await run(QUICK, tmp_path)) == []
