"""The hot paths of the log in SQLite: recording changes, and reading the newest messages."""

from __future__ import annotations

from clew.core.changes import Change, Recorded
from clew.core.message import Message
from clew.errors import InvalidInput, SessionNotFound
from clew.store.rows import MESSAGE_COLUMNS, Row, message_from, text
from clew.store.sqlite.engine import SqliteEngine, Transaction
from clew.store.sqlite.record import record
from clew.store.work.log import SharedLog
from clew.store.work.thread import Window, read_thread

SESSION = """
SELECT parent_id, head, EXISTS (SELECT 1 FROM undone WHERE session_id = sessions.id)
FROM sessions WHERE id = ? AND purged_at IS NULL
"""

MESSAGES = f"""
SELECT {MESSAGE_COLUMNS} FROM messages
WHERE session_id = ? AND seq > ? AND seq <= ? {{hide}}
ORDER BY seq DESC LIMIT ? OFFSET ?
"""

_NOT_UNDONE = """
AND (turn_id IS NULL OR turn_id NOT IN (SELECT turn_id FROM undone WHERE session_id = ?1))
"""


class SqliteLog(SharedLog):
    """`ports.Log`."""

    _engine: SqliteEngine

    async def record(
        self, session_id: str, epoch: int, *changes: Change, idempotency_key: str | None = None
    ) -> Recorded:
        """See `ports.Log`."""

        async def work(tx: Transaction) -> Recorded:
            return await record(tx, session_id, epoch, changes, idempotency_key=idempotency_key)

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
    ) -> tuple[Message, ...]:
        """See `ports.Log`."""
        if (limit is not None and limit < 0) or offset < 0:
            raise InvalidInput("A limit or offset can't be negative.")
        window = Window(limit, offset, before, after, undone)

        async def work(tx: Transaction) -> tuple[Message, ...]:
            rows = await _read_newest(tx, session_id, window)
            rows.reverse()
            return tuple(map(message_from, rows))

        return await self._engine.snapshot(work)


async def _read_newest(tx: Transaction, session_id: str, window: Window) -> list[Row]:
    """The newest rows of a thread, newest first. A session that is no fork needs two statements."""
    row = await tx.one(SESSION, (text(session_id),))
    if row is None:
        raise SessionNotFound(session_id)
    parent, head, has_undone = row
    if parent is not None:
        return await read_thread(tx, session_id, window)
    sql = MESSAGES.format(hide=_NOT_UNDONE if has_undone and not window.undone else "")
    low = 0 if window.after is None else window.after
    high = head if window.before is None else min(head, window.before - 1)
    limit = -1 if window.limit is None else window.limit
    return await tx.fetch(sql, (session_id, low, high, limit, window.offset))
