"""The schema of a SQLite file: its version, its migrations, and verified copies of the file.

A new file is made in one transaction. An older one is backed up and verified first, and migrated
while no other process has it open. A newer, foreign or damaged one is refused and not changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw

from clew.errors import StoreDamaged, StoreForeign, StoreTooNew, StoreUnavailable
from clew.store.migrations import REBUILD, SPARE, Migration, read_migrations
from clew.store.rows import COVERED, checksum_of_bytes
from clew.store.sqlite.connection import connect, fetch, lock_path

Progress = Callable[[int, int], None]
"""So much is done, of so much."""

APPLICATION_ID = 0x636C6577
"""`clew` in ASCII: distinguishes our files from other SQLite databases."""


PAGE_SIZE = 8192
"""Twice the default: messages waste less of a page, which saves a tenth of the file."""


AROUND = 400
"""Bytes that a message takes beside what was said in it."""


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


def apply(
    connection: apsw.Connection,
    steps: Sequence[Migration],
    *,
    progress: Progress = lambda _done, _total: None,
) -> None:
    """Run the steps that are missing, in one transaction. Two processes may call it at once.

    `progress` is told of the messages that a step writes anew.
    """
    # A table that others refer to can only be replaced while references are not looked at, and
    # that can't be switched inside a transaction.
    kept = connection.pragma("foreign_keys")
    connection.pragma("foreign_keys", False)
    connection.execute("BEGIN IMMEDIATE")
    try:
        current = connection.pragma("user_version")
        messages = _count_messages(connection)
        register_checksum(connection, _in_steps(progress, messages))
        for step in steps:
            if step.number > current:
                connection.execute(
                    step.sql
                ).fetchall()  # runs all statements, even if one returns rows
                connection.pragma("user_version", step.number)
        if _count_messages(connection) != messages:
            raise StoreDamaged(
                f"Updating {connection.filename} would have lost messages: it may be damaged. "
                "Nothing was changed. `clew doctor --full` looks into it."
            )
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.pragma("foreign_keys", kept)


def _count_messages(connection: apsw.Connection) -> int:
    """How many messages there are; none if there is no table for them yet."""
    if not fetch(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'messages'"):
        return 0
    ((count,),) = fetch(connection, "SELECT count(*) FROM messages")
    return int(count)


def _in_steps(progress: Progress, total: int) -> Callable[[int], None]:
    """Report progress now and then, and at the end."""

    def advance(done: int) -> None:
        if done % 1000 == 0 or done == total:
            progress(done, total)

    return advance


def register_checksum(
    connection: apsw.Connection, advance: Callable[[int], None] | None = None
) -> None:
    """Give a connection the function `clew_checksum`. `advance` is told how often it was called."""
    done = 0

    def count(*texts: Any) -> int:
        nonlocal done
        done += 1
        if advance is not None:
            advance(done)
        return checksum_of_bytes(*texts)

    connection.create_scalar_function("clew_checksum", count, len(COVERED), deterministic=True)


def needed_space(connection: apsw.Connection, version: int) -> int:
    """About how many bytes of disk an update needs: a copy, and the log of what is written anew."""
    copy = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
    if version >= REBUILD:
        return copy + SPARE
    ((content,),) = fetch(connection, "SELECT coalesce(sum(content_bytes), 0) FROM sessions")
    return copy + int(content) + _count_messages(connection) * AROUND + SPARE


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
    progress: Progress = lambda _done, _total: None,
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
