"""The durable inbox and outbox. In PostgreSQL, claimants skip rows that others are claiming."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.delivery import (
    ContextLine,
    Inbound,
    InboundStatus,
    NewInbound,
    NewOutbound,
    Outbound,
    OutboundStatus,
)
from clew.core.text import to_json
from clew.errors import RecordNotFound
from clew.store.rows import (
    INBOX_COLUMNS,
    LINE_COLUMNS,
    OUTBOX_COLUMNS,
    Row,
    check_limit,
    inbound_from,
    line_from,
    optional,
    outbound_from,
    text,
    whole,
)
from clew.store.work.sessions import get
from clew.store.work.transaction import Engine, Transaction

KEEP_INBOUND_MS = 7 * 86_400_000
"""How long a message stays in the inbox after it was answered, dropped or overtaken."""

MOST_LINES = 50
KEEP_LINES_MS = 86_400_000
"""How many lines of context are kept for one conversation, and how long."""

KEEP_OUTBOUND_MS = 30 * 86_400_000
"""How long a reply that belongs to no session stays in the outbox."""

ASIDE_MS = 600_000
"""How long a reply that waits behind another is passed over, unless that one is settled before."""

_STEP = 200
"""Rows that one statement looks at, or removes."""

_ROUNDS = 25
"""How many such steps one claim does at most: other writers wait for it."""

# SQLite uses a partial index only if the query has exactly the index's condition. So some
# statements name the states twice.
_OPEN_INBOUND = "status IN ('queued', 'claimed')"
_IN_LINE = "status IN ('pending', 'sending')"
# Of rows that are named: with the bare column, SQLite would look through all that are pending.
_STILL_PENDING = "coalesce({0}status, '') = 'pending'"

_ACCEPT = f"""
INSERT INTO inbox (id, channel, account, external_id, key, session_id, person, payload, position,
  status, received_at, claimant, claimed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,
  CASE WHEN CAST($11 AS text) IS NULL THEN 'queued' ELSE 'claimed' END,
  $10, $11, CASE WHEN CAST($11 AS text) IS NOT NULL THEN CAST($10 AS bigint) END)
ON CONFLICT (channel, account, external_id) WHERE external_id IS NOT NULL DO NOTHING
RETURNING {INBOX_COLUMNS}
"""

_KNOWN = f"""
SELECT {INBOX_COLUMNS} FROM inbox WHERE channel = $1 AND account = $2 AND external_id = $3
"""

# Asked after the row is in: whoever removes the first delivery moves the cursor with it.
_OVERTAKEN = f"""
UPDATE inbox SET status = 'dropped', claimant = NULL, claimed_at = NULL, settled_at = $2
WHERE id = $1 AND position <= (
  SELECT position FROM inbox_cursors c
  WHERE c.channel = inbox.channel AND c.account = inbox.account)
RETURNING {INBOX_COLUMNS}
"""

_CLAIM_INBOUND = f"""
UPDATE inbox SET status = 'claimed', claimant = $1, claimed_at = $2
WHERE id IN (
  SELECT id FROM inbox WHERE {{which}} ORDER BY ordinal LIMIT $3 FOR UPDATE SKIP LOCKED)
RETURNING ordinal, {INBOX_COLUMNS}
"""
CLAIM_ANY_INBOUND = _CLAIM_INBOUND.format(which="status = 'queued'")
CLAIM_SOME_INBOUND = _CLAIM_INBOUND.format(
    which=f"{_OPEN_INBOUND} AND status = 'queued' AND session_id = $4"
)

RELEASE = """
UPDATE inbox SET status = 'queued', claimant = NULL, claimed_at = NULL
WHERE status = 'claimed' AND claimant = $1
"""

_REVISE = f"""
UPDATE inbox SET payload = $2 WHERE id = $1 AND {_OPEN_INBOUND} RETURNING {INBOX_COLUMNS}
"""

_DROP = """
UPDATE inbox SET status = 'dropped', settled_at = $2
WHERE id = ANY ($1) AND status = 'queued' RETURNING id
"""

# `+ 0`: in the order of the table, SQLite would walk through all of it.
_LIST_INBOUND = f"""
SELECT {INBOX_COLUMNS} FROM inbox WHERE {{which}} ORDER BY ordinal + 0 LIMIT $1
"""

# The time that counts is the end of the turn; a message whose turn goes on stays.
FIND_SETTLED = """
SELECT id, channel, account, position FROM inbox
WHERE settled_at < $1 AND NOT EXISTS (
  SELECT 1 FROM turns t
  WHERE t.id = inbox.turn_id AND (t.ended_at IS NULL OR t.ended_at >= $1))
ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""
_MOVE_CURSOR = """
INSERT INTO inbox_cursors (channel, account, position) VALUES ($1, $2, $3)
ON CONFLICT (channel, account) DO UPDATE SET position = excluded.position
WHERE excluded.position > inbox_cursors.position
"""
_FORGET_INBOUND = "DELETE FROM inbox WHERE id = ANY ($1)"
_FORGET_OUTBOUND = """
DELETE FROM outbox
WHERE session_id IS NULL AND status NOT IN ('pending', 'sending') AND updated_at < $1
"""

