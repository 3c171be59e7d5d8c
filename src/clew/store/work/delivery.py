"""The durable inbox and outbox. In PostgreSQL, claimants skip rows that others are claiming."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.delivery import Inbound, NewInbound, NewOutbound, Outbound, OutboundStatus
from clew.core.text import to_json
from clew.errors import RecordNotFound
from clew.store.rows import (
    INBOX_COLUMNS,
    OUTBOX_COLUMNS,
    Row,
    check_limit,
    inbound_from,
    optional,
    outbound_from,
    text,
    whole,
)
from clew.store.work.sessions import get
from clew.store.work.transaction import Engine, Transaction

# SQLite uses a partial index only if the query has exactly the index's condition. So some
# statements name the states twice.
_OPEN_INBOUND = "status IN ('queued', 'claimed')"
_OPEN_OUTBOUND = "status IN ('pending', 'sending', 'uncertain')"

_ACCEPT = f"""
INSERT INTO inbox (id, channel, account, external_id, key, session_id, person, payload, status,
  received_at, claimant, claimed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8,
  CASE WHEN CAST($10 AS text) IS NULL THEN 'queued' ELSE 'claimed' END,
  $9, $10, CASE WHEN CAST($10 AS text) IS NOT NULL THEN CAST($9 AS bigint) END)
ON CONFLICT (channel, account, external_id) WHERE external_id IS NOT NULL DO NOTHING
RETURNING {INBOX_COLUMNS}
"""

_KNOWN = f"""
SELECT {INBOX_COLUMNS} FROM inbox WHERE channel = $1 AND account = $2 AND external_id = $3
"""

_CLAIM_INBOUND = f"""
UPDATE inbox SET status = 'claimed', claimant = $1, claimed_at = $2
WHERE id IN (
  SELECT id FROM inbox
  WHERE {_OPEN_INBOUND} AND status = 'queued'
    AND (CAST($3 AS text) IS NULL OR session_id = $3)
  ORDER BY ordinal LIMIT $4 FOR UPDATE SKIP LOCKED)
RETURNING ordinal, {INBOX_COLUMNS}
"""

_RELEASE = f"""
UPDATE inbox SET status = 'queued', claimant = NULL, claimed_at = NULL
WHERE {_OPEN_INBOUND} AND status = 'claimed' AND claimant = $1
"""

_DROP = """
UPDATE inbox SET status = 'dropped' WHERE id = ANY ($1) AND status = 'queued' RETURNING id
"""

_LIST_INBOUND = f"""
SELECT {INBOX_COLUMNS} FROM inbox
WHERE {_OPEN_INBOUND}
  AND (coalesce(CAST($1 AS text), CAST($2 AS text)) IS NULL OR session_id = $1 OR key = $2)
ORDER BY ordinal LIMIT $3
"""

_TAKEN = f"SELECT {INBOX_COLUMNS} FROM inbox WHERE turn_id = $1 ORDER BY ordinal"
_INBOUND = f"SELECT {INBOX_COLUMNS} FROM inbox WHERE id = $1"

ADD_OUTBOUND = """
INSERT INTO outbox (id, session_id, key, channel, address, content, turn_id, seq, status, due_at,
  created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $10)
"""

# A reply waits while an earlier one under its key is pending or being sent.
_CLAIM_OUTBOUND = f"""
UPDATE outbox SET status = 'sending', claimant = $1, claimed_at = $2, updated_at = $2,
  attempts = attempts + 1
WHERE id IN (
  SELECT id FROM outbox WHERE status = 'pending' AND due_at <= $2 {{only}}
    AND ordinal IN (
      SELECT min(ordinal) FROM outbox
      WHERE {_OPEN_OUTBOUND} AND status IN ('pending', 'sending') GROUP BY key)
  ORDER BY ordinal LIMIT $3 FOR UPDATE SKIP LOCKED)
RETURNING ordinal, {OUTBOX_COLUMNS}
"""
_CLAIM_ANY_OUTBOUND = _CLAIM_OUTBOUND.format(only="")
_CLAIM_SOME_OUTBOUND = _CLAIM_OUTBOUND.format(only="AND channel = ANY ($4)")

_SETTLE = f"""
UPDATE outbox SET status = $2, receipt = coalesce($3, receipt), error = $4,
  due_at = coalesce($5, due_at), claimant = NULL, claimed_at = NULL, updated_at = $6
