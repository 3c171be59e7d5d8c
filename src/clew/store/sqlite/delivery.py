"""The durable inbox and outbox in SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from clew.core.delivery import Inbound, NewInbound, NewOutbound, Outbound, OutboundStatus
from clew.core.jsontext import to_json
from clew.errors import RecordNotFound
from clew.store.cursors import check_limit
from clew.store.rows import (
    INBOX_COLUMNS,
    OUTBOX_COLUMNS,
    inbound_from,
    optional,
    outbound_from,
    text,
)
from clew.store.sqlite.connection import fetch, fetch_one
from clew.store.sqlite.database import Database
from clew.store.sqlite.sessions import get

_CLAIM_INBOUND = f"""
UPDATE inbox SET status = 'claimed', claimant = ?1, claimed_at = ?2
WHERE rowid IN (
  SELECT rowid FROM inbox WHERE status = 'queued' AND (?3 IS NULL OR session_id = ?3)
  ORDER BY rowid LIMIT ?4)
RETURNING rowid, {INBOX_COLUMNS}
"""

# A reply waits while an earlier one under its key is still to be sent or on its way. The states
# stand there twice, once as in the index, which SQLite does not find otherwise.
_CLAIM_OUTBOUND = f"""
UPDATE outbox SET status = 'sending', claimant = ?1, claimed_at = ?2, updated_at = ?2,
  attempts = attempts + 1
WHERE rowid IN (
  SELECT rowid FROM outbox WHERE status = 'pending' AND due_at <= ?2
    AND (?3 IS NULL OR channel IN (SELECT value FROM json_each(?3)))
    AND rowid IN (
      SELECT min(rowid) FROM outbox WHERE status IN ('pending', 'sending', 'uncertain')
        AND status IN ('pending', 'sending') GROUP BY key)
  ORDER BY rowid LIMIT ?4)
RETURNING rowid, {OUTBOX_COLUMNS}
"""


class SqliteInbox:
    """`ports.Inbox`."""

    _db: Database

    async def accept(self, new: NewInbound, *, claimant: str | None = None) -> tuple[Inbound, bool]:
        """See `ports.Inbox`."""

        def job(connection: apsw.Connection) -> tuple[Inbound, bool]:
            if new.external_id is not None:
                known = fetch_one(
                    connection,
                    f"""SELECT {INBOX_COLUMNS} FROM inbox
                        WHERE channel = ? AND account = ? AND external_id = ?""",
                    (text(new.channel), text(new.account), text(new.external_id)),
                )
                if known is not None:
                    return inbound_from(known), False
            row = fetch_one(
                connection,
                f"""INSERT INTO inbox (id, channel, account, external_id, key, session_id, person,
                      payload, status, received_at, claimant, claimed_at)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, iif(?10 IS NULL, 'queued', 'claimed'),
                      ?9, ?10, iif(?10 IS NULL, NULL, ?9)) RETURNING {INBOX_COLUMNS}""",
                (
                    text(new.id), text(new.channel), text(new.account), optional(new.external_id),
                    text(new.key), optional(new.session_id), text(new.person), to_json(new.payload),
                    self._db.clock(), optional(claimant),
                ),
            )  # fmt: skip
            return inbound_from(row or ()), True

        return await self._db.write(job)

    async def claim_inbound(
        self, claimant: str, *, session_id: str | None = None, limit: int = 20
    ) -> tuple[Inbound, ...]:
        """See `ports.Inbox`."""

        def job(connection: apsw.Connection) -> tuple[Inbound, ...]:
            bindings = (
                text(claimant), self._db.clock(), optional(session_id), check_limit(limit),
            )  # fmt: skip
            rows = sorted(fetch(connection, _CLAIM_INBOUND, bindings))
            return tuple(inbound_from(row[1:]) for row in rows)

        return await self._db.write(job)

    async def release_inbound(self, claimant: str) -> int:
        """See `ports.Inbox`."""

        def job(connection: apsw.Connection) -> int:
            connection.execute(
                """UPDATE inbox SET status = 'queued', claimant = NULL, claimed_at = NULL
                   WHERE status = 'claimed' AND claimant = ?""",
                (text(claimant),),
            )
            return connection.changes()

        return await self._db.write(job)

    async def drop_inbound(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Inbox`."""

        def job(connection: apsw.Connection) -> tuple[str, ...]:
            sql = (
                "UPDATE inbox SET status = 'dropped' WHERE id = ? AND status = 'queued' RETURNING 1"
            )
            return tuple(each for each in ids if connection.execute(sql, (text(each),)).get)

        return await self._db.write(job)

    async def list_inbound(
        self, session_id: str | None = None, *, key: str | None = None, limit: int = 100
    ) -> tuple[Inbound, ...]:
        """See `ports.Inbox`."""
        sql = f"""SELECT {INBOX_COLUMNS} FROM inbox
            WHERE status IN ('queued', 'claimed')
              AND (coalesce(?1, ?2) IS NULL OR session_id = ?1 OR key = ?2)
            ORDER BY rowid LIMIT ?3"""
        bindings = (optional(session_id), optional(key), check_limit(limit))

        def job(connection: apsw.Connection) -> tuple[Inbound, ...]:
            return tuple(map(inbound_from, connection.execute(sql, bindings)))

        return await self._db.read(job)

    async def list_taken_inbound(self, turn_id: str) -> tuple[Inbound, ...]:
        """See `ports.Inbox`."""
        sql = f"SELECT {INBOX_COLUMNS} FROM inbox WHERE turn_id = ? ORDER BY rowid"

        def job(connection: apsw.Connection) -> tuple[Inbound, ...]:
            return tuple(map(inbound_from, connection.execute(sql, (text(turn_id),))))

        return await self._db.read(job)

    async def get_inbound(self, inbound_id: str) -> Inbound:
        """See `ports.Inbox`."""
        sql = f"SELECT {INBOX_COLUMNS} FROM inbox WHERE id = ?"

        def job(connection: apsw.Connection) -> Inbound:
            row = fetch_one(connection, sql, (text(inbound_id),))
            if row is None:
                raise RecordNotFound("inbound message", inbound_id)
            return inbound_from(row)

        return await self._db.read(job)