# A second delivery of a line changes nothing; an edit replaces what it says.
_ADD_LINE = """
INSERT INTO context_lines (id, key, channel, content, account, external_id, session_id, kind,
  author, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (channel, account, external_id) WHERE external_id IS NOT NULL
DO UPDATE SET content = excluded.content, at = excluded.at WHERE excluded.kind = 'edited'
"""
_KEEP_NEWEST = """
DELETE FROM context_lines WHERE key = $1 AND ordinal <= (
  SELECT ordinal FROM context_lines WHERE key = $1 ORDER BY ordinal DESC LIMIT 1 OFFSET $2)
"""
_LINES = f"SELECT {LINE_COLUMNS} FROM context_lines WHERE key = $1 AND at >= $2 ORDER BY ordinal"
_TAKE_LINES = "DELETE FROM context_lines WHERE id = ANY ($1) AND key = $2"
_FORGET_LINES = "DELETE FROM context_lines WHERE at < $1"

_TAKEN = f"SELECT {INBOX_COLUMNS} FROM inbox WHERE turn_id = $1 ORDER BY ordinal"
_INBOUND = f"SELECT {INBOX_COLUMNS} FROM inbox WHERE id = $1"

ADD_OUTBOUND = """
INSERT INTO outbox (id, session_id, key, channel, address, content, turn_id, seq, status, due_at,
  created_at, updated_at, account, parts)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $10, $11, $12)
"""

# A reply waits while an earlier one of its conversation is still to be sent or on its way.
_SAME_LINE = "{0}key = o.key AND {0}channel = o.channel AND {0}account = o.account"
DUE_OUTBOUND = f"""
SELECT o.id, EXISTS (
  SELECT 1 FROM outbox e
  WHERE {_SAME_LINE.format("e.")} AND e.ordinal < o.ordinal AND e.{_IN_LINE})
FROM outbox o WHERE o.status = 'pending' AND o.due_at <= $1 {{only}}
ORDER BY o.due_at, o.ordinal LIMIT $2
"""
_DUE_ANYWHERE = DUE_OUTBOUND.format(only="")
DUE_AT_PLACE = DUE_OUTBOUND.format(only="AND o.channel = $3 AND o.account = $4")

# What waits behind another is set aside, so that a long line is not looked through at each claim.
# When the first of the line is settled, the next one is due again; and in any case after a while.
# Who sets aside locks the first of the line too. So it is settled either before, and then nothing
# is set aside, or after, and then the next one is called.
SET_ASIDE = f"""
UPDATE outbox SET due_at = $2 WHERE id IN (
  SELECT o.id FROM outbox o JOIN outbox e ON e.ordinal = (
    SELECT min(f.ordinal) FROM outbox f WHERE {_SAME_LINE.format("f.")} AND f.{_IN_LINE})
  WHERE o.id = ANY ($1) AND {_STILL_PENDING.format("o.")}
    AND e.ordinal < o.ordinal AND e.{_IN_LINE}
  FOR UPDATE SKIP LOCKED)
"""
CALL_NEXT = f"""
UPDATE outbox SET due_at = CASE WHEN due_at > $2 THEN $2 ELSE due_at END
WHERE ordinal = (
    SELECT min(ordinal) FROM outbox
    WHERE key = $1 AND channel = $3 AND account = $4 AND {_IN_LINE})
  AND status = 'pending' AND attempts = 0
"""

CLAIM_OUTBOUND = f"""
UPDATE outbox SET status = 'sending', claimant = $1, claimed_at = $2, updated_at = $2,
  attempts = attempts + 1
WHERE id IN (
  SELECT id FROM outbox WHERE id = ANY ($3) AND {_STILL_PENDING.format("")}
  ORDER BY due_at, ordinal LIMIT $4 FOR UPDATE SKIP LOCKED)
RETURNING ordinal, {OUTBOX_COLUMNS}
"""

