"""The hot paths of the log in SQLite: recording changes, and reading the newest messages."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.changes import AddMessage, Change, Recorded
from clew.core.message import Message
from clew.errors import InvalidInput, SessionNotFound, StaleLease
from clew.store.rows import MESSAGE_COLUMNS, NEW_MESSAGE_COLUMNS, Row, message_from, text
from clew.store.sqlite.engine import SqliteEngine
from clew.store.work.leases import take_for_one_record
from clew.store.work.log import SharedLog
from clew.store.work.record import Recording, find_answer, remember_answer
from clew.store.work.thread import NOT_A_NOTE, NOT_ERASED, Window, read_thread
from clew.store.work.transaction import Transaction

BEGIN = """
SELECT s.head, s.preview IS NULL, coalesce(l.epoch, 0), l.holder IS NOT NULL
FROM sessions s LEFT JOIN leases l ON l.session_id = s.id
WHERE s.id = ?1 AND s.purged_at IS NULL
"""

INSERT_MESSAGE = f"""
INSERT INTO messages (session_id, seq, {NEW_MESSAGE_COLUMNS}, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id
"""

ADVANCE = """
UPDATE sessions SET
  head = ?2, message_count = message_count + ?3, content_bytes = content_bytes + ?4,
  updated_at = max(updated_at, ?5), last_interaction_at = coalesce(?6, last_interaction_at),
  preview = coalesce(preview, ?7), archived_at = NULL
WHERE id = ?1
"""

SESSION = """
SELECT parent_id, head, undo_steps > 0
FROM sessions WHERE id = ?1 AND purged_at IS NULL
"""

MESSAGES = f"""
SELECT {MESSAGE_COLUMNS} FROM messages
WHERE session_id = ?1 AND seq > ?2 AND seq <= ?3 {{hide}}
ORDER BY seq DESC LIMIT ?4 OFFSET ?5
"""

# Its own turns: no other session decides about those.
_NOT_UNDONE = """
AND NOT EXISTS (
  SELECT 1 FROM undone u
  WHERE u.session_id = ?1 AND u.turn_id = messages.turn_id AND u.ended IS NULL)
"""


class SqliteLog(SharedLog):
    """`ports.Log`."""

    _engine: SqliteEngine

    async def record(
        self,
        session_id: str,
        epoch: int | None,
        *changes: Change,
        idempotency_key: str | None = None,
    ) -> Recorded:
        """See `ports.Log`."""

        async def work(tx: Transaction) -> Recorded:
            return await _record(
                self._engine, tx, session_id, epoch, changes, idempotency_key=idempotency_key
            )

        return await self._engine.write(work)

    async def get_messages(
        self,
        session_id: str,
        limit: int | None = None,
        *,
        offset: int = 0,
        before: int | None = None,
        after: int | None = None,
        undone: bool = False,
        notes: bool = False,
    ) -> tuple[Message, ...]:
        """See `ports.Log`."""
        if (limit is not None and limit < 0) or offset < 0:
            raise InvalidInput("A limit or offset can't be negative.")
        window = Window(limit, offset, before, after, undone, notes)

        async def work(tx: Transaction) -> tuple[Message, ...]:
            rows = await _read_newest(tx, session_id, window)
            rows.reverse()
            return tuple(map(message_from, rows))

        return await self._engine.snapshot(work)


class SqliteRecording(Recording):
    """See `work.record`. Triggers index the messages."""

    async def insert_message(self, change: AddMessage, bindings: Row, at: int) -> int:  # noqa: ARG002  # its text is in the bindings
        """See `Recording`."""
        row = (self.session_id, self.head, *bindings, at)
        ((row_id,),) = await self.tx.fetch(INSERT_MESSAGE, row)
        return int(row_id)

    async def forget_words(self, row_id: int) -> None:
        """See `Recording`. A trigger does it."""

    async def set_preview(self, preview: str | None) -> None:
        """See `Recording`."""
        await self.tx.run(
            "UPDATE sessions SET preview = $2 WHERE id = $1", (self.session_id, preview)
        )

    async def advance(self, bindings: Row, preview: str | None) -> None:
        """See `Recording`."""
        await self.tx.run(ADVANCE, (*bindings, preview))


async def _record(
    engine: SqliteEngine,
    tx: Transaction,
    session_id: str,
    epoch: int | None,
    requested: Sequence[Change],
    *,
    idempotency_key: str | None,
) -> Recorded:
    """Apply the changes, unless the epoch is stale or the idempotency key is known."""
    begin = await tx.one(BEGIN, (text(session_id),))
    if begin is None:
        raise SessionNotFound(session_id)
    if idempotency_key is not None:
        first = await find_answer(tx, session_id, idempotency_key)
        if first is not None:
            return first
    head, no_preview, current, held = begin
    if epoch is None:
        await take_for_one_record(engine, tx, session_id)
    elif epoch != current or not held:
        raise StaleLease(session_id, epoch, current)
    recording = SqliteRecording(
        tx, session_id, now=await tx.now(), head=head, no_preview=bool(no_preview)
    )
    await recording.apply(requested)
    recorded = await recording.finish()
    if idempotency_key is not None:
        await remember_answer(tx, session_id, idempotency_key, recorded)
    return recorded


async def _read_newest(tx: Transaction, session_id: str, window: Window) -> list[Row]:
    """The newest rows of a thread, newest first. Two statements, except for forks."""
    row = await tx.one(SESSION, (text(session_id),))
    if row is None:
        raise SessionNotFound(session_id)
    parent, head, has_undone = row
    if parent is not None:
        return await read_thread(tx, session_id, window)
    hide = f"AND {NOT_ERASED}" if window.undone else _NOT_UNDONE
    hide = hide if has_undone else ""
    sql = MESSAGES.format(hide=hide if window.notes else f"{hide} AND {NOT_A_NOTE}")
    low = 0 if window.after is None else window.after
    high = head if window.before is None else min(head, window.before - 1)
    limit = -1 if window.limit is None else window.limit
    return await tx.fetch(sql, (session_id, low, high, limit, window.offset))
