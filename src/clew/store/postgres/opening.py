"""The first connection to a database, and an update of its schema while nobody else has it open.

What the steps of an update are is known to `migrating`, what comes after to `database`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence

import psycopg

from clew.errors import StoreInUse
from clew.store.postgres import migrating
from clew.store.postgres.connection import Connection
from clew.store.postgres.migrating import Migration
from clew.store.postgres.presence import OPEN
from clew.store.presence import ProcessInfo

EXCLUSIVE_PATIENCE = 2.0
"""Seconds: long enough for a `clew list` to end, too short for a chat."""


async def connect_first(
    connect: Callable[[], Awaitable[Connection]], patience: float
) -> Connection:
    """A server that is not there is said at once; one that starts is waited for."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return await connect()
        except psycopg.OperationalError as error:
            # libpq gives no code here, only the sentence.
            starting = "starting up" in str(error) or "shutting down" in str(error)
            if not starting or time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.1)


async def migrate_alone(connection: Connection, steps: Sequence[Migration], place: str) -> None:
    """Update the schema while nobody else has the store open.

    Two that want to at once: one does it, the other sees that it was done and goes on.
    """
    latest = steps[-1].number
    deadline = time.monotonic() + EXCLUSIVE_PATIENCE
    while True:
        ((alone,),) = await connection.fetch("SELECT pg_try_advisory_lock($1)", (OPEN,))
        if alone:
            break
        if await migrating.stored_version(connection, place, latest) == latest:
            return
        if time.monotonic() > deadline:
            raise StoreInUse(f"Updating {place} (after a pg_dump)", await _names(connection))
        await asyncio.sleep(random.uniform(0.01, 0.05))  # noqa: S311  # jitter, no secret
    try:
        await migrating.apply(connection, steps, place)
    finally:
        await connection.execute("SELECT pg_advisory_unlock($1)", (OPEN,))


async def _names(connection: Connection) -> tuple[str, ...]:
    rows = await connection.fetch(
        """SELECT process, host, pid, version, command, started_at FROM processes
           WHERE NOT pg_try_advisory_xact_lock_shared(lock) ORDER BY started_at""",
    )
    return tuple(str(ProcessInfo(*row)) for row in rows)
