"""Commits that are never left half heard of: what is stored is told, whoever is stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def unbroken(work: Awaitable[T]) -> T:
    """Finish a commit that has begun, and only then heed a cancel."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def whole(work: Awaitable[T]) -> T:
    """Finish something that must not be left half done; a cancel is only noted (`is_cancelled`)."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()


def is_cancelled() -> bool:
    """Whether the task that asks was told to stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def heed_cancel() -> None:
    """Stop here if that was asked for while something could not be left half done."""
    if is_cancelled():
        raise asyncio.CancelledError
