"""The durable inbox and outbox in PostgreSQL. Claimants pass over what others are just taking."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.delivery import Inbound, NewInbound, NewOutbound, Outbound, OutboundStatus
from clew.core.jsontext import to_json
from clew.errors import RecordNotFound
from clew.store.cursors import check_limit
from clew.store.postgres.connection import Connection, fetch, fetch_one
from clew.store.postgres.database import Database
from clew.store.postgres.sessions import get
from clew.store.rows import (
    INBOX_COLUMNS,
    OUTBOX_COLUMNS,
    Row,
    inbound_from,
    optional,
    outbound_from,
    text,
)

_ACCEPT = f"""
INSERT INTO inbox (id, channel, account, external_id, key, session_id, person, payload, status,
  received_at, claimant, claimed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8,
  CASE WHEN $10::text IS NULL THEN 'queued' ELSE 'claimed' END,
  $9, $10, CASE WHEN $10::text IS NOT NULL THEN $9::bigint END)
ON CONFLICT (channel, account, external_id) WHERE external_id IS NOT NULL DO NOTHING
RETURNING {INBOX_COLUMNS}
"""

_KNOWN = f"""
SELECT {INBOX_COLUMNS} FROM inbox WHERE channel = $1 AND account = $2 AND external_id = $3
"""

_CLAIM_INBOUND = f"""
UPDATE inbox SET status = 'claimed', claimant = $1, claimed_at = $2
WHERE id IN (
  SELECT id FROM inbox WHERE status = 'queued' AND ($3::text IS NULL OR session_id = $3)
  ORDER BY ordinal LIMIT $4 FOR UPDATE SKIP LOCKED)
RETURNING ordinal, {INBOX_COLUMNS}
"""

_LIST_INBOUND = f"""
SELECT {INBOX_COLUMNS} FROM inbox
WHERE status IN ('queued', 'claimed')
  AND (coalesce($1::text, $2::text) IS NULL OR session_id = $1 OR key = $2)
ORDER BY ordinal LIMIT $3
"""

_ADD_OUTBOUND = """
INSERT INTO outbox (id, session_id, key, channel, address, content, turn_id, seq, status, due_at,
  created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $10)
ON CONFLICT (id) DO NOTHING
"""

# A reply waits while an earlier one under its key is still to be sent or on its way.
_CLAIM_OUTBOUND = f"""
UPDATE outbox SET status = 'sending', claimant = $1, claimed_at = $2, updated_at = $2,
  attempts = attempts + 1
WHERE id IN (
  SELECT id FROM outbox WHERE status = 'pending' AND due_at <= $2
    AND ($3::text[] IS NULL OR channel = ANY ($3))
    AND ordinal IN (
      SELECT min(ordinal) FROM outbox WHERE status IN ('pending', 'sending') GROUP BY key)
  ORDER BY ordinal LIMIT $4 FOR UPDATE SKIP LOCKED)
RETURNING ordinal, {OUTBOX_COLUMNS}
"""

_SETTLE = f"""
UPDATE outbox SET status = $2, receipt = coalesce($3, receipt), error = $4,
  due_at = coalesce($5, due_at), claimant = NULL, claimed_at = NULL, updated_at = $6
WHERE id = $1 RETURNING {OUTBOX_COLUMNS}
"""

_DOUBT = f"""
UPDATE outbox SET status = 'uncertain', updated_at = $2, claimant = NULL, claimed_at = NULL
WHERE status = 'sending' AND claimant = $1 RETURNING ordinal, {OUTBOX_COLUMNS}
"""

_LIST_OUTBOUND = f"""
SELECT {OUTBOX_COLUMNS} FROM outbox
WHERE ($1::text IS NULL OR session_id = $1) AND ($2::text IS NULL OR status = $2)
ORDER BY ordinal DESC LIMIT $3
"""


class PostgresInbox:
    """`ports.Inbox`."""

    _db: Database

    async def accept(self, new: NewInbound, *, claimant: str | None = None) -> tuple[Inbound, bool]:
        """See `ports.Inbox`."""

        async def job(connection: Connection) -> tuple[Inbound, bool]:
            bindings = (
                text(new.id), text(new.channel), text(new.account), optional(new.external_id),
                text(new.key), optional(new.session_id), text(new.person), to_json(new.payload),
                await self._db.now(connection), optional(claimant),
            )  # fmt: skip
            row = await fetch_one(connection, _ACCEPT, bindings)
            if row is not None:
                return inbound_from(row), True
            known = await fetch_one(connection, _KNOWN, bindings[1:4])
            return inbound_from(known or ()), False

        # With an identity a second delivery is recognised, this one's own repetition included.
        return await self._db.write(job)

    async def claim_inbound(
        self, claimant: str, *, session_id: str | None = None, limit: int = 20
    ) -> tuple[Inbound, ...]:
        """See `ports.Inbox`."""
        check_limit(limit)

        async def job(connection: Connection) -> tuple[Inbound, ...]:
            now = await self._db.now(connection)
            bindings = (text(claimant), now, optional(session_id), limit)
            rows = await fetch(connection, _CLAIM_INBOUND, bindings)
            return tuple(inbound_from(row[1:]) for row in _in_order(rows))

        return await self._db.write(job)

    async def release_inbound(self, claimant: str) -> int:
        """See `ports.Inbox`."""

        async def job(connection: Connection) -> int:
            released = await fetch(
                connection,
                """UPDATE inbox SET status = 'queued', claimant = NULL, claimed_at = NULL
                   WHERE status = 'claimed' AND claimant = $1 RETURNING 1""",
                (text(claimant),),
            )
            return len(released)

        return await self._db.write(job)

    async def drop_inbound(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Inbox`."""
        stored = {text(each): each for each in ids}

        async def job(connection: Connection) -> tuple[str, ...]:
            rows = await fetch(
                connection,
                """UPDATE inbox SET status = 'dropped'
                   WHERE id = ANY ($1) AND status = 'queued' RETURNING id""",
                (list(stored),),
            )
            dropped = {each for (each,) in rows}
            return tuple(given for each, given in stored.items() if each in dropped)

        return await self._db.write(job)

    async def list_inbound(
        self, session_id: str | None = None, *, key: str | None = None, limit: int = 100
    ) -> tuple[Inbound, ...]:
        """See `ports.Inbox`."""
        bindings = (optional(session_id), optional(key), check_limit(limit))

        async def job(connection: Connection) -> tuple[Inbound, ...]:
            return tuple(map(inbound_from, await fetch(connection, _LIST_INBOUND, bindings)))

        return await self._db.read(job)

    async def list_taken_inbound(self, turn_id: str) -> tuple[Inbound, ...]:
        """See `ports.Inbox`."""
        sql = f"SELECT {INBOX_COLUMNS} FROM inbox WHERE turn_id = $1 ORDER BY ordinal"

        async def job(connection: Connection) -> tuple[Inbound, ...]:
            return tuple(map(inbound_from, await fetch(connection, sql, (text(turn_id),))))

        return await self._db.read(job)

    async def get_inbound(self, inbound_id: str) -> Inbound:
        """See `ports.Inbox`."""
        sql = f"SELECT {INBOX_COLUMNS} FROM inbox WHERE id = $1"

        async def job(connection: Connection) -> Inbound:
            row = await fetch_one(connection, sql, (text(inbound_id),))
            if row is None:
                raise RecordNotFound("inbound message", inbound_id)
            return inbound_from(row)

        return await self._db.read(job)


