"""Reading scratchpad, todo list, compactions and blobs. `record` writes them, all but blobs."""

from __future__ import annotations

from clew.core.notes import Blob, Compaction, ScratchEntry, Todo
from clew.errors import BlobNotFound, InvalidInput
from clew.store.rows import COMPACTION_COLUMNS, compaction_from, plain, text
from clew.store.work.thread import read_line
from clew.store.work.transaction import Engine, Transaction

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

_HAS_BLOB = """
SELECT 1 FROM message_blobs b CROSS JOIN messages m
WHERE b.hash = $1 AND m.id = b.message_id AND m.session_id = $2 AND m.seq > $3 AND m.seq <= $4
LIMIT 1
"""

_BLOB = "SELECT media_type, data FROM blobs WHERE hash = $1"


class SharedNotes:
    """`ports.Notes`."""

    _engine: Engine

    async def list_scratch(self, session_id: str) -> tuple[ScratchEntry, ...]:
        """See `ports.Notes`."""
        rows = await self._engine.read(lambda tx: tx.fetch(_LIST_SCRATCH, (text(session_id),)))
        return tuple(ScratchEntry(plain(name) or "", "", size, at) for name, size, at in rows)

    async def find_scratch(self, session_id: str, name: str) -> ScratchEntry | None:
        """See `ports.Notes`."""
        bindings = (text(session_id), text(name))
        row = await self._engine.read(lambda tx: tx.one(_SCRATCH, bindings))
        return None if row is None else ScratchEntry(name, plain(row[0]) or "", *row[1:])

    async def get_todos(self, session_id: str) -> tuple[Todo, ...]:
        """See `ports.Notes`."""
        rows = await self._engine.read(lambda tx: tx.fetch(_TODOS, (text(session_id),)))
        return tuple(Todo(plain(words) or "", status) for words, status in rows)

    async def find_compaction(self, session_id: str) -> Compaction | None:
        """See `ports.Notes`."""
        row = await self._engine.read(lambda tx: tx.one(_COMPACTION, (text(session_id),)))
        return None if row is None else compaction_from(row)

    async def list_compactions(self, session_id: str) -> tuple[Compaction, ...]:
        """See `ports.Notes`."""
        rows = await self._engine.read(lambda tx: tx.fetch(_COMPACTIONS, (text(session_id),)))
        return tuple(map(compaction_from, rows))

    async def put_blob(self, data: bytes, media_type: str) -> str:
        """See `ports.Notes`."""
        if not isinstance(data, bytes):
            raise InvalidInput(f"A blob is made of bytes, not {type(data).__name__}.")
        import hashlib  # noqa: PLC0415  # most runs keep no blob

        blob_hash = hashlib.sha256(data).hexdigest()

        async def work(tx: Transaction) -> str:
            await tx.run(_PUT_BLOB, (blob_hash, text(media_type), data, await tx.now()))
            return blob_hash

        return await self._engine.write(work, repeatable=True)

    async def get_blob(self, blob_hash: str) -> Blob:
        """See `ports.Notes`."""
        row = await self._engine.read(lambda tx: tx.one(_BLOB, (text(blob_hash),)))
        if row is None:
            raise BlobNotFound(blob_hash)
        return Blob(blob_hash, plain(row[0]) or "", bytes(row[1]))

    async def has_blob(self, session_id: str, blob_hash: str) -> bool:
        """See `ports.Notes`."""

        async def work(tx: Transaction) -> bool:
            for part in (await read_line(tx, session_id)).segments:
                bindings = (text(blob_hash), part.session_id, part.low, part.high)
                if await tx.one(_HAS_BLOB, bindings) is not None:
                    return True
            return False

        return await self._engine.snapshot(work)
