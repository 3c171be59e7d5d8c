"""Messages, turns and approvals in PostgreSQL. What one record does is in `record`."""

from __future__ import annotations

from functools import partial

import psycopg

from clew.core.changes import AddMessage, Change, Recorded
from clew.core.message import Message
from clew.core.turn import Approval, ApprovalScope, Decision, Turn
from clew.core.usage import Usage, UsageBy, UsageRow
from clew.errors import InvalidInput, RecordNotFound
from clew.store.appending import Appends
from clew.store.cursors import check_limit
from clew.store.postgres.appending import append, is_plain
from clew.store.postgres.connection import Connection, fetch, fetch_one
from clew.store.postgres.database import Database
from clew.store.postgres.holds import find_living_lease, lock_lease
from clew.store.postgres.record import record
from clew.store.postgres.thread import read_own, read_thread
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

# One unknown price makes the whole cost unknown.
SPENT = """
SELECT coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint,
  coalesce(sum(cache_read_tokens), 0)::bigint, coalesce(sum(cache_creation_tokens), 0)::bigint,
  CASE WHEN count(*) = count(cost) THEN coalesce(sum(cost), 0)::bigint END,
  coalesce(sum(api_calls), 0)::bigint
FROM turns WHERE started_at >= $1
"""

_NAMES: dict[UsageBy, str] = {
    "day": "(t.started_at / 900000 * 900000)::text",
    "model": "coalesce(t.model, '')",
    "session": "t.session_id",
    "platform": "s.platform",
}
# Metadata is JSON in a text: one that is nested would count too, which is a ~ too many.
_SPENT_BY = """
SELECT {name} COLLATE "C" AS name, sum(t.input_tokens)::bigint, sum(t.output_tokens)::bigint,
  sum(t.cache_read_tokens)::bigint, sum(t.cache_creation_tokens)::bigint,
  CASE WHEN count(*) = count(t.cost) THEN sum(t.cost)::bigint END, sum(t.api_calls)::bigint,
  count(*), bool_or(s.metadata LIKE '%"estimated":true%')
FROM turns t JOIN sessions s ON s.id = t.session_id
WHERE t.started_at >= $1 GROUP BY 1 ORDER BY 1
"""

_LIST_TURNS = f"SELECT {TURN_COLUMNS} FROM turns WHERE session_id = $1"

_INTERRUPT = f"""
UPDATE turns SET status = 'interrupted', ended_at = $2
WHERE session_id = $1 AND status IN ('running', 'waiting') RETURNING ordinal, {TURN_COLUMNS}
"""

_LIST_APPROVALS = f"""
SELECT {APPROVAL_COLUMNS} FROM approvals
WHERE decision IS NULL AND ($2::text IS NULL OR session_id = $2)
  AND expires_at > coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
ORDER BY asked_at, ordinal
"""


