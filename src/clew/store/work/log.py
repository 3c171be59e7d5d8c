"""Turns, their usage and their approvals, and appending one message.

Recording changes and reading messages are the hot paths: the engines have their own.
"""

from __future__ import annotations

from clew.core.changes import AddMessage
from clew.core.message import Draft, Message, number
from clew.core.text import to_json
from clew.core.turn import Approval, ApprovalScope, Decision, Turn
from clew.core.usage import Usage, UsageBy, UsageRanking, UsageRow
from clew.errors import Conflict, RecordNotFound
from clew.ports import Log
from clew.store.rows import (
    APPROVAL_COLUMNS,
    REASON,
    TURN_COLUMNS,
    Row,
    approval_from,
    check_limit,
    optional,
    plain,
    text,
    turn_from,
)
from clew.store.work.checksums import list_damaged
from clew.store.work.leases import find_living_lease, lock_lease
from clew.store.work.transaction import Engine, Transaction

_TURN = f"SELECT {TURN_COLUMNS} FROM turns WHERE id = $1"

_LIST_TURNS = f"""
SELECT {TURN_COLUMNS} FROM turns WHERE session_id = $1 {{only}} ORDER BY ordinal DESC LIMIT $2
"""

# One unknown price makes the whole cost unknown.
SPENT = """
SELECT CAST(coalesce(sum(input_tokens), 0) AS bigint),
  CAST(coalesce(sum(output_tokens), 0) AS bigint),
  CAST(coalesce(sum(cache_read_tokens), 0) AS bigint),
  CAST(coalesce(sum(cache_creation_tokens), 0) AS bigint),
  CASE WHEN count(*) = count(cost) THEN CAST(coalesce(sum(cost), 0) AS bigint) END,
  CAST(coalesce(sum(api_calls), 0) AS bigint)
FROM turns WHERE started_at >= $1
"""

_USAGE_NAMES: dict[UsageBy, str] = {
    "day": "CAST(t.started_at / 900000 * 900000 AS text)",
    "model": "coalesce(t.model, '')",
    "session": "t.session_id || ''",
    "platform": "(SELECT s.platform FROM sessions s WHERE s.id = t.session_id)",
}
# Metadata is JSON in a text: a nested `estimated` counts too, which shows a ~ too many. The text is
# searched once for each session, not for each turn. The added 0 and the empty text keep SQLite from
# fetching row after row by an index: half of all turns are read in order sooner than one by one.
_ESTIMATED = "SELECT id FROM sessions WHERE metadata LIKE '%\"estimated\":true%'"
_SPENT_BY = f"""
SELECT {{name}} AS name, CAST(sum(t.input_tokens) AS bigint) AS input_tokens,
  CAST(sum(t.output_tokens) AS bigint) AS output_tokens,
  CAST(sum(t.cache_read_tokens) AS bigint) AS cache_read,
  CAST(sum(t.cache_creation_tokens) AS bigint) AS cache_creation,
  CASE WHEN count(*) = count(t.cost) THEN CAST(sum(t.cost) AS bigint) END AS cost,
  CAST(sum(t.api_calls) AS bigint) AS api_calls, count(*) AS turns,
  count(CASE WHEN t.session_id IN ({_ESTIMATED}) THEN 1 END) AS estimated
FROM turns t WHERE t.started_at {{added}} >= $1 GROUP BY 1
"""
_TOTALS = ", ".join(
    f"CAST(sum({each}) OVER () AS bigint)"
    for each in ("input_tokens", "output_tokens", "cache_read", "cache_creation")
)
_RANK = f"""
SELECT spent.*, count(*) OVER (), {_TOTALS},
  CASE WHEN count(*) OVER () = count(cost) OVER () THEN CAST(sum(cost) OVER () AS bigint) END,
  CAST(sum(api_calls) OVER () AS bigint), CAST(sum(turns) OVER () AS bigint),
  CAST(sum(estimated) OVER () AS bigint)
FROM ({_SPENT_BY.format(name=_USAGE_NAMES["session"], added="{added}")}) AS spent
ORDER BY cost IS NULL, coalesce(cost, 0) DESC, input_tokens + output_tokens DESC, name LIMIT $2
"""

_INTERRUPT = """
UPDATE turns SET status = 'interrupted', ended_at = $2
WHERE session_id = $1 AND status IN ('running', 'waiting') RETURNING id
"""

_REFUSE_APPROVALS = """
UPDATE approvals SET decision = 'no', decided_by = 'interrupted', decided_at = $2
WHERE session_id = $1 AND decision IS NULL
"""

_TURNS = f"SELECT {TURN_COLUMNS} FROM turns WHERE id = ANY ($1) ORDER BY ordinal"

_EXPIRE_APPROVAL = """
UPDATE approvals SET decision = 'no', decided_by = 'expired', decided_at = expires_at
WHERE id = $1 AND decision IS NULL AND expires_at <= $2
"""

_DECIDE_APPROVAL = """
UPDATE approvals SET decision = $1, scope = $2, decided_by = $3, decided_at = $4
WHERE id = $5 AND decision IS NULL
"""

# There is no column for it. It is part of the request, which is JSON; see `approval_from`.
_ADD_REASON = "UPDATE approvals SET request = $1 WHERE id = $2 AND decision IS NULL"

_APPROVAL = f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE id = $1"

_LIST_APPROVALS = f"""
SELECT {APPROVAL_COLUMNS} FROM approvals
WHERE decision IS NULL AND (CAST($1 AS text) IS NULL OR session_id = $1)
ORDER BY asked_at, ordinal
"""


