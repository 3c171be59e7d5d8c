"""A PostgreSQL store as one side of a copy: its rows, read and written with COPY as they are.

What the rows mean, and in which order tables come, is decided by `store.copying`. Until a new store
is whole its `clew_schema` has another name, so that no clew takes it for a store; indexes and
references are built at the end, when that is quickest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg

from clew.core.text import decode_text, fold
from clew.errors import Conflict, NotFound, StoreInUse, StoreUnavailable, TargetNotEmpty
from clew.store.postgres import migrating
from clew.store.postgres.side import Side
from clew.store.postgres.words import vector_of
from clew.store.rows import Row
from clew.store.tables import TABLES, Mark, Table

HIDDEN = "clew_schema_unfinished"

_OLDER = (
    "{place} is from an older clew. Nothing was copied. Make a backup with pg_dump, then update it "
    "with `clew --store URL list`, and copy again."
)

_BUILT_LATER = """
SELECT 'DROP INDEX ' || indexrelid::regclass, pg_get_indexdef(indexrelid), 1 AS kind, indexrelid
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = current_schema()::regnamespace AND NOT EXISTS (
  SELECT 1 FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u', 'x'))
UNION ALL
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
  format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname,
         pg_get_constraintdef(oid)), 2, oid
FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace
ORDER BY 3, 4
"""

_MARKS = "CREATE TABLE clew_copy (kind TEXT, name TEXT, rows BIGINT, value TEXT)"


class PostgresSource(Side):
    """The store that is copied: one moment of it, and nobody can write until the end."""

    async def take(self) -> None:
        latest = migrating.shipped_migrations()[-1].number
        version = await migrating.stored_version(self.db, self.place, latest)
        if version == 0:
            raise NotFound(f"There is no store in {self.place} yet: it is empty.")
        if version < latest:
            raise StoreUnavailable(_OLDER.format(place=self.place))
        await super().take()
        await self.db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        try:
            names = ", ".join(table.name for table in TABLES)
            await self.db.execute(f"LOCK TABLE {names} IN SHARE MODE")
        except psycopg.errors.LockNotAvailable as error:
            raise StoreInUse("Copying", ("a program that is not clew",)) from error

    async def count(self, table: Table) -> int:
        """See `copying.Source`."""
        with self.in_words():
            ((count,),) = await self.db.fetch(f"SELECT count(*) FROM {table.name}")
            return int(count)

    async def get_last_id(self) -> int:
        """See `copying.Source`."""
        with self.in_words():
            ((name,),) = await self.db.fetch("SELECT pg_get_serial_sequence('messages', 'id')")
            ((last, used),) = await self.db.fetch(f"SELECT last_value, is_called FROM {name}")
            return int(last) if used else 0

    async def is_unchanged(self) -> bool:
        """See `copying.Source`. Nobody could write; it is only to be seen that we still hold it."""
        with self.in_words():
            await self.db.execute("SELECT 1")
            return True


class PostgresTarget(Side):
    """The store that comes to be."""

    async def begin(self, source: str) -> Mapping[str, Mark]:
        """See `copying.Target`."""
        with self.in_words():
            ((known,),) = await self.db.fetch("SELECT to_regclass('clew_copy') IS NOT NULL")
            if not known:
                await self._make(source)
            rows = await self.db.fetch("SELECT kind, name, rows, value FROM clew_copy")
        (origin,) = [value for kind, _, _, value in rows if kind == "source"]
        if origin != source:
            raise Conflict(
                f"{self.place} is an unfinished copy of another store. It was not touched. "
                "Finish that copy, or make the database anew (dropdb, createdb)."
            )
        return {name: Mark(count, value) for kind, name, count, value in rows if kind == "mark"}

    async def _make(self, source: str) -> None:
        """The tables, bare, in one transaction."""
        steps = migrating.shipped_migrations()
        latest = steps[-1].number
        async with self.db.transaction():
            version = await migrating.stored_version(self.db, self.place, latest)
            if version == 0:
                await migrating.apply(self.db, steps, self.place)
            elif version < latest:
                raise StoreUnavailable(_OLDER.format(place=self.place))
            for table in TABLES:
                if await self.db.one(f"SELECT 1 FROM {table.name} LIMIT 1"):
                    raise TargetNotEmpty(self.place, "A copy needs a new or empty database.")
            await self.db.execute(_MARKS)
            await self._mark("source", "", 0, source)
            for number, row in enumerate(await self.db.fetch(_BUILT_LATER)):
                await self._mark("later", "", number, row[1])
            for row in reversed(await self.db.fetch(_BUILT_LATER)):
                await self.db.execute(row[0].encode())
            await self.db.execute(f"ALTER TABLE clew_schema RENAME TO {HIDDEN}")

    async def _mark(self, kind: str, name: str, rows: int, value: str) -> None:
        await self.db.execute(
            "INSERT INTO clew_copy (kind, name, rows, value) VALUES ($1, $2, $3, $4)",
            (kind, name, rows, value),
        )

    async def write(self, table: Table, rows: Sequence[Row], mark: Mark) -> None:
        """See `copying.Target`."""
        with self.in_words():
            types = await self.types_of(table)
            async with self.db.transaction():
                if table.name == "sessions":
                    await self._copy_sessions(table, rows, types)
                else:
                    await self._copy_in(table.name, table.columns, rows, types)
                if table.name == "messages":
                    await self._index(table, rows)
                await self.db.execute(
                    "DELETE FROM clew_copy WHERE kind = 'mark' AND name = $1", (table.name,)
                )
                await self._mark("mark", table.name, *mark)

    async def _copy_sessions(
        self, table: Table, rows: Sequence[Row], types: Mapping[str, str]
    ) -> None:
        """With the folded preview, which only this store keeps."""
        at = table.columns.index("preview")
        folded = [(*row, None if row[at] is None else fold(row[at])) for row in rows]
        await self._copy_in(table.name, (*table.columns, "preview_key"), folded, types)

    async def _copy_in(
        self, name: str, columns: Sequence[str], rows: Sequence[Row], types: Mapping[str, str]
    ) -> None:
        flags = [at for at, each in enumerate(columns) if types[each] == "boolean"]
        sql = f"COPY {name} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
        async with self.db.cursor() as cursor, cursor.copy(sql) as copy:
            copy.set_types([types[each] for each in columns])
            for row in rows:
                await copy.write_row(_with_flags(row, flags) if flags else row)

    async def _index(self, table: Table, rows: Sequence[Row]) -> None:
        key, content = table.columns.index("id"), table.columns.index("content")
        sql = "COPY messages_words (message_id, words, size, partial) FROM STDIN"
        async with self.db.cursor() as cursor, cursor.copy(sql) as copy:
            for row in rows:
                await copy.write_row((row[key], *vector_of(decode_text(row[content]))))

    async def complete(self, last_id: int, tell: Callable[[str], None]) -> None:
        """See `copying.Target`."""
        with self.in_words():
            later = "SELECT rows, value FROM clew_copy WHERE kind = 'later' ORDER BY rows"
            statements = await self.db.fetch(later)
            for place, (number, statement) in enumerate(statements, 1):
                tell(f"Building indexes ({place} of {len(statements)})")
                async with self.db.transaction():
                    await self.db.execute(statement.encode())
                    await self.db.execute(
                        "DELETE FROM clew_copy WHERE kind = 'later' AND rows = $1", (number,)
                    )
            if last_id:
                await self.db.execute(
                    "SELECT setval(pg_get_serial_sequence('messages', 'id'), $1)", (last_id,)
                )
            await self.db.execute(
                f"ANALYZE {', '.join(table.name for table in TABLES)}, messages_words"
            )

    async def publish(self) -> None:
        """See `copying.Target`."""
        with self.in_words():
            async with self.db.transaction():
                await self.db.execute("DROP TABLE clew_copy")
                await self.db.execute(f"ALTER TABLE {HIDDEN} RENAME TO clew_schema")

    async def discard(self) -> None:
        """See `copying.Target`. The tables stay, empty and still no store."""
        names = ", ".join(table.name for table in TABLES)
        with self.in_words():
            async with self.db.transaction():
                await self.db.execute(
                    f"TRUNCATE {names}, messages_words, leases, attachments RESTART IDENTITY"
                )
                await self.db.execute("DELETE FROM clew_copy WHERE kind = 'mark'")


def _with_flags(row: Row, flags: Sequence[int]) -> list[Any]:
    changed = list(row)
    for at in flags:
        changed[at] = bool(changed[at])
    return changed
