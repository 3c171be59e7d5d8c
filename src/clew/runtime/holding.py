"""Holding a session for something that is no turn: its lease, kept for as long as that takes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clew.core.turn import HEARTBEAT_MS, LEASE_MS, Lease
from clew.errors import ClewError
from clew.ports import Store
from clew.runtime.commits import unbroken


@asynccontextmanager
async def hold(
    store: Store,
    session_id: str,
    purpose: str,
    *,
    lease_ms: int = LEASE_MS,
    renew_ms: int = HEARTBEAT_MS,
) -> AsyncIterator[Lease]:
    """The session's lease inside the block; `LeaseHeld` while a turn runs."""
    taking = asyncio.ensure_future(
        store.acquire_lease(session_id, f"{store.identity}#{purpose}", ttl=lease_ms)
    )
    keeping: asyncio.Task[None] | None = None
    try:
        lease = await asyncio.shield(taking)
        keeping = asyncio.create_task(_keep(store, lease, lease_ms, renew_ms))
        yield lease
    finally:
        if keeping is not None:
            keeping.cancel()
        await unbroken(_let_go(store, taking))


async def _keep(store: Store, lease: Lease, lease_ms: int, renew_ms: int) -> None:
    while True:
        await asyncio.sleep(renew_ms / 1000)
        # One that was taken over is found out by the record, which then changes nothing.
        with contextlib.suppress(ClewError):
            lease = await store.renew_lease(lease, ttl=lease_ms)


async def _let_go(store: Store, taking: asyncio.Future[Lease]) -> None:
    with contextlib.suppress(ClewError):
        await store.release_lease(await taking)
