"""Opens other agents' SQLite databases: read-only, from a copy where reading would write.

`PRAGMA table_info` decides which columns there are, so a database of another version is read as far
as it goes. Only the tables that a reader names are read; those with credentials never are.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw

from clew.transfer.jsonl import Line
from clew.transfer.readers.files import Entry, Refused, check_own, entry_of
from clew.transfer.readers.reader import Reading, Source
from clew.transfer.readers.transcript import About, make_lines
from clew.transfer.readers.transcript import Entry as Talk

MAGIC: Final = b"SQLite format 3\x00"
MAX_VALUE: Final = 64 << 20
"""Bytes of the longest text that is read."""

WAL_VERSION: Final = 2

TIMES: Final = 16
SPARE: Final = 16 << 20
"""A database gives so many times its size in rows and text, and these bytes: no sound one has more.

In a file that was made to do harm, pages may lead to each other in such a way that a small one has
rows without end.
"""

STEPS: Final = 10_000_000
STEPS_PER_BYTE: Final = 50
"""What SQLite may compute for one row: some seconds, and more for a large file."""
_CHECK: Final = 100_000
"""Steps of SQLite between two looks at what it computed."""


class Database:
    """An open database of another agent."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._removal: weakref.finalize[..., Database] | None = None
        real = check_own(path, root)
        if _needs_writing(real):
            real = self._copy(real)
        try:
            address = f"file:{quote(str(real))}?mode=ro"
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            self._connection = apsw.Connection(address, flags=flags)
            self._connection.set_busy_timeout(2_000)
            self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_VALUE)
            self._size = sum(each.size for each in _entries(real))
            self._connection.set_progress_handler(self._spend, _CHECK)
            self.renew()
            for setting, value in (
                (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
                (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
                (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
                (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
            ):
                self._connection.config(setting, value)
            self.tables = self._list_tables()
        except apsw.Error as error:
            self.close()
            raise Refused(f"{path} can't be read as a database: {error}.") from error

    def _copy(self, real: Path) -> Path:
        """Copy the database: opening it in its place would write beside it."""
        folder = tempfile.mkdtemp(prefix="clew-import-")
        self._removal = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        copy = Path(folder) / "copy.db"
        shutil.copyfile(real, copy)
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{real}-wal", f"{copy}-wal")
        return copy

    def renew(self) -> None:
        """Begin a new reading: what was read before no longer counts."""
        self._bytes = TIMES * self._size + SPARE
        self._steps = 0

    def _spend(self) -> bool:
        """Whether a statement that gives no rows has taken too long. SQLite asks."""
        self._steps += _CHECK
        return self._steps > STEPS + STEPS_PER_BYTE * self._size

    def _count(self, row: Sequence[Any]) -> None:
        """Note what a row has; `Refused` if the database can't have so much."""
        self._steps = 0
        self._bytes -= 1 + sum(len(each) for each in row if isinstance(each, str | bytes))
        if self._bytes < 0:
            raise Refused(f"{self._path} is damaged: it gives more than it has. It was not read.")

    def _list_tables(self) -> frozenset[str]:
        rows = self._connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        return frozenset(str(name) for (name,) in rows)

    def has(self, *tables: str) -> bool:
        """Whether all of these tables are there."""
        return self.tables.issuperset(tables)

    def select(
        self, table: str, wanted: str, rest: str = "", bindings: Sequence[Any] = ()
    ) -> Iterator[dict[str, Any]]:
        """Rows of a table with the wanted columns; those that it lacks are None."""
        try:
            info = self._connection.execute(f"PRAGMA table_info({table})")  # names of our own
            there = {str(row[1]) for row in info}
            names = [name for name in wanted.split() if name in there]
            listed = ", ".join(f'"{name}"' for name in names) or "NULL"
            missing = dict.fromkeys(wanted.split())
            sql = f'SELECT {listed} FROM "{table}" {rest}'  # noqa: S608  # names of our own
            self._steps = 0
            for row in self._connection.execute(sql, tuple(bindings)):
                self._count(row)
                yield missing | dict(zip(names, row, strict=False))
        except apsw.Error as error:
            raise Refused(f"{self._path} can't be read: {error}.") from error

    def tell(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement; none if this database does not understand it."""
        self._steps = 0
        rows = []
        try:
            for row in self._connection.execute(sql, tuple(bindings)):
                self._count(row)
                rows.append(row)
            return rows
        except apsw.SQLError:
            return []
        except apsw.Error as error:
            raise Refused(f"{self._path} can't be read: {error}.") from error

    def close(self) -> None:
        """Close it, and remove the copy."""
        if hasattr(self, "_connection"):
            self._connection.close()
        if self._removal is not None:
            self._removal()


def _entries(path: Path) -> list[Entry]:
    """The files of a database that are there."""
    found = (entry_of(Path(f"{path}{end}")) for end in ("", "-wal"))
    return [each for each in found if each is not None]


def _needs_writing(path: Path) -> bool:
    """Whether SQLite would make a file beside a database: one with a WAL that nobody has open."""
    with path.open("rb") as file:
        head = file.read(20)
    if not head.startswith(MAGIC):
        raise Refused(f"{path} is no SQLite database.")
    return WAL_VERSION in head[18:20] and not Path(f"{path}-shm").exists()


def is_database(first: bytes) -> bool:
    """Whether a file begins like a database."""
    return first.startswith(MAGIC)


class SqliteHistory:
    """What readers of databases share: the last database stays open while its sessions are read.

    A reader has `name`, `label` and `tables`, lists the sessions of a database and reads one.
    """

    name = ""
    label = ""
    tables: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._open: tuple[str, Database] | None = None

    def sessions(self, database: Database, file: Entry, root: Path) -> Iterator[Source]:
        """The sessions in a database."""
        raise NotImplementedError

    def talk(
        self, database: Database, source: Source, reading: Reading
    ) -> tuple[About, Iterator[Talk]]:
        """What was said in a session."""
        raise NotImplementedError

    def list_file(self, path: Path, root: Path) -> Iterator[Source]:
        """The sessions in a file, if it is there and has the tables."""
        file = entry_of(path)
        if file is None:
            return
        database = self._get(path, root)
        database.renew()
        if database.has(*self.tables):
            yield from (each for each in self.sessions(database, file, root) if each.id)

    def open(self, path: Path) -> Iterator[Source]:
        """See `Reader`."""
        path = path.resolve()
        files = sorted(path.rglob("*.db")) if path.is_dir() else [path]
        for each in files:
            with suppress(Refused):
                yield from self.list_file(each, path if path.is_dir() else path.parent)

    def recognises(self, path: Path, first: bytes) -> bool:
        """See `Reader`."""
        if not is_database(first):
            return False
        try:
            return self._get(path.resolve(), path.resolve().parent).has(*self.tables)
        except Refused:
            return False

    def read(self, source: Source, reading: Reading) -> Iterator[Line]:
        """See `Reader`."""
        database = self._get(source.path, source.root)
        about, entries = self.talk(database, source, reading)
        reading.advance(source.size)
        return make_lines(about, entries)

    def _get(self, path: Path, root: Path) -> Database:
        """The database; opened anew when the file has changed."""
        mark = f"{path}:{[each.stamp for each in _entries(path)]}"
        if self._open is not None:
            if self._open[0] == mark:
                return self._open[1]
            self._open[1].close()
            self._open = None
        database = Database(path, root)
        self._open = (mark, database)
        return database


def number_of(value: object) -> int:
    """A count of a database; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
