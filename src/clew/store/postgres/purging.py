"""What is left of purged sessions, removed in small steps.

So no writer waits long, and a crash in between is finished by the next purge. Which sessions go is
decided in `trash`.
"""

from __future__ import annotations

from clew.store.postgres.connection import Connection, fetch

_STEP = 200
"""Messages removed in one transaction."""

KEEP_BLOBS_MS = 86_400_000
"""A blob that no message has yet is left alone for a day: its message may be on the way."""

KEEP_KEYS_MS = 8 * 86_400_000
"""Idempotency keys are promised for seven days."""

# What a fork still reads of a purged session: everything up to the highest knot.
_REMOVE_MESSAGES = """
DELETE FROM messages WHERE id IN (
  SELECT m.id FROM sessions s JOIN messages m ON m.session_id = s.id
  WHERE s.purged_at IS NOT NULL AND m.seq >
    coalesce((SELECT max(forked_at_seq) FROM sessions child WHERE child.parent_id = s.id), 0)
  LIMIT $1)
RETURNING id
"""

_BLOBS_OF = """
SELECT DISTINCT b.hash FROM message_blobs b JOIN messages m ON m.id = b.message_id
JOIN sessions s ON s.id = m.session_id WHERE s.purged_at IS NOT NULL
"""

_UNUSED = "NOT EXISTS (SELECT 1 FROM message_blobs b WHERE b.hash = blobs.hash)"

_REMOVE_HUSKS = """
DELETE FROM sessions WHERE purged_at IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM sessions child WHERE child.parent_id = sessions.id)
AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.session_id = sessions.id) RETURNING id
"""


async def remove_messages(connection: Connection) -> bool:
    """Some of the messages that nobody reads any more; whether there were any."""
    blobs = [blob for (blob,) in await fetch(connection, _BLOBS_OF)]
    removed = await fetch(connection, _REMOVE_MESSAGES, (_STEP,))
    if blobs and removed:
        await _remove_blobs(connection, "hash = ANY ($1)", blobs)
    return bool(removed)


async def remove_husks(connection: Connection) -> bool:
    """Purged sessions that have nothing left and no fork; that may free their parents in turn."""
    return bool(await fetch(connection, _REMOVE_HUSKS))


async def forget(connection: Connection, now: int) -> None:
    """Blobs that no message has, and idempotency keys that nobody can repeat any more."""
    await _remove_blobs(connection, "created_at < $1", now - KEEP_BLOBS_MS)
    await connection.execute("DELETE FROM idempotency WHERE at < $1", (now - KEEP_KEYS_MS,))


async def _remove_blobs(connection: Connection, which: str, value: object) -> None:
    """Remove those that no message has. One that a message is just taking is passed over."""
    await connection.execute(
        f"""DELETE FROM blobs WHERE {_UNUSED} AND hash IN (
              SELECT hash FROM blobs WHERE {which} FOR UPDATE SKIP LOCKED)""",
        (value,),
    )
