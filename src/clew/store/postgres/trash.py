"""Trash, purge and retention in PostgreSQL.

Trashing is a mark. Purging takes the session away from view for good first; what is left of it then
goes in small steps, which are in `purging`.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.retention import Retained, Retention, RetentionAction
from clew.errors import Locked
from clew.store.postgres.connection import Connection, fetch
from clew.store.postgres.database import Database
from clew.store.postgres.holds import bury_dead_holders, held_sessions
from clew.store.postgres.purging import forget, remove_husks, remove_messages
from clew.store.rows import text

_DELETING = 0x636C6577_00000003
"""The advisory lock of whoever deletes: each act has a time of its own."""

_LOCK_ALL = "SELECT id FROM sessions WHERE id = ANY ($1) ORDER BY id FOR UPDATE"

_SCRUB = """
UPDATE sessions SET purged_at = $2, title = NULL, title_key = NULL, title_by = NULL,
  preview = NULL, preview_key = NULL, short_summary = NULL, display_name = NULL, subject = NULL,
  room = NULL, space = NULL, origin = '{}', last_route = NULL, metadata = '{}',
  transcript_path = NULL
WHERE id = ANY ($1) AND deleted_at IS NOT NULL AND purged_at IS NULL RETURNING id
"""

_BELONGINGS = (
    "routes", "scratchpad", "todos", "compactions", "approvals", "idempotency", "outbox",
    "attachments", "leases", "undone",
)  # fmt: skip

_EXPIRED = """
SELECT id FROM sessions
WHERE deleted_at IS NULL AND archived_at IS NULL AND NOT pinned AND updated_at < $1
ORDER BY updated_at, id
"""

# All of it from the index alone.
_ACTIVE_SIZES = """
SELECT pinned, updated_at, id, content_bytes FROM sessions
WHERE deleted_at IS NULL AND archived_at IS NULL
"""

_NEWEST = """
SELECT id FROM sessions WHERE deleted_at IS NULL AND archived_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT 1
"""


class PostgresTrash:
    """`ports.Trash`."""

    _db: Database

    async def delete_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Trash`."""
        return await self._db.write(lambda connection: self._delete(connection, ids))

    async def _delete(self, connection: Connection, ids: Sequence[str]) -> tuple[str, ...]:
        # One time for all of them makes them one act for `restore_last`; never the same twice.
        await connection.execute("SELECT pg_advisory_xact_lock($1)", (_DELETING,))
        await _lock_all(connection, ids)
        ((latest,),) = await fetch(connection, "SELECT max(deleted_at) FROM sessions")
        now = max(await self._db.now(connection), (latest or 0) + 1)
        sql = """UPDATE sessions SET deleted_at = $2
            WHERE id = ANY ($1) AND deleted_at IS NULL RETURNING id"""
        return await _touched(connection, sql, ids, now)

    async def restore_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Trash`."""
        return await self._db.write(lambda connection: _restore(connection, ids))

    async def restore_last(self) -> tuple[str, ...]:
        """See `ports.Trash`."""

        async def job(connection: Connection) -> tuple[str, ...]:
            rows = await fetch(
                connection,
                """SELECT id FROM sessions WHERE purged_at IS NULL AND deleted_at =
                     (SELECT max(deleted_at) FROM sessions WHERE purged_at IS NULL) ORDER BY id""",
            )
            return await _restore(connection, [session_id for (session_id,) in rows])

        return await self._db.write(job)

    async def purge_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Trash`."""
        await bury_dead_holders(self._db)
        purged = await self._db.write(lambda connection: self._hide(connection, ids))
        await self.sweep()
        return purged

    async def purge_trash(self, deleted_before: int) -> tuple[str, ...]:
        """See `ports.Trash`."""
        await bury_dead_holders(self._db)

        async def job(connection: Connection) -> list[str]:
            rows = await fetch(
                connection,
                """SELECT id FROM sessions
                   WHERE deleted_at < $1 AND purged_at IS NULL ORDER BY deleted_at, id""",
                (deleted_before,),
            )
            held = await held_sessions(connection, await self._db.now(connection))
            return [session_id for (session_id,) in rows if session_id not in held]

        return await self.purge_sessions(await self._db.read(job))

    async def _hide(self, connection: Connection, ids: Sequence[str]) -> tuple[str, ...]:
        await _lock_all(connection, ids)
        now = await self._db.now(connection)
        held = await held_sessions(connection, now, among=ids)
        if held:
            raise Locked(
                f"In use, and so not removed for good: {', '.join(sorted(held))}. "
                "Nothing was changed; close them first."
            )
        purged = await _touched(connection, _SCRUB, ids, now)
        for table in _BELONGINGS:
            await connection.execute(
                f"DELETE FROM {table} WHERE session_id = ANY ($1)", (list(purged),)
            )
        # A fork may still undo an inherited turn, and a second delivery must still be known;
        # what was said in them goes.
        await connection.execute(
            """UPDATE turns SET partial = NULL, error = NULL, reply_to = NULL
               WHERE session_id = ANY ($1)""",
            (list(purged),),
        )
        await connection.execute(
            "UPDATE inbox SET payload = '{}' WHERE session_id = ANY ($1)", (list(purged),)
        )
        return purged

    async def sweep(self) -> None:
        """Remove what purged sessions left, step by step: messages, then rows that nobody needs."""
        # A session that goes may free the messages that its parent kept for it.
        while await self._db.write(remove_messages) or await self._db.write(remove_husks):
            pass

        async def job(connection: Connection) -> None:
            await forget(connection, await self._db.now(connection))

        await self._db.write(job)

    async def prune_old_sessions(
        self, older_than: int, *, action: RetentionAction = "archive", dry_run: bool = False
    ) -> tuple[str, ...]:
        """See `ports.Trash`."""
        await bury_dead_holders(self._db)

        async def job(connection: Connection) -> tuple[str, ...]:
            spared = await self._spared(connection)
            expired = await _expired(connection, older_than, spared=spared)
            return expired if dry_run else await self._put_away(connection, expired, action)

        return await (self._db.snapshot(job) if dry_run else self._db.write(job))

    async def retain(self, policy: Retention, *, dry_run: bool = False) -> Retained:
        """See `ports.Trash`."""
        await bury_dead_holders(self._db)

        async def choose(connection: Connection) -> Retained:
            spared = await self._spared(connection)
            cutoff = policy.idle_cutoff(await self._db.now(connection))
            idle = () if cutoff is None else await _expired(connection, cutoff, spared=spared)
            oversize = await _oversize(
                connection, policy.max_storage_bytes, gone=set(idle), spared=spared
            )
            return Retained(policy.action, idle, oversize)

        async def job(connection: Connection) -> Retained:
            chosen = await choose(connection)
            await self._put_away(connection, chosen.ids, policy.action)
            return chosen

        chosen = await self._db.snapshot(choose)
        return chosen if dry_run or not chosen.ids else await self._db.write(job)

    async def _spared(self, connection: Connection) -> set[str]:
        newest = await fetch(connection, _NEWEST)
        held = await held_sessions(connection, await self._db.now(connection))
        return held | {session_id for (session_id,) in newest}

    async def _put_away(
        self, connection: Connection, ids: tuple[str, ...], action: RetentionAction
    ) -> tuple[str, ...]:
        if action == "delete":
            return await self._delete(connection, ids)
        await _lock_all(connection, ids)
        now = await self._db.now(connection)
        sql = "UPDATE sessions SET archived_at = $2 WHERE id = ANY ($1) RETURNING id"
        return await _touched(connection, sql, ids, now)


async def _lock_all(connection: Connection, ids: Sequence[str]) -> None:
    """Lock sessions in the order of their ids, lest two lock each other out."""
    await connection.execute(_LOCK_ALL, ([text(each) for each in ids],))


async def _touched(
    connection: Connection, sql: str, ids: Sequence[str], *values: object
) -> tuple[str, ...]:
    """Which of the ids a statement has changed, in the order in which they were given."""
    stored = {text(each): each for each in ids}
    rows = await fetch(connection, sql, (list(stored), *values))
    changed = {session_id for (session_id,) in rows}
    return tuple(given for each, given in stored.items() if each in changed)


async def _restore(connection: Connection, ids: Sequence[str]) -> tuple[str, ...]:
    await _lock_all(connection, ids)
    sql = """UPDATE sessions SET deleted_at = NULL
        WHERE id = ANY ($1) AND deleted_at IS NOT NULL AND purged_at IS NULL RETURNING id"""
    return await _touched(connection, sql, ids)


async def _expired(connection: Connection, older_than: int, *, spared: set[str]) -> tuple[str, ...]:
    rows = await fetch(connection, _EXPIRED, (older_than,))
    return tuple(session_id for (session_id,) in rows if session_id not in spared)


async def _oversize(
    connection: Connection, most: int, *, gone: set[str], spared: set[str]
) -> tuple[str, ...]:
    """The oldest sessions that must go for the rest to fit."""
    if most <= 0:
        return ()
    rows = await fetch(connection, _ACTIVE_SIZES)
    rows = sorted((at, each, size, pinned) for pinned, at, each, size in rows if each not in gone)
    total = sum(size for _, _, size, _ in rows)
    chosen: list[str] = []
    for _, session_id, size, pinned in rows:
        if total <= most:
            break
        if not pinned and session_id not in spared:
            chosen.append(session_id)
            total -= size
    return tuple(chosen)
