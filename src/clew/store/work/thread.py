"""What a thread is made of: a session's own messages and, before its knot, those of its parents."""

from __future__ import annotations

import msgspec

from clew.errors import SessionNotFound
from clew.store.rows import MESSAGE_COLUMNS, Row, text
from clew.store.work.transaction import Transaction

NO_LIMIT = 2**63 - 1

# From the session to its oldest ancestor: the seqs above `low`, up to `high`, are in the thread.
_LINE = """
WITH RECURSIVE line (id, parent_id, low, high, depth) AS (
  SELECT id, parent_id, coalesce(forked_at_seq, 0), head, 0
  FROM sessions WHERE id = $1 AND purged_at IS NULL
  UNION ALL
  SELECT p.id, p.parent_id,
    CASE WHEN coalesce(p.forked_at_seq, 0) < line.low THEN coalesce(p.forked_at_seq, 0)
      ELSE line.low END,
    line.low, depth + 1
  FROM line JOIN sessions p ON p.id = line.parent_id
)
SELECT id, low, high, EXISTS (SELECT 1 FROM undone WHERE session_id = $1) FROM line
WHERE low < high OR depth = 0 ORDER BY depth
"""

_MESSAGES = f"""
SELECT {MESSAGE_COLUMNS} FROM messages
WHERE session_id = $1 AND seq > $2 AND seq <= $3 {{hide}}
ORDER BY seq DESC LIMIT $4
"""

_NOT_UNDONE = """
AND (turn_id IS NULL OR turn_id NOT IN (SELECT turn_id FROM undone WHERE session_id = $5))
"""

_HIDDEN = """
SELECT count(*) FROM messages WHERE session_id = $1 AND seq > $2 AND seq <= $3
AND turn_id IN (SELECT turn_id FROM undone WHERE session_id = $4)
"""


class Segment(msgspec.Struct, frozen=True):
    """The messages of one session that belong to a thread: seqs above `low`, up to `high`."""

    session_id: str
    low: int
    high: int


class Window(msgspec.Struct, frozen=True):
    """Which messages of a thread are wanted, as `ports.Log.get_messages` describes it."""

    limit: int | None
    offset: int
    before: int | None
    after: int | None
    undone: bool


async def list_segments(tx: Transaction, session_id: str) -> tuple[list[Segment], bool]:
    """What a thread is made of, newest first, and whether it passes over undone turns."""
    rows = await tx.fetch(_LINE, (text(session_id),))
    if not rows:
        raise SessionNotFound(session_id)
    return [Segment(*row[:3]) for row in rows], bool(rows[0][3])


async def read_thread(tx: Transaction, session_id: str, window: Window) -> list[Row]:
    """The newest rows of a thread with what a fork has inherited, newest first.

    Several statements, so it needs a snapshot. The engines have a quicker way for a session that is
    not a fork.
    """
    parts, has_undone = await list_segments(tx, session_id)
    hide = has_undone and not window.undone
    sql = _MESSAGES.format(hide=_NOT_UNDONE if hide else "")
    wanted = NO_LIMIT if window.limit is None else window.limit + window.offset
    rows: list[Row] = []
    for part in parts:
        low = part.low if window.after is None else max(part.low, window.after)
        high = part.high if window.before is None else min(part.high, window.before - 1)
        if low < high and len(rows) < wanted:
            bindings = (part.session_id, low, high, wanted - len(rows))
            rows += await tx.fetch(sql, (*bindings, session_id) if hide else bindings)
    return rows[window.offset :]


async def count_hidden(tx: Transaction, session_id: str, up_to: int) -> int:
    """How many messages up to a seq belong to turns that are undone in this session."""
    parts, has_undone = await list_segments(tx, session_id)
    if not has_undone:
        return 0
    total = 0
    for part in parts:
        bindings = (part.session_id, part.low, min(part.high, up_to), session_id)
        ((count,),) = await tx.fetch(_HIDDEN, bindings)
        total += int(count)
    return total
