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
    LAST_CHARACTER,
    MESSAGE_COLUMNS,
    REASON,
    TURN_COLUMNS,
    approval_from,
    check_limit,
    message_from,
    optional,
    text,
    turn_from,
)
from clew.store.work import usage
from clew.store.work.checksums import list_damaged
from clew.store.work.leases import find_living_lease, lock_lease
from clew.store.work.thread import read_line
from clew.store.work.transaction import Engine, Transaction

_EXTERNAL = f"""
SELECT {MESSAGE_COLUMNS} FROM messages
WHERE session_id = $1 AND external_id = $2 AND seq > $3 AND seq <= $4
"""

EXTERNALS = f"""
SELECT {MESSAGE_COLUMNS} FROM messages
WHERE session_id = $1 AND external_id >= $2 AND external_id < $3 AND seq > $4 AND seq <= $5
  AND NOT {{hidden}}
ORDER BY external_id DESC LIMIT $6
"""

_TURN = f"SELECT {TURN_COLUMNS} FROM turns WHERE id = $1"

_LIST_TURNS = f"""
SELECT {TURN_COLUMNS} FROM turns WHERE session_id = $1 {{only}} ORDER BY ordinal DESC LIMIT $2
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
        epoch: int | None,
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

    async def find_message(self, session_id: str, external_id: str) -> Message | None:
        """See `ports.Log`."""
        wanted = text(external_id)

        async def work(tx: Transaction) -> Message | None:
            for part in (await read_line(tx, session_id)).segments:
                row = await tx.one(_EXTERNAL, (part.session_id, wanted, part.low, part.high))
                if row is not None:
                    return message_from(row)
            return None

        return await self._engine.snapshot(work)

    async def list_external(
        self, session_id: str, prefix: str, *, before: str | None = None, limit: int = 100
    ) -> tuple[Message, ...]:
        """See `ports.Log`."""
        low, most = text(prefix), check_limit(limit)
        high = low + LAST_CHARACTER if before is None else min(text(before), low + LAST_CHARACTER)

        async def work(tx: Transaction) -> tuple[Message, ...]:
            found: dict[str | None, Message] = {}
            line = await read_line(tx, session_id)
            hidden, marks = line.hidden("messages.turn_id", 7)
            sql = EXTERNALS.format(hidden=hidden)
            for part in line.segments:
                bindings = (part.session_id, low, high, part.low, part.high, most, *marks)
                for row in await tx.fetch(sql, bindings):
                    message = message_from(row)
                    found.setdefault(message.external_id, message)
            # As both databases compare: by code points.
            return tuple(sorted(found.values(), key=_external_id, reverse=True)[:most])

        return await self._engine.snapshot(work)

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
        return await self._engine.read(lambda tx: usage.sum_usage(tx, since))

    async def list_usage(self, by: UsageBy, *, since: int) -> tuple[UsageRow, ...]:
        """See `ports.Log`."""
        return await self._engine.read(lambda tx: usage.list_usage(tx, by, since))

    async def rank_usage(self, *, since: int, limit: int) -> UsageRanking:
        """See `ports.Log`."""
        most = check_limit(limit)
        return await self._engine.snapshot(lambda tx: usage.rank_usage(tx, since, most))

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


def _external_id(message: Message) -> str:
    return text(message.external_id or "")
