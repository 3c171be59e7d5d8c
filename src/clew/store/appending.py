"""`append`, the same in every store: one message, recorded and given back as it was numbered."""

from __future__ import annotations

from clew.core.changes import AddMessage
from clew.core.message import Draft, Message, number
from clew.errors import Conflict
from clew.ports import Log


class Appends:
    """The part of `ports.Log` that is made of its other parts."""

    async def append(
        self: Log,
        session_id: str,
        epoch: int,
        draft: Draft,
        *,
        turn_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Message:
        """See `ports.Log`."""
        recorded = await self.record(
            session_id, epoch, AddMessage(draft, turn_id), idempotency_key=idempotency_key
        )
        if len(recorded.seqs) != 1:
            raise Conflict(f'The key "{idempotency_key}" was used for another record.')
        (seq,) = recorded.seqs
        if recorded.repeated:
            (first,) = await self.get_messages(
                session_id, after=seq - 1, before=seq + 1, undone=True
            )
            return first
        return number(
            draft,
            row_id=recorded.ids[0],
            session_id=session_id,
            seq=seq,
            turn_id=turn_id,
            at=recorded.at,
        )
