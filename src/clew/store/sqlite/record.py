"""One `record` in SQLite: fenced by its epoch, recognised by its key, its changes in order."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.changes import AddMessage, Change, Recorded
from clew.errors import SessionNotFound, StaleLease
from clew.store.rows import Row, optional, text
from clew.store.work.record import Recording, find_answer, remember_answer
from clew.store.work.transaction import Transaction

BEGIN = """
SELECT s.head, s.preview IS NULL, coalesce(l.epoch, 0), l.holder IS NOT NULL
FROM sessions s LEFT JOIN leases l ON l.session_id = s.id
WHERE s.id = ?1 AND s.purged_at IS NULL
"""

INSERT_MESSAGE = """
INSERT INTO messages (
  session_id, seq, turn_id, role, content, parts, tool_call_id, tool_name, tool_calls, is_error,
  model, input_tokens, output_tokens, cache_read_tokens, cache_creation_tokens, cost, api_calls, at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id
"""

ADVANCE = """
UPDATE sessions SET
  head = ?2, message_count = message_count + ?3, content_bytes = content_bytes + ?4,
  updated_at = max(updated_at, ?5), last_interaction_at = coalesce(?6, last_interaction_at),
  preview = coalesce(preview, ?7), archived_at = NULL
WHERE id = ?1
"""


class SqliteRecording(Recording):
    """See `work.record`. Triggers index the messages."""

    async def insert_message(self, change: AddMessage, bindings: Row, at: int) -> int:
        """See `Recording`."""
        row = (self.session_id, self.head, optional(change.turn_id), *bindings, at)
        ((row_id,),) = await self.tx.fetch(INSERT_MESSAGE, row)
        return int(row_id)

    async def advance(self, bindings: Row, preview: str | None) -> None:
        """See `Recording`."""
        await self.tx.run(ADVANCE, (*bindings, preview))


async def record(
    tx: Transaction,
    session_id: str,
    epoch: int,
    requested: Sequence[Change],
    *,
    idempotency_key: str | None,
) -> Recorded:
    """Apply the changes, fenced by the epoch and recognised by the key."""
    begin = await tx.one(BEGIN, (text(session_id),))
    if begin is None:
        raise SessionNotFound(session_id)
    if idempotency_key is not None:
        first = await find_answer(tx, session_id, idempotency_key)
        if first is not None:
            return first
    head, no_preview, current, held = begin
    if epoch != current or not held:
        raise StaleLease(session_id, epoch, current)
    recording = SqliteRecording(
        tx, session_id, now=await tx.now(), head=head, no_preview=bool(no_preview)
    )
    await recording.apply(requested)
    recorded = await recording.finish()
    if idempotency_key is not None:
        await remember_answer(tx, session_id, idempotency_key, recorded)
    return recorded
