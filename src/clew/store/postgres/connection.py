"""Connections to PostgreSQL, and the pool that a process keeps.

The pool is our own, for three reasons: a connection that the server has ended is noticed before it
is used, waiting for a server that is away is bounded, and nothing runs in the background.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import select
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor, AsyncRawCursor
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper

from clew.errors import InvalidInput, StoreUnavailable
from clew.ports import Clock
from clew.store.rows import Row

# Its warnings are also raised as errors, and would only clutter the screen.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

T = TypeVar("T")


class Connection(AsyncConnection[Row]):
    """A connection, which is also the `work.Transaction` that it has open.

    It runs the same statement with the same cursor again: a new one costs an eighth of a query, and
    does not know yet which types it will meet.
    """

    clock: Clock | None = None
    """The store's clock, if it is not PostgreSQL's own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cursors: dict[str, AsyncCursor[Row]] = {}

    async def fetch(
        self, sql: str, bindings: Row = (), *, prepare: bool | None = None
    ) -> list[Row]:
        """See `work.Transaction`."""
        cursor = self._take(sql)
        # Binary is quicker to read, above all for numbers.
        await cursor.execute(sql, bindings or None, prepare=prepare)
        rows = await cursor.fetchall()
        if len(rows) <= KEPT_ROWS:
            self._cursors[sql] = cursor
        return rows

    async def one(self, sql: str, bindings: Row = ()) -> Row | None:
        """See `work.Transaction`."""
        rows = await self.fetch(sql, bindings)
        return rows[0] if rows else None

    async def run(self, sql: str, bindings: Row = ()) -> int:
        """See `work.Transaction`."""
        cursor = self._take(sql)
        await cursor.execute(sql, bindings or None)
        self._cursors[sql] = cursor
        return cursor.rowcount

    @property
    def given_now(self) -> int | None:
        """The time if a clock was given, else None: the statement asks PostgreSQL's own."""
        return None if self.clock is None else self.clock()

    async def now(self) -> int:
        """See `work.Transaction`."""
        if self.clock is not None:
            return self.clock()
        ((now,),) = await self.fetch(_NOW)
        return int(now)

    async def serialize(self, name: str) -> None:
        """See `work.Transaction`."""
        await self.fetch(_SERIALIZE, (name,))

    async def script(self, sql: str) -> None:
        """Run something without bindings and rows; several statements in one go are fine."""
        cursor = self._take("")
        await cursor.execute(sql, prepare=False)
        self._cursors[""] = cursor

    def _take(self, sql: str) -> AsyncCursor[Row]:
        """The cursor of a statement, or a new one; taken out while it is used."""
        if len(self._cursors) > CURSORS:
            self._cursors.clear()
        return self._cursors.pop(sql, None) or self.cursor()


_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_SERIALIZE = "SELECT pg_advisory_xact_lock(hashtextextended('clew ' || $1, 0))"

Job = Callable[[Connection], Awaitable[T]]
Durability = Literal["full", "normal"]

CURSORS = 64
KEPT_ROWS = 250
"""How many cursors are kept for the next query. One keeps the memory of its last result, so one
with more rows is not kept."""

CONNECTIONS = 8
"""Most that one process has, besides the one that listens for notifications."""

PATIENCE = 10.0
"""Seconds that a call waits for a server that is away."""

PROBE = 2.0
"""Seconds in which a notification arrives if any does."""

# A server that falls silent is noticed within half a minute. What a URL says comes first.
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
    "fallback_application_name": "clew",
}

# Every wait is bounded: for a lock, for an answer, and for a process that stopped in the middle of
# a transaction. (So no pipelines: in one, the server does not see such a process as idle.) A
# process that was only slow repeats its transaction: see `Database.write`.
_SETTINGS = """
SET lock_timeout = '20s'; SET idle_in_transaction_session_timeout = '2s';
SET statement_timeout = '60s'; SET jit = off; SET client_min_messages = warning;
"""


