"""One `record`: fenced by its epoch, recognised by its key, its changes applied in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import msgspec

from clew.core import changes
from clew.core.changes import Change, Recorded
from clew.core.jsontext import from_json, to_json
from clew.errors import InvalidInput, SessionNotFound, StaleLease
from clew.store.rows import text
from clew.store.sqlite import keeping
from clew.store.sqlite.connection import fetch_one
from clew.store.sqlite.recording import Recording

BEGIN = """
SELECT s.head, s.preview IS NULL, coalesce(l.epoch, 0), l.holder IS NOT NULL
FROM sessions s LEFT JOIN leases l ON l.session_id = s.id
WHERE s.id = ? AND s.purged_at IS NULL
"""


def record(
    connection: apsw.Connection,
    session_id: str,
    epoch: int,
    requested: tuple[Change, ...],
    *,
    now: int,
    idempotency_key: str | None,
) -> Recorded:
    """Apply the changes, fenced by the epoch and recognised by the key."""
    begin = fetch_one(connection, BEGIN, (text(session_id),))
    if begin is None:
        raise SessionNotFound(session_id)
    if idempotency_key is not None:
        first = connection.execute(
            "SELECT result FROM idempotency WHERE session_id = ? AND key = ?",
            (session_id, text(idempotency_key)),
        ).get
        if first is not None:
            return msgspec.structs.replace(from_json(first, Recorded), repeated=True)
    head, no_preview, current, held = begin
    if epoch != current or not held:
        raise StaleLease(session_id, epoch, current)
    recording = Recording(connection, session_id, now=now, head=head, no_preview=bool(no_preview))
    for change in requested:
        handler = _HANDLERS.get(type(change))
        if handler is None:
            raise InvalidInput(f"{type(change).__name__} is not a change that can be recorded.")
        handler(recording, change)
    recorded = recording.finish()
    if idempotency_key is not None:
        connection.execute(
            "INSERT INTO idempotency (session_id, key, result, at) VALUES (?, ?, ?, ?)",
            (session_id, text(idempotency_key), to_json(recorded), now),
        )
    return recorded


_HANDLERS: dict[type[Any], Callable[[Recording, Any], None]] = {
    changes.AddMessage: Recording.add_message,
    changes.StartTurn: Recording.start_turn,
    changes.TakeInbound: Recording.take_inbound,
    changes.WaitForApproval: Recording.wait_for_approval,
    changes.ResumeTurn: Recording.resume_turn,
    changes.EndTurn: Recording.end_turn,
    changes.AddUsage: Recording.add_usage,
    changes.UndoTurn: Recording.undo_turn,
    changes.RedoTurn: Recording.redo_turn,
    changes.AddCompaction: keeping.add_compaction,
    changes.UndoCompaction: keeping.undo_compaction,
    changes.WriteScratch: keeping.write_scratch,
    changes.DeleteScratch: keeping.delete_scratch,
    changes.WriteTodos: keeping.write_todos,
    changes.Send: keeping.send,
}
