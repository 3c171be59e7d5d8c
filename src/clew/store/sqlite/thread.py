"""Reading a thread: a session's own messages and, before its knot, those of its parents."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from clew.errors import SessionNotFound
from clew.store.rows import MESSAGE_COLUMNS, text
from clew.store.sqlite.connection import Row, fetch, fetch_one

SESSION = """
SELECT parent_id, coalesce(forked_at_seq, 0), head,
       EXISTS (SELECT 1 FROM undone WHERE session_id = sessions.id)
FROM sessions WHERE id = ? AND purged_at IS NULL
"""

MESSAGES = f"""
SELECT {MESSAGE_COLUMNS} FROM messages
WHERE session_id = ? AND seq > ? AND seq <= ? {{hide}}
ORDER BY seq DESC LIMIT ? OFFSET ?
"""

_UNDONE = """
AND (turn_id IS NULL OR turn_id NOT IN (SELECT turn_id FROM undone WHERE session_id = ?))
"""


class Stretch(msgspec.Struct, frozen=True):
    """The messages of one session that belong to a thread: seqs above `low`, up to `high`."""

    session_id: str
    low: int
    high: int


def stretches(connection: apsw.Connection, session_id: str) -> tuple[list[Stretch], bool]:
    """What a thread is made of, newest first, and whether it passes over undone turns."""
    row = fetch_one(connection, SESSION, (text(session_id),))
    if row is None:
        raise SessionNotFound(session_id)
    parent, low, high, has_undone = row
    found = [Stretch(session_id, low, high)]
    while parent is not None:
        older, high = parent, low
        ((parent, knot),) = fetch(
            connection,
            "SELECT parent_id, coalesce(forked_at_seq, 0) FROM sessions WHERE id = ?",
            (older,),
        )
        low = min(knot, high)
        if low < high:
            found.append(Stretch(older, low, high))
    return found, bool(has_undone)


def read_thread(
    connection: apsw.Connection,
    session_id: str,
    *,
    limit: int | None,
    offset: int,
    before: int | None,
    after: int | None,
    undone: bool,
) -> list[Row]:
    """The newest rows of a thread, newest first."""
    parts, has_undone = stretches(connection, session_id)
    hide = has_undone and not undone
    sql = MESSAGES.format(hide=_UNDONE if hide else "")
    alone = len(parts) == 1
    wanted = -1 if limit is None else limit + (0 if alone else offset)
    rows: list[Row] = []
    for part in parts:
        low = part.low if after is None else max(part.low, after)
        high = part.high if before is None else min(part.high, before - 1)
        if low >= high or len(rows) == wanted:
            continue
        bindings: list[Any] = [part.session_id, low, high]
        if hide:
            bindings.append(session_id)
        left = -1 if wanted < 0 else wanted - len(rows)
        rows += fetch(connection, sql, (*bindings, left, offset if alone else 0))
    return rows if alone else rows[offset:]


def hidden_messages(connection: apsw.Connection, session_id: str, up_to: int) -> int:
    """How many messages up to a seq belong to turns that this session passes over."""
    parts, has_undone = stretches(connection, session_id)
    if not has_undone:
        return 0
    total = 0
    for part in parts:
        count = connection.execute(
            """SELECT count(*) FROM messages WHERE session_id = ? AND seq > ? AND seq <= ?
               AND turn_id IN (SELECT turn_id FROM undone WHERE session_id = ?)""",
            (part.session_id, part.low, min(part.high, up_to), session_id),
        ).get
        total += int(count)
    return total