WHERE id = $1 RETURNING {OUTBOX_COLUMNS}
"""

_DOUBT = f"""
UPDATE outbox SET status = 'uncertain', updated_at = $2, claimant = NULL, claimed_at = NULL
WHERE {_OPEN_OUTBOUND} AND status = 'sending' AND claimant = $1 RETURNING ordinal, {OUTBOX_COLUMNS}
"""

_LIST_OUTBOUND = f"""
SELECT {OUTBOX_COLUMNS} FROM outbox
WHERE (CAST($1 AS text) IS NULL OR session_id = $1) AND (CAST($2 AS text) IS NULL OR status = $2)
ORDER BY ordinal DESC LIMIT $3
"""

_OUTBOUND = f"SELECT {OUTBOX_COLUMNS} FROM outbox WHERE id = $1"


class SharedInbox:
    """`ports.Inbox`."""

    _engine: Engine

    async def accept(self, new: NewInbound, *, claimant: str | None = None) -> tuple[Inbound, bool]:
        """See `ports.Inbox`."""

        async def work(tx: Transaction) -> tuple[Inbound, bool]:
            bindings = (
                text(new.id), text(new.channel), text(new.account), optional(new.external_id),
                text(new.key), optional(new.session_id), text(new.person), to_json(new.payload),
                await tx.now(), optional(claimant),
            )  # fmt: skip
            row = await tx.one(_ACCEPT, bindings)
            if row is not None:
                return inbound_from(row), True
            return inbound_from(await tx.one(_KNOWN, bindings[1:4]) or ()), False

        # Not repeatable: without an `external_id`, a repetition would add a second message.
        return await self._engine.write(work)

    async def claim_inbound(
        self, claimant: str, *, session_id: str | None = None, limit: int = 20
    ) -> tuple[Inbound, ...]:
        """See `ports.Inbox`."""
        check_limit(limit)

        async def work(tx: Transaction) -> tuple[Inbound, ...]:
            bindings = (text(claimant), await tx.now(), optional(session_id), limit)
            rows = await tx.fetch(_CLAIM_INBOUND, bindings)
            return tuple(inbound_from(row[1:]) for row in _in_order(rows))

        return await self._engine.write(work)

    async def release_inbound(self, claimant: str) -> int:
        """See `ports.Inbox`."""
        return await self._engine.write(lambda tx: tx.run(_RELEASE, (text(claimant),)))

    async def drop_inbound(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Inbox`."""
        stored = {text(each): each for each in ids}
        rows = await self._engine.write(lambda tx: tx.fetch(_DROP, (list(stored),)))
        dropped = {each for (each,) in rows}
        return tuple(given for each, given in stored.items() if each in dropped)

    async def list_inbound(
        self, session_id: str | None = None, *, key: str | None = None, limit: int = 100
    ) -> tuple[Inbound, ...]:
        """See `ports.Inbox`."""
        bindings = (optional(session_id), optional(key), check_limit(limit))
        rows = await self._engine.read(lambda tx: tx.fetch(_LIST_INBOUND, bindings))
        return tuple(map(inbound_from, rows))

    async def list_taken_inbound(self, turn_id: str) -> tuple[Inbound, ...]:
        """See `ports.Inbox`."""
        rows = await self._engine.read(lambda tx: tx.fetch(_TAKEN, (text(turn_id),)))
        return tuple(map(inbound_from, rows))

    async def get_inbound(self, inbound_id: str) -> Inbound:
        """See `ports.Inbox`."""
        row = await self._engine.read(lambda tx: tx.one(_INBOUND, (text(inbound_id),)))
        if row is None:
            raise RecordNotFound("inbound message", inbound_id)
        return inbound_from(row)


class SharedOutbox:
    """`ports.Outbox`."""

    _engine: Engine

    async def add_outbound(self, session_id: str | None, new: NewOutbound) -> Outbound:
        """See `ports.Outbox`."""

        async def work(tx: Transaction) -> Outbound:
            if session_id is not None:
                await get(tx, session_id)
            bindings = outbound_bindings(new, session_id, await tx.now())
            await tx.run(f"{ADD_OUTBOUND} ON CONFLICT (id) DO NOTHING", bindings)
            return outbound_from(await tx.one(_OUTBOUND, (text(new.id),)) or ())

        return await self._engine.write(work, repeatable=True)

    async def claim_outbound(
        self, claimant: str, *, channels: Sequence[str] | None = None, limit: int = 20
    ) -> tuple[Outbound, ...]:
        """See `ports.Outbox`."""
        check_limit(limit)
        sql = _CLAIM_ANY_OUTBOUND if channels is None else _CLAIM_SOME_OUTBOUND
        only = () if channels is None else ([text(each) for each in channels],)

        async def work(tx: Transaction) -> tuple[Outbound, ...]:
            rows = await tx.fetch(sql, (text(claimant), await tx.now(), limit, *only))
            return tuple(outbound_from(row[1:]) for row in _in_order(rows))

        return await self._engine.write(work)

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

        async def work(tx: Transaction) -> Outbound:
            bindings = (
                text(outbound_id), status, None if receipt is None else to_json(receipt),
                optional(error), due_at, await tx.now(),
            )  # fmt: skip
            return _delivery(await tx.one(_SETTLE, bindings), outbound_id)

        return await self._engine.write(work, repeatable=True)

    async def doubt_outbound(self, claimant: str) -> tuple[Outbound, ...]:
        """See `ports.Outbox`."""

        async def work(tx: Transaction) -> tuple[Outbound, ...]:
            rows = await tx.fetch(_DOUBT, (text(claimant), await tx.now()))
            return tuple(outbound_from(row[1:]) for row in _in_order(rows))

        return await self._engine.write(work)

    async def list_outbound(
        self, *, session_id: str | None = None, status: OutboundStatus | None = None,
        limit: int = 100,
    ) -> tuple[Outbound, ...]:  # fmt: skip
        """See `ports.Outbox`."""
        bindings = (optional(session_id), status, check_limit(limit))
        rows = await self._engine.read(lambda tx: tx.fetch(_LIST_OUTBOUND, bindings))
        return tuple(map(outbound_from, rows))

    async def get_outbound(self, outbound_id: str) -> Outbound:
        """See `ports.Outbox`."""
        row = await self._engine.read(lambda tx: tx.one(_OUTBOUND, (text(outbound_id),)))
        return _delivery(row, outbound_id)


def outbound_bindings(new: NewOutbound, session_id: str | None, now: int) -> Row:
    """The values of `ADD_OUTBOUND`."""
    return (
        text(new.id), session_id, text(new.key), text(new.channel), to_json(new.address),
        text(new.content), optional(new.turn_id), whole(new.seq),
        "withheld" if new.withheld else "pending", now,
    )  # fmt: skip


def _delivery(row: Row | None, outbound_id: str) -> Outbound:
    if row is None:
        raise RecordNotFound("delivery", outbound_id)
    return outbound_from(row)


def _in_order(rows: list[Row]) -> list[Row]:
    """Sort rows by their first column, the ordinal: an UPDATE returns them in any order."""
    return sorted(rows, key=lambda row: int(row[0]))
