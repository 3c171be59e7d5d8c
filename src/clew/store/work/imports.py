"""Notes about sessions that came from elsewhere."""

from __future__ import annotations

from clew.core.notes import Gone, ImportNote
from clew.core.session import Session
from clew.store.rows import SESSION_COLUMNS, Row, check_limit, plain, sessions_from, text, whole
from clew.store.work.transaction import Engine, Transaction

_NOTE = """
INSERT INTO imports (session_id, agent, native_id, stamp, head, noted_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (session_id) DO UPDATE SET agent = excluded.agent, native_id = excluded.native_id,
  stamp = excluded.stamp, head = excluded.head, noted_at = excluded.noted_at
"""

_LIST = """
SELECT i.session_id, i.agent, i.native_id, i.stamp, i.head,
  CASE WHEN s.id IS NULL OR s.purged_at IS NOT NULL THEN 'purged'
       WHEN s.deleted_at IS NOT NULL THEN 'trashed' END
FROM imports i LEFT JOIN sessions s ON s.id = i.session_id
WHERE i.agent = $1 ORDER BY i.session_id
"""

_FIND = f"""
SELECT {SESSION_COLUMNS} FROM sessions
WHERE id IN (SELECT session_id FROM imports WHERE native_id = $1) AND deleted_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT $2
"""

# Sessions that hold nothing but what came from elsewhere.
_UNTOUCHED = """
SELECT i.session_id FROM imports i JOIN sessions s ON s.id = i.session_id
WHERE s.head <= i.head
"""


class SharedImports:
    """`ports.Imports`."""

    _engine: Engine

    async def note_import(self, note: ImportNote) -> None:
        """See `ports.Imports`."""
        values = (
            text(note.session_id), text(note.agent), text(note.native_id), text(note.stamp),
            whole(note.head),
        )  # fmt: skip

        async def work(tx: Transaction) -> None:
            await tx.run(_NOTE, (*values, await tx.now()))

        await self._engine.write(work, repeatable=True)

    async def list_imports(self, agent: str) -> tuple[ImportNote, ...]:
        """See `ports.Imports`."""
        rows = await self._engine.read(lambda tx: tx.fetch(_LIST, (text(agent),)))
        return tuple(map(_note_from, rows))

    async def find_imports(self, native_id: str, *, limit: int = 10) -> tuple[Session, ...]:
        """See `ports.Imports`."""
        bindings = (text(native_id), check_limit(limit))
        rows = await self._engine.read(lambda tx: tx.fetch(_FIND, bindings))
        return tuple(sessions_from(rows))


async def untouched_imports(tx: Transaction) -> set[str]:
    """The sessions in which nobody has talked since they were imported."""
    return {session_id for (session_id,) in await tx.fetch(_UNTOUCHED)}


def _note_from(row: Row) -> ImportNote:
    session_id, agent, native_id, stamp = (plain(each) or "" for each in row[:4])
    gone: Gone | None = row[5]
    return ImportNote(
        session_id=session_id,
        agent=agent,
        native_id=native_id,
        stamp=stamp,
        head=row[4],
        gone=gone,
    )
