"""Trash, purge and retention.

Trashing is a mark. Purging takes a session away from view for good first, then removes its messages
in small steps, so that no writer waits long; the next purge finishes what a crash has left.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.session import Retained, Retention, RetentionAction
from clew.errors import Locked
from clew.store.rows import text
from clew.store.work.delivery import forget_inbound, forget_outbound
from clew.store.work.imports import untouched_imports
from clew.store.work.leases import forget_dead_holders, held_sessions
from clew.store.work.transaction import Engine, Transaction

_STEP = 200
"""Messages removed in one transaction."""

KEEP_BLOBS_MS = 86_400_000
"""A blob that no message has yet is left alone for a day: its message may be on the way."""

KEEP_KEYS_MS = 8 * 86_400_000
"""Idempotency keys are promised for seven days."""

_LOCK_ALL = "SELECT id FROM sessions WHERE id = ANY ($1) ORDER BY id FOR UPDATE"

_DELETE = """
UPDATE sessions SET deleted_at = $2 WHERE id = ANY ($1) AND deleted_at IS NULL RETURNING id
"""

_RESTORE = """
UPDATE sessions SET deleted_at = NULL
WHERE id = ANY ($1) AND deleted_at IS NOT NULL AND purged_at IS NULL RETURNING id
"""

_ARCHIVE = "UPDATE sessions SET archived_at = $2 WHERE id = ANY ($1) RETURNING id"

_DELETED_LAST = """
SELECT id FROM sessions WHERE purged_at IS NULL AND deleted_at =
  (SELECT max(deleted_at) FROM sessions WHERE purged_at IS NULL) ORDER BY id
"""

_DELETED_BEFORE = """
SELECT id FROM sessions WHERE deleted_at < $1 AND purged_at IS NULL ORDER BY deleted_at, id
"""

_HIDE = """
UPDATE sessions SET purged_at = $2, title = NULL, title_key = NULL, title_by = NULL,
  short_summary = NULL, display_name = NULL, subject = NULL, room = NULL, space = NULL,
  origin = '{{}}', last_route = NULL, metadata = '{{}}', transcript_path = NULL, {preview}
WHERE id = ANY ($1) AND deleted_at IS NOT NULL AND purged_at IS NULL RETURNING id
"""

_BELONGINGS = (
    "routes", "scratchpad", "todos", "compactions", "approvals", "idempotency", "outbox",
    "context_lines",
    "attachments", "leases",
)  # fmt: skip

# A fork may still undo an inherited turn, it passes over what this session had undone, and a second
# delivery must still be recognised: those rows stay, without what was said in them.
_EMPTY = (
    """UPDATE turns SET partial = NULL, error = NULL, reply_to = NULL
       WHERE session_id = ANY ($1)""",
    "UPDATE inbox SET payload = '{}' WHERE session_id = ANY ($1)",
)

# Every purged session has been deleted before: the index of the trash leads to it.
_PURGED = "deleted_at IS NOT NULL AND purged_at IS NOT NULL"

# A fork still reads everything of a purged session up to its highest knot. (The order of a CROSS
# JOIN is SQLite's too: messages are looked up by session.)
_NEXT_TO_REMOVE = f"""
SELECT m.id FROM sessions s CROSS JOIN messages m
WHERE {_PURGED} AND m.session_id = s.id AND m.seq >
  coalesce((SELECT max(forked_at_seq) FROM sessions child WHERE child.parent_id = s.id), 0)