class SqliteOutbox:
    """`ports.Outbox`."""

    _db: Database

    async def add_outbound(self, session_id: str | None, new: NewOutbound) -> Outbound:
        """See `ports.Outbox`."""

        def job(connection: apsw.Connection) -> Outbound:
            if session_id is not None:
                get(connection, session_id)
            connection.execute(
                """INSERT INTO outbox (id, session_id, key, channel, address, content, turn_id, seq,
                     status, due_at, created_at, updated_at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, ?10)
                   ON CONFLICT (id) DO NOTHING""",
                (
                    text(new.id), session_id, text(new.key), text(new.channel),
                    to_json(new.address), text(new.content), optional(new.turn_id), new.seq,
                    "withheld" if new.withheld else "pending", self._db.clock(),
                ),
            )  # fmt: skip
            row = fetch_one(
                connection, f"SELECT {OUTBOX_COLUMNS} FROM outbox WHERE id = ?", (text(new.id),)
            )
            return outbound_from(row or ())

        return await self._db.write(job)

    async def claim_outbound(
        self, claimant: str, *, channels: Sequence[str] | None = None, limit: int = 20
    ) -> tuple[Outbound, ...]:
        """See `ports.Outbox`."""
        allowed = None if channels is None else json.dumps([text(each) for each in channels])

        def job(connection: apsw.Connection) -> tuple[Outbound, ...]:
            bindings = (text(claimant), self._db.clock(), allowed, check_limit(limit))
            rows = sorted(fetch(connection, _CLAIM_OUTBOUND, bindings))
            return tuple(outbound_from(row[1:]) for row in rows)

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

        def job(connection: apsw.Connection) -> Outbound:
            now = self._db.clock()
            row = fetch_one(
                connection,
                f"""UPDATE outbox SET status = ?2, receipt = coalesce(?3, receipt), error = ?4,
                      due_at = coalesce(?5, due_at), claimant = NULL, claimed_at = NULL,
                      updated_at = ?6
                    WHERE id = ?1 RETURNING {OUTBOX_COLUMNS}""",
                (
                    text(outbound_id), status, None if receipt is None else to_json(receipt),
                    optional(error), due_at, now,
                ),
            )  # fmt: skip
            if row is None:
                raise RecordNotFound("delivery", outbound_id)
            return outbound_from(row)

        return await self._db.write(job)

    async def doubt_outbound(self, claimant: str) -> tuple[Outbound, ...]:
        """See `ports.Outbox`."""

        def job(connection: apsw.Connection) -> tuple[Outbound, ...]:
            rows = fetch(
                connection,
                f"""UPDATE outbox SET status = 'uncertain', updated_at = ?2, claimant = NULL,
                      claimed_at = NULL
                    WHERE status = 'sending' AND claimant = ?1
                    RETURNING rowid, {OUTBOX_COLUMNS}""",
                (text(claimant), self._db.clock()),
            )
            return tuple(outbound_from(row[1:]) for row in sorted(rows))

        return await self._db.write(job)

    async def list_outbound(
        self, *, session_id: str | None = None, status: OutboundStatus | None = None,
        limit: int = 100,
    ) -> tuple[Outbound, ...]:  # fmt: skip
        """See `ports.Outbox`."""
        sql = f"""SELECT {OUTBOX_COLUMNS} FROM outbox
            WHERE (?1 IS NULL OR session_id = ?1) AND (?2 IS NULL OR status = ?2)
            ORDER BY rowid DESC LIMIT ?3"""
        bindings = (optional(session_id), status, check_limit(limit))

        def job(connection: apsw.Connection) -> tuple[Outbound, ...]:
            return tuple(map(outbound_from, connection.execute(sql, bindings)))

        return await self._db.read(job)

    async def get_outbound(self, outbound_id: str) -> Outbound:
        """See `ports.Outbox`."""
        sql = f"SELECT {OUTBOX_COLUMNS} FROM outbox WHERE id = ?"

        def job(connection: apsw.Connection) -> Outbound:
            row = fetch_one(connection, sql, (text(outbound_id),))
            if row is None:
                raise RecordNotFound("delivery", outbound_id)
            return outbound_from(row)

        return await self._db.read(job)
