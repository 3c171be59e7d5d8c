"""Bringing a database to the schema that this clew knows: forward only, never by guess.

The same numbers and names as SQLite's. A new schema is made whole in one transaction, by one of
those who want to at once. An older one needs every other process to be gone. A newer or foreign one
is refused untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import psycopg

from clew.errors import StoreForeign, StoreReadOnly, StoreTooNew, StoreUnavailable
from clew.store.postgres.connection import Connection

MAKING = 0x636C6577_00000001
"""The advisory lock of whoever makes or changes the schema."""

_LOOK = """
SELECT current_setting('server_encoding'), to_regclass('clew_schema') IS NOT NULL,
  to_regclass('clew_copy') IS NOT NULL,
  EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = current_schema()::regnamespace
          AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')),
  current_schema()
"""


_OF_THE_STEP = ("0A", "22", "23", "42")
"""How the codes of errors begin that lie in what a step found, not in the server's state."""


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema."""

    number: int
    name: str
    sql: str


def shipped_migrations() -> tuple[Migration, ...]:
    """The steps that come with this clew, in order."""
    files = sorted((Path(__file__).parent / "migrations").glob("*.sql"))
    return tuple(
        Migration(int(file.stem[:4]), file.stem[5:], file.read_text("utf-8")) for file in files
    )


async def stored_version(connection: Connection, place: str, latest: int) -> int:
    """The schema number of the database, 0 for a new one. Refuses what is not ours."""
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
            raise StoreUnavailable(f"{place} has no schema to make tables in (see search_path).")
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


async def apply(connection: Connection, steps: Sequence[Migration], place: str) -> None:
    """Run the steps that are missing, all in one transaction. Safe for two at once.

    If one of them fails, everything is as it was, and the error says so.
    """
    latest = steps[-1].number
    current = 0
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", (MAKING,))
            current = await stored_version(connection, place, latest)
            # An index over many millions of rows takes its time.
            await connection.execute("SET LOCAL statement_timeout = 0")
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
            "changed: whatever could use it before still can."
        ) from error


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