class SharedLog:
    """The part of `ports.Log` that is not a hot path."""

    _engine: Engine

    async def append(
        self: Log,
        session_id: str,
        epoch: int,
        draft: Draft,
        *,
        turn_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Message:
        """See `ports.Log`."""
        recorded = await self.record(
            session_id, epoch, AddMessage(draft, turn_id), idempotency_key=idempotency_key
        )
        if len(recorded.seqs) != 1:
            raise Conflict(f'The key "{idempotency_key}" was used for another record.')
        (seq,) = recorded.seqs
        if recorded.repeated:
            (first,) = await self.get_messages(
                session_id, after=seq - 1, before=seq + 1, undone=True
            )
            return first
        return number(
            draft,
            row_id=recorded.ids[0],
            session_id=session_id,
            seq=seq,
            turn_id=turn_id,
            at=recorded.at,
        )

    async def list_damaged(self, session_id: str) -> tuple[int, ...]:
        """See `ports.Log`."""
        dialect = self._engine.dialect
        return await self._engine.snapshot(lambda tx: list_damaged(tx, dialect, session_id))

    async def get_turn(self, turn_id: str) -> Turn:
        """See `ports.Log`."""
        row = await self._engine.read(lambda tx: tx.one(_TURN, (text(turn_id),)))
        if row is None:
            raise RecordNotFound("turn", turn_id)
        return turn_from(row)

    async def list_turns(
        self, session_id: str, *, limit: int = 20, unfinished: bool = False
    ) -> tuple[Turn, ...]:
        """See `ports.Log`."""
        only = "AND status IN ('running', 'waiting')" if unfinished else ""
        bindings = (text(session_id), check_limit(limit))
        rows = await self._engine.read(lambda tx: tx.fetch(_LIST_TURNS.format(only=only), bindings))
        return tuple(map(turn_from, reversed(rows)))

    async def get_usage(self, *, since: int) -> Usage:
        """See `ports.Log`."""
        return Usage(*await self._engine.read(lambda tx: tx.one(SPENT, (since,))) or ())

    async def list_usage(self, by: UsageBy, *, since: int) -> tuple[UsageRow, ...]:
        """See `ports.Log`."""
        sql = _SPENT_BY.format(name=_USAGE_NAMES[by], added=_added(since))

        async def work(tx: Transaction) -> tuple[UsageRow, ...]:
            rows = await tx.fetch(sql, (since,))
            rows.sort(key=lambda row: str(row[0]))
            return tuple(map(_usage_row, rows))

        return await self._engine.read(work)

    async def rank_usage(self, *, since: int, limit: int) -> UsageRanking:
        """See `ports.Log`."""
        sql, bindings = _RANK.format(added=_added(since)), (since, check_limit(limit))
        rows = await self._engine.read(lambda tx: tx.fetch(sql, bindings))
        if not rows:
            return UsageRanking((), 0, UsageRow("total", Usage(), 0))
        count, *total = rows[0][_COLUMNS:]
        ranked = tuple(_usage_row(row[:_COLUMNS]) for row in rows)
        return UsageRanking(ranked, count, _usage_row(("total", *total)))

    async def interrupt_turns(self, session_id: str) -> tuple[Turn, ...]:
        """See `ports.Log`."""
        engine = self._engine
        if await find_living_lease(engine, session_id) is not None:
            return ()

        async def work(tx: Transaction) -> tuple[Turn, ...]:
            now = await tx.now()
            if await lock_lease(engine, tx, session_id, now) is not None:
                return ()  # another process was first
            ids = await tx.fetch(_INTERRUPT, (text(session_id), now))
            await tx.run(_REFUSE_APPROVALS, (text(session_id), now))
            return tuple(map(turn_from, await tx.fetch(_TURNS, ([each for (each,) in ids],))))

        return await engine.write(work, about=session_id)

    async def decide_approval(
        self,
        approval_id: str,
        decision: Decision,
        *,
        by: str,
        scope: ApprovalScope = "once",
        reason: str | None = None,
    ) -> Approval:
        """See `ports.Log`."""

        async def work(tx: Transaction) -> Approval:
            now = await tx.now()
            await tx.run(_EXPIRE_APPROVAL, (text(approval_id), now))
            if reason and (row := await tx.one(_APPROVAL, (text(approval_id),))) is not None:
                request = {**approval_from(row).request, REASON: reason}
                await tx.run(_ADD_REASON, (to_json(request), text(approval_id)))
            await tx.run(_DECIDE_APPROVAL, (decision, scope, text(by), now, text(approval_id)))
            row = await tx.one(_APPROVAL, (text(approval_id),))
            if row is None:
                raise RecordNotFound("approval", approval_id)
            return approval_from(row)

        return await self._engine.write(work)

    async def list_approvals(self, session_id: str | None = None) -> tuple[Approval, ...]:
        """See `ports.Log`."""

        async def work(tx: Transaction) -> tuple[Approval, ...]:
            rows = await tx.fetch(_LIST_APPROVALS, (optional(session_id),))
            # Reading the time may need a round trip, and usually nothing waits.
            now = await tx.now() if rows else 0
            return tuple(each for each in map(approval_from, rows) if each.expires_at > now)

        return await self._engine.read(work)


_COLUMNS = 9


def _usage_row(row: Row) -> UsageRow:
    name, *spent, turns, estimated = row
    return UsageRow(plain(name) or "", Usage(*spent), turns, estimated > 0)


def _added(since: int) -> str:
    """See `_SPENT_BY`. Of all turns, the index would be the long way round."""
    return "" if since else "+ 0"
