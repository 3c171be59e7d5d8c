"""Changes on their way into a session: some hundred at a time, under one lease."""

from __future__ import annotations

from clew.core.changes import AddMessage, Change
from clew.core.turn import Lease
from clew.errors import Conflict
from clew.ports import Store

CHUNK = 500
CHUNK_BYTES = 8_000_000

HOLDER = "clew import"
"""Who holds the lease: always the same, so that an import can follow a killed one."""


class Chunks:
    """What is to be recorded in a session whose head is known. A dry run only counts."""

    def __init__(self, store: Store, session_id: str, *, head: int, dry_run: bool) -> None:
        self.messages = 0
        self._store = store
        self._session_id = session_id
        self._head = head
        self._dry_run = dry_run
        self._lease: Lease | None = None
        self._pending: list[Change] = []
        self._bytes = 0

    def add(self, *changes: Change) -> None:
        """More to record."""
        self._pending += changes
        self.messages += sum(isinstance(change, AddMessage) for change in changes)

    async def make_room(self, size: int) -> None:
        """Record what waits, if it is much, before so many bytes more come."""
        if len(self._pending) >= CHUNK or self._bytes >= CHUNK_BYTES:
            await self.flush()
        self._bytes += size

    def hold_back(self) -> None:
        """Forget the last message and what came after it; it must not be recorded yet."""
        while self._pending:
            if isinstance(self._pending.pop(), AddMessage):
                self.messages -= 1
                return

    async def flush(self) -> None:
        """Record what waits."""
        if self._pending and not self._dry_run:
            if self._lease is None:
                self._lease = await self._acquire()
            else:
                self._lease = await self._store.renew_lease(self._lease)
            await self._store.record(self._session_id, self._lease.epoch, *self._pending)
        self._pending.clear()
        self._bytes = 0

    async def release(self) -> None:
        """Let go of the session."""
        if self._lease is not None:
            await self._store.release_lease(self._lease)

    async def _acquire(self) -> Lease:
        lease = await self._store.acquire_lease(self._session_id, HOLDER)
        if (await self._store.get_session(self._session_id)).head != self._head:
            await self._store.release_lease(lease)
            raise Conflict(f"Session {self._session_id} was changed meanwhile. Import it again.")
        return lease
