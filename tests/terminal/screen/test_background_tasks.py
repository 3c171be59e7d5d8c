"""What happens beside the chat ends with it."""

from __future__ import annotations

import asyncio

from clew.terminal.screen.app import BackgroundTasks
from tests.patience import PATIENCE


async def test_an_errand_that_missed_its_end_is_told_again() -> None:
    """As one does on Python 3.11, when what it waited for comes together with its end."""
    failed: list[BaseException] = []
    tasks, began, missed = BackgroundTasks(failed.append), asyncio.Event(), asyncio.Event()

    async def miss_the_first() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            missed.set()
        await asyncio.Event().wait()

    tasks.run(miss_the_first())
    await began.wait()
    async with asyncio.timeout(PATIENCE):
        await tasks.close()
    assert missed.is_set()
    assert not failed


async def test_an_errand_that_fails_is_told_of() -> None:
    failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    tasks = BackgroundTasks(failed.set_result)

    async def fail() -> None:
        raise ValueError("no")

    tasks.run(fail())
    async with asyncio.timeout(PATIENCE):
        assert str(await failed) == "no"
        await tasks.close()
