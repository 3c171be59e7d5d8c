"""The schema of a PostgreSQL database: its version and its migrations.

Migrations have the same numbers and names as SQLite's. A new schema is made in one transaction. An
older one is migrated while no other process has the store open. A newer or foreign one is refused
and left as it is.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from clew.core.names import format_bytes
from clew.errors import StoreForeign, StoreInUse, StoreReadOnly, StoreTooNew, StoreUnavailable
from clew.store.migrations import REBUILD, SPARE, Migration, Report, quiet, read_migrations
from clew.store.postgres.connection import Connection
from clew.store.postgres.presence import OPEN, list_living

MAKING = 0x636C6577_00000001
"""The advisory lock of a process that makes or changes the schema."""

_LOOK = """
SELECT current_setting('server_encoding'), to_regclass('clew_schema') IS NOT NULL,
  to_regclass('clew_copy') IS NOT NULL,
  EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = current_schema()::regnamespace
          AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')),
  current_schema()
"""


EXCLUSIVE_PATIENCE = 2.0
"""Seconds: long enough for a `clew list` to end, too short for a chat."""

_OF_THE_STEP = ("0A", "22", "23", "42")
"""Beginnings of the error codes that a migration causes, and not the state of the server."""


def shipped_migrations() -> tuple[Migration, ...]:
    """The steps that come with this clew, in order."""
    return read_migrations(Path(__file__).parent / "migrations")


async def stored_version(connection: Connection, place: str, latest: int) -> int:
    """The schema number of the database, 0 for a new one. Refuses one that is not clew's."""
    look = await connection.one(_LOOK)
    assert look is not None
    encoding, is_ours, is_unfinished, has_tables, schema = look
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"{place} keeps text as {encoding}, and clew needs UTF8. "
            "Make a database with: createdb --encoding UTF8 --template template0 NAME."
        )
    if not is_ours:
        if schema is None:
            raise StoreUnavailable(
                f"{place} has no schema to make tables in. Check its search_path."
            )
        if is_unfinished:
            raise StoreUnavailable(
                f"{place} is an unfinished copy of another store. "
                "Finish it with the same `clew store copy` as before."
            )
        if has_tables:
            raise StoreForeign(
                f"{place} has tables, but not clew's. It was not touched. "
                "Give clew a database of its own."
            )
        return 0
    ((version,),) = await connection.fetch("SELECT coalesce(max(number), 0) FROM clew_schema")
    if version > latest:
        raise StoreTooNew(
            f"{place} was made by a newer clew (schema {version}, this one knows {latest}). "
            "It was not touched. Update clew."
        )
    return int(version)


async def apply(
    connection: Connection, steps: Sequence[Migration], place: str, report: Report = quiet
) -> None:
    """Run the steps that are missing, in one transaction. Two processes may call it at once.

    If a step fails, everything is as it was, and the error says so.
    """
    latest = steps[-1].number
    current = 0
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", (MAKING,))
            current = await stored_version(connection, place, latest)
            # An index over many millions of rows takes long.
            await connection.execute("SET LOCAL statement_timeout = 0")
            with _reported(connection, report):
                await _announce(connection, place, current, latest, report)
                await _run(connection, steps, current)
    except psycopg.errors.InsufficientPrivilege as error:
        what = _what(place, current, latest)
        raise StoreReadOnly(
            f"{what}, which this user may not do ({_why(error)}). Nothing was changed. Start clew "
            f"once as the owner of the tables{'' if current == 0 else ', after a pg_dump'}."
        ) from error
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith(_OF_THE_STEP):
            raise
        raise StoreUnavailable(
            f"{_what(place, current, latest)}, but that failed: {_why(error)}. Nothing was "
            "changed: the clew that used it before still can."
        ) from error


@contextmanager
def _reported(connection: Connection, report: Report) -> Iterator[None]:
    """Give on what the steps say of their progress, as notices: `clew DONE TOTAL`."""

    def read(notice: psycopg.errors.Diagnostic) -> None:
        word, *numbers = (notice.message_primary or "").split()
        if word == "clew" and len(numbers) == 2:
            report("Updating messages", int(numbers[0]), int(numbers[1]))

    connection.add_notice_handler(read)
    try:
        yield
    finally:
        connection.remove_notice_handler(read)


async def _announce(
    connection: Connection, place: str, current: int, latest: int, report: Report
) -> None:
    """Say what an update is going to take. How much disk there is, only the server knows."""
    await connection.execute("SET LOCAL client_min_messages = notice")
    if 0 < current < latest:
        needed = 0
        if current < REBUILD:
            sql = "SELECT pg_table_size('messages')"
            ((needed,),) = await connection.fetch(sql)
        disk = f" The server needs about {format_bytes(needed + SPARE)} of disk for it."
        what = f"{place} is from an older clew and is updated (schema {current} to {latest})."
        report(f"{what}{disk}", 0, 0)


def _what(place: str, current: int, latest: int) -> str:
    if current == 0:
        return f"{place} needs clew's tables"
    return f"{place} is from an older clew and has to be updated (schema {current} to {latest})"


def _why(error: psycopg.Error) -> str:
    return " ".join(str(error).split()).rstrip(".")


async def _run(connection: Connection, steps: Sequence[Migration], current: int) -> None:
    if current == 0:
        await connection.execute(
            """CREATE TABLE IF NOT EXISTS clew_schema (
                 number BIGINT PRIMARY KEY, name TEXT NOT NULL,
                 applied_at TIMESTAMPTZ NOT NULL DEFAULT now())"""
        )
    for step in steps:
        if step.number > current:
            await connection.execute(step.sql.encode())
            await connection.execute(
                "INSERT INTO clew_schema (number, name) VALUES ($1, $2)",
                (step.number, step.name),
            )


async def migrate_alone(
    connection: Connection, steps: Sequence[Migration], place: str, report: Report = quiet
) -> None:
    """Update the schema while no other process has the store open.

    If two processes start it together, one does it and the other sees that it was done.
    """
    latest = steps[-1].number
    deadline = time.monotonic() + EXCLUSIVE_PATIENCE
    while True:
        ((alone,),) = await connection.fetch("SELECT pg_try_advisory_lock($1)", (OPEN,))
        if alone:
            break
        if await stored_version(connection, place, latest) == latest:
            return
        if time.monotonic() > deadline:
            raise StoreInUse(f"Updating {place} (after a pg_dump)", await list_living(connection))
        await asyncio.sleep(random.uniform(0.01, 0.05))  # noqa: S311  # jitter, no secret
    try:
        await apply(connection, steps, place, report)
    finally:
        await connection.execute("SELECT pg_advisory_unlock($1)", (OPEN,))