class PostgresOutbox:
    """`ports.Outbox`."""

    _db: Database

    async def add_outbound(self, session_id: str | None, new: NewOutbound) -> Outbound:
        """See `ports.Outbox`."""

        async def job(connection: Connection) -> Outbound:
            if session_id is not None:
                await get(connection, session_id)
            bindings = (
                text(new.id), session_id, text(new.key), text(new.channel), to_json(new.address),
                text(new.content), optional(new.turn_id), new.seq,
                "withheld" if new.withheld else "pending", await self._db.now(connection),
            )  # fmt: skip
            await connection.execute(_ADD_OUTBOUND, bindings)
            row = await fetch_one(
                connection, f"SELECT {OUTBOX_COLUMNS} FROM outbox WHERE id = $1", (text(new.id),)
            )
            return outbound_from(row or ())

        return await self._db.write(job, repeatable=True)

    async def claim_outbound(
        self, claimant: str, *, channels: Sequence[str] | None = None, limit: int = 20
    ) -> tuple[Outbound, ...]:
        """See `ports.Outbox`."""
        check_limit(limit)
        allowed = None if channels is None else [text(each) for each in channels]

        async def job(connection: Connection) -> tuple[Outbound, ...]:
            now = await self._db.now(connection)
            bindings = (text(claimant), now, allowed, limit)
            rows = await fetch(connection, _CLAIM_OUTBOUND, bindings)
            return tuple(outbound_from(row[1:]) for row in _in_order(rows))

        return await self._db.write(job)

    async def settle_outbound(
        self,
        outbound_id: str,
        status: OutboundStatus,
        *,
        receipt: dict[str, object] | None = None,
        error: str | None = None,
        due_at: int | None = None,
    ) -> Outbound:
        """See `ports.Outbox`."""

        async def job(connection: Connection) -> Outbound:
            bindings = (
                text(outbound_id), status, None if receipt is None else to_json(receipt),
                optional(error), due_at, await self._db.now(connection),
            )  # fmt: skip
            row = await fetch_one(connection, _SETTLE, bindings)
            if row is None:
                raise RecordNotFound("delivery", outbound_id)
            return outbound_from(row)

        return await self._db.write(job, repeatable=True)

    async def doubt_outbound(self, claimant: str) -> tuple[Outbound, ...]:
        """See `ports.Outbox`."""

        async def job(connection: Connection) -> tuple[Outbound, ...]:
            now = await self._db.now(connection)
            rows = await fetch(connection, _DOUBT, (text(claimant), now))
            return tuple(outbound_from(row[1:]) for row in _in_order(rows))

        return await self._db.write(job)

    async def list_outbound(
        self, *, session_id: str | None = None, status: OutboundStatus | None = None,
        limit: int = 100,
    ) -> tuple[Outbound, ...]:  # fmt: skip
        """See `ports.Outbox`."""
        bindings = (optional(session_id), status, check_limit(limit))

        async def job(connection: Connection) -> tuple[Outbound, ...]:
            return tuple(map(outbound_from, await fetch(connection, _LIST_OUTBOUND, bindings)))

        return await self._db.read(job)

    async def get_outbound(self, outbound_id: str) -> Outbound:
        """See `ports.Outbox`."""
        sql = f"SELECT {OUTBOX_COLUMNS} FROM outbox WHERE id = $1"

        async def job(connection: Connection) -> Outbound:
            row = await fetch_one(connection, sql, (text(outbound_id),))
            if row is None:
                raise RecordNotFound("delivery", outbound_id)
            return outbound_from(row)

        return await self._db.read(job)


def _in_order(rows: list[Row]) -> list[Row]:
    """Rows that begin with their ordinal, as they were made: an update has no order."""
    return sorted(rows, key=lambda row: int(row[0]))
