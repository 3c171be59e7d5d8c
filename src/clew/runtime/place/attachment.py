"""The sessions that the terminal of this process holds, and the heartbeat for other hosts."""

from __future__ import annotations

import asyncio
import contextlib

from clew.core.session import Session
from clew.core.turn import HEARTBEAT_MS, Attachment
from clew.errors import ClewError
from clew.ports import Store
from clew.runtime.commits import unbroken


class Attachments:
    """The attachments of one terminal. `terminal` is its name, shown to others."""

    def __init__(
        self, store: Store, *, terminal: str | None = None, beat_ms: int = HEARTBEAT_MS
    ) -> None:
        self._store = store
        self._terminal = terminal
        self._beat_ms = beat_ms
        self._beating: asyncio.Task[None] | None = None
        self._held: set[str] = set()

    def has(self, session: Session) -> bool:
        """Whether the session is held here."""
        return session.id in self._held

    async def take(self, session: Session) -> Attachment | None:
        """Attach; returns the dead process that held it before, if any. Safe if cancelled."""
        return await unbroken(self._take(session))

    async def _take(self, session: Session) -> Attachment | None:
        try:
            _, dead = await self._store.attach(session.id, terminal=self._terminal)
        except ClewError:
            if session.id not in self._held:
                # The store may have attached it all the same, if the connection broke.
                with contextlib.suppress(ClewError):
                    await self._store.detach(session.id)
            raise
        self._held.add(session.id)
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat(), name="heartbeat")
        return dead

    async def release(self, session: Session) -> None:
        """Detach, if the session is held here."""
        if session.id in self._held:
            await self._store.detach(session.id)
            self._held.discard(session.id)

    def close(self) -> None:
        """End the heartbeat."""
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None

    async def _beat(self) -> None:
        """Tell other hosts that this terminal is alive."""
        while True:
            await asyncio.sleep(self._beat_ms / 1000)
            with contextlib.suppress(ClewError):
                await self._store.beat()
