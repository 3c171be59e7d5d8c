"""Messages, turns and approvals in SQLite. What one record does is in `record`."""

from __future__ import annotations

from functools import partial

import apsw

from clew.core.changes import Change, Recorded
from clew.core.message import Message
from clew.core.text import decode_text
from clew.core.turn import Approval, ApprovalScope, Decision, Turn
from clew.core.usage import Usage, UsageBy, UsageRow
from clew.errors import InvalidInput, RecordNotFound
from clew.store.appending import Appends
from clew.store.cursors import check_limit
from clew.store.rows import (
    APPROVAL_COLUMNS,
    TURN_COLUMNS,
    approval_from,
    message_from,
    optional,
    plain,
    text,
    turn_from,
)
from clew.store.sqlite.connection import fetch, fetch_one
from clew.store.sqlite.database import Database, snapshot
from clew.store.sqlite.holds import find_lease
from clew.store.sqlite.record import record
from clew.store.sqlite.thread import read_thread

# One unknown price makes the whole cost unknown.
SPENT = """
SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
  coalesce(sum(cache_read_tokens), 0), coalesce(sum(cache_creation_tokens), 0),
  CASE WHEN count(*) = count(cost) THEN coalesce(sum(cost), 0) END, coalesce(sum(api_calls), 0)
FROM turns WHERE started_at >= ?
"""

_NAMES: dict[UsageBy, str] = {
    "day": "CAST(t.started_at / 900000 * 900000 AS TEXT)",
    "model": "coalesce(t.model, '')",
    "session": "t.session_id",
    "platform": "s.platform",
}
# Metadata is JSON in a text: one that is nested would count too, which is a ~ too many.
_SPENT_BY = """
SELECT {name}, sum(t.input_tokens), sum(t.output_tokens), sum(t.cache_read_tokens),
  sum(t.cache_creation_tokens), CASE WHEN count(*) = count(t.cost) THEN sum(t.cost) END,
  sum(t.api_calls), count(*), max(s.metadata LIKE '%"estimated":true%')
FROM turns t JOIN sessions s ON s.id = t.session_id
WHERE t.started_at >= ? GROUP BY 1 ORDER BY 1
"""


class SqliteLog(Appends):
    """`ports.Log`."""

    _db: Database

    async def record(
        self, session_id: str, epoch: int, *changes: Change, idempotency_key: str | None = None
    ) -> Recorded:
        """See `ports.Log`."""

        def job(connection: apsw.Connection) -> Recorded:
            return record(
                connection,
                session_id,
                epoch,
                changes,
                now=self._db.clock(),
                idempotency_key=idempotency_key,
            )

        return await self._db.write(job)

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

        def job(connection: apsw.Connection) -> tuple[Message, ...]:
            rows = read_thread(
                connection,
                session_id,
                limit=limit,
                offset=offset,
                before=before,
                after=after,
                undone=undone,
            )
            rows.reverse()
            return tuple(map(message_from, rows))

        return await self._db.read(snapshot(job))

    async def get_turn(self, turn_id: str) -> Turn:
        """See `ports.Log`."""
        return await self._db.read(partial(_get_turn, turn_id=turn_id))

    async def list_turns(
        self, session_id: str, *, limit: int = 20, unfinished: bool = False
    ) -> tuple[Turn, ...]:
        """See `ports.Log`."""
        only = "AND status IN ('running', 'waiting')" if unfinished else ""
        sql = f"""SELECT {TURN_COLUMNS} FROM turns
            WHERE session_id = ? {only} ORDER BY rowid DESC LIMIT ?"""

        def job(connection: apsw.Connection) -> tuple[Turn, ...]:
            rows = fetch(connection, sql, (text(session_id), check_limit(limit)))
            return tuple(map(turn_from, reversed(rows)))

        return await self._db.read(job)

    async def get_usage(self, *, since: int) -> Usage:
        """See `ports.Log`."""
        return await self._db.read(
            lambda connection: Usage(*fetch_one(connection, SPENT, (since,)) or ())
        )

    async def list_usage(self, by: UsageBy, *, since: int) -> tuple[UsageRow, ...]:
        """See `ports.Log`."""
        sql = _SPENT_BY.format(name=_NAMES[by])

        def job(connection: apsw.Connection) -> tuple[UsageRow, ...]:
            return tuple(
                UsageRow(plain(name) or "", Usage(*spent), turns, bool(estimated))
                for name, *spent, turns, estimated in fetch(connection, sql, (since,))
            )

        return await self._db.read(job)

    async def interrupt_turns(self, session_id: str) -> tuple[Turn, ...]:
        """See `ports.Log`."""

        def job(connection: apsw.Connection) -> tuple[Turn, ...]:
            now = self._db.clock()
            if find_lease(connection, self._db, session_id) is not None:
                return ()
            ids = fetch(
                connection,
                """UPDATE turns SET status = 'interrupted', ended_at = ?2
                   WHERE session_id = ?1 AND status IN ('running', 'waiting') RETURNING id""",
                (text(session_id), now),
            )
            connection.execute(
                """UPDATE approvals SET decision = 'no', decided_by = 'interrupted', decided_at = ?2
                   WHERE session_id = ?1 AND decision IS NULL""",
                (text(session_id), now),
            )
            return tuple(_get_turn(connection, decode_text(turn_id)) for (turn_id,) in ids)

        return await self._db.write(job)

    async def decide_approval(
        self, approval_id: str, decision: Decision, *, by: str, scope: ApprovalScope = "once"
    ) -> Approval:
        """See `ports.Log`."""

        def job(connection: apsw.Connection) -> Approval:
            now = self._db.clock()
            connection.execute(
                """UPDATE approvals SET decision = 'no', decided_by = 'expired',
                     decided_at = expires_at
                   WHERE id = ? AND decision IS NULL AND expires_at <= ?""",
                (text(approval_id), now),
            )
            connection.execute(
                """UPDATE approvals SET decision = ?, scope = ?, decided_by = ?, decided_at = ?
                   WHERE id = ? AND decision IS NULL""",
                (decision, scope, text(by), now, text(approval_id)),
            )
            row = fetch_one(
                connection,
                f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE id = ?",
                (text(approval_id),),
            )
            if row is None:
                raise RecordNotFound("approval", approval_id)
            return approval_from(row)

        return await self._db.write(job)

    async def list_approvals(self, session_id: str | None = None) -> tuple[Approval, ...]:
        """See `ports.Log`."""
        sql = f"""SELECT {APPROVAL_COLUMNS} FROM approvals
            WHERE decision IS NULL AND expires_at > ? AND (?2 IS NULL OR session_id = ?2)
            ORDER BY asked_at, rowid"""

        def job(connection: apsw.Connection) -> tuple[Approval, ...]:
            rows = connection.execute(sql, (self._db.clock(), optional(session_id)))
            return tuple(map(approval_from, rows))

        return await self._db.read(job)


def _get_turn(connection: apsw.Connection, turn_id: str) -> Turn:
    sql = f"SELECT {TURN_COLUMNS} FROM turns WHERE id = ?"
    row = fetch_one(connection, sql, (text(turn_id),))
    if row is None:
        raise RecordNotFound("turn", turn_id)
    return turn_from(row)
