"""Background tasks, each with an owner that waits for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

AGAIN: Final = 0.5
"""Seconds after which a task that still goes on is stopped once more."""


class Errands:
    """Tasks that are under way. One that fails is told of; nothing is lost silently."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Let something happen beside."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    async def close(self) -> None:
        """Stop them all."""
        while tasks := {each for each in self._tasks if not each.done()}:
            for task in tasks:
                task.cancel()
            # Python 3.11 can lose a cancellation that comes together with what was waited for.
            await asyncio.wait(tasks, timeout=AGAIN)