def conninfo_of(url: str) -> str:
    """The connection string of libpq for a URL."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error as error:
        # libpq quotes what it can't read, and that may be the password; so would the traceback.
        raise InvalidInput(
            f"That is not a URL of a PostgreSQL database ({_unquoted(error)}). "
            "Use postgresql://user@host/database."
        ) from None
    if "@" in str(given.get("host", "")):
        # Otherwise the end of a password would be looked up as a host, and shown.
        raise InvalidInput("An @ in the user or password of a URL must be written as %40.")
    return make_conninfo(**{**_DEFAULTS, **given, "client_encoding": "utf8"})


def place_of(url: str) -> str:
    """A URL to show to people: without its password."""
    given = conninfo_to_dict(url)
    host, port, name = given.get("host"), given.get("port"), given.get("dbname")
    where = f"{host or 'localhost'}" + (f":{port}" if port else "")
    return f"PostgreSQL at {where}/{name or ''}"


async def connect(
    conninfo: str, durability: Durability = "full", *, clock: Clock | None = None
) -> Connection:
    """Open a connection, outside of any transaction. Bindings are `$1`, `$2` …"""
    connection = await Connection.connect(conninfo, autocommit=True, cursor_factory=AsyncRawCursor)
    # One type for whole numbers: statements are prepared once, and sums don't overflow.
    connection.adapters.register_dumper(int, Int8Dumper)
    connection.clock = clock
    relaxed = "SET synchronous_commit = off;" if durability == "normal" else ""
    try:
        await connection.execute(_SETTINGS + relaxed, prepare=False)
    except BaseException:
        await connection.close()
        raise
    return connection


class Pool:
    """Connections, each used by one task at a time."""

    def __init__(self, open_connection: Callable[[], Awaitable[Connection]]) -> None:
        self._open = open_connection
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(CONNECTIONS)

    async def take(self, deadline: float) -> Connection:
        """A connection that seems to work; a driver error after the deadline."""
        await self._free.acquire()
        try:
            return await keep_trying(self._find, deadline)
        except BaseException:
            self._free.release()
            raise

    async def _find(self) -> Connection:
        """An idle connection, or a new one. One may come back while no new one can be opened."""
        while self._idle:
            connection = self._idle.pop()
            if is_usable(connection):
                return connection
            await connection.close()
        return await self._open()

    async def give(self, connection: Connection) -> None:
        """Take a connection back; one that can't be used again is closed."""
        self._free.release()
        if connection.pgconn.transaction_status == TransactionStatus.IDLE:
            self._idle.append(connection)
        else:
            await connection.close()

    async def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            await self._idle.pop().close()


def is_usable(connection: Connection) -> bool:
    """Whether an idle connection is still open. All that the server could send is its end."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


async def keep_trying(attempt: Callable[[], Awaitable[T]], deadline: float) -> T:
    """Try to connect until it works or the time is over, with short random pauses."""
    while True:
        try:
            return await attempt()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(random.uniform(0.05, 0.2))  # noqa: S311  # jitter, no secret


async def refuse_transaction_pooling(
    connection: Connection, connect: Callable[[], Awaitable[Connection]], place: str
) -> None:
    """`StoreUnavailable` behind a pooler that gives every transaction another connection.

    A pooler is recognised by the number of the server's process, which it does not know; its mode
    by a notification, which arrives in session mode only.
    """
    ((backend,),) = await connection.fetch("SELECT pg_backend_pid()", prepare=False)
    if backend == connection.info.backend_pid:
        return
    name = f"clew_probe_{secrets.token_hex(8)}"
    await connection.script(f"LISTEN {name}")
    other = await connect()
    try:
        await other.script(f"NOTIFY {name}")
    finally:
        await other.close()
    heard = [each async for each in connection.notifies(timeout=PROBE, stop_after=1)]
    if not heard:
        raise StoreUnavailable(
            f"{place} is behind a pooler in transaction mode, where notifications and locks are "
            "lost. Set pool_mode = session in pgbouncer.ini for this database, or connect to "
            "PostgreSQL itself."
        )
    await connection.script(f"UNLISTEN {name}")


def _unquoted(error: Exception) -> str:
    return " ".join(str(error).partition('"')[0].split()).rstrip(" :") or "can't be read"


async def connect_first(
    connect: Callable[[], Awaitable[Connection]], patience: float
) -> Connection:
    """Connect. Waits for a server that is starting; a server that is down fails immediately."""
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
