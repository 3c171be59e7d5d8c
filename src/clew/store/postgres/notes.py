"""Reading scratchpad, todos, compactions and blobs in PostgreSQL."""

from __future__ import annotations

from clew.core.notes import Blob, Compaction, ScratchEntry, Todo
from clew.errors import BlobNotFound, InvalidInput
from clew.store.postgres.connection import Connection, fetch, fetch_one
from clew.store.postgres.database import Database
from clew.store.rows import COMPACTION_COLUMNS, compaction_from, plain, text

_LIST_SCRATCH = "SELECT name, size, created_at FROM scratchpad WHERE session_id = $1 ORDER BY name"
_SCRATCH = "SELECT content, size, created_at FROM scratchpad WHERE session_id = $1 AND name = $2"
_TODOS = "SELECT text, status FROM todos WHERE session_id = $1 ORDER BY position"

_COMPACTION = f"""
SELECT {COMPACTION_COLUMNS} FROM compactions WHERE session_id = $1 AND undone_at IS NULL
ORDER BY made_at_seq DESC, ordinal DESC LIMIT 1
"""

_COMPACTIONS = f"""
SELECT {COMPACTION_COLUMNS} FROM compactions WHERE session_id = $1 ORDER BY made_at_seq, ordinal
"""

_PUT_BLOB = """
INSERT INTO blobs (hash, media_type, data, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (hash) DO UPDATE SET created_at = excluded.created_at
"""


class PostgresNotes:
    """`ports.Notes`."""

    _db: Database

    async def list_scratch(self, session_id: str) -> tuple[ScratchEntry, ...]:
        """See `ports.Notes`."""

        async def job(connection: Connection) -> tuple[ScratchEntry, ...]:
            rows = await fetch(connection, _LIST_SCRATCH, (text(session_id),))
            return tuple(ScratchEntry(plain(name) or "", "", size, at) for name, size, at in rows)

        return await self._db.read(job)

    async def find_scratch(self, session_id: str, name: str) -> ScratchEntry | None:
        """See `ports.Notes`."""

        async def job(connection: Connection) -> ScratchEntry | None:
            row = await fetch_one(connection, _SCRATCH, (text(session_id), text(name)))
            return None if row is None else ScratchEntry(name, plain(row[0]) or "", *row[1:])

        return await self._db.read(job)

    async def get_todos(self, session_id: str) -> tuple[Todo, ...]:
        """See `ports.Notes`."""

        async def job(connection: Connection) -> tuple[Todo, ...]:
            rows = await fetch(connection, _TODOS, (text(session_id),))
            return tuple(Todo(plain(words) or "", status) for words, status in rows)

        return await self._db.read(job)

    async def find_compaction(self, session_id: str) -> Compaction | None:
        """See `ports.Notes`."""

        async def job(connection: Connection) -> Compaction | None:
            row = await fetch_one(connection, _COMPACTION, (text(session_id),))
            return None if row is None else compaction_from(row)

        return await self._db.read(job)

    async def list_compactions(self, session_id: str) -> tuple[Compaction, ...]:
        """See `ports.Notes`."""

        async def job(connection: Connection) -> tuple[Compaction, ...]:
            rows = await fetch(connection, _COMPACTIONS, (text(session_id),))
            return tuple(map(compaction_from, rows))

        return await self._db.read(job)

    async def put_blob(self, data: bytes, media_type: str) -> str:
        """See `ports.Notes`."""
        if not isinstance(data, bytes):
            raise InvalidInput(f"A blob is made of bytes, not {type(data).__name__}.")
        import hashlib  # noqa: PLC0415  # most runs keep no blob

        blob_hash = hashlib.sha256(data).hexdigest()

        async def job(connection: Connection) -> str:
            now = await self._db.now(connection)
            await connection.execute(_PUT_BLOB, (blob_hash, text(media_type), data, now))
            return blob_hash

        return await self._db.write(job, repeatable=True)

    async def get_blob(self, blob_hash: str) -> Blob:
        """See `ports.Notes`."""

        async def job(connection: Connection) -> Blob:
            sql = "SELECT media_type, data FROM blobs WHERE hash = $1"
            row = await fetch_one(connection, sql, (text(blob_hash),))
            if row is None:
                raise BlobNotFound(blob_hash)
            return Blob(blob_hash, plain(row[0]) or "", bytes(row[1]))

        return await self._db.read(job)
