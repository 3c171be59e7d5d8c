"""The hot paths of the log in PostgreSQL: recording changes, and reading the newest messages."""

from __future__ import annotations

import psycopg

from clew.core.changes import AddMessage, Change, Recorded
from clew.core.message import Message
from clew.errors import InvalidInput, LeaseHeld, SessionNotFound
from clew.store.postgres.connection import Connection
from clew.store.postgres.database import Database
from clew.store.postgres.record import append, is_plain, record
from clew.store.rows import MESSAGE_COLUMNS, Row, message_from, text
from clew.store.work.log import SharedLog
from clew.store.work.thread import NOT_A_NOTE, NOT_ERASED, Window, read_thread

# The session's own messages, each with the mark of a fork; one row of NULLs if there are none.
OWN = f"""
SELECT m.*, s.parent_id IS NOT NULL FROM sessions s LEFT JOIN LATERAL (
  SELECT {MESSAGE_COLUMNS} FROM messages
  WHERE session_id = s.id AND seq > greatest(coalesce(s.forked_at_seq, 0), $2::bigint)
    AND seq <= least(s.head, $3::bigint - 1)
    AND ($7::boolean OR {NOT_A_NOTE})
    AND (CASE WHEN $6::boolean THEN {NOT_ERASED} ELSE NOT EXISTS (
      SELECT 1 FROM undone u
      WHERE u.session_id = $1 AND u.turn_id = messages.turn_id AND u.ended IS NULL) END)
  ORDER BY seq DESC LIMIT $4 OFFSET $5) AS m ON true
WHERE s.id = $1 AND s.purged_at IS NULL
ORDER BY m.seq DESC
"""


class PostgresLog(SharedLog):
    """`ports.Log`."""

    _db: Database

    async def record(
        self,
        session_id: str,
        epoch: int | None,
        *changes: Change,
        idempotency_key: str | None = None,
    ) -> Recorded:
        """See `ports.Log`."""
        if epoch is not None and is_plain(changes):
            added = await self._append(session_id, epoch, changes[0], idempotency_key)
            if added is not None:
                return added

        async def job(connection: Connection) -> Recorded:
            return await record(
                self._db, connection, session_id, epoch, changes, idempotency_key=idempotency_key
            )

        async def write() -> Recorded:
            return await self._db.write(
                job, about=session_id, lane=session_id, repeatable=idempotency_key is not None
            )

        try:
            return await write()
        except LeaseHeld as held:
            if not await self._db.find_dead([held.holder]):
                raise
        return await write()

    async def _append(
        self, session_id: str, epoch: int, change: Change, idempotency_key: str | None
    ) -> Recorded | None:
        assert isinstance(change, AddMessage)

        async def job(connection: Connection) -> Recorded | None:
            try:
                return await append(
                    connection, session_id, epoch, change, idempotency_key=idempotency_key
                )
            except psycopg.errors.UniqueViolation:
                return None  # another with this key was quicker

        return await self._db.statement(
            job, lane=session_id, repeatable=idempotency_key is not None
        )

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
        rows = await self._db.read(lambda connection: _read_own(connection, session_id, window))
        if rows is None:
            rows = await self._db.snapshot(lambda tx: read_thread(tx, session_id, window))
        rows.reverse()
        return tuple(map(message_from, rows))


async def _read_own(connection: Connection, session_id: str, window: Window) -> list[Row] | None:
    """The newest rows of a thread, newest first, in one statement and so of one moment.

    None if the session is a fork and has too few rows of its own: then `read_thread` is needed.
    """
    limit = window.limit
    bindings = (
        text(session_id), window.after, window.before, limit, window.offset, window.undone,
        window.notes,
    )  # fmt: skip
    rows = await connection.fetch(OWN, bindings)
    if not rows:
        raise SessionNotFound(session_id)
    if rows[0][-1] and (limit is None or len(rows) < limit or rows[0][0] is None):
        return None
    return [] if rows[0][0] is None else [row[:-1] for row in rows]
