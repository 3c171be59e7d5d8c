"""Turns that a session passes over from now on, or shows again, inside the transaction of a record.

Messages stay as they are; only how many of them count changes, and `recording` writes that.
"""

from __future__ import annotations

from clew.core import changes
from clew.errors import RecordNotFound
from clew.store.postgres.connection import fetch, fetch_one
from clew.store.postgres.recording import Recording
from clew.store.postgres.thread import stretches
from clew.store.rows import text


async def undo_turn(recording: Recording, change: changes.UndoTurn) -> None:
    """Pass over a turn of this thread."""
    hidden = await _messages_of(recording, change.turn_id)
    undone = await fetch(
        recording.connection,
        """INSERT INTO undone (session_id, turn_id, undone_at) VALUES ($1, $2, $3)
           ON CONFLICT DO NOTHING RETURNING 1""",
        (recording.session_id, text(change.turn_id), recording.at(change.at)),
    )
    if undone:
        recording.count -= hidden


async def redo_turn(recording: Recording, change: changes.RedoTurn) -> None:
    """Show a turn again."""
    shown = await _messages_of(recording, change.turn_id)
    redone = await fetch(
        recording.connection,
        "DELETE FROM undone WHERE session_id = $1 AND turn_id = $2 RETURNING 1",
        (recording.session_id, text(change.turn_id)),
    )
    if redone:
        recording.count += shown


async def _messages_of(recording: Recording, turn_id: str) -> int:
    """How many messages of this thread a turn has; it must have begun in it."""
    connection, session_id = recording.connection, recording.session_id
    row = await fetch_one(
        connection, "SELECT session_id, first_seq FROM turns WHERE id = $1", (text(turn_id),)
    )
    # The session row still has the head from before this record; its own messages count too.
    parts, _ = await stretches(connection, session_id)
    for part in parts:
        own = part.session_id == session_id
        if row is not None and row[0] == part.session_id and (own or row[1] <= part.high):
            ((count,),) = await fetch(
                connection,
                """SELECT count(*) FROM messages
                   WHERE session_id = $1 AND seq >= $2 AND seq <= $3 AND turn_id = $4""",
                (row[0], row[1], recording.head if own else part.high, text(turn_id)),
            )
            return int(count)
    raise RecordNotFound("turn in this thread", turn_id)
