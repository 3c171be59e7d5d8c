"""Messages between the inbox and their turns: each is claimed for one turn, put back, or dropped.

A claim carries the message's own name, so that one message can be let go without the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.core.arrivals import Attached
from clew.core.delivery import Inbound, NewInbound
from clew.core.message import Draft
from clew.core.replies import ReplyTo, read_reply_to
from clew.errors import InvalidInput
from clew.ports import Store


class Intake:
    """What this process has taken out of the inbox."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _claimant(self, inbound_id: str) -> str:
        return f"{self._store.identity}#{inbound_id}"

    async def accept(self, new: NewInbound) -> tuple[Inbound, bool]:
        """Keep a message, as this process's; False for a second delivery of one."""
        if new.session_id is None:
            raise InvalidInput("A message needs the session that it is for.")
        return await self._store.accept(new, claimant=self._claimant(new.id))

    async def adopt(self, inbound: Inbound) -> Inbound:
        """Take a message that a dead process left; it has to be the session's next one."""
        if inbound.session_id is None:
            raise InvalidInput("That message has no session.")
        claimant = self._claimant(inbound.id)
        taken = await self._store.claim_inbound(claimant, session_id=inbound.session_id, limit=1)
        if [each.id for each in taken] != [inbound.id]:
            await self._store.release_inbound(claimant)
            raise InvalidInput("That message is no longer the next one in the inbox.")
        return taken[0]

    async def put_back(self, rows: Sequence[Inbound]) -> None:
        """Leave messages in the inbox for whoever comes; one that has a turn stays as it is."""
        for inbound in rows:
            await self._store.release_inbound(self._claimant(inbound.id))

    async def drop(self, rows: Sequence[Inbound]) -> None:
        """Take messages out of the inbox; nobody answers them."""
        await self.put_back(rows)
        await self._store.drop_inbound([each.id for each in rows])


async def keep_file(store: Store, file: Attached) -> dict[str, Any]:
    """Keep a file that comes with a message; what the message says of it."""
    blob = await store.put_blob(file.data, file.media_type)
    kind = "image" if file.media_type.startswith("image/") else "file"
    named = {} if file.name is None else {"name": file.name}
    return {"type": kind, "blob": blob, "media_type": file.media_type} | named


def draft_of(inbound: Inbound) -> Draft:
    """What a message becomes in the thread."""
    payload = inbound.payload
    return Draft(
        role="user", content=str(payload.get("text", "")), parts=tuple(payload.get("parts", ()))
    )


def reply_to_of(inbound: Inbound) -> ReplyTo | None:
    """Where its answer goes, beside the thread."""
    return read_reply_to(inbound.payload.get("reply_to"))
