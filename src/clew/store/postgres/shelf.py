"""A PostgreSQL store as one side of a copy: its rows, read and written with COPY as they are.

What the rows mean, and in which order tables come, is decided by `store.copying`. Until a new store
is whole its `clew_schema` has another name, so that no clew takes it for a store; indexes and
references are built at the end, when that is quickest.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

import psycopg

from clew.core.text import decode_text, fold
from clew.errors import Conflict, StoreInUse, StoreUnavailable, TargetNotEmpty
from clew.store.postgres import migrating
from clew.store.postgres.connection import (
    Connection,
    connect,
    conninfo_of,
    fetch,
    fetch_one,
    place_of,
)
from clew.store.postgres.failures import DRIVER_ERRORS, translate
from clew.store.postgres.presence import OPEN
from clew.store.postgres.words import vector_of
from clew.store.presence import ProcessInfo
from clew.store.rows import Row
from clew.store.tables import CHUNK_BYTES, TABLES, Mark, Table, weigh

HIDDEN = "clew_schema_unfinished"

# A copy may be long; only a lock that somebody else holds is not waited for without an end.
_SETTINGS = """
SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '2s'
"""

# So that the server lets go of what a killed copy holds, even in the middle of building an index.
_NOTICE_THE_END = """
SELECT set_config(name, '500', false) FROM pg_settings
WHERE name = 'client_connection_check_interval'
"""

PATIENCE = 1.0
"""Seconds: long enough for a `clew list` to end, too short for a chat."""

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

_TYPES = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
"""


