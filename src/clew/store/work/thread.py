"""What a thread is made of: a session's own messages and, before its knot, those of its parents.

It passes over the turns that the session has undone, and over those that a parent had undone when
the fork was made, unless the fork has brought them back. No mark is ever copied: each session
counts the steps of its undoing and redoing, a mark holds from one step to another, and a fork
remembers at which step of its parent it was made.
"""

from __future__ import annotations

import msgspec

from clew.errors import SessionNotFound
from clew.store.rows import MESSAGE_COLUMNS, Row, text
from clew.store.work.transaction import Transaction

NO_LIMIT = 2**63 - 1

NOT_ERASED = "role <> 'erased'"
"""An erased message is a row without text; its turn is undone."""

# From the session to its oldest ancestor: the seqs above `low`, up to `high`, are in the thread,
# and the marks that had begun at `step` count.
_LINE = f"""
WITH RECURSIVE line (id, parent_id, low, high, depth, marked, step, forked_at_step) AS (
  SELECT id, parent_id, coalesce(forked_at_seq, 0), head, 0, undo_steps > 0,
    CAST({NO_LIMIT} AS bigint), forked_at_step
  FROM sessions WHERE id = $1 AND purged_at IS NULL
  UNION ALL
  SELECT p.id, p.parent_id,
    CASE WHEN coalesce(p.forked_at_seq, 0) < line.low THEN coalesce(p.forked_at_seq, 0)
      ELSE line.low END,
    line.low, depth + 1, p.undo_steps > 0 AND coalesce(line.forked_at_step, 0) > 0,
    coalesce(line.forked_at_step, 0), p.forked_at_step
  FROM line JOIN sessions p ON p.id = line.parent_id
)
SELECT id, low, high, depth, marked, step FROM line
WHERE low < high OR depth = 0 OR marked ORDER BY depth
"""

_MESSAGES = f"""
SELECT {MESSAGE_COLUMNS} FROM messages
WHERE session_id = $1 AND seq > $2 AND seq <= $3 {{hide}}
ORDER BY seq DESC LIMIT $4
"""

NOT_A_NOTE = "role <> 'note'"
"""Notes are read by those who ask for them."""

_COUNT_HIDDEN = """
SELECT count(*) FROM messages
WHERE session_id = $1 AND seq > $2 AND seq <= $3 AND (role = 'note' OR {hidden})
"""

# What one session of the line says of a turn: 1, it is undone; 0, it is not; NULL, nothing.
_MARK = """(SELECT CASE WHEN u.ended IS NULL OR u.ended > ${step} THEN 1 ELSE 0 END FROM undone u
  WHERE u.session_id = ${session} AND u.turn_id = {turn} AND u.begun <= ${step}
  ORDER BY u.begun DESC LIMIT 1)"""

_ARGUMENTS = 50
"""Most arguments of one coalesce: SQLite takes 127."""


class Segment(msgspec.Struct, frozen=True):
    """The messages of one session that belong to a thread: seqs above `low`, up to `high`."""

    session_id: str
    low: int
    high: int


class Marks(msgspec.Struct, frozen=True):
    """The marks of one session that a thread heeds: those that had begun at `step`."""

    session_id: str
    step: int


class Line(msgspec.Struct, frozen=True):
    """What a thread is made of, newest first, and whose marks it heeds, nearest first."""

    segments: tuple[Segment, ...]
    marks: tuple[Marks, ...]

    def hidden(self, turn: str, first: int) -> tuple[str, Row]:
        """Whether a turn is undone in this thread: a condition, and its bindings from `first` on.

        The nearest session that says anything of the turn decides.
        """
        words, bindings = [], []
        for place, each in enumerate(self.marks):
            session, step = first + 2 * place, first + 2 * place + 1
            words.append(_MARK.format(session=session, step=step, turn=turn))
            bindings += [each.session_id, each.step]
        while len(words) > 1:
            groups = [words[at : at + _ARGUMENTS] for at in range(0, len(words), _ARGUMENTS)]
            words = [
                f"coalesce({', '.join(each)})" if len(each) > 1 else each[0] for each in groups
            ]
        return f"coalesce({words[0] if words else 'NULL'}, 0) = 1", tuple(bindings)


class Window(msgspec.Struct, frozen=True):
    """Which messages of a thread are wanted, as `ports.Log.get_messages` describes it."""

    limit: int | None
    offset: int
    before: int | None
    after: int | None
    undone: bool
    notes: bool


async def read_line(tx: Transaction, session_id: str) -> Line:
    """What a thread is made of, and whose marks it heeds."""
    rows = await tx.fetch(_LINE, (text(session_id),))
    if not rows:
        raise SessionNotFound(session_id)
    return Line(
        tuple(Segment(*row[:3]) for row in rows if row[1] < row[2] or row[3] == 0),
        tuple(Marks(row[0], row[5]) for row in rows if row[4]),
    )


async def is_hidden(tx: Transaction, line: Line, turn_id: str) -> bool:
    """Whether a turn is undone in a thread."""
    if not line.marks:
        return False
    condition, bindings = line.hidden("$1", 2)
    row = await tx.one(f"SELECT 1 WHERE {condition}", (text(turn_id), *bindings))
    return row is not None


async def read_thread(tx: Transaction, session_id: str, window: Window) -> list[Row]:
    """The newest rows of a thread with what a fork has inherited, newest first.

    Several statements, so it needs a snapshot. The engines have a quicker way for a session that is
    not a fork.
    """
    line = await read_line(tx, session_id)
    hide, marks = (f"AND {NOT_ERASED}" if window.undone else ""), ()
    if line.marks and not window.undone:
        hidden, marks = line.hidden("messages.turn_id", 5)
        hide = f"AND NOT {hidden}"
    if not window.notes:
        hide += f" AND {NOT_A_NOTE}"
    sql = _MESSAGES.format(hide=hide)
    wanted = NO_LIMIT if window.limit is None else window.limit + window.offset
    rows: list[Row] = []
    for part in line.segments:
        low = part.low if window.after is None else max(part.low, window.after)
        high = part.high if window.before is None else min(part.high, window.before - 1)
        if low < high and len(rows) < wanted:
            bindings = (part.session_id, low, high, wanted - len(rows), *marks)
            rows += await tx.fetch(sql, bindings)
    return rows[window.offset :]


async def count_hidden(tx: Transaction, session_id: str, up_to: int) -> int:
    """How many numbers up to a seq are notes or belong to turns that are undone in this session."""
    line = await read_line(tx, session_id)
    hidden, marks = line.hidden("messages.turn_id", 4)
    sql = _COUNT_HIDDEN.format(hidden=hidden)
    total = 0
    for part in line.segments:
        bindings = (part.session_id, part.low, min(part.high, up_to), *marks)
        ((count,),) = await tx.fetch(sql, bindings)
        total += int(count)
    return total
