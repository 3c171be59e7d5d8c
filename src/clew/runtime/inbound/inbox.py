"""Messages between the inbox and their turns: each is claimed for one turn, put back, or dropped.

A claim carries the message's own id, so that one message can be released without the others.
A store that fails may leave a claim that no lane works on; `recovery.keep_up` releases those.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from clew.core.channels.replies import Attached
from clew.core.delivery import Inbound, NewInbound
from clew.errors import ClewError, FateUnknown, StoreBusy, StoreUnusable
from clew.ports import Store

MANY: Final = 10_000
"""How many messages of the inbox are read."""

STORE_TROUBLE: Final = (StoreUnusable, StoreBusy)
"""Errors of a store that is away, full or busy: they say nothing about what was asked."""


class Inbox:
    """The store's inbox, with the claims of this process."""

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
        """Store a message and claim it for this process; False for a second delivery."""
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
        """Claim a message that no live process has; None if another process has it.

        One that this process has claimed must not be in a lane. Earlier messages, such as a
        terminal's that wait for the person to confirm, are skipped; with `in_order` the message is
        not taken if there are any.
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
        """Claim a message together with the `before` earlier ones, which are put back at once."""
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
        """Release messages in the inbox for any process; one that has a turn stays as it is."""
        try:
            for row in rows:
                await self._store.release_inbound(self._claimant(row.id))
        except STORE_TROUBLE:
            self.trouble.set()
            raise

    async def drop(self, *rows: Inbound) -> None:
        """Remove messages from the inbox; they are not answered."""
        await self.put_back(*rows)
        await self._store.drop_inbound([each.id for each in rows])

    async def take_back(self, *rows: Inbound) -> None:
        """Drop messages that the person took back; if the store fails, `give_back` does it."""
        self._unwanted.update(each.id for each in rows)
        try:
            await self.drop(*rows)
        except STORE_TROUBLE:
            self.trouble.set()
        else:
            self._unwanted.difference_update(each.id for each in rows)

    async def give_back(self, row: Inbound) -> bool:
        """Release a claim that no lane works on; True if the message waits for a turn again."""
        if row.id in self._unwanted or row.channel == "spawn":  # its turn has failed without it
            await self.drop(row)
            self._unwanted.discard(row.id)
            return False
        await self._store.release_inbound(row.claimant or "")
        return True


def is_own(store: Store, row: Inbound) -> bool:
    """Whether this process has claimed that message."""
    return row.claimant is not None and row.claimant.startswith(f"{store.identity}#")


async def keep_files(store: Store, files: Sequence[Attached]) -> tuple[dict[str, Any], ...]:
    """Store the files that come with a message; returns the part of the message for each."""
    return tuple([await _keep_file(store, each) for each in files])


async def _keep_file(store: Store, file: Attached) -> dict[str, Any]:
    blob = await store.put_blob(file.data, file.media_type)
    kind = "image" if file.media_type.startswith("image/") else "file"
    named = {} if file.name is None else {"name": file.name}
    return {"type": kind, "blob": blob, "media_type": file.media_type} | named
