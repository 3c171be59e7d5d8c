"""One message in one statement: the lock, the fence, the number, the index, and telling others.

Most records are a single message. As one statement it is one round to the server, and no process
can stop in the middle of a transaction and keep others waiting. Whatever this can't do (another
epoch, a known key, a session that is gone) it leaves undone, for `record` to say why.
"""

from __future__ import annotations

from clew.core.changes import AddMessage, Change, Recorded
from clew.core.message import blob_hashes
from clew.core.text import fold
from clew.store.postgres.connection import Connection, fetch_one
from clew.store.postgres.presence import CHANNEL
from clew.store.postgres.recording import PREVIEW, new_message, whole
from clew.store.postgres.words import vector_of
from clew.store.rows import optional, text

# The row that was locked is the newest there is; another epoch by now, and nothing is written.
APPEND = f"""
WITH held AS MATERIALIZED (
  SELECT s.id, s.head + 1 AS seq,
    coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
  FROM sessions s JOIN leases l ON l.session_id = s.id
  WHERE s.id = $1 AND s.purged_at IS NULL AND l.epoch = $2 AND l.holder IS NOT NULL
    AND ($4::text IS NULL
         OR NOT EXISTS (SELECT 1 FROM idempotency i WHERE i.session_id = $1 AND i.key = $4))
  FOR NO KEY UPDATE OF s, l
), added AS (
  INSERT INTO messages (
    session_id, seq, turn_id, role, content, parts, tool_call_id, tool_name, tool_calls, is_error,
    model, input_tokens, output_tokens, cache_read_tokens, cache_creation_tokens, cost, api_calls,
    at
  )
  SELECT id, seq, $5, $6, $7, $8, $9, $10, $11, $12::boolean, $13, $14::bigint, $15::bigint,
    $16::bigint, $17::bigint, $18::bigint, $19::bigint, coalesce($20::bigint, now) FROM held
  RETURNING id, at
), indexed AS (
  INSERT INTO messages_words (message_id, words, size, partial)
  SELECT id, $21::tsvector, $22::bigint, $23::boolean FROM added
), advanced AS (
  UPDATE sessions s SET
    head = held.seq, message_count = s.message_count + 1,
    content_bytes = s.content_bytes + $24::bigint, updated_at = greatest(s.updated_at, added.at),
    last_interaction_at = CASE WHEN $25::boolean THEN added.at ELSE s.last_interaction_at END,
    preview = coalesce(s.preview, $26), preview_key = coalesce(s.preview_key, $27),
    archived_at = NULL
  FROM held, added WHERE s.id = held.id
), remembered AS (
  INSERT INTO idempotency (session_id, key, result, at)
  SELECT held.id, $4, format('{{"seqs":[%s],"ids":[%s],"head":%s,"at":%s}}', held.seq, added.id,
    held.seq, held.now), held.now FROM held, added WHERE $4::text IS NOT NULL
)
SELECT held.seq, added.id, held.now, pg_notify('{CHANNEL}', held.id) FROM held, added
"""


def is_plain(changes: tuple[Change, ...]) -> bool:
    """Whether a record is one message that needs no stored bytes."""
    if len(changes) != 1 or type(changes[0]) is not AddMessage:
        return False
    parts = changes[0].draft.parts
    return not parts or not blob_hashes(parts)


async def append(
    connection: Connection,
    session_id: str,
    epoch: int,
    change: AddMessage,
    *,
    now: int | None,
    idempotency_key: str | None,
) -> Recorded | None:
    """Add the message; None, and nothing done, if it can't be added just like that."""
    draft = change.draft
    bindings, size, _ = new_message(draft, 0)
    said = draft.content.strip() if draft.role == "user" else ""
    preview = text(said[:PREVIEW]) if said else None
    row = await fetch_one(
        connection,
        APPEND,
        (
            text(session_id),
            epoch,
            now,
            optional(idempotency_key),
            optional(change.turn_id),
            *bindings,
            whole(draft.at),
            *vector_of(draft.content),
            size,
            draft.role == "user" and change.from_person,
            preview,
            None if preview is None else fold(preview),
        ),
    )
    if row is None:
        return None
    seq, row_id, at, _ = row
    return Recorded((seq,), (row_id,), seq, at)
