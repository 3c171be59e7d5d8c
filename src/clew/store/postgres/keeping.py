"""The changes of a record that are not messages or turns: compactions, notes, replies to send."""

from __future__ import annotations

from clew.core import changes
from clew.core.jsontext import to_json
from clew.errors import InvalidInput, RecordNotFound
from clew.store.postgres.connection import fetch
from clew.store.postgres.recording import Recording, whole
from clew.store.rows import byte_length, optional, text


async def add_compaction(recording: Recording, change: changes.AddCompaction) -> None:
    """A summary that stands for what comes before `keep_from`."""
    if not 1 <= change.keep_from <= recording.head + 1:
        raise InvalidInput(f"A compaction can't keep from {change.keep_from} of {recording.head}.")
    await recording.connection.execute(
        """INSERT INTO compactions (id, session_id, keep_from, made_at_seq, summary,
             short_summary, tokens_before, tokens_after, created_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)""",
        (
            text(change.compaction_id),
            recording.session_id,
            change.keep_from,
            recording.head,
            text(change.summary),
            optional(change.short_summary),
            whole(change.tokens_before),
            whole(change.tokens_after),
            recording.at(change.at),
        ),
    )
    await recording.connection.execute(
        """UPDATE sessions SET compactions = compactions + 1,
             short_summary = coalesce($2, short_summary),
             context_tokens = coalesce($3, context_tokens) WHERE id = $1""",
        (recording.session_id, optional(change.short_summary), change.tokens_after),
    )


async def undo_compaction(recording: Recording, change: changes.UndoCompaction) -> None:
    """The compaction before it counts again; the counter stays: it happened."""
    undone = await fetch(
        recording.connection,
        """UPDATE compactions SET undone_at = $1
           WHERE id = $2 AND session_id = $3 AND undone_at IS NULL RETURNING 1""",
        (recording.at(change.at), text(change.compaction_id), recording.session_id),
    )
    if not undone:
        raise RecordNotFound("compaction in this session", change.compaction_id)
    await recording.connection.execute(
        """UPDATE sessions SET short_summary = (
             SELECT short_summary FROM compactions
             WHERE session_id = $1 AND undone_at IS NULL
             ORDER BY made_at_seq DESC, ordinal DESC LIMIT 1) WHERE id = $1""",
        (recording.session_id,),
    )


async def write_scratch(recording: Recording, change: changes.WriteScratch) -> None:
    """An entry, over an older one."""
    if not change.name:
        raise InvalidInput("A scratchpad entry needs a name.")
    content = text(change.content)
    size = byte_length(content)
    await _forget_scratch(recording, change.name)
    await recording.connection.execute(
        """INSERT INTO scratchpad (session_id, name, content, size, created_at)
           VALUES ($1, $2, $3, $4, $5)""",
        (recording.session_id, text(change.name), content, size, recording.at(change.at)),
    )
    recording.bytes += size


async def delete_scratch(recording: Recording, change: changes.DeleteScratch) -> None:
    """No entry of that name any more."""
    await _forget_scratch(recording, change.name)


async def _forget_scratch(recording: Recording, name: str) -> None:
    gone = await fetch(
        recording.connection,
        "DELETE FROM scratchpad WHERE session_id = $1 AND name = $2 RETURNING size",
        (recording.session_id, text(name)),
    )
    recording.bytes -= sum(size for (size,) in gone)


async def write_todos(recording: Recording, change: changes.WriteTodos) -> None:
    """The whole list anew."""
    await recording.connection.execute(
        "DELETE FROM todos WHERE session_id = $1", (recording.session_id,)
    )
    for position, todo in enumerate(change.todos, 1):
        await recording.connection.execute(
            "INSERT INTO todos (session_id, position, text, status) VALUES ($1, $2, $3, $4)",
            (recording.session_id, position, text(todo.text), todo.status),
        )


async def send(recording: Recording, change: changes.Send) -> None:
    """An outbox row."""
    new = change.outbound
    await recording.connection.execute(
        """INSERT INTO outbox (id, session_id, key, channel, address, content, turn_id, seq,
             status, due_at, created_at, updated_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $10)""",
        (
            text(new.id),
            recording.session_id,
            text(new.key),
            text(new.channel),
            to_json(new.address),
            text(new.content),
            optional(new.turn_id),
            whole(new.seq),
            "withheld" if new.withheld else "pending",
            recording.now,
        ),
    )