class _Side:
    """A connection of one's own, with the store held alone."""

    def __init__(self, url: str) -> None:
        self._conninfo = conninfo_of(url)
        self.place = place_of(url)
        self._types: dict[str, dict[str, str]] = {}
        self._connection: Connection | None = None

    @property
    def _db(self) -> Connection:
        assert self._connection is not None
        return self._connection

    async def __aenter__(self) -> Self:
        with self._in_words():
            self._connection = await connect(self._conninfo)
            try:
                await self._db.execute(_SETTINGS, prepare=False)
                with suppress(psycopg.Error):  # not every system can
                    await self._db.execute(_NOTICE_THE_END)
                await self._take()
            except BaseException:
                await self._db.close()
                raise
        return self

    async def _take(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            ((alone,),) = await fetch(self._db, "SELECT pg_try_advisory_lock($1)", (OPEN,))
            if alone:
                return
            if time.monotonic() > deadline:
                raise StoreInUse("Copying", await list_living(self._db))
            await asyncio.sleep(random.uniform(0.02, 0.1))  # noqa: S311  # jitter, no secret

    async def __aexit__(self, *error: object) -> None:
        await self._db.close()

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except DRIVER_ERRORS as error:
            raise translate(error, self.place) from error

    async def read(self, table: Table, chunk_rows: int) -> AsyncGenerator[list[Row], None]:
        """All rows in the table's order, numbers and truth values as numbers."""
        order = "ordinal" if table.ordered else ", ".join(table.key)
        with self._in_words():
            types = await self._types_of(table)
            columns = ", ".join(
                f"{each}::int::bigint" if types[each] == "boolean" else each
                for each in table.columns
            )
            rows: list[Row] = []
            size = 0
            query = f"SELECT {columns} FROM {table.name} ORDER BY {order}"
            sql = f"COPY ({query}) TO STDOUT (FORMAT BINARY)"
            async with self._db.cursor() as cursor, cursor.copy(sql) as copy:
                copy.set_types(
                    ["bigint" if types[e] == "boolean" else types[e] for e in table.columns]
                )
                async for row in copy.rows():
                    rows.append(row)
                    size += weigh(row)
                    if len(rows) == chunk_rows or size > CHUNK_BYTES:
                        yield rows
                        rows, size = [], 0
            if rows:
                yield rows

    async def _types_of(self, table: Table) -> dict[str, str]:
        if table.name not in self._types:
            self._types[table.name] = dict(await fetch(self._db, _TYPES, (table.name,)))
        return self._types[table.name]


class PostgresSource(_Side):
    """The store that is copied: one moment of it, and nobody can write until the end."""

    async def _take(self) -> None:
        latest = migrating.shipped_migrations()[-1].number
        if await migrating.stored_version(self._db, self.place, latest) != latest:
            raise StoreUnavailable(f"{self.place} is empty, or from an older clew: open it first.")
        await super()._take()
        await self._db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        try:
            names = ", ".join(table.name for table in TABLES)
            await self._db.execute(f"LOCK TABLE {names} IN SHARE MODE")
        except psycopg.errors.LockNotAvailable as error:
            raise StoreInUse("Copying", ("a program that is not clew",)) from error

    async def count(self, table: Table) -> int:
        """See `copying.Source`."""
        with self._in_words():
            ((count,),) = await fetch(self._db, f"SELECT count(*) FROM {table.name}")
            return int(count)

    async def get_last_id(self) -> int:
        """See `copying.Source`."""
        with self._in_words():
            ((name,),) = await fetch(self._db, "SELECT pg_get_serial_sequence('messages', 'id')")
            ((last, used),) = await fetch(self._db, f"SELECT last_value, is_called FROM {name}")
            return int(last) if used else 0

    async def is_unchanged(self) -> bool:
        """See `copying.Source`. Nobody could write; it is only to be seen that we still hold it."""
        with self._in_words():
            await self._db.execute("SELECT 1")
            return True


class PostgresTarget(_Side):
    """The store that comes to be."""

    async def begin(self, source: str) -> Mapping[str, Mark]:
        """See `copying.Target`."""
        with self._in_words():
            ((known,),) = await fetch(self._db, "SELECT to_regclass('clew_copy') IS NOT NULL")
            if not known:
                await self._make(source)
            rows = await fetch(self._db, "SELECT kind, name, rows, value FROM clew_copy")
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
        async with self._db.transaction():
            version = await migrating.stored_version(self._db, self.place, latest)
            if version == 0:
                await migrating.apply(self._db, steps, self.place)
            elif version < latest:
                raise StoreUnavailable(f"{self.place} is from an older clew: open it first.")
            for table in TABLES:
                if await fetch_one(self._db, f"SELECT 1 FROM {table.name} LIMIT 1"):
                    raise TargetNotEmpty(self.place, "A copy needs a new or empty database.")
            await self._db.execute(_MARKS)
            await self._mark("source", "", 0, source)
            for number, row in enumerate(await fetch(self._db, _BUILT_LATER)):
                await self._mark("later", "", number, row[1])
            for row in reversed(await fetch(self._db, _BUILT_LATER)):
                await self._db.execute(row[0].encode())
            await self._db.execute(f"ALTER TABLE clew_schema RENAME TO {HIDDEN}")

    async def _mark(self, kind: str, name: str, rows: int, value: str) -> None:
        await self._db.execute(
            "INSERT INTO clew_copy (kind, name, rows, value) VALUES ($1, $2, $3, $4)",
            (kind, name, rows, value),
        )

    async def write(self, table: Table, rows: Sequence[Row], mark: Mark) -> None:
        """See `copying.Target`."""
        with self._in_words():
            types = await self._types_of(table)
            async with self._db.transaction():
                if table.name == "sessions":
                    await self._copy_sessions(table, rows, types)
                else:
                    await self._copy_in(table.name, table.columns, rows, types)
                if table.name == "messages":
                    await self._index(table, rows)
                await self._db.execute(
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
        async with self._db.cursor() as cursor, cursor.copy(sql) as copy:
            copy.set_types([types[each] for each in columns])
            for row in rows:
                await copy.write_row(_with_flags(row, flags) if flags else row)

    async def _index(self, table: Table, rows: Sequence[Row]) -> None:
        key, content = table.columns.index("id"), table.columns.index("content")
        sql = "COPY messages_words (message_id, words, size, partial) FROM STDIN"
        async with self._db.cursor() as cursor, cursor.copy(sql) as copy:
            for row in rows:
                await copy.write_row((row[key], *vector_of(decode_text(row[content]))))

    async def complete(self, last_id: int) -> None:
        """See `copying.Target`."""
        with self._in_words():
            later = "SELECT rows, value FROM clew_copy WHERE kind = 'later' ORDER BY rows"
            for number, statement in await fetch(self._db, later):
                async with self._db.transaction():
                    await self._db.execute(statement.encode())
                    await self._db.execute(
                        "DELETE FROM clew_copy WHERE kind = 'later' AND rows = $1", (number,)
                    )
            if last_id:
                await self._db.execute(
                    "SELECT setval(pg_get_serial_sequence('messages', 'id'), $1)", (last_id,)
                )
            await self._db.execute(
                f"ANALYZE {', '.join(table.name for table in TABLES)}, messages_words"
            )

    async def publish(self) -> None:
        """See `copying.Target`."""
        with self._in_words():
            async with self._db.transaction():
                await self._db.execute("DROP TABLE clew_copy")
                await self._db.execute(f"ALTER TABLE {HIDDEN} RENAME TO clew_schema")

    async def discard(self) -> None:
        """See `copying.Target`. The tables stay, empty and still no store."""
        names = ", ".join(table.name for table in TABLES)
        with self._in_words():
            async with self._db.transaction():
                await self._db.execute(
                    f"TRUNCATE {names}, messages_words, leases, attachments RESTART IDENTITY"
                )
                await self._db.execute("DELETE FROM clew_copy WHERE kind = 'mark'")


def _with_flags(row: Row, flags: Sequence[int]) -> list[Any]:
    changed = list(row)
    for at in flags:
        changed[at] = bool(changed[at])
    return changed


async def list_living(connection: Connection) -> tuple[str, ...]:
    """The processes that have the store open, as people read them."""
    ((known,),) = await fetch(connection, "SELECT to_regclass('processes') IS NOT NULL")
    if not known:
        return ()
    rows = await fetch(
        connection,
        """SELECT process, host, pid, version, command, started_at FROM processes
           WHERE NOT pg_try_advisory_xact_lock_shared(lock) ORDER BY started_at""",
    )
    return tuple(str(ProcessInfo(*row)) for row in rows)
