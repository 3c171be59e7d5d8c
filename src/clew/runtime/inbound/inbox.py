"""Messages between the inbox and their turns: each is claimed for one turn, put back, or dropped.

A claim carries the message's own id, so that one message can be let go without the others. A store
that fails may leave a claim that nothing here works on; `recovery.keep_up` gives those back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from clew.core.channels.incoming import Attached
from clew.core.delivery import Inbound, NewInbound
from clew.errors import ClewError, FateUnknown, StoreBusy, StoreUnusable
from clew.ports import Store

MANY: Final = 10_000
"""Messages of the inbox that are looked at."""

STORE_TROUBLE: Final = (StoreUnusable, StoreBusy)
"""Errors of a store that is away, full or busy: they say nothing about what was asked."""


class Inbox:
    """What this process has taken out of the inbox of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._arriving: set[str] = set()
        self._unwanted: set[str] = set()
        """Messages that were taken back, and that the store has not dropped yet."""
        self.trouble = asyncio.Event()
        """Set when the store has failed a message, which then has to be given back."""

    def _claimant(self, inbound_id: str) -> str:
        return f"{self._store.identity}#{inbound_id}"

    async def keep(self, new: NewInbound) -> tuple[Inbound, bool]:
        """Keep a message, as this process's; False for a second delivery of one."""
        try:
            return await self._store.accept(new, claimant=self._claimant(new.id))
        except FateUnknown:
            self.trouble.set()
            with contextlib.suppress(ClewError):
                return await self._store.get_inbound(new.id), True
            raise

    @contextlib.contextmanager
    def arriving(self, inbound_id: str) -> Iterator[None]:
        """Inside the block the message counts as worked on, though no lane has it yet."""
        self._arriving.add(inbound_id)
        try:
            yield
        finally:
            self._arriving.discard(inbound_id)

    def is_arriving(self, inbound_id: str) -> bool:
        """Whether this process is about to put the message into its lane."""
        return inbound_id in self._arriving

    async def take(self, row: Inbound, *, in_order: bool = False) -> Inbound | None:
        """Take a message that no living process has; None if another one has it, or was quicker.

        One that this process has claimed must not be in a lane. What waits before it, such as a
        terminal's for its person's word, is only passed over; `in_order`: then it is not taken.
        """
        if row.status not in ("queued", "claimed"):
            return None
        if row.claimant is not None:
            if not is_own(self._store, row) and await self._store.is_living(row.claimant):
                return None
            await self._store.release_inbound(row.claimant)
        waiting = await self._store.list_inbound(row.session_id, limit=MANY)
        queued = [each.id for each in waiting if each.status == "queued"]
        if row.id not in queued or (in_order and queued[0] != row.id):
            return None
        return await self._claim(row, queued.index(row.id))

    async def _claim(self, row: Inbound, before: int) -> Inbound | None:
        """Claim the message behind so many others, which are put back at once."""
        mine, aside = self._claimant(row.id), self._claimant("aside")
        try:
            if before:
                await self._store.claim_inbound(aside, session_id=row.session_id, limit=before)
            taken = await self._store.claim_inbound(mine, session_id=row.session_id, limit=1)
        finally:
            if before:
                await self._store.release_inbound(aside)
        if [each.id for each in taken] != [row.id]:
            await self._store.release_inbound(mine)
            return None
        return taken[0]

    async def put_back(self, *rows: Inbound) -> None:
        """Leave messages in the inbox for any process; one that has a turn stays as it is."""
        try:
            for row in rows:
                await self._store.release_inbound(self._claimant(row.id))
        except STORE_TROUBLE:
            self.trouble.set()
            raise

    async def drop(self, *rows: Inbound) -> None:
        """Take messages out of the inbox; they are not answered."""
        await self.put_back(*rows)
        await self._store.drop_inbound([each.id for each in rows])

    async def take_back(self, *rows: Inbound) -> None:
        """Drop messages that their person does not want answered; if the store fails, later."""
        self._unwanted.update(each.id for each in rows)
        try:
            await self.drop(*rows)
        except STORE_TROUBLE:
            self.trouble.set()
        else:
            self._unwanted.difference_update(each.id for each in rows)

    async def give_back(self, row: Inbound) -> bool:
        """Let go of a claim that nothing works on; whether the message waits for a turn again."""
        if row.id in self._unwanted or row.channel == "spawn":  # its turn has failed without it
            await self.drop(row)
            self._unwanted.discard(row.id)
            return False
        await self._store.release_inbound(row.claimant or "")
        return True


def is_own(store: Store, row: Inbound) -> bool:
    """Whether this process has that message."""
    return row.claimant is not None and row.claimant.startswith(f"{store.identity}#")


async def keep_files(store: Store, files: Sequence[Attached]) -> tuple[dict[str, Any], ...]:
    """Keep the files that come with a message; returns what the message says of each."""
    return tuple([await _keep_file(store, each) for each in files])


async def _keep_file(store: Store, file: Attached) -> dict[str, Any]:
    blob = await store.put_blob(file.data, file.media_type)
    kind = "image" if file.media_type.startswith("image/") else "file"
    named = {} if file.name is None else {"name": file.name}
    return {"type": kind, "blob": blob, "media_type": file.media_type} | named
