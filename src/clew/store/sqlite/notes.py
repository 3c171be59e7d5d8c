"""Reading scratchpad, todos, compactions and blobs in SQLite."""

from __future__ import annotations

import apsw

from clew.core.notes import Blob, Compaction, ScratchEntry, Todo
from clew.errors import BlobNotFound, InvalidInput
from clew.store.rows import COMPACTION_COLUMNS, compaction_from, plain, text
from clew.store.sqlite.connection import fetch_one
from clew.store.sqlite.database import Database


class SqliteNotes:
    """`ports.Notes`."""

    _db: Database

    async def list_scratch(self, session_id: str) -> tuple[ScratchEntry, ...]:
        """See `ports.Notes`."""
        sql = "SELECT name, size, created_at FROM scratchpad WHERE session_id = ? ORDER BY name"

        def job(connection: apsw.Connection) -> tuple[ScratchEntry, ...]:
            rows = connection.execute(sql, (text(session_id),))
            return tuple(ScratchEntry(plain(name) or "", "", size, at) for name, size, at in rows)

        return await self._db.read(job)

    async def find_scratch(self, session_id: str, name: str) -> ScratchEntry | None:
        """See `ports.Notes`."""
        sql = "SELECT content, size, created_at FROM scratchpad WHERE session_id = ? AND name = ?"

        def job(connection: apsw.Connection) -> ScratchEntry | None:
            row = fetch_one(connection, sql, (text(session_id), text(name)))
            return None if row is None else ScratchEntry(name, plain(row[0]) or "", *row[1:])

        return await self._db.read(job)

    async def get_todos(self, session_id: str) -> tuple[Todo, ...]:
        """See `ports.Notes`."""
        sql = "SELECT text, status FROM todos WHERE session_id = ? ORDER BY position"

        def job(connection: apsw.Connection) -> tuple[Todo, ...]:
            rows = connection.execute(sql, (text(session_id),))
            return tuple(Todo(plain(words) or "", status) for words, status in rows)

        return await self._db.read(job)

    async def find_compaction(self, session_id: str) -> Compaction | None:
        """See `ports.Notes`."""
        sql = f"""SELECT {COMPACTION_COLUMNS} FROM compactions
            WHERE session_id = ? AND undone_at IS NULL
            ORDER BY made_at_seq DESC, rowid DESC LIMIT 1"""

        def job(connection: apsw.Connection) -> Compaction | None:
            row = fetch_one(connection, sql, (text(session_id),))
            return None if row is None else compaction_from(row)

        return await self._db.read(job)

    async def list_compactions(self, session_id: str) -> tuple[Compaction, ...]:
        """See `ports.Notes`."""
        sql = f"""SELECT {COMPACTION_COLUMNS} FROM compactions
            WHERE session_id = ? ORDER BY made_at_seq, rowid"""

        def job(connection: apsw.Connection) -> tuple[Compaction, ...]:
            return tuple(map(compaction_from, connection.execute(sql, (text(session_id),))))

        return await self._db.read(job)

    async def put_blob(self, data: bytes, media_type: str) -> str:
        """See `ports.Notes`."""
        if not isinstance(data, bytes):
            raise InvalidInput(f"A blob is made of bytes, not {type(data).__name__}.")
        import hashlib  # noqa: PLC0415  # most runs keep no blob

        blob_hash = hashlib.sha256(data).hexdigest()

        def job(connection: apsw.Connection) -> str:
            connection.execute(
                """INSERT INTO blobs (hash, media_type, data, created_at) VALUES (?, ?, ?, ?)
                   ON CONFLICT (hash) DO UPDATE SET created_at = excluded.created_at""",
                (blob_hash, text(media_type), data, self._db.clock()),
            )
            return blob_hash

        return await self._db.write(job)

    async def get_blob(self, blob_hash: str) -> Blob:
        """See `ports.Notes`."""

        def job(connection: apsw.Connection) -> Blob:
            row = fetch_one(
                connection, "SELECT media_type, data FROM blobs WHERE hash = ?", (text(blob_hash),)
            )
            if row is None:
                raise BlobNotFound(blob_hash)
            return Blob(blob_hash, plain(row[0]) or "", row[1])

        return await self._db.read(job)
