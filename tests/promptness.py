"""Whether something happens at once, on a machine that may be busy with other things.

Much else to do makes it slower, and nothing makes it faster. So it is tried again, and counts if it
was ever quick enough.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

PROMISED: Final = 0.2
"""Seconds within which a turn that is stopped has stopped (`ports.Agent`)."""

ATTEMPTS: Final = 25


async def is_at_once(attempt: Callable[[], Awaitable[float]]) -> None:
    """Try until an attempt has taken no longer than is promised; it returns its seconds."""
    took = []
    for _ in range(ATTEMPTS):
        took.append(await attempt())
        if took[-1] < PROMISED:
            return
    raise AssertionError(f"It took {min(took):.1f} s at least, in {ATTEMPTS} attempts.")