LIMIT $1
"""

_BLOBS_OF = "SELECT DISTINCT hash FROM message_blobs WHERE message_id = ANY ($1)"
_REMOVE_MESSAGES = "DELETE FROM messages WHERE id = ANY ($1)"

_REMOVE_SESSIONS = f"""
DELETE FROM sessions WHERE {_PURGED}
AND NOT EXISTS (SELECT 1 FROM sessions child WHERE child.parent_id = sessions.id)
AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.session_id = sessions.id)
"""

# A blob that another transaction is just giving to a message is passed over.
_REMOVE_BLOBS = """
DELETE FROM blobs WHERE NOT EXISTS (SELECT 1 FROM message_blobs b WHERE b.hash = blobs.hash)
AND hash IN (SELECT hash FROM blobs WHERE {which} FOR UPDATE SKIP LOCKED)
"""

_FORGET_KEYS = "DELETE FROM idempotency WHERE at < $1"

_ACTIVE = "deleted_at IS NULL AND (archived_at IS NOT NULL) = FALSE"

_EXPIRED = f"""
SELECT id FROM sessions WHERE {_ACTIVE} AND pinned = FALSE AND updated_at < $1
ORDER BY updated_at, id
"""

_NEWEST = f"SELECT id FROM sessions WHERE {_ACTIVE} ORDER BY updated_at DESC, id DESC LIMIT 1"

# All of it from the index alone.
_ACTIVE_SIZES = f"SELECT pinned, updated_at, id, content_bytes FROM sessions WHERE {_ACTIVE}"


class SharedTrash:
    """`ports.Trash`."""

    _engine: Engine

    async def delete_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Trash`."""
        return await self._engine.write(lambda tx: _delete(tx, ids))

    async def restore_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Trash`."""
        return await self._engine.write(lambda tx: _change(tx, _RESTORE, ids))

    async def restore_last(self) -> tuple[str, ...]:
        """See `ports.Trash`."""

        async def work(tx: Transaction) -> tuple[str, ...]:
            rows = await tx.fetch(_DELETED_LAST)
            return await _change(tx, _RESTORE, [session_id for (session_id,) in rows])

        return await self._engine.write(work)

    async def purge_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Trash`."""
        await forget_dead_holders(self._engine)
        purged = await self._engine.write(lambda tx: self._hide(tx, ids))
        await self.sweep()
        return purged

    async def purge_trash(self, deleted_before: int) -> tuple[str, ...]:
        """See `ports.Trash`."""
        await forget_dead_holders(self._engine)

        async def work(tx: Transaction) -> list[str]:
            rows = await tx.fetch(_DELETED_BEFORE, (deleted_before,))
            held = await held_sessions(self._engine, tx, await tx.now())
            return [session_id for (session_id,) in rows if session_id not in held]

        return await self.purge_sessions(await self._engine.read(work))

    async def _hide(self, tx: Transaction, ids: Sequence[str]) -> tuple[str, ...]:
        await _lock_all(tx, ids)
        now = await tx.now()
        held = await held_sessions(self._engine, tx, now, ids)
        if held:
            raise Locked(
                f"Sessions in use can't be purged: {', '.join(sorted(held))}. "
                "Close them first. Nothing was changed."
            )
        preview = ", ".join(f"{each} = NULL" for each in self._engine.dialect.preview_columns)
        purged = await _change(tx, _HIDE.format(preview=preview), ids, now)
        for table in _BELONGINGS:
            await tx.run(f"DELETE FROM {table} WHERE session_id = ANY ($1)", (list(purged),))
        for sql in _EMPTY:
            await tx.run(sql, (list(purged),))
        return purged

    async def sweep(self) -> None:
        """See `ports.Trash`. Step by step: messages, then sessions without any, then the rest."""
        # A session that goes may free the messages that its parent kept for it.
        while await self._engine.write(_remove_messages) or await self._engine.write(
            _remove_sessions
        ):
            pass
        while await self._engine.write(forget_inbound):
            pass
        await self._engine.write(_forget)

    async def prune_old_sessions(
        self, older_than: int, *, action: RetentionAction = "archive", dry_run: bool = False
    ) -> tuple[str, ...]:
        """See `ports.Trash`."""
        await forget_dead_holders(self._engine)

        async def work(tx: Transaction) -> tuple[str, ...]:
            spared = await self._spared(tx) | await untouched_imports(tx)
            expired = await _expired(tx, older_than, spared=spared)
            return expired if dry_run else await _put_away(tx, expired, action)

        return await (self._engine.snapshot(work) if dry_run else self._engine.write(work))

    async def retain(self, policy: Retention, *, dry_run: bool = False) -> Retained:
        """See `ports.Trash`."""
        await forget_dead_holders(self._engine)

        async def choose(tx: Transaction) -> Retained:
            spared, untouched = await self._spared(tx), await untouched_imports(tx)
            cutoff = policy.idle_cutoff(await tx.now())
            idle = () if cutoff is None else await _expired(tx, cutoff, spared=spared | untouched)
            uncounted = untouched.union(idle)
            oversize = await _oversize(
                tx, policy.max_storage_bytes, uncounted=uncounted, spared=spared
            )
            return Retained(policy.action, idle, oversize)

        async def work(tx: Transaction) -> Retained:
            chosen = await choose(tx)
            await _put_away(tx, chosen.ids, policy.action)
            return chosen

        chosen = await self._engine.snapshot(choose)
        return chosen if dry_run or not chosen.ids else await self._engine.write(work)

    async def _spared(self, tx: Transaction) -> set[str]:
        """The sessions that retention never takes: the newest one, and those in use."""
        newest = {session_id for (session_id,) in await tx.fetch(_NEWEST)}
        return newest | await held_sessions(self._engine, tx, await tx.now())


async def _lock_all(tx: Transaction, ids: Sequence[str]) -> None:
    """Lock sessions in the order of their ids, so that two can't lock each other out."""
    await tx.fetch(_LOCK_ALL, ([text(each) for each in ids],))


