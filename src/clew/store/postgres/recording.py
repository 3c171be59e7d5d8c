"""Messages and turns of one record, inside its transaction. Taking turns back is in `undoing`.

`Recording` gathers what the changes do to the session row and writes that row once, at the end.
"""

from __future__ import annotations

import psycopg

from clew.core import changes
from clew.core.changes import Recorded
from clew.core.jsontext import to_json
from clew.core.message import ROLES, Draft, blob_hashes
from clew.core.text import fold
from clew.core.usage import Usage
from clew.errors import Conflict, InvalidInput, RecordNotFound
from clew.store.postgres.connection import Connection, fetch, fetch_one
from clew.store.postgres.words import vector_of
from clew.store.rows import Row, message_bindings, optional, text, usage_bindings

PREVIEW = 200
"""Characters of the first user message that a list keeps."""

INSERT_MESSAGE = """
WITH added AS (
  INSERT INTO messages (
    id, session_id, seq, turn_id, role, content, parts, tool_call_id, tool_name, tool_calls,
    is_error, model, input_tokens, output_tokens, cache_read_tokens, cache_creation_tokens, cost,
    api_calls, at
  ) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
)
INSERT INTO messages_words (message_id, words, size, partial) VALUES ($1, $20::tsvector, $21, $22)
"""

ADVANCE = """
UPDATE sessions SET
  head = $2, message_count = message_count + $3, content_bytes = content_bytes + $4,
  updated_at = greatest(updated_at, $5), last_interaction_at = coalesce($6, last_interaction_at),
  preview = coalesce(preview, $7), preview_key = coalesce(preview_key, $8), archived_at = NULL
WHERE id = $1
"""

_ADD_USAGE = """
UPDATE {table} SET
  input_tokens = input_tokens + $2, output_tokens = output_tokens + $3,
  cache_read_tokens = cache_read_tokens + $4,
  cache_creation_tokens = cache_creation_tokens + $5, cost = cost + $6,
  api_calls = api_calls + $7
WHERE id = $1 RETURNING 1
"""
_ADD_SESSION_USAGE = _ADD_USAGE.format(table="sessions")
_ADD_TURN_USAGE = _ADD_USAGE.format(table="turns")


def whole(value: int | None) -> int | None:
    """A whole number or NULL: PostgreSQL itself would round a fraction and read a text."""
    if value is not None and type(value) is not int:
        raise InvalidInput(f"A whole number was expected, not {value!r}. Nothing was changed.")
    return value


def _whole_usage(usage: Usage) -> tuple[int | None, ...]:
    return tuple(map(whole, usage_bindings(usage)))


def check_usage(usage: Usage) -> tuple[int | None, ...]:
    """What was spent, in the order of the columns: whole numbers, none of them negative."""
    bindings = _whole_usage(usage)
    if min(value or 0 for value in bindings) < 0:
        raise InvalidInput("Usage can't be negative.")
    return bindings


def new_message(draft: Draft, now: int) -> tuple[Row, int, int]:
    """A draft from `role` to `api_calls`, its size in bytes, and its time."""
    if draft.role not in ROLES:
        raise InvalidInput(f'A message is from {", ".join(ROLES)}, not "{draft.role}".')
    if draft.usage is not None:
        _whole_usage(draft.usage)
    bindings, size = message_bindings(draft)
    at = now if draft.at is None else whole(draft.at)
    assert at is not None
    return (*bindings[:6], bool(bindings[6]), *bindings[7:]), size, at


