"""Trash, purge and retention in SQLite.

Trashing is a mark. Purging takes the mark away from view for good first, then removes messages in
small steps, so that no writer waits long and a crash in between is finished by the next purge.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from clew.core.retention import Retained, Retention, RetentionAction
from clew.errors import Locked
from clew.store.rows import text
from clew.store.sqlite.connection import fetch
from clew.store.sqlite.database import Database
from clew.store.sqlite.holds import held_sessions

_STEP = 200
"""Messages removed in one transaction."""

KEEP_BLOBS_MS = 86_400_000
"""A blob that no message has yet is left alone for a day: its message may be on the way."""

KEEP_KEYS_MS = 8 * 86_400_000
"""Idempotency keys are promised for seven days."""

# What a fork still reads of a purged session: everything up to the highest knot.
_NEXT_TO_REMOVE = """
SELECT m.id FROM sessions s JOIN messages m ON m.session_id = s.id
WHERE s.purged_at IS NOT NULL AND m.seq >
  coalesce((SELECT max(forked_at_seq) FROM sessions child WHERE child.parent_id = s.id), 0)
LIMIT ?
"""

_UNUSED = "NOT EXISTS (SELECT 1 FROM message_blobs b WHERE b.hash = blobs.hash)"

_SCRUB = """
UPDATE sessions SET purged_at = ?2, title = NULL, title_key = NULL, title_by = NULL,
  preview = NULL, short_summary = NULL, display_name = NULL, subject = NULL, room = NULL,
  space = NULL, origin = '{}', last_route = NULL, metadata = '{}', transcript_path = NULL