async def _change(
    tx: Transaction, sql: str, ids: Sequence[str], *values: object
) -> tuple[str, ...]:
    """Which of the ids a statement has changed, in the order in which they were given."""
    await _lock_all(tx, ids)
    stored = {text(each): each for each in ids}
    rows = await tx.fetch(sql, (list(stored), *values))
    changed = {session_id for (session_id,) in rows}
    return tuple(given for each, given in stored.items() if each in changed)


async def _delete(tx: Transaction, ids: Sequence[str]) -> tuple[str, ...]:
    return await _change(tx, _DELETE, ids, await new_deletion_time(tx))


async def new_deletion_time(tx: Transaction) -> int:
    """The time of a deletion. One for all sessions makes them one act for `restore_last`.

    No two acts share one.
    """
    await tx.serialize("deleting")
    ((latest,),) = await tx.fetch("SELECT max(deleted_at) FROM sessions")
    return max(await tx.now(), (latest or 0) + 1)


async def _put_away(
    tx: Transaction, ids: Sequence[str], action: RetentionAction
) -> tuple[str, ...]:
    if action == "delete":
        return await _delete(tx, ids)
    return await _change(tx, _ARCHIVE, ids, await tx.now())


async def _remove_messages(tx: Transaction) -> bool:
    """Remove some of the messages that no session reads any more; whether there were any."""
    ids = [row_id for (row_id,) in await tx.fetch(_NEXT_TO_REMOVE, (_STEP,))]
    if ids:
        blobs = [blob for (blob,) in await tx.fetch(_BLOBS_OF, (ids,))]
        await tx.run(_REMOVE_MESSAGES, (ids,))
        if blobs:
            await tx.run(_REMOVE_BLOBS.format(which="hash = ANY ($1)"), (blobs,))
    return bool(ids)


async def _remove_sessions(tx: Transaction) -> bool:
    """Remove purged sessions that have no message and no fork; whether there were any."""
    return await tx.run(_REMOVE_SESSIONS) > 0


async def _forget(tx: Transaction) -> None:
    """Remove blobs that no message has, and keys and deliveries that are too old to be needed."""
    now = await tx.now()
    await tx.run(_REMOVE_BLOBS.format(which="created_at < $1"), (now - KEEP_BLOBS_MS,))
    await tx.run(_FORGET_KEYS, (now - KEEP_KEYS_MS,))
    await forget_outbound(tx)


async def _expired(tx: Transaction, older_than: int, *, spared: set[str]) -> tuple[str, ...]:
    rows = await tx.fetch(_EXPIRED, (older_than,))
    return tuple(session_id for (session_id,) in rows if session_id not in spared)


async def _oversize(
    tx: Transaction, most: int, *, uncounted: set[str], spared: set[str]
) -> tuple[str, ...]:
    """The oldest sessions that must go for the rest to fit."""
    if most <= 0:
        return ()
    rows = await tx.fetch(_ACTIVE_SIZES)
    rows = sorted(
        (at, each, size, pinned) for pinned, at, each, size in rows if each not in uncounted
    )
    total = sum(size for _, _, size, _ in rows)
    chosen: list[str] = []
    for _, session_id, size, pinned in rows:
        if total <= most:
            break
        if not pinned and session_id not in spared:
            chosen.append(session_id)
            total -= size
    return tuple(chosen)