class PostgresLog(Appends):
    """`ports.Log`."""

    _db: Database

    async def record(
        self, session_id: str, epoch: int, *changes: Change, idempotency_key: str | None = None
    ) -> Recorded:
        """See `ports.Log`."""
        if is_plain(changes):
            added = await self._append(session_id, epoch, changes[0], idempotency_key)
            if added is not None:
                return added

        async def job(connection: Connection) -> Recorded:
            return await record(
                connection,
                session_id,
                epoch,
                changes,
                now=self._db.given_now,
                idempotency_key=idempotency_key,
            )

        return await self._db.write(
            job, about=session_id, lane=session_id, repeatable=idempotency_key is not None
        )

    async def _append(
        self, session_id: str, epoch: int, change: Change, idempotency_key: str | None
    ) -> Recorded | None:
        assert isinstance(change, AddMessage)

        async def job(connection: Connection) -> Recorded | None:
            try:
                return await append(
                    connection,
                    session_id,
                    epoch,
                    change,
                    now=self._db.given_now,
                    idempotency_key=idempotency_key,
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
    ) -> tuple[Message, ...]:
        """See `ports.Log`."""
        if (limit is not None and limit < 0) or offset < 0:
            raise InvalidInput("A limit or offset can't be negative.")

        read = partial(
            read_own,
            session_id=session_id,
            limit=limit,
            offset=offset,
            before=before,
            after=after,
            undone=undone,
        )
        rows = await self._db.read(read)
        if rows is None:
            rows = await self._db.snapshot(partial(read_thread, **read.keywords))
        rows.reverse()
        return tuple(map(message_from, rows))

    async def get_turn(self, turn_id: str) -> Turn:
        """See `ports.Log`."""
        sql = f"SELECT {TURN_COLUMNS} FROM turns WHERE id = $1"

        async def job(connection: Connection) -> Turn:
            row = await fetch_one(connection, sql, (text(turn_id),))
            if row is None:
                raise RecordNotFound("turn", turn_id)
            return turn_from(row)

        return await self._db.read(job)

    async def list_turns(
        self, session_id: str, *, limit: int = 20, unfinished: bool = False
    ) -> tuple[Turn, ...]:
        """See `ports.Log`."""
        only = "AND status IN ('running', 'waiting')" if unfinished else ""
        sql = f"{_LIST_TURNS} {only} ORDER BY ordinal DESC LIMIT $2"

        async def job(connection: Connection) -> tuple[Turn, ...]:
            rows = await fetch(connection, sql, (text(session_id), check_limit(limit)))
            return tuple(map(turn_from, reversed(rows)))

        return await self._db.read(job)

    async def get_usage(self, *, since: int) -> Usage:
        """See `ports.Log`."""

        async def job(connection: Connection) -> Usage:
            return Usage(*await fetch_one(connection, SPENT, (since,)) or ())

        return await self._db.read(job)

    async def list_usage(self, by: UsageBy, *, since: int) -> tuple[UsageRow, ...]:
        """See `ports.Log`."""
        sql = _SPENT_BY.format(name=_NAMES[by])

        async def job(connection: Connection) -> tuple[UsageRow, ...]:
            return tuple(
                UsageRow(plain(name) or "", Usage(*spent), turns, estimated)
                for name, *spent, turns, estimated in await fetch(connection, sql, (since,))
            )

        return await self._db.read(job)

    async def interrupt_turns(self, session_id: str) -> tuple[Turn, ...]:
        """See `ports.Log`."""
        if await find_living_lease(self._db, session_id) is not None:
            return ()

        async def job(connection: Connection) -> tuple[Turn, ...]:
            now = await self._db.now(connection)
            if await lock_lease(connection, session_id, now) is not None:
                return ()  # somebody was quicker
            rows = await fetch(connection, _INTERRUPT, (text(session_id), now))
            await connection.execute(
                """UPDATE approvals SET decision = 'no', decided_by = 'interrupted',
                     decided_at = $2 WHERE session_id = $1 AND decision IS NULL""",
                (text(session_id), now),
            )
            return tuple(turn_from(row[1:]) for row in sorted(rows, key=lambda row: row[0]))

        return await self._db.write(job, about=session_id)

    async def decide_approval(
        self, approval_id: str, decision: Decision, *, by: str, scope: ApprovalScope = "once"
    ) -> Approval:
        """See `ports.Log`."""

        async def job(connection: Connection) -> Approval:
            now = await self._db.now(connection)
            await connection.execute(
                """UPDATE approvals SET decision = 'no', decided_by = 'expired',
                     decided_at = expires_at
                   WHERE id = $1 AND decision IS NULL AND expires_at <= $2""",
                (text(approval_id), now),
            )
            await connection.execute(
                """UPDATE approvals SET decision = $1, scope = $2, decided_by = $3, decided_at = $4
                   WHERE id = $5 AND decision IS NULL""",
                (decision, scope, text(by), now, text(approval_id)),
            )
            row = await fetch_one(
                connection,
                f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE id = $1",
                (text(approval_id),),
            )
            if row is None:
                raise RecordNotFound("approval", approval_id)
            return approval_from(row)

        return await self._db.write(job)

    async def list_approvals(self, session_id: str | None = None) -> tuple[Approval, ...]:
        """See `ports.Log`."""

        async def job(connection: Connection) -> tuple[Approval, ...]:
            bindings = (self._db.given_now, optional(session_id))
            return tuple(map(approval_from, await fetch(connection, _LIST_APPROVALS, bindings)))

        return await self._db.read(job)
