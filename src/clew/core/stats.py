"""Numbers about a store as a whole."""

from __future__ import annotations

import msgspec


class StoreStats(msgspec.Struct, frozen=True):
    """Counts of rows and bytes. `file_bytes` is what the store takes on its disk."""

    sessions: int
    archived: int
    trashed: int
    messages: int
    content_bytes: int
    file_bytes: int
    platforms: dict[str, int]
    oldest_at: int | None
    newest_at: int | None