class Recording:
    """The changes of one record as they are applied."""

    def __init__(
        self,
        connection: Connection,
        session_id: str,
        *,
        now: int,
        head: int,
        no_preview: bool,
        ids: list[int],
        placed: bool = False,
    ) -> None:
        self.connection = connection
        self.session_id = session_id
        self.now = now
        self.head = head
        self._no_preview = no_preview
        self._ids = ids
        self._placed = placed  # the messages are in their places already: see `bulk`
        self._seqs: list[int] = []
        self._updated_at = 0
        self._interaction: int | None = None
        self._preview: str | None = None
        self.count = 0
        self.bytes = 0

    async def finish(self) -> Recorded:
        """Write the session row, if anything moved it."""
        if self._seqs:
            preview = self._preview
            await self.connection.execute(
                ADVANCE,
                (
                    self.session_id,
                    self.head,
                    self.count,
                    self.bytes,
                    self._updated_at,
                    self._interaction,
                    preview,
                    None if preview is None else fold(preview),
                ),
            )
        elif self.count or self.bytes:
            await self.connection.execute(
                """UPDATE sessions SET message_count = message_count + $2,
                     content_bytes = content_bytes + $3 WHERE id = $1""",
                (self.session_id, self.count, self.bytes),
            )
        return Recorded(tuple(self._seqs), tuple(self._ids), self.head, self.now)

    async def add_message(self, change: changes.AddMessage) -> None:
        """The next row of the thread."""
        draft = change.draft
        bindings, size, at = new_message(draft, self.now)
        row_id = self._ids[len(self._seqs)]
        self.head += 1
        if not self._placed:
            await self.connection.execute(
                INSERT_MESSAGE,
                (
                    row_id,
                    self.session_id,
                    self.head,
                    optional(change.turn_id),
                    *bindings,
                    at,
                    *vector_of(draft.content),
                ),
            )
        if draft.parts:
            for blob_hash in blob_hashes(draft.parts):
                await self._keep_blob(row_id, blob_hash)
        self._seqs.append(self.head)
        self.count += 1
        self.bytes += size
        self._updated_at = max(self._updated_at, at)
        if draft.role == "user":
            if change.from_person:
                self._interaction = at
            if self._no_preview and self._preview is None and draft.content.strip():
                self._preview = text(draft.content.strip()[:PREVIEW])

    async def _keep_blob(self, row_id: int, blob_hash: str) -> None:
        sql = "SELECT 1 FROM blobs WHERE hash = $1 FOR KEY SHARE"
        if await fetch_one(self.connection, sql, (text(blob_hash),)) is None:
            raise InvalidInput(f"A message needs the blob {blob_hash}, which is not in the store.")
        await self.connection.execute(
            "INSERT INTO message_blobs (message_id, hash) VALUES ($1, $2)", (row_id, blob_hash)
        )

    async def start_turn(self, change: changes.StartTurn) -> None:
        """A turn row, and its inbox rows taken."""
        try:
            await fetch(
                self.connection,
                """INSERT INTO turns (id, session_id, first_seq, status, reply_to, model,
                     started_at) VALUES ($1, $2, $3, 'running', $4, $5, $6) RETURNING 1""",
                (
                    text(change.turn_id),
                    self.session_id,
                    self.head + 1,
                    None if change.reply_to is None else to_json(change.reply_to),
                    optional(change.model),
                    self.at(change.at),
                ),
            )
        except psycopg.errors.UniqueViolation as error:
            raise Conflict(f"There already is a turn {change.turn_id}.") from error
        await self._take(change.turn_id, change.inbound)

    async def take_inbound(self, change: changes.TakeInbound) -> None:
        """Inbox rows that a turn takes while it runs."""
        await self._set_turn(change.turn_id, None)
        await self._take(change.turn_id, change.inbound)

    async def _take(self, turn_id: str, inbound: tuple[str, ...]) -> None:
        for inbound_id in inbound:
            taken = await fetch(
                self.connection,
                """UPDATE inbox SET status = 'done', turn_id = $1, session_id = $2
                   WHERE id = $3 AND status IN ('queued', 'claimed') RETURNING 1""",
                (text(turn_id), self.session_id, text(inbound_id)),
            )
            if not taken:
                raise Conflict(f"The inbound message {inbound_id} has been taken already.")

    async def wait_for_approval(self, change: changes.WaitForApproval) -> None:
        """An open question, and a turn that waits."""
        await self._set_turn(change.turn_id, "waiting")
        await self.connection.execute(
            """INSERT INTO approvals (id, session_id, turn_id, tool_call_id, tool_name, request,
                 asked_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)""",
            (
                text(change.approval_id),
                self.session_id,
                text(change.turn_id),
                text(change.tool_call_id),
                text(change.tool_name),
                to_json(change.request),
                self.now,
                whole(change.expires_at),
            ),
        )

    async def resume_turn(self, change: changes.ResumeTurn) -> None:
        """A waiting turn runs on."""
        await self._set_turn(change.turn_id, "running")

    async def end_turn(self, change: changes.EndTurn) -> None:
        """A turn's last state."""
        await self._set_turn(change.turn_id, change.status)
        await self.connection.execute(
            "UPDATE turns SET error = $1, partial = $2, ended_at = $3 WHERE id = $4",
            (
                optional(change.error),
                optional(change.partial),
                self.at(change.at),
                text(change.turn_id),
            ),
        )

    async def _set_turn(self, turn_id: str, status: str | None) -> None:
        """Give an unfinished turn its next state; with None it stays, but has to be unfinished."""
        set_it = await fetch(
            self.connection,
            """UPDATE turns SET status = coalesce($3, status) WHERE id = $1 AND session_id = $2
               AND status IN ('running', 'waiting') RETURNING 1""",
            (text(turn_id), self.session_id, status),
        )
        if not set_it:
            raise RecordNotFound("unfinished turn in this session", turn_id)

    async def add_usage(self, change: changes.AddUsage) -> None:
        """Totals of the session and of the turn."""
        bindings = check_usage(change.usage)
        await self.connection.execute(_ADD_SESSION_USAGE, (self.session_id, *bindings))
        if change.context_tokens is not None:
            await self.connection.execute(
                "UPDATE sessions SET context_tokens = $1 WHERE id = $2",
                (whole(change.context_tokens), self.session_id),
            )
        if change.turn_id is not None:
            added = await fetch(self.connection, _ADD_TURN_USAGE, (text(change.turn_id), *bindings))
            if not added:
                raise RecordNotFound("turn", change.turn_id)

    def at(self, given: int | None) -> int:
        """The time of a change: as given by an import, else now."""
        at = self.now if given is None else whole(given)
        assert at is not None
        return at
