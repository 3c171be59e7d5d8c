"""Handler of the operation about the store's statistics."""

from __future__ import annotations

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.operation import NoParams
from clew.api.stats import STATS
from clew.core.session import StoreStats


@handles(STATS)
async def get_stats(parts: Parts, _params: NoParams, _caller: Caller) -> StoreStats:
    """Counts and sizes of the whole store."""
    return await parts.store.stats()
