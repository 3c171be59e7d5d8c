"""Which processes are alive, and whether anything was committed: one connection that listens.

Every process has a row in `processes`, and holds an advisory lock on this connection, which the
server releases the moment the process ends, on whatever host it is. A process that closes the store
removes its row. A row whose lock is free for a second belongs to a dead process, and any process
that sees it removes it: inside a transaction, a process is alive if it has a row. The second is for
a process that has only lost this connection, which it opens again at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable

import psycopg

from clew.errors import StoreBusy
from clew.store.postgres.connection import Connection, keep_trying
from clew.store.presence import ProcessInfo, command_name, process_of
from clew.store.work.transaction import Transaction

CHANNEL = "clew"

OPEN = 0x636C6577_00000002
"""The advisory lock that all processes with the store open share; a migration has it alone."""

GRACE = 1.0
"""Seconds that a lock may be free before its process counts as dead."""

_ANNOUNCE = """
INSERT INTO processes (process, host, pid, version, command, started_at, lock)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (process) DO NOTHING
"""

# A host that vanished is noticed by the server within half a minute.
_LISTEN = f"""
LISTEN {CHANNEL}; SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 4; SET idle_in_transaction_session_timeout = 0;
"""

_UNLOCKED = """
SELECT process FROM processes
WHERE process = ANY ($1) AND pg_try_advisory_xact_lock_shared(lock)
"""

_REMOVE_DEAD = """
DELETE FROM processes WHERE process = ANY ($1) AND pg_try_advisory_xact_lock_shared(lock)
RETURNING process
"""

_LIVING = """
SELECT process, host, pid, version, command, started_at FROM processes
WHERE NOT pg_try_advisory_xact_lock_shared(lock) ORDER BY started_at
"""


class Presence:
    """This process among those that share a store."""

    def __init__(
        self,
        open_connection: Callable[[], Awaitable[Connection]],
        *,
        version: str,
        patience: float,
    ) -> None:
        self._open = open_connection
        self._patience = patience
        self.info = ProcessInfo(
            process=uuid.uuid4().hex,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version,
            command=command_name(sys.argv),
            started_at=time.time_ns() // 1_000_000,
        )
        self._connection: Connection | None = None
        self._asking = asyncio.Lock()
        self._reconnecting: asyncio.Task[None] | None = None
        self._count = 0
        self._watched = -1

    @property
    def identity(self) -> str:
        """The identity of this process, see `ports.Processes`."""
        return f"{self.info.process}@{self.info.host}"

    # --- this process -------------------------------------------------------------------------

    async def announce(self, connection: Connection) -> None:
        """Count as alive for other processes, on this connection, until `leave` or the end."""
        info = self.info
        await connection.execute(_LISTEN, prepare=False)
        try:
            await connection.execute("SELECT pg_advisory_lock_shared($1)", (OPEN,))
        except psycopg.errors.LockNotAvailable as error:
            raise StoreBusy("The store is being updated. Try again in a moment.") from error
        await connection.execute("SELECT pg_advisory_lock($1)", (_lock_of(info.process),))
        await connection.execute(
            _ANNOUNCE,
            (
                info.process,
                info.host,
                info.pid,
                info.version,
                info.command,
                info.started_at,
                _lock_of(info.process),
            ),
        )
        self._connection = connection
        self._count += 1  # for notifications that were missed before
        connection.add_notify_handler(self._hear)
        self._watch()

    async def leave(self) -> None:
        """Count as ended."""
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reconnecting
        self._unwatch()
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):  # lost: the server has released the lock
                await connection.execute(
                    "DELETE FROM processes WHERE process = $1", (self.info.process,)
                )
                await connection.execute("SELECT pg_advisory_unlock_all()")
            await connection.close()

    # --- notifications ------------------------------------------------------------------------

    async def pulse(self) -> int:
        """A number that has changed if any process has committed since it was last asked."""
        async with self._asking:
            deadline = time.monotonic() + self._patience
            while True:
                if self._connection is None:
                    await self._reconnect(deadline)
                assert self._connection is not None
                self._unwatch()
                try:
                    # Notifications that came before an answer are received before it.
                    await self._connection.execute("SELECT")
                    self._drain()
                except psycopg.OperationalError:
                    self._lose()
                    if time.monotonic() > deadline:
                        raise
                else:
                    self._watch()
                    return self._count

    def _hear(self, _notification: object) -> None:
        self._count += 1

    def _drain(self) -> None:
        assert self._connection is not None
        while self._connection.pgconn.notifies() is not None:
            self._count += 1

    def _watch(self) -> None:
        assert self._connection is not None
        self._watched = self._connection.fileno()
        asyncio.get_running_loop().add_reader(self._watched, self._on_readable)

    def _unwatch(self) -> None:
        if self._watched >= 0:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = -1

    def _on_readable(self) -> None:
        """Receive what the server sent: notifications, or the end of the connection."""
        assert self._connection is not None
        try:
            self._connection.pgconn.consume_input()
            self._drain()
        except psycopg.OperationalError:
            self._lose()
            self._reconnecting = asyncio.create_task(self._reconnect_later())

    # --- reconnecting -------------------------------------------------------------------------

    def _lose(self) -> None:
        self._unwatch()
        if self._connection is not None:
            self._connection.pgconn.finish()
            self._connection = None

    async def _reconnect_later(self) -> None:
        """Connect again as soon as the server is there."""
        pause = 0.05
        while self._connection is None:
            async with self._asking:
                if self._connection is None:
                    with contextlib.suppress(psycopg.Error, StoreBusy):
                        await self._reconnect(deadline=0)
                        return
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311  # jitter, no secret
            pause = min(pause * 2, 1.0)

    async def _reconnect(self, deadline: float) -> None:
        connection = await keep_trying(self._open, deadline)
        try:
            await self.announce(connection)
        except BaseException:
            await connection.close()
            raise

    # --- other processes ----------------------------------------------------------------------

    async def find_dead(
        self,
        holders: Iterable[str],
        read: Callable[[str, tuple[object, ...]], Awaitable[list[str]]],
    ) -> set[str]:
        """Which of these holders' processes have died; their rows are removed.

        `read` runs one statement and returns its first column.
        """
        suspects = [each for each in map(process_of, holders) if each and each != self.info.process]
        deadline = time.monotonic() + GRACE
        while suspects:
            suspects = await read(_UNLOCKED, (suspects,))
            if time.monotonic() > deadline:
                break
            if suspects:
                await asyncio.sleep(GRACE / 10)
        return set(await read(_REMOVE_DEAD, (suspects,))) if suspects else set()


def _lock_of(process: str) -> int:
    return int.from_bytes(bytes.fromhex(process[:16]), signed=True)


async def list_processes(tx: Transaction) -> set[str]:
    """The processes that are alive, as far as is known at this moment."""
    return {process for (process,) in await tx.fetch("SELECT process FROM processes")}


async def list_living(tx: Transaction) -> tuple[str, ...]:
    """The processes that have the store open, as people read them."""
    rows = await tx.fetch(_LIVING)
    return tuple(str(ProcessInfo(*row)) for row in rows)
