"""A PostgreSQL store as one side of a copy: its rows, read and written with COPY as they are.

The order of tables and rows is decided by `store.copy`. Until a new store is complete, its table
`clew_schema` has another name, so that no process takes it for a store; indexes and references are
built at the end, when that is quickest.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import psycopg

from clew.core.text import decode_text, fold
from clew.errors import Conflict, NotFound, StoreInUse, StoreUnavailable, TargetNotEmpty
from clew.store.postgres import schema
from clew.store.postgres.connection import Connection, connect, conninfo_of, place_of
from clew.store.postgres.errors import translated
from clew.store.postgres.presence import OPEN, list_living
from clew.store.postgres.words import vector_of
from clew.store.rows import Row
from clew.store.tables import CHUNK_BYTES, TABLES, Mark, Table, row_size

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


# A copy may be long; only the wait for a lock is bounded.
_SETTINGS = """
SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '2s'
"""

# So that the server releases the locks of a killed copy even while it builds an index.
_NOTICE_THE_END = """
SELECT set_config(name, '500', false) FROM pg_settings
WHERE name = 'client_connection_check_interval'
"""

PATIENCE = 1.0
"""Seconds: long enough for a `clew list` to end, too short for a chat."""

_TYPES = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
"""


class CopySide:
    """Either side: a connection of its own, which holds the store alone."""

    def __init__(self, url: str) -> None:
        self._conninfo = conninfo_of(url)
        self.place = place_of(url)
        self._types: dict[str, dict[str, str]] = {}
        self._connection: Connection | None = None

    @property
    def db(self) -> Connection:
        """The connection, while it is open."""
        assert self._connection is not None
        return self._connection

    async def __aenter__(self) -> Self:
        with translated(self.place):
            self._connection = await connect(self._conninfo)
            try:
                await self.db.execute(_SETTINGS, prepare=False)
                with suppress(psycopg.Error):  # not every system supports it
                    await self.db.execute(_NOTICE_THE_END)
                await self.take()
            except BaseException:
                await self.db.close()
                raise
        return self

    async def take(self) -> None:
        """Hold the store alone; `StoreInUse` with the processes that have it open."""
        deadline = time.monotonic() + PATIENCE
        while True:
            ((alone,),) = await self.db.fetch("SELECT pg_try_advisory_lock($1)", (OPEN,))
            if alone:
                return
            if time.monotonic() > deadline:
                raise StoreInUse("Copying", await self._list_living())
            await asyncio.sleep(random.uniform(0.02, 0.1))  # noqa: S311  # jitter, no secret

    async def _list_living(self) -> tuple[str, ...]:
        ((known,),) = await self.db.fetch("SELECT to_regclass('processes') IS NOT NULL")
        return await list_living(self.db) if known else ()

    async def __aexit__(self, *error: object) -> None:
        await self.db.close()

    async def read(self, table: Table, chunk_rows: int) -> AsyncGenerator[list[Row], None]:
        """All rows in the table's order, numbers and truth values as numbers."""
        order = "ordinal" if table.ordered else ", ".join(table.key)
        with translated(self.place):
            types = await self.types_of(table)
            columns = ", ".join(
                f"{each}::int::bigint" if types[each] == "boolean" else each
                for each in table.columns
            )
            rows: list[Row] = []
            size = 0
            query = f"SELECT {columns} FROM {table.name} ORDER BY {order}"
            sql = f"COPY ({query}) TO STDOUT (FORMAT BINARY)"
            async with self.db.cursor() as cursor, cursor.copy(sql) as copy:
                copy.set_types(
                    ["bigint" if types[e] == "boolean" else types[e] for e in table.columns]
                )
                async for row in copy.rows():
                    rows.append(row)
                    size += row_size(row)
                    if len(rows) == chunk_rows or size > CHUNK_BYTES:
                        yield rows
                        rows, size = [], 0
            if rows:
                yield rows

    async def types_of(self, table: Table) -> dict[str, str]:
        """Each column's type."""
        if table.name not in self._types:
            self._types[table.name] = dict(await self.db.fetch(_TYPES, (table.name,)))
        return self._types[table.name]


class PostgresSource(CopySide):
    """The store that is copied, as it is at one moment; no process can write until the end."""

    async def take(self) -> None:
        latest = schema.shipped_migrations()[-1].number
        version = await schema.stored_version(self.db, self.place, latest)
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
        """See `copy.Source`."""
        with translated(self.place):
            ((count,),) = await self.db.fetch(f"SELECT count(*) FROM {table.name}")
            return int(count)

    async def get_last_id(self) -> int:
        """See `copy.Source`."""
        with translated(self.place):
            ((name,),) = await self.db.fetch("SELECT pg_get_serial_sequence('messages', 'id')")
            ((last, used),) = await self.db.fetch(f"SELECT last_value, is_called FROM {name}")
            return int(last) if used else 0

    async def is_unchanged(self) -> bool:
        """See `copy.Source`. No process could write; the statement fails if the lock was lost."""
        with translated(self.place):
            await self.db.execute("SELECT 1")
            return True


class PostgresTarget(CopySide):
    """The new store."""

    async def begin(self, source: str) -> Mapping[str, Mark]:
        """See `copy.Target`."""
        with translated(self.place):
            ((known,),) = await self.db.fetch("SELECT to_regclass('clew_copy') IS NOT NULL")
            if not known:
                await self._make(source)
            rows = await self.db.fetch("SELECT kind, name, rows, value FROM clew_copy")
        (origin,) = [value for kind, _, _, value in rows if kind == "source"]
        if origin != source:
            raise Conflict(
                f"{self.place} is an unfinished copy of another store. It was not touched. "
                "Finish that copy, or make the database again (dropdb, createdb)."
            )
        return {name: Mark(count, value) for kind, name, count, value in rows if kind == "mark"}

    async def _make(self, source: str) -> None:
        """Make the tables without indexes and references, in one transaction."""
        steps = schema.shipped_migrations()
        latest = steps[-1].number
        async with self.db.transaction():
            version = await schema.stored_version(self.db, self.place, latest)
            if version == 0:
                await schema.apply(self.db, steps, self.place)
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
        """See `copy.Target`."""
        with translated(self.place):
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
        """Copy sessions with their folded preview, which only this engine keeps."""
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
        """See `copy.Target`."""
        with translated(self.place):
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
                f"ANALYZE {', '.join(table.name for table in TABLES)}, messages_words, usage_sums"
            )

    async def publish(self) -> None:
        """See `copy.Target`."""
        with translated(self.place):
            async with self.db.transaction():
                await self.db.execute("DROP TABLE clew_copy")
                await self.db.execute(f"ALTER TABLE {HIDDEN} RENAME TO clew_schema")

    async def discard(self) -> None:
        """See `copy.Target`. The tables stay, empty and still not a store."""
        names = ", ".join(table.name for table in TABLES)
        with translated(self.place):
            async with self.db.transaction():
                await self.db.execute(
                    f"TRUNCATE {names}, messages_words, usage_sums, usage_changes, leases, "
                    "attachments RESTART IDENTITY"
                )
                await self.db.execute("DELETE FROM clew_copy WHERE kind = 'mark'")


def _with_flags(row: Row, flags: Sequence[int]) -> list[Any]:
    changed = list(row)
    for at in flags:
        changed[at] = bool(changed[at])
    return changed
