"""Messages and turns of one record, inside the writer's transaction.

`Recording` gathers what the changes do to the session row and writes that row once, at the end.
"""

from __future__ import annotations

import apsw

from clew.core import changes
from clew.core.changes import Recorded
from clew.core.jsontext import to_json
from clew.core.message import ROLES, blob_hashes
from clew.errors import Conflict, InvalidInput, RecordNotFound
from clew.store.rows import (
    message_bindings,
    optional,
    text,
    usage_bindings,
)
from clew.store.sqlite.connection import fetch_one
from clew.store.sqlite.thread import stretches

PREVIEW = 200
"""Characters of the first user message that a list keeps."""

INSERT_MESSAGE = """
INSERT INTO messages (
  session_id, seq, turn_id, role, content, parts, tool_call_id, tool_name, tool_calls, is_error,
  model, input_tokens, output_tokens, cache_read_tokens, cache_creation_tokens, cost, api_calls, at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id
"""

ADVANCE = """
UPDATE sessions SET
  head = ?2, message_count = message_count + ?3, content_bytes = content_bytes + ?4,
  updated_at = max(updated_at, ?5), last_interaction_at = coalesce(?6, last_interaction_at),
  preview = coalesce(preview, ?7), archived_at = NULL
WHERE id = ?1
"""

_ADD_USAGE = """
UPDATE {table} SET
  input_tokens = input_tokens + ?2, output_tokens = output_tokens + ?3,
  cache_read_tokens = cache_read_tokens + ?4,
  cache_creation_tokens = cache_creation_tokens + ?5, cost = cost + ?6,
  api_calls = api_calls + ?7
WHERE id = ?1
"""
_ADD_SESSION_USAGE = _ADD_USAGE.format(table="sessions")
_ADD_TURN_USAGE = _ADD_USAGE.format(table="turns")


