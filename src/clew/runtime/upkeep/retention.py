"""The start-up pass: old sessions are put away, old trash is emptied."""

from __future__ import annotations

import msgspec

from clew.core.session import DAY_MS, Retained, Retention
from clew.ports import Store


class Tidied(msgspec.Struct, frozen=True):
    """What the start-up pass put away, and what it removed for good."""

    retained: Retained
    purged: tuple[str, ...]


async def tidy(store: Store, policy: Retention, *, trash_days: int, now: int) -> Tidied:
    """Retention, then trash that is older than `trash_days` (0: never)."""
    retained = await store.retain(policy)
    purged: tuple[str, ...] = ()
    if trash_days > 0:
        purged = await store.purge_trash(now - trash_days * DAY_MS)
    return Tidied(retained, purged)
