"""One `record` in PostgreSQL: fenced by its epoch, recognised by its key, its changes in order.

A single statement locks the session and its lease, and tells the number that comes next: a process
that takes the lease over waits for that lock, so that no late writer slips in between.

Most records are a single message, and that is one statement altogether: one round trip, and no
process can stop in the middle of a transaction and keep others waiting. Whatever it can't do
(another epoch, a known key, a session that is gone) it leaves undone, for `record` to say why.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.changes import AddMessage, Change, Recorded
from clew.core.message import blob_hashes
from clew.core.text import fold
from clew.errors import SessionNotFound, StaleLease
from clew.store.postgres import bulk
from clew.store.postgres.connection import Connection
from clew.store.postgres.presence import CHANNEL
from clew.store.postgres.words import vector_of
from clew.store.rows import NEW_MESSAGE_COLUMNS, Row, optional, text, whole
from clew.store.work.leases import take_for_one_record
from clew.store.work.record import (
    PREVIEW,
    Recording,
    find_answer,
    new_message,
    remember_answer,
)
from clew.store.work.sessions import lock
from clew.store.work.transaction import Engine, Transaction

_BEGIN = """
SELECT s.head, s.preview IS NULL, l.epoch, l.holder IS NOT NULL,
  coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
  ARRAY (SELECT nextval('messages_id_seq') FROM generate_series(1, $3))
FROM sessions s JOIN leases l ON l.session_id = s.id
WHERE s.id = $1 AND s.purged_at IS NULL
FOR NO KEY UPDATE OF s, l
"""

_INSERT_MESSAGE = f"""
WITH added AS (
  INSERT INTO messages (id, session_id, seq, {NEW_MESSAGE_COLUMNS}, at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
    $21, $22)
)
INSERT INTO messages_words (message_id, words, size, partial) VALUES ($1, $23::tsvector, $24, $25)
"""

_ADVANCE = """
UPDATE sessions SET
  head = $2, message_count = message_count + $3, content_bytes = content_bytes + $4,
  updated_at = greatest(updated_at, $5), last_interaction_at = coalesce($6, last_interaction_at),
  preview = coalesce(preview, $7), preview_key = coalesce(preview_key, $8), archived_at = NULL
WHERE id = $1
"""

_FORGET_WORDS = """
UPDATE messages_words SET words = $2::tsvector, size = $3, partial = $4 WHERE message_id = $1
"""
_SET_PREVIEW = "UPDATE sessions SET preview = $2, preview_key = $3 WHERE id = $1"

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
  INSERT INTO messages (session_id, seq, {NEW_MESSAGE_COLUMNS}, at)
  SELECT id, seq, $5::integer, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15::boolean, $16::bigint,
    $17::bigint, $18::bigint, $19::bigint, $20::bigint, $21::bigint, $22,
    coalesce($23::bigint, now)
  FROM held RETURNING id, at
), indexed AS (
  INSERT INTO messages_words (message_id, words, size, partial)
  SELECT id, $24::tsvector, $25::bigint, $26::boolean FROM added
), advanced AS (
  UPDATE sessions s SET
    head = held.seq, message_count = s.message_count + 1,
    content_bytes = s.content_bytes + $27::bigint, updated_at = greatest(s.updated_at, added.at),
    last_interaction_at = CASE WHEN $28::boolean THEN added.at ELSE s.last_interaction_at END,
    preview = coalesce(s.preview, $29), preview_key = coalesce(s.preview_key, $30),
    archived_at = NULL
  FROM held, added WHERE s.id = held.id
), remembered AS (
  INSERT INTO idempotency (session_id, key, result, at)
  SELECT held.id, $4, format('{{"seqs":[%s],"ids":[%s],"head":%s,"at":%s}}', held.seq, added.id,
    held.seq, held.now), held.now FROM held, added WHERE $4::text IS NOT NULL
)
SELECT held.seq, added.id, held.now, pg_notify('{CHANNEL}', held.id) FROM held, added
"""