WHERE id = ?1 AND deleted_at IS NOT NULL AND purged_at IS NULL
"""

_BELONGINGS = (
    "routes", "scratchpad", "todos", "compactions", "approvals", "idempotency", "outbox",
    "attachments", "leases", "undone",
)  # fmt: skip

_EXPIRED = """
SELECT id FROM sessions
WHERE deleted_at IS NULL AND (archived_at IS NOT NULL) = 0 AND pinned = 0 AND updated_at < ?
ORDER BY updated_at, id
"""


# All of it from the index alone.
_ACTIVE_SIZES = """
SELECT pinned, updated_at, id, content_bytes FROM sessions
WHERE deleted_at IS NULL AND (archived_at IS NOT NULL) = 0
"""


class SqliteTrash:
    """`ports.Trash`."""

    _db: Database

    async def delete_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Trash`."""
        return await self._db.write(lambda connection: self._delete(connection, ids))

    def _delete(self, connection: apsw.Connection, ids: Sequence[str]) -> tuple[str, ...]:
        # One time for all of them makes them one act for `restore_last`; never the same twice.
        latest = connection.execute("SELECT max(deleted_at) FROM sessions").get
        now = max(self._db.clock(), (latest or 0) + 1)
        sql = "UPDATE sessions SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL RETURNING id"
        return _touched(connection, sql, [(now, text(each)) for each in ids])

    async def restore_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Trash`."""
        return await self._db.write(lambda connection: _restore(connection, ids))

    async def restore_last(self) -> tuple[str, ...]:
        """See `ports.Trash`."""

        def job(connection: apsw.Connection) -> tuple[str, ...]:
            rows = fetch(
                connection,
                """SELECT id FROM sessions WHERE purged_at IS NULL AND deleted_at =
                     (SELECT max(deleted_at) FROM sessions WHERE purged_at IS NULL) ORDER BY id""",
            )
            return _restore(connection, [session_id for (session_id,) in rows])

        return await self._db.write(job)

    async def purge_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `ports.Trash`."""
        purged = await self._db.write(lambda connection: self._hide(connection, ids))
        await self.sweep()
        return purged

    async def purge_trash(self, deleted_before: int) -> tuple[str, ...]:
        """See `ports.Trash`."""

        def job(connection: apsw.Connection) -> list[str]:
            rows = fetch(
                connection,
                """SELECT id FROM sessions
                   WHERE deleted_at < ? AND purged_at IS NULL ORDER BY deleted_at, id""",
                (deleted_before,),
            )
            held = held_sessions(connection, self._db)
            return [session_id for (session_id,) in rows if session_id not in held]

        return await self.purge_sessions(await self._db.read(job))

    def _hide(self, connection: apsw.Connection, ids: Sequence[str]) -> tuple[str, ...]:
        held = held_sessions(connection, self._db).intersection(ids)
        if held:
            raise Locked(
                f"In use, and so not removed for good: {', '.join(sorted(held))}. "
                "Nothing was changed; close them first."
            )
        now = self._db.clock()
        purged = _touched(connection, _SCRUB + " RETURNING id", [(text(each), now) for each in ids])
        for session_id in purged:
            for table in _BELONGINGS:
                connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
            # A fork may still undo an inherited turn, and a second delivery must still be known;
            # what was said in them goes.
            connection.execute(
                """UPDATE turns SET partial = NULL, error = NULL, reply_to = NULL
                   WHERE session_id = ?""",
                (session_id,),
            )
            connection.execute(
                "UPDATE inbox SET payload = '{}' WHERE session_id = ?", (session_id,)
            )
        return purged

    async def sweep(self) -> None:
        """Remove what purged sessions left, step by step: messages, then rows that nobody needs."""
        # A session that goes may free the messages that its parent kept for it.
        while await self._db.write(_remove_messages) or await self._db.write(_remove_husks):
            pass
        now = self._db.clock()
        await self._db.write(lambda connection: _forget(connection, now))

    async def prune_old_sessions(
        self, older_than: int, *, action: RetentionAction = "archive", dry_run: bool = False
    ) -> tuple[str, ...]:
        """See `ports.Trash`."""

        def job(connection: apsw.Connection) -> tuple[str, ...]:
            expired = self._expired(connection, older_than, spared=self._spared(connection))
            return expired if dry_run else self._put_away(connection, expired, action)

        return await (self._db.read(job) if dry_run else self._db.write(job))

    async def retain(self, policy: Retention, *, dry_run: bool = False) -> Retained:
        """See `ports.Trash`."""

        def choose(connection: apsw.Connection) -> Retained:
            spared = self._spared(connection)
            cutoff = policy.idle_cutoff(self._db.clock())
            idle = () if cutoff is None else self._expired(connection, cutoff, spared=spared)
            oversize = self._oversize(
                connection, policy.max_storage_bytes, gone=set(idle), spared=spared
            )
            return Retained(policy.action, idle, oversize)

        def job(connection: apsw.Connection) -> Retained:
            chosen = choose(connection)
            self._put_away(connection, chosen.ids, policy.action)
            return chosen

        chosen = await self._db.read(choose)
        return chosen if dry_run or not chosen.ids else await self._db.write(job)

    def _spared(self, connection: apsw.Connection) -> set[str]:
        newest = connection.execute(
            """SELECT id FROM sessions WHERE deleted_at IS NULL AND (archived_at IS NOT NULL) = 0
               ORDER BY updated_at DESC, id DESC LIMIT 1"""
        ).get
        return held_sessions(connection, self._db) | ({newest} if newest else set())

    def _expired(
        self, connection: apsw.Connection, older_than: int, *, spared: set[str]
    ) -> tuple[str, ...]:
        rows = fetch(connection, _EXPIRED, (older_than,))
        return tuple(session_id for (session_id,) in rows if session_id not in spared)

    def _oversize(
        self, connection: apsw.Connection, most: int, *, gone: set[str], spared: set[str]
    ) -> tuple[str, ...]:
        """The oldest sessions that must go for the rest to fit."""
        if most <= 0:
            return ()
        rows = fetch(connection, _ACTIVE_SIZES)
        rows = sorted(
            (at, each, size, pinned) for pinned, at, each, size in rows if each not in gone
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

    def _put_away(
        self, connection: apsw.Connection, ids: tuple[str, ...], action: RetentionAction
    ) -> tuple[str, ...]:
        if action == "delete":
            return self._delete(connection, ids)
        now = self._db.clock()
        sql = "UPDATE sessions SET archived_at = ? WHERE id = ? RETURNING id"
        return _touched(connection, sql, [(now, each) for each in ids])


def _touched(
    connection: apsw.Connection, sql: str, bindings: list[tuple[object, ...]]
) -> tuple[str, ...]:
    return tuple(session_id for each in bindings for (session_id,) in fetch(connection, sql, each))


def _restore(connection: apsw.Connection, ids: Sequence[str]) -> tuple[str, ...]:
    sql = """UPDATE sessions SET deleted_at = NULL
        WHERE id = ? AND deleted_at IS NOT NULL AND purged_at IS NULL RETURNING id"""
    return _touched(connection, sql, [(text(each),) for each in ids])


def _remove_messages(connection: apsw.Connection) -> bool:
    rows = fetch(connection, _NEXT_TO_REMOVE, (_STEP,))
    for row in rows:
        blobs = fetch(connection, "SELECT hash FROM message_blobs WHERE message_id = ?", row)
        connection.execute("DELETE FROM messages WHERE id = ?", row)
        for blob in blobs:
            connection.execute(f"DELETE FROM blobs WHERE hash = ? AND {_UNUSED}", blob)
    return bool(rows)


def _remove_husks(connection: apsw.Connection) -> bool:
    """Purged sessions that have nothing left and no fork; that may free their parents in turn."""
    connection.execute(
        """DELETE FROM sessions WHERE purged_at IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM sessions child WHERE child.parent_id = sessions.id)
           AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.session_id = sessions.id)"""
    )
    return connection.changes() > 0


def _forget(connection: apsw.Connection, now: int) -> None:
    """Blobs that no message has, and idempotency keys that nobody can repeat any more."""
    connection.execute(
        f"DELETE FROM blobs WHERE created_at < ? AND {_UNUSED}", (now - KEEP_BLOBS_MS,)
    )
    connection.execute("DELETE FROM idempotency WHERE at < ?", (now - KEEP_KEYS_MS,))
