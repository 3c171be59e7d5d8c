"""Shields a commit from cancellation, so that a stored change is always reported."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def unbroken(work: Awaitable[T]) -> T:
    """Finish a commit that has begun, and only then raise the cancellation."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def whole(work: Awaitable[T]) -> T:
    """Finish work that must not be left half done; `is_cancelled` then tells of a cancellation."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()


def is_cancelled() -> bool:
    """Whether the current task was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def heed_cancel() -> None:
    """Raise the cancellation that arrived during `whole`, if there was one."""
    if is_cancelled():
        raise asyncio.CancelledError
