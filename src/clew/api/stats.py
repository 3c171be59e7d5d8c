"""Numbers about the store as a whole."""

from __future__ import annotations

from typing import Final

from clew.api.operation import NoParams, row
from clew.core.session import StoreStats

STATS: Final = row(
    "stats", "GET", "stats", "read", NoParams, StoreStats,
    "Count sessions, messages and bytes of the whole store.",
)  # fmt: skip
ROWS: Final = (STATS,)