_SETTLE = f"""
UPDATE outbox SET status = $2, receipt = coalesce($3, receipt), error = $4,
  due_at = coalesce($5, due_at), claimant = NULL, claimed_at = NULL, updated_at = $6
WHERE id = $1 RETURNING {OUTBOX_COLUMNS}
"""

DOUBT = f"""
UPDATE outbox SET status = 'uncertain', updated_at = $2, claimant = NULL, claimed_at = NULL
WHERE status = 'sending' AND claimant = $1 RETURNING ordinal, {OUTBOX_COLUMNS}
"""

COUNT_OUTBOUND = """
SELECT status, count(*) FROM outbox
WHERE status IN ('pending', 'sending', 'uncertain', 'failed', 'withheld')
GROUP BY status ORDER BY status
"""
COUNT_INBOUND = """
SELECT status, count(*) FROM inbox WHERE status IN ('queued', 'claimed')
GROUP BY status ORDER BY status
"""

_LIST_OUTBOUND = f"""
SELECT {OUTBOX_COLUMNS} FROM outbox WHERE {{which}} ORDER BY ordinal DESC LIMIT $1
"""

_PENDING_PLACES = "SELECT DISTINCT channel, account FROM outbox WHERE status = 'pending'"
_PENDING_AT = f"""
SELECT ordinal, {OUTBOX_COLUMNS} FROM outbox
WHERE status = 'pending' AND channel = $1 AND account = $2 ORDER BY due_at, ordinal LIMIT $3
"""

_OUTBOUND = f"SELECT {OUTBOX_COLUMNS} FROM outbox WHERE id = $1"