class Recording:
    """The changes of one record as they are applied."""

    def __init__(
        self,
        connection: apsw.Connection,
        session_id: str,
        *,
        now: int,
        head: int,
        no_preview: bool,
    ) -> None:
        self.connection = connection
        self.session_id = session_id
        self.now = now
        self.head = head
        self._no_preview = no_preview
        self._seqs: list[int] = []
        self._ids: list[int] = []
        self._updated_at = 0
        self._interaction: int | None = None
        self._preview: str | None = None
        self._count = 0
        self.bytes = 0

    def finish(self) -> Recorded:
        """Write the session row, if anything moved it."""
        if self._seqs:
            self.connection.execute(
                ADVANCE,
                (
                    self.session_id,
                    self.head,
                    self._count,
                    self.bytes,
                    self._updated_at,
                    self._interaction,
                    self._preview,
                ),
            )
        elif self._count or self.bytes:
            self.connection.execute(
                """UPDATE sessions SET message_count = message_count + ?2,
                     content_bytes = content_bytes + ?3 WHERE id = ?1""",
                (self.session_id, self._count, self.bytes),
            )
        return Recorded(tuple(self._seqs), tuple(self._ids), self.head, self.now)

    def add_message(self, change: changes.AddMessage) -> None:
        """The next row of the thread."""
        draft = change.draft
        if draft.role not in ROLES:
            raise InvalidInput(f'A message is from {", ".join(ROLES)}, not "{draft.role}".')
        bindings, size = message_bindings(draft)
        at = self.now if draft.at is None else draft.at
        self.head += 1
        row_id = self.connection.execute(
            INSERT_MESSAGE,
            (self.session_id, self.head, optional(change.turn_id), *bindings, at),
        ).get
        if draft.parts:
            for blob_hash in blob_hashes(draft.parts):
                self._keep_blob(row_id, blob_hash)
        self._seqs.append(self.head)
        self._ids.append(row_id)
        self._count += 1
        self.bytes += size
        self._updated_at = max(self._updated_at, at)
        if draft.role == "user":
            if change.from_person:
                self._interaction = at
            if self._no_preview and self._preview is None and draft.content.strip():
                self._preview = text(draft.content.strip()[:PREVIEW])

    def _keep_blob(self, row_id: int, blob_hash: str) -> None:
        known = self.connection.execute(
            "SELECT 1 FROM blobs WHERE hash = ?", (text(blob_hash),)
        ).get
        if known is None:
            raise InvalidInput(f"A message needs the blob {blob_hash}, which is not in the store.")
        self.connection.execute(
            "INSERT INTO message_blobs (message_id, hash) VALUES (?, ?)", (row_id, blob_hash)
        )

    def start_turn(self, change: changes.StartTurn) -> None:
        """A turn row, and its inbox rows taken."""
        taken = self.connection.execute(
            "SELECT 1 FROM turns WHERE id = ?", (text(change.turn_id),)
        ).get
        if taken is not None:
            raise Conflict(f"There already is a turn {change.turn_id}.")
        self.connection.execute(
            """INSERT INTO turns (id, session_id, first_seq, status, reply_to, model, started_at)
               VALUES (?, ?, ?, 'running', ?, ?, ?)""",
            (
                text(change.turn_id),
                self.session_id,
                self.head + 1,
                None if change.reply_to is None else to_json(change.reply_to),
                optional(change.model),
                self.at(change.at),
            ),
        )
        self._take(change.turn_id, change.inbound)

    def take_inbound(self, change: changes.TakeInbound) -> None:
        """Inbox rows that a turn takes while it runs."""
        self._set_turn(change.turn_id, None)
        self._take(change.turn_id, change.inbound)

    def _take(self, turn_id: str, inbound: tuple[str, ...]) -> None:
        for inbound_id in inbound:
            self.connection.execute(
                """UPDATE inbox SET status = 'done', turn_id = ?, session_id = ?
                   WHERE id = ? AND status IN ('queued', 'claimed')""",
                (text(turn_id), self.session_id, text(inbound_id)),
            )
            if not self.connection.changes():
                raise Conflict(f"The inbound message {inbound_id} has been taken already.")

    def wait_for_approval(self, change: changes.WaitForApproval) -> None:
        """An open question, and a turn that waits."""
        self._set_turn(change.turn_id, "waiting")
        self.connection.execute(
            """INSERT INTO approvals (id, session_id, turn_id, tool_call_id, tool_name, request,
                 asked_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                text(change.approval_id),
                self.session_id,
                text(change.turn_id),
                text(change.tool_call_id),
                text(change.tool_name),
                to_json(change.request),
                self.now,
                change.expires_at,
            ),
        )

    def resume_turn(self, change: changes.ResumeTurn) -> None:
        """A waiting turn runs on."""
        self._set_turn(change.turn_id, "running")

    def end_turn(self, change: changes.EndTurn) -> None:
        """A turn's last state."""
        self._set_turn(change.turn_id, change.status)
        self.connection.execute(
            "UPDATE turns SET error = ?, partial = ?, ended_at = ? WHERE id = ?",
            (
                optional(change.error),
                optional(change.partial),
                self.at(change.at),
                text(change.turn_id),
            ),
        )

    def _set_turn(self, turn_id: str, status: str | None) -> None:
        """Give an unfinished turn its next state; with None it stays, but has to be unfinished."""
        self.connection.execute(
            """UPDATE turns SET status = coalesce(?3, status) WHERE id = ?1 AND session_id = ?2
               AND status IN ('running', 'waiting')""",
            (text(turn_id), self.session_id, status),
        )
        if not self.connection.changes():
            raise RecordNotFound("unfinished turn in this session", turn_id)

    def add_usage(self, change: changes.AddUsage) -> None:
        """Totals of the session and of the turn."""
        if min(value or 0 for value in usage_bindings(change.usage)) < 0:
            raise InvalidInput("Usage can't be negative.")
        bindings = usage_bindings(change.usage)
        self.connection.execute(_ADD_SESSION_USAGE, (self.session_id, *bindings))
        if change.context_tokens is not None:
            self.connection.execute(
                "UPDATE sessions SET context_tokens = ? WHERE id = ?",
                (change.context_tokens, self.session_id),
            )
        if change.turn_id is not None:
            self.connection.execute(_ADD_TURN_USAGE, (text(change.turn_id), *bindings))
            if not self.connection.changes():
                raise RecordNotFound("turn", change.turn_id)

    def undo_turn(self, change: changes.UndoTurn) -> None:
        """Pass over a turn of this thread."""
        hidden = self._messages_of(change.turn_id)
        self.connection.execute(
            "INSERT OR IGNORE INTO undone (session_id, turn_id, undone_at) VALUES (?, ?, ?)",
            (self.session_id, text(change.turn_id), self.at(change.at)),
        )
        if self.connection.changes():
            self._count -= hidden

    def redo_turn(self, change: changes.RedoTurn) -> None:
        """Show a turn again."""
        shown = self._messages_of(change.turn_id)
        self.connection.execute(
            "DELETE FROM undone WHERE session_id = ? AND turn_id = ?",
            (self.session_id, text(change.turn_id)),
        )
        if self.connection.changes():
            self._count += shown

    def _messages_of(self, turn_id: str) -> int:
        """How many messages of this thread a turn has; it must have begun in it."""
        row = fetch_one(
            self.connection,
            "SELECT session_id, first_seq FROM turns WHERE id = ?",
            (text(turn_id),),
        )
        # The session row still has the head from before this record; its own messages count too.
        parts, _ = stretches(self.connection, self.session_id)
        for part in parts:
            own = part.session_id == self.session_id
            if row is not None and row[0] == part.session_id and (own or row[1] <= part.high):
                return int(
                    self.connection.execute(
                        """SELECT count(*) FROM messages
                           WHERE session_id = ? AND seq >= ? AND seq <= ? AND turn_id = ?""",
                        (row[0], row[1], self.head if own else part.high, text(turn_id)),
                    ).get
                )
        raise RecordNotFound("turn in this thread", turn_id)

    def at(self, given: int | None) -> int:
        """The time of a change: as given by an import, else now."""
        return self.now if given is None else given
