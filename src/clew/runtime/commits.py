"""Commits that a cancellation does not break off, and that lose no change of another process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from clew.core.session import Session, SessionFacts
from clew.errors import Conflict
from clew.ports import Store

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


ATTEMPTS: Final = 100
"""More than ever needed: for each refused attempt another process has made its change."""

Change = Callable[[dict[str, Any]], dict[str, Any]]
"""Computes the new metadata from the old. May be called several times; the last result counts."""


async def note(store: Store, session_id: str, change: Change) -> Session:
    """Change the metadata of a session, in one step. A name whose value is None is removed.

    If another process has changed it in the meantime, the store refuses the write, and the change
    is computed again from what is there now.
    """
    for attempt in range(1, ATTEMPTS + 1):
        session = await store.get_session(session_id)
        news = {name: each for name, each in change(session.metadata).items() if each is not None}
        if news == session.metadata:
            return session
        facts = SessionFacts(metadata=news)
        try:
            return await store.describe_session(session_id, facts, noted=session.metadata)
        except Conflict:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")
