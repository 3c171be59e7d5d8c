"""The schema of a SQLite file: its version, its migrations, and verified copies of the file.

A new file is made in one transaction. An older one is backed up and verified first, and migrated
while no other process has it open. A newer, foreign or damaged one is refused and not changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw

from clew.errors import StoreDamaged, StoreForeign, StoreTooNew, StoreUnavailable
from clew.store.migrations import Migration, read_migrations
from clew.store.sqlite.connection import connect, fetch, lock_path

APPLICATION_ID = 0x636C6577
"""`clew` in ASCII: distinguishes our files from other SQLite databases."""


PAGE_SIZE = 8192
"""Twice the default: messages waste less of a page, which saves a tenth of the file."""


def shipped_migrations() -> tuple[Migration, ...]:
    """The steps that come with this clew, in order."""
    return read_migrations(Path(__file__).parent / "migrations")


def stored_version(connection: apsw.Connection, path: Path, latest: int) -> int:
    """The schema number of the file, 0 for a new one. Refuses a file that is not clew's."""
    # One statement, so that all values are consistent: another process may be making the file.
    ((application, version, has_tables),) = fetch(
        connection,
        """SELECT application_id, user_version, EXISTS (SELECT 1 FROM sqlite_schema)
           FROM pragma_application_id, pragma_user_version""",
    )
    if version == 0 and not has_tables:
        return 0
    if application != APPLICATION_ID:
        raise StoreForeign(
            f"{path} is a database, but not clew's. It was not touched. "
            "Give another place with --store or CLEW_HOME."
        )
    if not isinstance(version, int) or version > latest:
        raise StoreTooNew(
            f"{path} was made by a newer clew (schema {version}, this one knows {latest}). "
            "It was not touched. Update clew."
        )
    return version


def apply(connection: apsw.Connection, steps: Sequence[Migration]) -> None:
    """Run the missing steps, in one transaction. Two processes may call it at the same time."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        current = connection.pragma("user_version")
        for step in steps:
            if step.number > current:
                connection.execute(
                    step.sql
                ).fetchall()  # runs all statements, even if one returns rows
                connection.pragma("user_version", step.number)
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def use_wal(connection: apsw.Connection, path: Path) -> None:
    """Switch write-ahead logging on, in a new file with pages of our size."""
    connection.pragma("page_size", PAGE_SIZE)
    if connection.pragma("journal_mode", "wal") != "wal":
        raise StoreUnavailable(
            f"Write-ahead logging does not work where {path} is (a network or overlay file "
            "system?). Put the store on a local disk with --store or CLEW_HOME."
        )


def verified_copy(
    connection: apsw.Connection,
    target: Path,
    *,
    lock: Path | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Path:
    """Copy the open database to `target` and check the copy; removes an unfinished one.

    The copy gets the permissions of the file `lock` (None: the lock of the copied store). In an
    open transaction it has the state of that transaction, whatever other processes write.
    """
    unfinished = target.with_name(target.name + ".part")
    discard(unfinished)
    try:
        with contextlib.closing(
            connect(unfinished, lock=lock or lock_path(Path(connection.filename)))
        ) as copy:
            with copy.backup("main", connection, "main") as backup:
                while not backup.done:
                    backup.step(1000)
                    progress(backup.page_count - backup.remaining, backup.page_count)
            copy.pragma("journal_mode", "delete")
            found = copy.pragma("quick_check")
        if found == "ok":
            return unfinished.replace(target)
    finally:
        discard(unfinished)
    raise StoreDamaged(f"The copy of {connection.filename} is not sound: {found}.")


def discard(path: Path) -> None:
    """Remove a database file that is not in use, with the files that SQLite may have left."""
    for ending in ("", "-journal", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
