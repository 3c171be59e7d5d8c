"""The changes of one record, applied in order inside its transaction.

`Recording` collects the changes to the session's row and writes that row once, at the end. The
engines' own `record` begins it (fence and lock), inserts and indexes messages, and knows the
columns of the preview.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from clew.core import changes
from clew.core.changes import Change, Recorded
from clew.core.message import ROLES, Draft, blob_hashes, find_bad_part
from clew.core.text import from_json, to_json
from clew.core.usage import Usage
from clew.errors import Conflict, InvalidInput, RecordNotFound
from clew.store.rows import (
    Row,
    byte_length,
    checksum,
    message_bindings,
    optional,
    plain,
    text,
    usage_bindings,
    whole,
)
from clew.store.work.delivery import ADD_OUTBOUND, outbound_bindings
from clew.store.work.sessions import describe
from clew.store.work.thread import Line, is_hidden, read_line
from clew.store.work.transaction import Transaction

PREVIEW = 200
"""Characters of the first user message that a list keeps."""

_COUNT = """
UPDATE sessions SET message_count = message_count + $2, content_bytes = content_bytes + $3
WHERE id = $1
"""

_START_TURN = """
INSERT INTO turns (id, session_id, first_seq, status, reply_to, model, started_at)
VALUES ($1, $2, $3, 'running', $4, $5, $6) ON CONFLICT (id) DO NOTHING
"""

_TAKE_INBOUND = """
UPDATE inbox SET status = 'done', turn_id = $1, session_id = $2, settled_at = $4
WHERE id = $3 AND status IN ('queued', 'claimed')
"""

_WAIT_FOR_APPROVAL = """
INSERT INTO approvals (id, session_id, turn_id, tool_call_id, tool_name, request, asked_at,
  expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""

_SET_TURN = """
UPDATE turns SET status = coalesce($3, status)
WHERE id = $1 AND session_id = $2 AND status IN ('running', 'waiting')
"""

_END_TURN = "UPDATE turns SET error = $1, partial = $2, ended_at = $3 WHERE id = $4"

_ADD_USAGE = """
UPDATE {table} SET
  input_tokens = input_tokens + $2, output_tokens = output_tokens + $3,
  cache_read_tokens = cache_read_tokens + $4,
  cache_creation_tokens = cache_creation_tokens + $5, cost = cost + $6,
  api_calls = api_calls + $7
WHERE id = $1
"""
_ADD_SESSION_USAGE = _ADD_USAGE.format(table="sessions")
_ADD_TURN_USAGE = _ADD_USAGE.format(table="turns")
_SET_CONTEXT = "UPDATE sessions SET context_tokens = $1 WHERE id = $2"

_NEXT_STEP = "UPDATE sessions SET undo_steps = undo_steps + 1 WHERE id = $1 RETURNING undo_steps"
_UNDO_TURN = """
INSERT INTO undone (session_id, turn_id, begun, ended, undone_at) VALUES ($1, $2, $3, $4, $5)
"""
_REDO_TURN = """
UPDATE undone SET ended = $3 WHERE session_id = $1 AND turn_id = $2 AND ended IS NULL
"""
_TURN_START = "SELECT session_id, first_seq FROM turns WHERE id = $1"
_COUNT_MESSAGES = """
SELECT count(*) FROM messages
WHERE session_id = $1 AND seq >= $2 AND seq <= $3 AND turn_id = $4 AND role <> 'note'
"""

_KNOWN = "SELECT seq, id FROM messages WHERE session_id = $1 AND external_id = $2"

_IS_SHARED = "SELECT 1 FROM sessions WHERE parent_id = $1 AND forked_at_seq >= $2 LIMIT 1"
_SAID = """
SELECT id, content, parts, tool_calls FROM messages
WHERE session_id = $1 AND seq >= $2 AND seq <= $3 AND turn_id = $4 AND role <> 'erased'
"""
_ERASE = """
UPDATE messages SET role = 'erased', content = '', parts = NULL, tool_call_id = NULL,
  tool_name = NULL, tool_calls = NULL, model = NULL, author = NULL, external_id = NULL,
  checksum = $2
WHERE id = $1
"""
_FORGET_BLOBS = "DELETE FROM message_blobs WHERE message_id = $1"
_FORGET_TURN = "UPDATE turns SET error = NULL, partial = NULL, reply_to = NULL WHERE id = $1"
_IS_ERASED = """
SELECT 1 FROM messages
WHERE session_id = $1 AND seq >= $2 AND turn_id = $3 AND role = 'erased' LIMIT 1
"""
_FIRST_SAID = """
SELECT content FROM messages m WHERE session_id = $1 AND role = 'user' AND trim(content) <> ''
  AND NOT EXISTS (SELECT 1 FROM undone u
    WHERE u.session_id = $1 AND u.turn_id = m.turn_id AND u.ended IS NULL)
ORDER BY seq LIMIT 1
"""

_ADD_COMPACTION = """
INSERT INTO compactions (id, session_id, keep_from, made_at_seq, summary, short_summary,
  tokens_before, tokens_after, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
_NOTE_COMPACTION = """
UPDATE sessions SET compactions = compactions + 1, short_summary = coalesce($2, short_summary),
  context_tokens = coalesce($3, context_tokens) WHERE id = $1
"""
_UNDO_COMPACTION = """
UPDATE compactions SET undone_at = $1 WHERE id = $2 AND session_id = $3 AND undone_at IS NULL
"""
_LAST_SUMMARY = """
UPDATE sessions SET short_summary = (
  SELECT short_summary FROM compactions WHERE session_id = $1 AND undone_at IS NULL
  ORDER BY made_at_seq DESC, ordinal DESC LIMIT 1) WHERE id = $1
"""

_ADD_SCRATCH = """
INSERT INTO scratchpad (session_id, name, content, size, created_at) VALUES ($1, $2, $3, $4, $5)
"""
_DELETE_SCRATCH = "DELETE FROM scratchpad WHERE session_id = $1 AND name = $2 RETURNING size"
_CLEAR_TODOS = "DELETE FROM todos WHERE session_id = $1"
_ADD_TODO = "INSERT INTO todos (session_id, position, text, status) VALUES ($1, $2, $3, $4)"

# The lock keeps a purge from removing the blob before this message is stored.
_LOCK_BLOB = "SELECT 1 FROM blobs WHERE hash = $1 FOR KEY SHARE"
_KEEP_BLOB = "INSERT INTO message_blobs (message_id, hash) VALUES ($1, $2)"

_ANSWER = "SELECT result FROM idempotency WHERE session_id = $1 AND key = $2"
_REMEMBER = "INSERT INTO idempotency (session_id, key, result, at) VALUES ($1, $2, $3, $4)"


async def find_answer(tx: Transaction, session_id: str, key: str) -> Recorded | None:
    """The result of an earlier record with this idempotency key, if there was one."""
    row = await tx.one(_ANSWER, (session_id, text(key)))
    return (
        None if row is None else msgspec.structs.replace(from_json(row[0], Recorded), repeated=True)
    )


async def remember_answer(tx: Transaction, session_id: str, key: str, answer: Recorded) -> None:
    """Store the result for a second record with this idempotency key."""
    await tx.run(_REMEMBER, (session_id, text(key), to_json(answer), answer.at))


def check_usage(usage: Usage) -> tuple[int | None, ...]:
    """Usage in the order of the columns; refuses negative and fractional numbers."""
    bindings = _whole_usage(usage)
    if min(value or 0 for value in bindings) < 0:
        raise InvalidInput("Usage can't be negative.")
    return bindings


def _whole_usage(usage: Usage) -> tuple[int | None, ...]:
    return tuple(map(whole, usage_bindings(usage)))


def new_message(change: changes.AddMessage, now: int) -> tuple[Row, int, int]:
    """A draft as NEW_MESSAGE_COLUMNS, its size in bytes, and its time."""
    draft = change.draft
    if not isinstance(draft, Draft):
        raise InvalidInput(
            f'A message is given as a Draft, as in Draft(role="user", content=…), not as '
            f"{type(draft).__name__}. Nothing was written."
        )
    if draft.role not in ROLES:
        raise InvalidInput(f'A message is from {", ".join(ROLES)}, not "{draft.role}".')
    bad = find_bad_part(draft.parts)
    if bad is not None:
        raise InvalidInput(f"{bad} Nothing was written.")
    if draft.usage is not None:
        _whole_usage(draft.usage)
    bindings, size = message_bindings(draft, change.turn_id)
    at = now if draft.at is None else whole(draft.at)
    assert at is not None
    return bindings, size, at


class Recording(ABC):
    """The changes of one record as they are applied."""

    def __init__(
        self, tx: Transaction, session_id: str, *, now: int, head: int, no_preview: bool
    ) -> None:
        self.tx = tx
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
        self._bytes = 0
        self._added = False

    @abstractmethod
    async def insert_message(self, change: changes.AddMessage, bindings: Row, at: int) -> int:
        """Insert the row of a message at `head`, and index it; returns its id."""

    @abstractmethod
    async def forget_words(self, row_id: int) -> None:
        """Take the words of an erased message out of the search index."""

    @abstractmethod
    async def set_preview(self, preview: str | None) -> None:
        """Replace the session's preview."""

    @abstractmethod
    async def advance(self, bindings: Row, preview: str | None) -> None:
        """Bring the session's row up to its new head.

        The bindings are its id and head, messages and bytes to add, the time of the last message,
        and when a person last wrote. `preview` is used if the session has none yet.
        """

    async def apply(self, requested: Sequence[Change]) -> None:
        """Apply changes, in order."""
        for change in requested:
            handler = _HANDLERS.get(type(change))
            if handler is None:
                raise InvalidInput(f"{type(change).__name__} is not a change that can be recorded.")
            await handler(self, change)

    async def finish(self) -> Recorded:
        """Write the session's row, if anything changed it."""
        if self._added:
            bindings = (
                self.session_id, self.head, self._count, self._bytes, self._updated_at,
                self._interaction,
            )  # fmt: skip
            await self.advance(bindings, self._preview)
        elif self._count or self._bytes:
            await self.tx.run(_COUNT, (self.session_id, self._count, self._bytes))
        return Recorded(tuple(self._seqs), tuple(self._ids), self.head, self.now)

    def _at(self, given: int | None) -> int:
        """The time of a change: as given by an import, else now."""
        at = self.now if given is None else whole(given)
        assert at is not None
        return at

    # --- messages -----------------------------------------------------------------------------

    async def _add_message(self, change: changes.AddMessage) -> None:
        draft = change.draft
        bindings, size, at = new_message(change, self.now)
        if draft.external_id is not None:
            known = await self.tx.one(_KNOWN, (self.session_id, text(draft.external_id)))
            if known is not None and not change.once:
                raise Conflict(f"This session has the message {draft.external_id} already.")
            if known is not None:
                self._seqs.append(known[0])
                self._ids.append(known[1])
                return
        self.head += 1
        self._added = True
        row_id = await self.insert_message(change, bindings, at)
        if draft.parts:
            for blob_hash in blob_hashes(draft.parts):
                await self._keep_blob(row_id, blob_hash)
        self._seqs.append(self.head)
        self._ids.append(row_id)
        self._count += draft.role != "note"
        self._bytes += size
        self._updated_at = max(self._updated_at, at)
        if draft.role == "user":
            if change.from_person:
                self._interaction = at
            if self._no_preview and self._preview is None and draft.content.strip():
                self._preview = text(draft.content.strip()[:PREVIEW])

    async def _keep_blob(self, row_id: int, blob_hash: str) -> None:
        if await self.tx.one(_LOCK_BLOB, (text(blob_hash),)) is None:
            raise InvalidInput(f"A message needs the blob {blob_hash}, which is not in the store.")
        await self.tx.run(_KEEP_BLOB, (row_id, blob_hash))

    # --- turns --------------------------------------------------------------------------------

    async def _start_turn(self, change: changes.StartTurn) -> None:
        bindings = (
            text(change.turn_id),
            self.session_id,
            self.head + 1,
            None if change.reply_to is None else to_json(change.reply_to),
            optional(change.model),
            self._at(change.at),
        )
        if not await self.tx.run(_START_TURN, bindings):
            raise Conflict(f"There is already a turn {change.turn_id}.")
        await self._take(change.turn_id, change.inbound)

    async def _take_inbound(self, change: changes.TakeInbound) -> None:
        await self._set_turn(change.turn_id, None)
        await self._take(change.turn_id, change.inbound)

    async def _take(self, turn_id: str, inbound: tuple[str, ...]) -> None:
        for inbound_id in inbound:
            bindings = (text(turn_id), self.session_id, text(inbound_id), self.now)
            if not await self.tx.run(_TAKE_INBOUND, bindings):
                raise Conflict(f"The inbound message {inbound_id} has been taken already.")

    async def _wait_for_approval(self, change: changes.WaitForApproval) -> None:
        await self._set_turn(change.turn_id, "waiting")
        bindings = (
            text(change.approval_id),
            self.session_id,
            text(change.turn_id),
            text(change.tool_call_id),
            text(change.tool_name),
            to_json(change.request),
            self.now,
            whole(change.expires_at),
        )
        await self.tx.run(_WAIT_FOR_APPROVAL, bindings)

    async def _resume_turn(self, change: changes.ResumeTurn) -> None:
        await self._set_turn(change.turn_id, "running")

    async def _end_turn(self, change: changes.EndTurn) -> None:
        await self._set_turn(change.turn_id, change.status)
        bindings = (
            optional(change.error),
            optional(change.partial),
            self._at(change.at),
            text(change.turn_id),
        )
        await self.tx.run(_END_TURN, bindings)

    async def _set_turn(self, turn_id: str, status: str | None) -> None:
        """Set the state of an unfinished turn; None only checks that it is unfinished."""
        if not await self.tx.run(_SET_TURN, (text(turn_id), self.session_id, status)):
            raise RecordNotFound("unfinished turn in this session", turn_id)

    async def _add_usage(self, change: changes.AddUsage) -> None:
        bindings = check_usage(change.usage)
        await self.tx.run(_ADD_SESSION_USAGE, (self.session_id, *bindings))
        if change.context_tokens is not None:
            await self.tx.run(_SET_CONTEXT, (whole(change.context_tokens), self.session_id))
        if change.turn_id is not None and not await self.tx.run(
            _ADD_TURN_USAGE, (text(change.turn_id), *bindings)
        ):
            raise RecordNotFound("turn", change.turn_id)

    async def _undo_turn(self, change: changes.UndoTurn) -> None:
        line = await read_line(self.tx, self.session_id)
        count = await self._count_messages(line, change.turn_id)
        if not await is_hidden(self.tx, line, change.turn_id):
            step = await self._next_step()
            bindings = (self.session_id, text(change.turn_id), step, None, self._at(change.at))
            await self.tx.run(_UNDO_TURN, bindings)
            self._count -= count

    async def _redo_turn(self, change: changes.RedoTurn) -> None:
        line = await read_line(self.tx, self.session_id)
        count = await self._count_messages(line, change.turn_id)
        if await is_hidden(self.tx, line, change.turn_id):
            if await self._is_erased(change.turn_id):
                raise RecordNotFound("turn in this thread", change.turn_id)
            step = await self._next_step()
            bindings = (self.session_id, text(change.turn_id), step)
            if not await self.tx.run(_REDO_TURN, bindings):
                # A parent had undone it: a mark that ends where it begins goes before that.
                await self.tx.run(_UNDO_TURN, (*bindings, step, self.now))
            self._count += count

    async def _erase_turn(self, change: changes.EraseTurn) -> None:
        await self._undo_turn(changes.UndoTurn(change.turn_id))
        turn_id = text(change.turn_id)
        row = await self.tx.one(_TURN_START, (turn_id,))
        assert row is not None
        session_id, first = row
        if session_id != self.session_id or await self.tx.one(_IS_SHARED, row) is not None:
            return
        empty = checksum(turn_id, "erased", "", *[None] * 6)
        for row_id, *said in await self.tx.fetch(_SAID, (session_id, first, self.head, turn_id)):
            self._bytes -= sum(byte_length(each or "") for each in said)
            await self.tx.run(_ERASE, (row_id, empty))
            await self.tx.run(_FORGET_BLOBS, (row_id,))
            await self.forget_words(row_id)
        await self.tx.run(_FORGET_TURN, (turn_id,))
        oldest = await self.tx.one(_FIRST_SAID, (self.session_id,))
        self._preview = None if oldest is None else text((plain(oldest[0]) or "").strip()[:PREVIEW])
        await self.set_preview(self._preview)
        self._no_preview = self._preview is None

    async def _is_erased(self, turn_id: str) -> bool:
        row = await self.tx.one(_TURN_START, (text(turn_id),))
        bindings = None if row is None else (*row, text(turn_id))
        return bindings is not None and await self.tx.one(_IS_ERASED, bindings) is not None

    async def _describe_session(self, change: changes.DescribeSession) -> None:
        await describe(self.tx, self.session_id, change.facts, change.noted)

    async def _next_step(self) -> int:
        """The number of the next step of undoing and redoing in this session."""
        ((step,),) = await self.tx.fetch(_NEXT_STEP, (self.session_id,))
        return int(step)

    async def _count_messages(self, line: Line, turn_id: str) -> int:
        """How many messages a turn has in this thread; the turn must belong to the thread."""
        row = await self.tx.one(_TURN_START, (text(turn_id),))
        # The session's row still has the old head; messages of this record count too.
        for part in line.segments:
            own = part.session_id == self.session_id
            if row is not None and row[0] == part.session_id and (own or row[1] <= part.high):
                high = self.head if own else part.high
                bindings = (row[0], row[1], high, text(turn_id))
                ((count,),) = await self.tx.fetch(_COUNT_MESSAGES, bindings)
                return int(count)
        raise RecordNotFound("turn in this thread", turn_id)

    # --- compactions, notes, replies ------------------------------------------------------------

    async def _add_compaction(self, change: changes.AddCompaction) -> None:
        if not 1 <= change.keep_from <= self.head + 1:
            raise InvalidInput(f"A compaction can't keep from {change.keep_from} of {self.head}.")
        short_summary, tokens_after = optional(change.short_summary), whole(change.tokens_after)
        bindings = (
            text(change.compaction_id),
            self.session_id,
            change.keep_from,
            self.head,
            text(change.summary),
            short_summary,
            whole(change.tokens_before),
            tokens_after,
            self._at(change.at),
        )
        await self.tx.run(_ADD_COMPACTION, bindings)
        await self.tx.run(_NOTE_COMPACTION, (self.session_id, short_summary, tokens_after))

    async def _undo_compaction(self, change: changes.UndoCompaction) -> None:
        """Undo a compaction: the previous one applies again. The counter of compactions stays."""
        bindings = (self._at(change.at), text(change.compaction_id), self.session_id)
        if not await self.tx.run(_UNDO_COMPACTION, bindings):
            raise RecordNotFound("compaction in this session", change.compaction_id)
        await self.tx.run(_LAST_SUMMARY, (self.session_id,))

    async def _write_scratch(self, change: changes.WriteScratch) -> None:
        if not change.name:
            raise InvalidInput("A scratchpad entry needs a name.")
        content = text(change.content)
        size = byte_length(content)
        await self._forget_scratch(change.name)
        bindings = (self.session_id, text(change.name), content, size, self._at(change.at))
        await self.tx.run(_ADD_SCRATCH, bindings)
        self._bytes += size

    async def _delete_scratch(self, change: changes.DeleteScratch) -> None:
        await self._forget_scratch(change.name)

    async def _forget_scratch(self, name: str) -> None:
        gone = await self.tx.fetch(_DELETE_SCRATCH, (self.session_id, text(name)))
        self._bytes -= sum(size for (size,) in gone)

    async def _write_todos(self, change: changes.WriteTodos) -> None:
        await self.tx.run(_CLEAR_TODOS, (self.session_id,))
        for position, todo in enumerate(change.todos, 1):
            await self.tx.run(_ADD_TODO, (self.session_id, position, text(todo.text), todo.status))

    async def _send(self, change: changes.Send) -> None:
        bindings = outbound_bindings(change.outbound, self.session_id, self.now)
        await self.tx.run(ADD_OUTBOUND, bindings)


_HANDLERS: dict[type[Any], Callable[[Recording, Any], Awaitable[None]]] = {
    changes.AddMessage: Recording._add_message,
    changes.StartTurn: Recording._start_turn,
    changes.TakeInbound: Recording._take_inbound,
    changes.WaitForApproval: Recording._wait_for_approval,
    changes.ResumeTurn: Recording._resume_turn,
    changes.EndTurn: Recording._end_turn,
    changes.AddUsage: Recording._add_usage,
    changes.UndoTurn: Recording._undo_turn,
    changes.RedoTurn: Recording._redo_turn,
    changes.EraseTurn: Recording._erase_turn,
    changes.DescribeSession: Recording._describe_session,
    changes.AddCompaction: Recording._add_compaction,
    changes.UndoCompaction: Recording._undo_compaction,
    changes.WriteScratch: Recording._write_scratch,
    changes.DeleteScratch: Recording._delete_scratch,
    changes.WriteTodos: Recording._write_todos,
    changes.Send: Recording._send,
}
