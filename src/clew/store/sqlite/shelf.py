"""A SQLite store as one side of a copy: its rows, read and written as they are.

What the rows mean, and in which order tables come, is decided by `store.copying`. A new store grows
in a file beside its place (`NAME.copying`) and is moved there when it is whole. Blocking: a copy
has its process for itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Self

import apsw

from clew.errors import (
    Conflict,
    NotFound,
    StoreDamaged,
    StoreInUse,
    StoreUnavailable,
    TargetNotEmpty,
)
from clew.files.locks import FileLock
from clew.store.presence import Presence
from clew.store.rows import Row
from clew.store.sqlite import migrating
from clew.store.sqlite.connection import (
    DRIVER_ERRORS,
    connect,
    connect_to_look,
    fetch,
    fetch_one,
    lock_path,
)
from clew.store.sqlite.failures import translate
from clew.store.sqlite.spaceless import index_queued
from clew.store.tables import CHUNK_BYTES, TABLES, Mark, Table, weigh
from clew.version import __version__

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
        with self._held, _in_words(self.path):
            self._held.enter_context(_alone(self.path, "Copying", now=self._now))
            self._connection = self._held.enter_context(closing(connect_to_look(self.path)))
            _check_version(self._connection, self.path)
            self._version = self._connection.pragma("data_version")
            self._connection.execute("BEGIN")  # all that is read is of one moment
            self._held = self._held.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._held.close()

    async def count(self, table: Table) -> int:
        """See `copying.Source`."""
        with _in_words(self.path):
            ((count,),) = fetch(self._connection, f"SELECT count(*) FROM {table.name}")
            return int(count)

    async def get_last_id(self) -> int:
        """See `copying.Source`."""
        with _in_words(self.path):
            sql = "SELECT seq FROM sqlite_sequence WHERE name = 'messages'"
            row = fetch_one(self._connection, sql)
            return 0 if row is None else int(row[0])

    async def is_unchanged(self) -> bool:
        """See `copying.Source`."""
        with _in_words(self.path):
            self._connection.execute("COMMIT")
            return bool(self._connection.pragma("data_version") == self._version)

    async def read(self, table: Table, chunk_rows: int) -> AsyncGenerator[list[Row], None]:
        """See `copying.Source`."""
        with _in_words(self.path):
            for rows in _chunks(self._connection, table, chunk_rows):
                yield rows


class SqliteTarget:
    """The store that comes to be."""

    def __init__(self, path: Path, *, now: int) -> None:
        self.path = path.resolve()
        self.place = str(self.path)
        self._unfinished = self.path.with_name(f"{self.path.name}.copying")
        self._now = now
        self._held = ExitStack()
        self._connection: apsw.Connection | None = None

    async def __aenter__(self) -> Self:
        with self._held, _in_words(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._held.enter_context(_alone(self.path, "Copying", now=self._now))
            self._held = self._held.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._close()
        self._held.close()

    async def begin(self, source: str) -> Mapping[str, Mark]:
        """See `copying.Target`."""
        with _in_words(self.path):
            self._refuse_contents()
            fresh = not self._unfinished.exists()
            connection = connect(self._unfinished, lock=lock_path(self.path))
            self._connection = connection
            if not fresh and not _is_marked(connection):
                self._check_ours(connection)
                self._close()
                migrating.discard(self._unfinished)
                return await self.begin(source)
            connection.pragma("foreign_keys", False)  # a fork may come before its parent
            if fresh:
                migrating.use_wal(connection, self._unfinished)
                migrating.apply(connection, migrating.shipped_migrations())
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
        """Only an empty store may be where the copy will be."""
        if not self.path.exists():
            return
        with closing(connect_to_look(self.path)) as connection:
            latest = migrating.shipped_migrations()[-1].number
            if migrating.stored_version(connection, self.path, latest) == 0:
                return
            _check_version(connection, self.path)
            for table in TABLES:
                if fetch_one(connection, f"SELECT 1 FROM {table.name} LIMIT 1"):
                    raise TargetNotEmpty(self.place, "A copy needs a new or empty store.")

    def _check_ours(self, connection: apsw.Connection) -> None:
        """Without marks it is a copy that was killed in its first or last moment, or not ours."""
        latest = migrating.shipped_migrations()[-1].number
        migrating.stored_version(connection, self._unfinished, latest)

    async def write(self, table: Table, rows: Sequence[Row], mark: Mark) -> None:
        """See `copying.Target`."""
        connection = self._connection
        assert connection is not None
        with _in_words(self.path), connection:
            connection.executemany(_insert(table), rows)
            if table.name == "messages":
                index_queued(connection)
            connection.execute(
                "INSERT OR REPLACE INTO clew_copy VALUES (?, ?, ?)", (table.name, *mark)
            )

    async def complete(self, last_id: int, tell: Callable[[str], None]) -> None:  # noqa: ARG002  # seconds
        """See `copying.Target`."""
        connection = self._connection
        assert connection is not None
        with _in_words(self.path), connection:
            broken = fetch_one(connection, 'SELECT "table" FROM pragma_foreign_key_check LIMIT 1')
            if broken:
                raise StoreDamaged(
                    f"A row of {broken[0]} belongs to nothing: the source is damaged, and nothing "
                    "was copied. `clew doctor` looks into it."
                )
            connection.execute("DELETE FROM sqlite_sequence WHERE name = 'messages'")
            connection.execute("INSERT INTO sqlite_sequence VALUES ('messages', ?)", (last_id,))
            for index in ("messages_fts", "messages_spaceless"):
                connection.execute(f"INSERT INTO {index} ({index}) VALUES ('optimize')")

    async def read(self, table: Table, chunk_rows: int) -> AsyncGenerator[list[Row], None]:
        """See `copying.Target`."""
        assert self._connection is not None
        with _in_words(self.path):
            for rows in _chunks(self._connection, table, chunk_rows):
                yield rows

    async def publish(self) -> None:
        """See `copying.Target`."""
        connection = self._connection
        assert connection is not None
        with _in_words(self.path):
            connection.execute("DROP TABLE clew_copy")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._close()
            # An empty store may be in the place, and its log must not be taken for the new one's.
            migrating.discard(self.path)
            self._unfinished.replace(self.path)

    async def discard(self) -> None:
        """See `copying.Target`."""
        with _in_words(self.path):
            self._close()
            migrating.discard(self._unfinished)

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
        size += weigh(row)
        if len(rows) == most or size > CHUNK_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _is_marked(connection: apsw.Connection) -> bool:
    sql = "SELECT 1 FROM sqlite_schema WHERE name = 'clew_copy'"
    return fetch_one(connection, sql) is not None


def _check_version(connection: apsw.Connection, path: Path) -> None:
    latest = migrating.shipped_migrations()[-1].number
    if migrating.stored_version(connection, path, latest) != latest:
        raise StoreUnavailable(
            f"{path} is from an older clew. Nothing was copied. Update it with "
            f"`clew --store {path} list`, which makes a backup first, and copy again."
        )


@contextmanager
def _alone(path: Path, purpose: str, *, now: int) -> Iterator[None]:
    """Have the store open as the only one, for all to see."""
    lock = FileLock(lock_path(path))
    presence = Presence(path.parent / "processes", version=__version__, started_at=now)
    try:
        if not lock.acquire():
            raise StoreInUse(purpose, tuple(str(info) for info in presence.others()))
        presence.announce()
        yield
    finally:
        presence.leave()
        lock.release()


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error, path) from error
    except OSError as error:
        where = error.filename or path
        raise StoreUnavailable(f"{where} can't be used: {error.strerror or error}.") from error
