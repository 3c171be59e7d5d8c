"""The lease of a session: the right to write to it. Waits for it, renews it, gives it back.

A lane has a `Leasing`; `hold` is for work outside of lanes. The store makes sure that a process
whose lease was taken over can't write any more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from clew.core.turn import HEARTBEAT_MS, LEASE_MS, Lease, Turn
from clew.errors import ClewError, LeaseHeld, StaleLease
from clew.ports import Store
from clew.runtime.commits import heed_cancel, unbroken, whole
from clew.runtime.lane.parts import RuntimeParts

T = TypeVar("T")

BUSY: Final = 0.2
"""Seconds between two attempts to get a lease that another process holds."""

HEED: Final = 1.0
"""Seconds between two checks whether another process has taken the lease."""


class Leasing:
    """Gets and keeps the lease of one session, for its lane."""

    def __init__(self, parts: RuntimeParts, session_id: str) -> None:
        self._store = parts.store
        self._session_id = session_id
        self._lease_ms = parts.lease_ms
        self._renew_ms = parts.renew_ms
        self._left = parts.leases_left

    async def get(
        self, tell: Callable[[], None], *, quiet: bool = False
    ) -> tuple[Lease, Turn | None]:
        """Get the lease, and the newest turn. Turns of dead processes are marked as interrupted.

        Waits while another process has it, and calls `tell`; raises `LeaseHeld` if `quiet`.
        """
        while True:
            await self._store.interrupt_turns(self._session_id)
            try:
                lease = await whole(
                    self._store.acquire_lease(
                        self._session_id, self._store.identity, ttl=self._lease_ms
                    )
                )
            except LeaseHeld:
                if quiet:
                    raise
                heed_cancel()
                tell()
                await asyncio.sleep(BUSY)
                continue
            try:
                newest = next(iter(await self._store.list_turns(self._session_id, limit=1)), None)
            except BaseException:
                await self.give_back(lease)
                raise
            if newest is None or newest.ended_at is not None:
                return lease, newest
            # Its process died after the check: its turn is not marked as interrupted yet.
            await self.give_back(lease)

    async def give_back(self, lease: Lease) -> None:
        """Give the lease back; if the store fails, `Runtime.give_back` does it later."""
        try:
            await whole(self._store.release_lease(lease))
        except ClewError:
            self._left.append(lease)

    async def while_kept(self, lease: Lease, work: Awaitable[T]) -> T:
        """Renew the lease while work runs that may take longer than it lasts."""
        keeper = asyncio.create_task(self.keep(lease))
        try:
            return await work
        finally:
            keeper.cancel()

    async def keep(self, lease: Lease) -> None:
        """See `keep_lease`."""
        await keep_lease(self._store, lease, lease_ms=self._lease_ms, renew_ms=self._renew_ms)


async def keep_lease(store: Store, lease: Lease, *, lease_ms: int, renew_ms: int) -> None:
    """Renew a lease until cancelled; returns when another process has taken it."""
    loop = asyncio.get_running_loop()
    renew_at = loop.time() + renew_ms / 1000
    pulse: int | None = None
    while True:
        await asyncio.sleep(max(0.0, min(HEED, renew_at - loop.time())))
        try:
            if loop.time() < renew_at:
                before, pulse = pulse, await _find_pulse(store)
                if before != pulse and not await _is_ours(store, lease, lease_ms):
                    return
                continue
            renew_at = loop.time() + renew_ms / 1000
            lease = await store.renew_lease(lease, ttl=lease_ms)
        except StaleLease:
            return
        except ClewError:
            # The store is busy or full: the lease outlasts a missed renewal, and even an
            # expired one is still ours until another process takes it.
            continue


async def _find_pulse(store: Store) -> int | None:
    with contextlib.suppress(ClewError):
        return await store.pulse()
    return None


async def _is_ours(store: Store, lease: Lease, lease_ms: int) -> bool:
    now = await store.find_lease(lease.session_id)
    if now is None:
        # Another process took it and gave it back; or it expired while this process slept.
        await store.renew_lease(lease, ttl=lease_ms)
        return True
    return now.epoch == lease.epoch


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
        # If it was taken over, the record fails and changes nothing.
        keeping = asyncio.create_task(
            keep_lease(store, lease, lease_ms=lease_ms, renew_ms=renew_ms)
        )
        yield lease
    finally:
        if keeping is not None:
            keeping.cancel()
        await unbroken(_let_go(store, taking))


async def _let_go(store: Store, taking: asyncio.Future[Lease]) -> None:
    with contextlib.suppress(ClewError):
        await store.release_lease(await taking)
