"""Reading a thread: a session's own messages and, before its knot, those of its parents."""

from __future__ import annotations

from typing import Any

import msgspec

from clew.errors import SessionNotFound
from clew.store.postgres.connection import Connection, fetch
from clew.store.rows import MESSAGE_COLUMNS, Row, text

# From the session to its oldest ancestor: the seqs above `low`, up to `high`, are in the thread.
LINE = """
WITH RECURSIVE line AS (
  SELECT id, parent_id, coalesce(forked_at_seq, 0) AS low, head AS high, 0 AS depth
  FROM sessions WHERE id = $1 AND purged_at IS NULL
  UNION ALL
  SELECT p.id, p.parent_id, least(coalesce(p.forked_at_seq, 0), line.low), line.low, depth + 1
  FROM line JOIN sessions p ON p.id = line.parent_id
)
SELECT id, low, high, EXISTS (SELECT 1 FROM undone WHERE session_id = $1) FROM line
WHERE low < high OR depth = 0 ORDER BY depth
"""

# The session's own messages, each with the mark of a fork; one row of NULLs if there are none.
OWN = f"""
SELECT m.*, s.parent_id IS NOT NULL FROM sessions s LEFT JOIN LATERAL (
  SELECT {MESSAGE_COLUMNS} FROM messages
  WHERE session_id = s.id AND seq > greatest(coalesce(s.forked_at_seq, 0), $2::bigint)
    AND seq <= least(s.head, $3::bigint - 1)
    AND ($6::boolean OR turn_id IS NULL
         OR turn_id NOT IN (SELECT turn_id FROM undone WHERE session_id = $1))
  ORDER BY seq DESC LIMIT $4 OFFSET $5) AS m ON true
WHERE s.id = $1 AND s.purged_at IS NULL
ORDER BY m.seq DESC
"""

MESSAGES = f"""
SELECT {MESSAGE_COLUMNS} FROM messages
WHERE session_id = $1 AND seq > $2 AND seq <= $3 {{hide}}
ORDER BY seq DESC LIMIT $4
"""

_UNDONE = """
AND (turn_id IS NULL OR turn_id NOT IN (SELECT turn_id FROM undone WHERE session_id = $5))
"""

_HIDDEN = """
SELECT count(*) FROM messages WHERE session_id = $1 AND seq > $2 AND seq <= $3
AND turn_id IN (SELECT turn_id FROM undone WHERE session_id = $4)
"""


class Stretch(msgspec.Struct, frozen=True):
    """The messages of one session that belong to a thread: seqs above `low`, up to `high`."""

    session_id: str
    low: int
    high: int


async def stretches(connection: Connection, session_id: str) -> tuple[list[Stretch], bool]:
    """What a thread is made of, newest first, and whether it passes over undone turns."""
    rows = await fetch(connection, LINE, (text(session_id),))
    if not rows:
        raise SessionNotFound(session_id)
    return [Stretch(*row[:3]) for row in rows], rows[0][3]


async def read_own(
    connection: Connection,
    session_id: str,
    *,
    limit: int | None,
    offset: int,
    before: int | None,
    after: int | None,
    undone: bool,
) -> list[Row] | None:
    """The newest rows of a thread, newest first, in one statement and so of one moment.

    None if those of the session itself are too few and it is a fork: see `read_thread`.
    """
    bindings = (text(session_id), after, before, limit, offset, undone)
    rows = await connection.fetch(OWN, bindings, binary=True)
    if not rows:
        raise SessionNotFound(session_id)
    if rows[0][-1] and (limit is None or len(rows) < limit or rows[0][0] is None):
        return None
    return [] if rows[0][0] is None else [row[:-1] for row in rows]


async def read_thread(
    connection: Connection,
    session_id: str,
    *,
    limit: int | None,
    offset: int,
    before: int | None,
    after: int | None,
    undone: bool,
) -> list[Row]:
    """The same with what a fork has inherited, in several statements: for a snapshot."""
    parts, has_undone = await stretches(connection, session_id)
    hide = has_undone and not undone
    sql = MESSAGES.format(hide=_UNDONE if hide else "")
    wanted = None if limit is None else limit + offset
    rows: list[Row] = []
    for part in parts:
        low = part.low if after is None else max(part.low, after)
        high = part.high if before is None else min(part.high, before - 1)
        if low >= high or len(rows) == wanted:
            continue
        left = None if wanted is None else wanted - len(rows)
        bindings: list[Any] = [part.session_id, low, high, left]
        if hide:
            bindings.append(session_id)
        rows += await connection.fetch(sql, tuple(bindings), binary=True)
    return rows[offset:]


async def hidden_messages(connection: Connection, session_id: str, up_to: int) -> int:
    """How many messages up to a seq belong to turns that this session passes over."""
    parts, has_undone = await stretches(connection, session_id)
    if not has_undone:
        return 0
    total = 0
    for part in parts:
        bindings = (part.session_id, part.low, min(part.high, up_to), session_id)
        ((count,),) = await fetch(connection, _HIDDEN, bindings)
        total += int(count)
    return total
