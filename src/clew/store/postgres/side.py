"""One side of a copy in PostgreSQL: a connection of its own, the store held alone, rows read.

What is done with them is in `shelf`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from typing import Self

import psycopg

from clew.errors import StoreInUse
from clew.store.postgres.connection import Connection, connect, conninfo_of, place_of
from clew.store.postgres.failures import DRIVER_ERRORS, translate
from clew.store.postgres.presence import OPEN
from clew.store.presence import ProcessInfo
from clew.store.rows import Row
from clew.store.tables import CHUNK_BYTES, Table, weigh

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

_TYPES = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
"""


class Side:
    """A connection of one's own, with the store held alone."""

    def __init__(self, url: str) -> None:
        self._conninfo = conninfo_of(url)
        self.place = place_of(url)
        self._types: dict[str, dict[str, str]] = {}
        self._connection: Connection | None = None

    @property
    def db(self) -> Connection:
        """The connection, while it is open."""
        assert self._connection is not None
        return self._connection

    async def __aenter__(self) -> Self:
        with self.in_words():
            self._connection = await connect(self._conninfo)
            try:
                await self.db.execute(_SETTINGS, prepare=False)
                with suppress(psycopg.Error):  # not every system can
                    await self.db.execute(_NOTICE_THE_END)
                await self.take()
            except BaseException:
                await self.db.close()
                raise
        return self

    async def take(self) -> None:
        """Hold the store alone, or say who has it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            ((alone,),) = await self.db.fetch("SELECT pg_try_advisory_lock($1)", (OPEN,))
            if alone:
                return
            if time.monotonic() > deadline:
                raise StoreInUse("Copying", await _list_living(self.db))
            await asyncio.sleep(random.uniform(0.02, 0.1))  # noqa: S311  # jitter, no secret

    async def __aexit__(self, *error: object) -> None:
        await self.db.close()

    @contextmanager
    def in_words(self) -> Iterator[None]:
        """Errors of the driver in clew's words."""
        try:
            yield
        except DRIVER_ERRORS as error:
            raise translate(error, self.place) from error

    async def read(self, table: Table, chunk_rows: int) -> AsyncGenerator[list[Row], None]:
        """All rows in the table's order, numbers and truth values as numbers."""
        order = "ordinal" if table.ordered else ", ".join(table.key)
        with self.in_words():
            types = await self.types_of(table)
            columns = ", ".join(
                f"{each}::int::bigint" if types[each] == "boolean" else each
                for each in table.columns
            )
            rows: list[Row] = []
            size = 0
            query = f"SELECT {columns} FROM {table.name} ORDER BY {order}"
            sql = f"COPY ({query}) TO STDOUT (FORMAT BINARY)"
            async with self.db.cursor() as cursor, cursor.copy(sql) as copy:
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

    async def types_of(self, table: Table) -> dict[str, str]:
        """Each column's type."""
        if table.name not in self._types:
            self._types[table.name] = dict(await self.db.fetch(_TYPES, (table.name,)))
        return self._types[table.name]


async def _list_living(connection: Connection) -> tuple[str, ...]:
    """The processes that have the store open, as people read them."""
    ((known,),) = await connection.fetch("SELECT to_regclass('processes') IS NOT NULL")
    if not known:
        return ()
    rows = await connection.fetch(
        """SELECT process, host, pid, version, command, started_at FROM processes
           WHERE NOT pg_try_advisory_xact_lock_shared(lock) ORDER BY started_at""",
    )
    return tuple(str(ProcessInfo(*row)) for row in rows)
