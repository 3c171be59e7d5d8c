"""The store: one contract (`ports.Store`), two engines, and `open_store`, which opens either.

open_store ─► sqlite.store.SqliteStore      one file, threads of its own
           └► postgres.store.PostgresStore  one database, a pool of connections

work/       the code that both engines share: a class for each port
sqlite/     and postgres/: connections, search, hot paths, live processes, the schema and its
            migrations, doctor, repair, one side of a copy
rows.py     rows as values and values as bindings, for both
copy.py     copies one store into another; diagnosis.py: what `clew doctor` finds
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from clew.errors import ClewError, InvalidInput, StoreUnavailable
from clew.plugins import find_entries, load_entry
from clew.ports import Clock, list_missing
from clew.store.migrations import Report, quiet

if TYPE_CHECKING:
    from clew.store.postgres.store import PostgresStore
    from clew.store.sqlite.connection import Durability
    from clew.store.sqlite.store import SqliteStore


async def open_store(
    url: str,
    *,
    durability: Durability = "full",
    clock: Clock | None = None,
    report: Report = quiet,
) -> SqliteStore | PostgresStore:
    """Open the store that a URL names; makes it if it does not exist.

    `sqlite:///absolute/path/sessions.db`, or a plain path; or `postgresql://user@host/database`,
    which must exist. Use it as `async with`. `report` is told how an update of an older store goes
    on. Another scheme is opened by the package that brings it (entry point `clew.stores`).
    """
    if is_postgres(url):
        return await _open_postgres(url, durability=durability, clock=clock, report=report)
    if is_foreign(url):
        foreign: SqliteStore = await _open_foreign(
            url, durability=durability, clock=clock, report=report
        )
        return foreign  # a store of another class, with the same methods
    return await open_sqlite(url, durability=durability, clock=clock, report=report)


async def open_sqlite(
    url: str,
    *,
    durability: Durability = "full",
    clock: Clock | None = None,
    report: Report = quiet,
) -> SqliteStore:
    """Open a store in a SQLite file; makes it if it does not exist."""
    from clew.store.sqlite.store import SqliteStore  # noqa: PLC0415  # only the engine that is needed

    return SqliteStore(sqlite_path(url), durability=durability, clock=clock, report=report)


def is_postgres(url: str) -> bool:
    """Whether a URL names a PostgreSQL database."""
    return url.startswith(("postgresql://", "postgres://"))


def is_foreign(url: str) -> bool:
    """Whether a URL names a store of neither engine: another package may bring it."""
    scheme, separator, _ = url.partition("://")
    return bool(separator) and scheme != "sqlite" and not is_postgres(url)


def find_file(url: str) -> Path | None:
    """The file of a store in SQLite; None for any other store."""
    return None if is_postgres(url) or is_foreign(url) else sqlite_path(url)


async def _open_foreign(
    url: str, *, durability: Durability, clock: Clock | None, report: Report
) -> Any:
    """Open a store with the package that has its scheme as an entry point."""
    scheme = url.partition("://")[0]
    for entry in find_entries("clew.stores", scheme):
        try:
            open_it = load_entry(entry)
        except ImportError as error:
            raise StoreUnavailable(f"The store of {scheme}:// can't be opened: {error}.") from error
        try:
            store = await open_it(url, durability=durability, clock=clock, report=report)
        except ClewError:
            raise
        except Exception as error:
            raise StoreUnavailable(
                f"The store of {scheme}:// can't be opened: {entry.value} failed with "
                f"{type(error).__name__}."
            ) from error
        lacking = list_missing(store)
        if lacking:
            raise StoreUnavailable(
                f"{entry.value} gives a {type(store).__name__}, which is no store: it lacks "
                f"{', '.join(lacking)}. `clew.testing.contract` says what each has to do."
            )
        return store
    sqlite_path(url)  # says which kinds of stores there are
    raise StoreUnavailable(f"Nothing opens {scheme}://.")


async def _open_postgres(
    url: str, *, durability: Durability, clock: Clock | None, report: Report
) -> PostgresStore:
    need_postgres()
    from clew.store.postgres.store import PostgresStore  # noqa: PLC0415  # only the engine that is needed

    return await PostgresStore.open(url, durability=durability, clock=clock, report=report)


def need_postgres() -> None:
    """Raise `StoreUnavailable` with what to install, if the driver of PostgreSQL is missing."""
    try:
        import psycopg  # noqa: F401, PLC0415  # only the engine that is needed
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            "A store in PostgreSQL needs clew's extra for it: pip install 'clew[postgres]'."
        ) from error


def sqlite_path(url: str) -> Path:
    """The file that a store's URL names."""
    scheme, colon, rest = url.partition("://")
    if not url.strip():
        raise InvalidInput("A store needs a URL, such as sqlite:///home/me/sessions.db.")
    if url.strip().rpartition("/")[2].startswith((":memory:", "file::memory:")):
        raise InvalidInput(
            "A store is a file: clew keeps none in memory. Use a file in a temporary directory, as "
            "in `tempfile.TemporaryDirectory()`. Nothing was made."
        )
    if not colon:
        return Path(url).expanduser().absolute()
    if scheme != "sqlite":
        raise InvalidInput(
            f'"{scheme}" is not a kind of store that this clew knows. '
            "Use sqlite:///absolute/path/sessions.db or postgresql://user@host/database."
        )
    if not rest.startswith("/"):
        raise InvalidInput(f"{url} needs three slashes: sqlite:///absolute/path/sessions.db.")
    named = unquote(rest).lstrip("/")
    return Path(named if Path(named).drive else "/" + named)
