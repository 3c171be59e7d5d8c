"""One `record`: fenced by its epoch, recognised by its key, its changes applied in order.

A single statement locks the session and its lease, and tells the number that comes next: whoever
takes the lease over waits for that lock, so that no late writer slips in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from clew.core import changes
from clew.core.changes import AddMessage, Change, Recorded
from clew.core.jsontext import from_json, to_json
from clew.errors import InvalidInput, SessionNotFound, StaleLease
from clew.store.postgres import bulk, keeping, undoing
from clew.store.postgres.connection import Connection, fetch_one
from clew.store.postgres.recording import Recording
from clew.store.rows import text

BEGIN = """
SELECT s.head, s.preview IS NULL, l.epoch, l.holder IS NOT NULL,
  coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
  ARRAY (SELECT nextval('messages_id_seq') FROM generate_series(1, $3))
FROM sessions s JOIN leases l ON l.session_id = s.id
WHERE s.id = $1 AND s.purged_at IS NULL
FOR NO KEY UPDATE OF s, l
"""

_KNOWN = "SELECT result FROM idempotency WHERE session_id = $1 AND key = $2"
_REMEMBER = "INSERT INTO idempotency (session_id, key, result, at) VALUES ($1, $2, $3, $4)"


async def record(
    connection: Connection,
    session_id: str,
    epoch: int,
    requested: tuple[Change, ...],
    *,
    now: int | None,
    idempotency_key: str | None,
) -> Recorded:
    """Apply the changes, fenced by the epoch and recognised by the key."""
    messages = [change for change in requested if isinstance(change, AddMessage)]
    staged = await bulk.stage(connection, messages)
    row = await fetch_one(connection, BEGIN, (text(session_id), now, len(messages)))
    if idempotency_key is not None:
        # Asked behind the lock, so that of two with one key the second sees the first's answer.
        first = await fetch_one(connection, _KNOWN, (session_id, text(idempotency_key)))
        if first is not None and await _is_there(connection, session_id):
            return msgspec.structs.replace(from_json(first[0], Recorded), repeated=True)
    if row is None:
        if await _is_there(connection, session_id):
            raise StaleLease(session_id, epoch, 0)
        raise SessionNotFound(session_id)
    head, no_preview, current, held, at, ids = row
    if epoch != current or not held:
        raise StaleLease(session_id, epoch, current)
    recording = Recording(
        connection, session_id, now=at, head=head, no_preview=no_preview, ids=ids, placed=staged
    )
    rest: Sequence[Change] = requested
    if staged:
        await bulk.place_staged(connection, session_id, ids, head=head, now=at)
        rest = await bulk.place_turns(connection, session_id, requested, head=head, now=at)
    await _apply(recording, rest)
    recorded = await recording.finish()
    if idempotency_key is not None:
        await connection.execute(
            _REMEMBER, (session_id, text(idempotency_key), to_json(recorded), at)
        )
    return recorded


async def _apply(recording: Recording, requested: Sequence[Change]) -> None:
    for change in requested:
        handler = _HANDLERS.get(type(change))
        if handler is None:
            raise InvalidInput(f"{type(change).__name__} is not a change that can be recorded.")
        await handler(recording, change)


async def _is_there(connection: Connection, session_id: str) -> bool:
    sql = "SELECT 1 FROM sessions WHERE id = $1 AND purged_at IS NULL"
    return await fetch_one(connection, sql, (text(session_id),)) is not None


_HANDLERS: dict[type[Any], Callable[[Recording, Any], Awaitable[None]]] = {
    changes.AddMessage: Recording.add_message,
    changes.StartTurn: Recording.start_turn,
    changes.TakeInbound: Recording.take_inbound,
    changes.WaitForApproval: Recording.wait_for_approval,
    changes.ResumeTurn: Recording.resume_turn,
    changes.EndTurn: Recording.end_turn,
    changes.AddUsage: Recording.add_usage,
    changes.UndoTurn: undoing.undo_turn,
    changes.RedoTurn: undoing.redo_turn,
    changes.AddCompaction: keeping.add_compaction,
    changes.UndoCompaction: keeping.undo_compaction,
    changes.WriteScratch: keeping.write_scratch,
    changes.DeleteScratch: keeping.delete_scratch,
    changes.WriteTodos: keeping.write_todos,
    changes.Send: keeping.send,
}
