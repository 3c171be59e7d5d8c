"""Long calls give way to short ones between the pieces of their work.

A transport that serves many callers sets how; elsewhere only the event loop has its turn. Handlers
of long calls await `give_way` after each millisecond of work, or each page that they read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final

PAGE: Final = 100
"""Rows that are read at once; decoding them takes about a millisecond."""

GIVE_WAY: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("give_way", default=None)


async def give_way() -> None:
    """Let other tasks go on; at a gateway, wait a moment for the short calls that run."""
    await asyncio.sleep(0)
    wait = GIVE_WAY.get()
    if wait is not None:
        await wait()
