"""The host's clock: the only place that reads it."""

from __future__ import annotations

import time


def host_clock() -> int:
    """The time now, in milliseconds UTC."""
    return time.time_ns() // 1_000_000