class PostgresRecording(Recording):
    """See `work.record`. `ids` are those of the messages that are going to be added.

    `placed`: the messages are in their places already, see `bulk`.
    """

    def __init__(
        self,
        tx: Transaction,
        session_id: str,
        *,
        now: int,
        head: int,
        no_preview: bool,
        ids: Sequence[int],
        placed: bool,
    ) -> None:
        super().__init__(tx, session_id, now=now, head=head, no_preview=no_preview)
        self._next_ids = iter(ids)
        self._placed = placed

    async def insert_message(self, change: AddMessage, bindings: Row, at: int) -> int:
        """See `Recording`."""
        row_id = next(self._next_ids)
        if not self._placed:
            place = (row_id, self.session_id, self.head)
            words = vector_of(change.draft.content)
            await self.tx.run(_INSERT_MESSAGE, (*place, *bindings, at, *words))
        return row_id

    async def forget_words(self, row_id: int) -> None:
        """See `Recording`."""
        await self.tx.run(_FORGET_WORDS, (row_id, *vector_of("")))

    async def set_preview(self, preview: str | None) -> None:
        """See `Recording`."""
        folded = None if preview is None else fold(preview)
        await self.tx.run(_SET_PREVIEW, (self.session_id, preview, folded))

    async def advance(self, bindings: Row, preview: str | None) -> None:
        """See `Recording`."""
        folded = None if preview is None else fold(preview)
        await self.tx.run(_ADVANCE, (*bindings, preview, folded))


async def record(
    engine: Engine,
    connection: Connection,
    session_id: str,
    epoch: int | None,
    requested: Sequence[Change],
    *,
    idempotency_key: str | None,
) -> Recorded:
    """Apply the changes, fenced by the epoch and recognised by the key."""
    messages = [change for change in requested if isinstance(change, AddMessage)]
    staged = await bulk.stage(connection, messages)
    once = epoch is None
    if epoch is None:
        await lock(connection, session_id)
        if idempotency_key is not None:
            answer = await find_answer(connection, session_id, idempotency_key)
            if answer is not None:
                return answer
        epoch = await take_for_one_record(engine, connection, session_id)
    row = await connection.one(_BEGIN, (text(session_id), connection.given_now, len(messages)))
    if idempotency_key is not None:
        # Asked behind the lock, so that of two with one key the second sees the first's answer.
        first = await find_answer(connection, session_id, idempotency_key)
        if first is not None and await _is_there(connection, session_id):
            return first
    if row is None:
        if await _is_there(connection, session_id):
            raise StaleLease(session_id, epoch, 0)
        raise SessionNotFound(session_id)
    head, no_preview, current, held, at, ids = row
    if epoch != current or not (held or once):
        raise StaleLease(session_id, epoch, current)
    recording = PostgresRecording(
        connection, session_id, now=at, head=head, no_preview=no_preview, ids=ids, placed=staged
    )
    rest: Sequence[Change] = requested
    if staged:
        await bulk.place_staged(connection, session_id, ids, head=head, now=at)
        rest = await bulk.place_turns(connection, session_id, requested, head=head, now=at)
    await recording.apply(rest)
    recorded = await recording.finish()
    if idempotency_key is not None:
        await remember_answer(connection, session_id, idempotency_key, recorded)
    return recorded


async def _is_there(connection: Connection, session_id: str) -> bool:
    sql = "SELECT 1 FROM sessions WHERE id = $1 AND purged_at IS NULL"
    return await connection.one(sql, (text(session_id),)) is not None


def is_plain(changes: Sequence[Change]) -> bool:
    """Whether a record is one message that needs no stored bytes and has no id to look up."""
    if len(changes) != 1 or type(changes[0]) is not AddMessage:
        return False
    if changes[0].draft.external_id is not None or changes[0].draft.role == "note":
        return False
    parts = changes[0].draft.parts
    return not parts or not blob_hashes(parts)


async def append(
    connection: Connection,
    session_id: str,
    epoch: int,
    change: AddMessage,
    *,
    idempotency_key: str | None,
) -> Recorded | None:
    """Add the message; None, and nothing done, if it can't be added just like that."""
    draft = change.draft
    bindings, size, _ = new_message(change, 0)
    said = draft.content.strip() if draft.role == "user" else ""
    preview = text(said[:PREVIEW]) if said else None
    row = await connection.one(
        APPEND,
        (
            text(session_id),
            epoch,
            connection.given_now,
            optional(idempotency_key),
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