class SharedInbox:
    """`ports.Inbox`."""

    _engine: Engine

    async def accept(self, new: NewInbound, *, claimant: str | None = None) -> tuple[Inbound, bool]:
        """See `ports.Inbox`."""

        async def work(tx: Transaction) -> tuple[Inbound, bool]:
            now = await tx.now()
            bindings = (
                text(new.id), text(new.channel), text(new.account), optional(new.external_id),
                text(new.key), optional(new.session_id), text(new.person), to_json(new.payload),
                whole(new.position), now, optional(claimant),
            )  # fmt: skip
            row = await tx.one(_ACCEPT, bindings)
            if row is None:
                return inbound_from(await tx.one(_KNOWN, bindings[1:4]) or ()), False
            if new.position is not None:
                overtaken = await tx.one(_OVERTAKEN, (text(new.id), now))
                if overtaken is not None:
                    return inbound_from(overtaken), False
            if new.takes:
                await tx.run(_TAKE_LINES, (list(map(text, new.takes)), text(new.key)))
            return inbound_from(row), True

        # Not repeatable: without an `external_id`, a repetition would add a second message.
        return await self._engine.write(work)

    async def claim_inbound(
        self, claimant: str, *, session_id: str | None = None, limit: int = 20
    ) -> tuple[Inbound, ...]:
        """See `ports.Inbox`."""
        check_limit(limit)

        async def work(tx: Transaction) -> tuple[Inbound, ...]:
            only = () if session_id is None else (text(session_id),)
            sql = CLAIM_SOME_INBOUND if only else CLAIM_ANY_INBOUND
            rows = await tx.fetch(sql, (text(claimant), await tx.now(), limit, *only))
            return tuple(inbound_from(row[1:]) for row in _in_order(rows))

        return await self._engine.write(work)

    async def release_inbound(self, claimant: str) -> int:
        """See `ports.Inbox`."""
        return await self._engine.write(lambda tx: tx.run(RELEASE, (text(claimant),)))

    async def find_inbound(self, channel: str, account: str, external_id: str) -> Inbound | None:
        """See `ports.Inbox`."""
        bindings = (text(channel), text(account), text(external_id))
        row = await self._engine.read(lambda tx: tx.one(_KNOWN, bindings))
        return None if row is None else inbound_from(row)

    async def revise_inbound(self, inbound_id: str, payload: dict[str, object]) -> Inbound | None:
        """See `ports.Inbox`."""
        bindings = (text(inbound_id), to_json(payload))
        row = await self._engine.write(lambda tx: tx.one(_REVISE, bindings), repeatable=True)
        return None if row is None else inbound_from(row)

    async def drop_inbound(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Inbox`."""
        stored = {text(each): each for each in ids}

        async def work(tx: Transaction) -> list[Row]:
            return await tx.fetch(_DROP, (list(stored), await tx.now()))

        rows = await self._engine.write(work)
        dropped = {each for (each,) in rows}
        return tuple(given for each, given in stored.items() if each in dropped)

    async def count_inbound(self) -> dict[InboundStatus, int]:
        """See `ports.Inbox`."""
        return dict(await self._engine.read(lambda tx: tx.fetch(COUNT_INBOUND)))

    async def list_inbound(
        self, session_id: str | None = None, *, key: str | None = None, limit: int = 100
    ) -> tuple[Inbound, ...]:
        """See `ports.Inbox`."""
        sql, bindings = list_inbound_query(session_id, key, check_limit(limit))
        rows = await self._engine.read(lambda tx: tx.fetch(sql, bindings))
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

    async def add_line(self, line: ContextLine) -> None:
        """See `ports.Inbox`."""

        async def work(tx: Transaction) -> None:
            bindings = (
                text(line.id), text(line.key), text(line.channel), text(line.content),
                text(line.account), optional(line.external_id), optional(line.session_id),
                line.kind, None if line.author is None else to_json(line.author), await tx.now(),
            )  # fmt: skip
            await tx.run(_ADD_LINE, bindings)
            await tx.run(_KEEP_NEWEST, (text(line.key), MOST_LINES))

        await self._engine.write(work, repeatable=True)

    async def list_lines(self, key: str) -> tuple[ContextLine, ...]:
        """See `ports.Inbox`."""

        async def work(tx: Transaction) -> list[Row]:
            return await tx.fetch(_LINES, (text(key), await tx.now() - KEEP_LINES_MS))

        return tuple(map(line_from, await self._engine.read(work)))


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
        self,
        claimant: str,
        *,
        places: Sequence[tuple[str, str]] | None = None,
        limit: int = 20,
    ) -> tuple[Outbound, ...]:
        """See `ports.Outbox`."""
        check_limit(limit)
        names: list[tuple[str, ...]] = (
            [()] if places is None else [tuple(map(text, each)) for each in dict.fromkeys(places)]
        )

        async def work(tx: Transaction) -> tuple[Outbound, ...]:
            now = await tx.now()
            due = [each for name in names for each in await _find_due(tx, name, now, limit)]
            bindings = (text(claimant), now, due, limit)
            rows = await tx.fetch(CLAIM_OUTBOUND, bindings) if due else []
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
            now = await tx.now()
            bindings = (
                text(outbound_id), status, None if receipt is None else to_json(receipt),
                optional(error), due_at, now,
            )  # fmt: skip
            row = await tx.one(_SETTLE, bindings)
            if row is not None and status not in ("pending", "sending"):
                await tx.run(CALL_NEXT, (row[2], now, row[3], row[17]))
            return _delivery(row, outbound_id)

        return await self._engine.write(work, repeatable=True)

    async def doubt_outbound(self, claimant: str) -> tuple[Outbound, ...]:
        """See `ports.Outbox`."""

        async def work(tx: Transaction) -> tuple[Outbound, ...]:
            now = await tx.now()
            rows = await tx.fetch(DOUBT, (text(claimant), now))
            for key, channel, account in dict.fromkeys((r[3], r[4], r[18]) for r in rows):
                await tx.run(CALL_NEXT, (key, now, channel, account))
            return tuple(outbound_from(row[1:]) for row in _in_order(rows))

        return await self._engine.write(work)

    async def list_outbound(
        self, *, session_id: str | None = None, status: OutboundStatus | None = None,
        limit: int = 100,
    ) -> tuple[Outbound, ...]:  # fmt: skip
        """See `ports.Outbox`."""
        sql, bindings = list_outbound_query(session_id, status, check_limit(limit))
        rows = await self._engine.read(lambda tx: tx.fetch(sql, bindings))
        return tuple(map(outbound_from, rows))

    async def count_outbound(self) -> dict[OutboundStatus, int]:
        """See `ports.Outbox`."""
        return dict(await self._engine.read(lambda tx: tx.fetch(COUNT_OUTBOUND)))

    async def list_stranded(
        self, places: Sequence[tuple[str, str]], *, limit: int = 100
    ) -> tuple[Outbound, ...]:
        """See `ports.Outbox`."""
        known = {(text(channel), text(account)) for channel, account in places}

        async def work(tx: Transaction) -> list[Row]:
            found = await tx.fetch(_PENDING_PLACES, ())
            rows: list[Row] = []
            for channel, account in found:
                if (channel, account) not in known:
                    rows += await tx.fetch(_PENDING_AT, (channel, account, check_limit(limit)))
            return rows

        rows = _in_order(await self._engine.read(work))
        return tuple(outbound_from(row[1:]) for row in rows[:limit])

    async def get_outbound(self, outbound_id: str) -> Outbound:
        """See `ports.Outbox`."""
        row = await self._engine.read(lambda tx: tx.one(_OUTBOUND, (text(outbound_id),)))
        return _delivery(row, outbound_id)


def list_inbound_query(session_id: str | None, key: str | None, limit: int) -> tuple[str, Row]:
    """The statement of `list_inbound`, and its bindings."""
    asked = {"session_id": optional(session_id), "key": optional(key)}
    given = {column: value for column, value in asked.items() if value is not None}
    # The state stands beside each column, so that SQLite takes the index of each.
    each = [f"{_OPEN_INBOUND} AND {column} = ${n}" for n, column in enumerate(given, 2)]
    which = " OR ".join(each) or _OPEN_INBOUND
    return _LIST_INBOUND.format(which=which), (limit, *given.values())


def list_outbound_query(
    session_id: str | None, status: OutboundStatus | None, limit: int
) -> tuple[str, Row]:
    """The statement of `list_outbound`, and its bindings."""
    asked = {"session_id": optional(session_id), "status": status}
    given = {column: value for column, value in asked.items() if value is not None}
    which = " AND ".join(f"{column} = ${n}" for n, column in enumerate(given, 2)) or "TRUE"
    return _LIST_OUTBOUND.format(which=which), (limit, *given.values())


async def _find_due(tx: Transaction, only: tuple[str, ...], now: int, limit: int) -> list[str]:
    """What may be sent now: by one account of a channel, or by any. Sets aside what may not.

    More than the limit, so that two claimants at once both find something.
    """
    sql = DUE_AT_PLACE if only else _DUE_ANYWHERE
    most = limit + _STEP
    free: list[str] = []
    for _ in range(_ROUNDS):
        rows = await tx.fetch(sql, (now, most, *only))
        behind = [each for each, waits in rows if waits]
        free = [each for each, waits in rows if not waits]
        if behind:
            await tx.run(SET_ASIDE, (behind, now + ASIDE_MS))
        if not behind or len(free) >= limit or len(rows) < most:
            break
    return free


async def forget_inbound(tx: Transaction) -> bool:
    """Remove some of the messages that were settled long ago; whether there may be more.

    What a channel delivers again from before those is not answered: see `_OVERTAKEN`.
    """
    rows = await tx.fetch(FIND_SETTLED, (await tx.now() - KEEP_INBOUND_MS, _STEP))
    last: dict[tuple[str, str], int] = {}
    for _, channel, account, position in rows:
        if position is not None:
            last[channel, account] = max(position, last.get((channel, account), position))
    for (channel, account), position in sorted(last.items()):
        await tx.run(_MOVE_CURSOR, (channel, account, position))
    if rows:
        await tx.run(_FORGET_INBOUND, ([row[0] for row in rows],))
    return len(rows) == _STEP


async def forget_outbound(tx: Transaction) -> None:
    """Remove the replies that are over for long and belong to no session, and old lines."""
    now = await tx.now()
    await tx.run(_FORGET_OUTBOUND, (now - KEEP_OUTBOUND_MS,))
    await tx.run(_FORGET_LINES, (now - KEEP_LINES_MS,))


def outbound_bindings(new: NewOutbound, session_id: str | None, now: int) -> Row:
    """The values of `ADD_OUTBOUND`."""
    return (
        text(new.id), session_id, text(new.key), text(new.channel), to_json(new.address),
        text(new.content), optional(new.turn_id), whole(new.seq),
        "withheld" if new.withheld else "pending", now, text(new.account),
        to_json(new.parts) if new.parts else None,
    )  # fmt: skip


def _delivery(row: Row | None, outbound_id: str) -> Outbound:
    if row is None:
        raise RecordNotFound("delivery", outbound_id)
    return outbound_from(row)


def _in_order(rows: list[Row]) -> list[Row]:
    """Sort rows by their first column, the ordinal: an UPDATE returns them in any order."""
    return sorted(rows, key=lambda row: int(row[0]))
