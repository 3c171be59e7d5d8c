"""A SQLite store as one side of a copy: its rows, read and written as they are.

The order of tables and rows is decided by `store.copy`. A new store is made in a file beside its
place (`NAME.copying`) and moved there when it is complete. It blocks the event loop: a copy has its
process for itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

import apsw

from clew.errors import (
    Conflict,
    NotFound,
    StoreDamaged,
    StoreUnavailable,
    TargetNotEmpty,
)
from clew.store.rows import Row
from clew.store.sqlite import schema
from clew.store.sqlite.connection import (
    connect,
    connect_read_only,
    fetch,
    fetch_one,
    lock_path,
)
from clew.store.sqlite.database import hold_store
from clew.store.sqlite.errors import translated
from clew.store.sqlite.search_index import INDEXES, index_queued
from clew.store.tables import CHUNK_BYTES, TABLES, Mark, Table, row_size

_MARKS = "CREATE TABLE clew_copy (name TEXT PRIMARY KEY, rows INTEGER, value TEXT) STRICT"


class SqliteSource:
    """The store that is copied."""

    def __init__(self, path: Path, *, now: int) -> None:
        self.path = path.resolve()
        self.place = str(self.path)
        self._now = now
        self._held = ExitStack()

    async def __aenter__(self) -> Self:
        if not self.path.is_file():
            raise NotFound(f"There is no store at {self.path}.")
        with self._held, translated(self.path):
            self._held.enter_context(hold_store(self.path, "Copying", now=self._now, alone=True))
            self._connection = self._held.enter_context(closing(connect_read_only(self.path)))
            _check_version(self._connection, self.path)
            self._version = self._connection.pragma("data_version")
            self._connection.execute("BEGIN")  # all that is read is of one moment
            self._held = self._held.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._held.close()

    async def count(self, table: Table) -> int:
        """See `copy.Source`."""
        with translated(self.path):
            ((count,),) = fetch(self._connection, f"SELECT count(*) FROM {table.name}")
            return int(count)

    async def get_last_id(self) -> int:
        """See `copy.Source`."""
        with translated(self.path):
            sql = "SELECT seq FROM sqlite_sequence WHERE name = 'messages'"
            row = fetch_one(self._connection, sql)
            return 0 if row is None else int(row[0])

    async def is_unchanged(self) -> bool:
        """See `copy.Source`."""
        with translated(self.path):
            self._connection.execute("COMMIT")
            return bool(self._connection.pragma("data_version") == self._version)

    async def read(self, table: Table, chunk_rows: int) -> AsyncGenerator[list[Row], None]:
        """See `copy.Source`."""
        with translated(self.path):
            for rows in _chunks(self._connection, table, chunk_rows):
                yield rows


class SqliteTarget:
    """The new store."""

    def __init__(self, path: Path, *, now: int) -> None:
        self.path = path.resolve()
        self.place = str(self.path)
        self._unfinished = self.path.with_name(f"{self.path.name}.copying")
        self._now = now
        self._held = ExitStack()
        self._connection: apsw.Connection | None = None

    async def __aenter__(self) -> Self:
        with self._held, translated(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._held.enter_context(hold_store(self.path, "Copying", now=self._now, alone=True))
            self._held = self._held.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._close()
        self._held.close()

    async def begin(self, source: str) -> Mapping[str, Mark]:
        """See `copy.Target`."""
        with translated(self.path):
            self._refuse_contents()
            fresh = not self._unfinished.exists()
            connection = connect(self._unfinished, lock=lock_path(self.path))
            self._connection = connection
            if not fresh and not _is_marked(connection):
                self._check_ours(connection)
                self._close()
                schema.discard(self._unfinished)
                return await self.begin(source)
            connection.pragma("foreign_keys", False)  # a fork may come before its parent
            if fresh:
                schema.use_wal(connection, self._unfinished)
                schema.apply(connection, schema.shipped_migrations())
                with connection:
                    connection.execute(_MARKS)
                    connection.execute("INSERT INTO clew_copy VALUES ('', 0, ?)", (source,))
            marks = {name: Mark(rows, value) for name, rows, value in fetch(
                connection, "SELECT name, rows, value FROM clew_copy")}  # fmt: skip
        if marks.pop("").digest != source:
            raise Conflict(
                f"{self._unfinished} is an unfinished copy of another store. It was not touched. "
                "Finish that copy, or remove the file."
            )
        return marks

    def _refuse_contents(self) -> None:
        """Refuse a place where a store is that has anything in it."""
        if not self.path.exists():
            return
        with closing(connect_read_only(self.path)) as connection:
            latest = schema.shipped_migrations()[-1].number
            if schema.stored_version(connection, self.path, latest) == 0:
                return
            _check_version(connection, self.path)
            for table in TABLES:
                if fetch_one(connection, f"SELECT 1 FROM {table.name} LIMIT 1"):
                    raise TargetNotEmpty(self.place, "A copy needs a new or empty store.")

    def _check_ours(self, connection: apsw.Connection) -> None:
        """Refuse a file without marks that is not a copy of ours, killed as it began or ended."""
        latest = schema.shipped_migrations()[-1].number
        schema.stored_version(connection, self._unfinished, latest)

    async def write(self, table: Table, rows: Sequence[Row], mark: Mark) -> None:
        """See `copy.Target`."""
        connection = self._connection
        assert connection is not None
        with translated(self.path), connection:
            connection.executemany(_insert(table), rows)
            if table.name == "messages":
                index_queued(connection)
            connection.execute(
                "INSERT OR REPLACE INTO clew_copy VALUES (?, ?, ?)", (table.name, *mark)
            )

    async def complete(self, last_id: int, tell: Callable[[str], None]) -> None:  # noqa: ARG002  # it takes seconds
        """See `copy.Target`."""
        connection = self._connection
        assert connection is not None
        with translated(self.path), connection:
            broken = fetch_one(connection, 'SELECT "table" FROM pragma_foreign_key_check LIMIT 1')
            if broken:
                raise StoreDamaged(
                    f"A row of {broken[0]} refers to a row that is missing: the source is damaged, "
                    "and nothing was copied. Run `clew doctor`."
                )
            connection.execute("DELETE FROM sqlite_sequence WHERE name = 'messages'")
            connection.execute("INSERT INTO sqlite_sequence VALUES ('messages', ?)", (last_id,))
            for index in INDEXES:
                connection.execute(f"INSERT INTO {index} ({index}) VALUES ('optimize')")

    async def read(self, table: Table, chunk_rows: int) -> AsyncGenerator[list[Row], None]:
        """See `copy.Target`."""
        assert self._connection is not None
        with translated(self.path):
            for rows in _chunks(self._connection, table, chunk_rows):
                yield rows

    async def publish(self) -> None:
        """See `copy.Target`."""
        connection = self._connection
        assert connection is not None
        with translated(self.path):
            connection.execute("DROP TABLE clew_copy")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._close()
            # An empty store may be in the place, and its log must not be taken for the new one's.
            schema.discard(self.path)
            self._unfinished.replace(self.path)

    async def discard(self) -> None:
        """See `copy.Target`."""
        with translated(self.path):
            self._close()
            schema.discard(self._unfinished)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _insert(table: Table) -> str:
    places = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({places})"


def _chunks(connection: apsw.Connection, table: Table, most: int) -> Iterator[list[Row]]:
    order = "rowid" if table.ordered else ", ".join(table.key)
    columns = ", ".join(table.columns)
    rows: list[Row] = []
    size = 0
    for row in connection.execute(f"SELECT {columns} FROM {table.name} ORDER BY {order}"):
        rows.append(row)
        size += row_size(row)
        if len(rows) == most or size > CHUNK_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _is_marked(connection: apsw.Connection) -> bool:
    sql = "SELECT 1 FROM sqlite_schema WHERE name = 'clew_copy'"
    return fetch_one(connection, sql) is not None


def _check_version(connection: apsw.Connection, path: Path) -> None:
    latest = schema.shipped_migrations()[-1].number
    if schema.stored_version(connection, path, latest) != latest:
        raise StoreUnavailable(
            f"{path} is from an older clew. Nothing was copied. Update it with "
            f"`clew --store {path} list`, which makes a backup first, and copy again."
        )
