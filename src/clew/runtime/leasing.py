"""The lease of a session, for a lane: got when nobody else has it, and kept while something runs.

What holds it, and for what, is the lane's business; `holding` is for what runs beside the lanes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from clew.core.turn import Lease, Turn
from clew.errors import ClewError, LeaseHeld, StaleLease
from clew.ports import Store
from clew.runtime.commits import heed_cancel, whole

T = TypeVar("T")

BUSY: Final = 0.2
"""Seconds between two attempts to get a lease that another process holds."""

HEED: Final = 1.0
"""Seconds between two looks whether somebody has taken the lease, to stop or to take over."""


class Leasing:
    """The right to run what is next in one session."""

    def __init__(self, store: Store, session_id: str, *, lease_ms: int, renew_ms: int) -> None:
        self._store = store
        self._session_id = session_id
        self._lease_ms = lease_ms
        self._renew_s = renew_ms / 1000

    async def get(
        self, tell: Callable[[], None], *, quiet: bool = False
    ) -> tuple[Lease, Turn | None]:
        """The lease, and the newest turn: what a dead process was at has its end then.

        Waits while somebody else is busy with this session, and `tell`s it; `LeaseHeld` if `quiet`.
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
            # Its process died after the look at it: what it was at is not interrupted yet.
            await self.give_back(lease)

    async def give_back(self, lease: Lease) -> None:
        """Whoever comes next may have it."""
        with contextlib.suppress(ClewError):
            await whole(self._store.release_lease(lease))

    async def while_kept(self, lease: Lease, work: Awaitable[T]) -> T:
        """Do something that may take longer than a lease lasts."""
        keeper = asyncio.create_task(self.keep(lease))
        try:
            return await work
        finally:
            keeper.cancel()

    async def keep(self, lease: Lease) -> None:
        """Renew the lease until cancelled; returns when somebody else has taken it."""
        loop = asyncio.get_running_loop()
        renew_at = loop.time() + self._renew_s
        pulse: int | None = None
        while True:
            await asyncio.sleep(max(0.0, min(HEED, renew_at - loop.time())))
            try:
                if loop.time() < renew_at:
                    before, pulse = pulse, await self._find_pulse()
                    if before != pulse and not await self._is_ours(lease):
                        return
                    continue
                renew_at = loop.time() + self._renew_s
                lease = await self._store.renew_lease(lease, ttl=self._lease_ms)
            except StaleLease:
                return
            except ClewError:
                # A store that is busy or full: the lease outlasts a renewal that was missed, and
                # even one that ran out is still ours until somebody takes it.
                continue

    async def _find_pulse(self) -> int | None:
        with contextlib.suppress(ClewError):
            return await self._store.pulse()
        return None

    async def _is_ours(self, lease: Lease) -> bool:
        now = await self._store.find_lease(lease.session_id)
        if now is None:
            # Given back by who took it; or it ran out while this process slept, and is ours still.
            await self._store.renew_lease(lease, ttl=self._lease_ms)
            return True
        return now.epoch == lease.epoch
