from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from clew.adapters.claude import ClewSessionStore
from clew.adapters.openai_agents import ClewSession
from clew.store import open_store
from tests.patience import PATIENCE
from tests.sizes import pick

ROOT = Path(__file__).parents[2]


async def test_what_two_frameworks_were_told_is_stored_is_there_after_kills(url: str) -> None:
    acknowledged: set[str] = set()
    for round_ in range(pick(1, 10)):
        names = [f"{round_}a", f"{round_}b"]
        processes = [await start(url, name) for name in names]
        for process, most in zip(processes, (7, 12), strict=True):
            assert process.stdout is not None
            for _ in range(most):
                line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
                acknowledged.add(line.decode().strip())
            process.kill()
            rest, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
            acknowledged |= {each.strip() for each in rest.decode().splitlines(keepends=True)
                             if each.endswith("\n")}  # fmt: skip

    async with await open_store(url) as store:
        items = await ClewSession("shared", store).get_items()
        entries = await ClewSessionStore(store).load({"project_key": "p", "session_id": "s"})
        said = [f"openai {each['content']}" for each in items]  # type: ignore[typeddict-item]
        said += [f"claude {each['uuid']}" for each in entries or []]
        assert len(acknowledged) > 18
        assert acknowledged <= set(said)
        assert len(said) == len(set(said))
        assert len(said) - len(acknowledged) <= 2 * pick(1, 10)  # under way when it was killed


async def start(url: str, name: str) -> asyncio.subprocess.Process:
    command = (sys.executable, "-m", "tests.adapters.writer", url, name)
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
