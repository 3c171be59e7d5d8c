"""The open database: its schema, its connections, its clock. It is PostgreSQL's `work.Engine`.

Other modules ask for `read(job)`, `snapshot(job)` or `write(job)`. A write returns after its
commit, errors of the driver are raised as clew's, and a lost connection is opened again. A job runs
a second time only if it is certain that the first run changed nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import psycopg
from psycopg.pq import TransactionStatus

from clew.core.keys import is_id
from clew.core.turn import Attachment, Lease
from clew.errors import ClewError, StoreClosed, StoreUnavailable
from clew.ports import Clock
from clew.store.migrations import Migration, Report, quiet
from clew.store.postgres import schema
from clew.store.postgres.connection import (
    PATIENCE,
    Connection,
    Durability,
    Job,
    Pool,
    connect,
    connect_first,
    conninfo_of,
    place_of,
    refuse_transaction_pooling,
)
from clew.store.postgres.errors import DRIVER_ERRORS, is_repeatable, translate
from clew.store.postgres.presence import CHANNEL, Presence, list_processes
from clew.store.presence import ProcessInfo, process_of
from clew.store.rows import COVERED
from clew.store.work.transaction import Dialect, Transaction

T = TypeVar("T")

REPEATS = 5
"""How often a transaction is tried that PostgreSQL ends because of another one."""

DIALECT = Dialect(
    preview_columns=("preview", "preview_key"),
    contains_text="(strpos(title_key, {0}) > 0 OR strpos(preview_key, {0}) > 0)",
    id_ending="right(id, 4)",
    wanted_ids="""(SELECT each COLLATE "C" AS id FROM unnest($1::text[]) AS each) AS wanted""",
    listed_parts=("archived_at IS NULL", "archived_at IS NOT NULL"),
    newest_turn="""LEFT JOIN LATERAL (
      SELECT id, status, ended_at FROM turns WHERE session_id = s.id
      ORDER BY ordinal DESC LIMIT 1) t ON true""",
    store_size="pg_database_size(current_database())",
    checksum=f"clew_checksum({', '.join(COVERED)})",
)

SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Database:
    """One database, open in this process."""

    dialect = DIALECT

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None,
        version: str,
        durability: Durability = "full",
        patience: float = PATIENCE,
        search_seconds: float = 0.14,
    ) -> None:
        self.place = place_of(url) if conninfo_of(url) else ""
        self._patience = patience
        self.search_seconds = search_seconds
        self._connect = partial(connect, conninfo_of(url), durability, clock=clock)
        self._pool = Pool(self._connect)
        self.presence = Presence(self._connect, version=version, patience=patience)
        self._running: set[asyncio.Task[Any]] = set()
        self._reading = 0
        self._all_read = asyncio.Event()
        self._lanes: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._closed = False
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(
        self, migrations: Sequence[Migration] | None = None, *, report: Report = quiet
    ) -> None:
        """Bring the schema up to date and count as alive. After an error nothing is open."""
        steps = schema.shipped_migrations() if migrations is None else migrations
        connection: Connection | None = None
        self._loop = asyncio.get_running_loop()
        try:
            connection = await connect_first(self._connect, self._patience)
            await refuse_transaction_pooling(connection, self._connect, self.place)
            version = await schema.stored_version(connection, self.place, steps[-1].number)
            if version == 0:
                await schema.apply(connection, steps, self.place)
            elif version < steps[-1].number:
                await schema.migrate_alone(connection, steps, self.place, report)
            await self.presence.announce(connection)
        except DRIVER_ERRORS as error:
            await _end(connection)
            raise translate(error, self.place) from error
        except BaseException:
            await _end(connection)
            raise

    # --- jobs ---------------------------------------------------------------------------------

    async def read(self, job: Job[T]) -> T:
        """Run a query, or several that need not agree with each other.

        It runs in the caller's own task: if that is cancelled, the driver tells the server.
        """
        self.check_open()
        self._reading += 1
        try:
            return await self._attempt(job, lambda: True)
        finally:
            self._reading -= 1
            if self._closed and not self._reading:
                self._all_read.set()

    async def snapshot(self, job: Job[T], *, begin: str = SNAPSHOT) -> T:
        """Run several queries that see one moment."""

        async def run(connection: Connection) -> T:
            await connection.script(begin)
            result = await job(connection)
            await connection.script("COMMIT")
            return result

        return await self.read(run)

    async def write(
        self, job: Job[T], *, about: str = "", lane: str | None = None, repeatable: bool = False
    ) -> T:
        """Run a job in a transaction; returns after its commit.

        `about` is the session that other processes are told of. Jobs of one `lane` wait for each
        other here, without a connection. A `repeatable` job may be run again when it is not known
        whether it was committed.
        """
        sent = False
        # Two statements in one go can have no bindings; an id is made of digits and hyphens.
        commit = f"SELECT pg_notify('{CHANNEL}', '{about if is_id(about) else ''}'); COMMIT"

        async def run(connection: Connection) -> T:
            nonlocal sent
            sent = False
            await connection.script("BEGIN")
            result = await job(connection)
            sent = True
            await connection.script(commit)
            return result

        return await self._finish(self._in_lane(lane, run, lambda: repeatable or not sent))

    async def statement(
        self, job: Job[T], *, lane: str | None = None, repeatable: bool = False
    ) -> T:
        """Run one statement that is a transaction of its own and notifies others itself."""
        return await self._finish(self._in_lane(lane, job, lambda: repeatable))

    async def _in_lane(self, lane: str | None, job: Job[T], may_repeat: Callable[[], bool]) -> T:
        if lane is None:
            return await self._attempt(job, may_repeat)
        async with self._lanes.setdefault(lane, asyncio.Lock()):
            return await self._attempt(job, may_repeat)

    async def _attempt(self, job: Job[T], may_repeat: Callable[[], bool]) -> T:
        deadline = time.monotonic() + self._patience
        repeats = 0
        while True:
            try:
                connection = await self._pool.take(deadline)
            except psycopg.Error as error:
                raise translate(error, self.place) from error
            try:
                return await job(connection)
            except DRIVER_ERRORS as error:
                await _roll_back(connection)
                lost = connection.closed
                repeats += not lost
                if lost and may_repeat() and time.monotonic() < deadline:
                    continue
                if not lost and is_repeatable(error) and repeats < REPEATS:
                    continue
                raise translate(
                    error, self.place, fate_unknown=lost and not may_repeat()
                ) from error
            except BaseException:
                await _roll_back(connection)
                raise
            finally:
                await self._pool.give(connection)

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Finish work even if the task that waits for it is cancelled."""
        try:
            self.check_open()
        except ClewError:
            work.close()
            raise
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(_answer(work, answer))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await answer

    # --- presence -----------------------------------------------------------------------------

    async def pulse(self) -> int:
        """See `Presence.pulse`."""

        async def ask() -> int:
            try:
                return await self.presence.pulse()
            except DRIVER_ERRORS as error:
                raise translate(error, self.place) from error

        return await self._finish(ask())

    @property
    def info(self) -> ProcessInfo:
        """See `work.Engine`."""
        return self.presence.info

    async def keep_living_leases(self, tx: Transaction, leases: Sequence[Lease]) -> list[Lease]:
        """See `work.Engine`. A holder that is not a process counts as alive."""
        known = {each.holder: process_of(each.holder) for each in leases}
        alive = await list_processes(tx) if any(known.values()) else set()
        return [
            each for each in leases if known[each.holder] is None or known[each.holder] in alive
        ]

    async def keep_living_attachments(
        self, tx: Transaction, attachments: Sequence[Attachment]
    ) -> list[Attachment]:
        """See `work.Engine`."""
        alive = await list_processes(tx) if attachments else set()
        return [each for each in attachments if each.process in alive]

    async def find_dead(self, holders: Sequence[str]) -> set[str]:
        """See `work.Engine`."""

        async def first_column(sql: str, bindings: tuple[object, ...]) -> list[str]:
            rows = await self.read(lambda connection: connection.fetch(sql, bindings))
            return [value for (value,) in rows]

        return await self.presence.find_dead(holders, first_column)

    def check_open(self) -> None:
        """`StoreClosed` after `close`, and in a fork; `StoreUnavailable` in another event loop."""
        if self._closed:
            raise StoreClosed("The store is closed.")
        if self._process != os.getpid():
            raise StoreClosed(
                f"{self.place} was opened before this process was forked, and can't be used in it. "
                "Open the store in the child, or start a new process."
            )
        if self._loop is not asyncio.get_running_loop():
            raise StoreUnavailable(
                f"{self.place} was opened in another event loop, and its connections belong to "
                "that one. Open the store in the loop that uses it."
            )

    async def close(self) -> None:
        """Finish what is under way, and close all connections; those of a fork are its parent's."""
        if self._process != os.getpid():
            return
        self._closed = True
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)
        if self._reading:
            await self._all_read.wait()
        await self.presence.leave()
        await self._pool.close()


async def _answer(work: Coroutine[Any, Any, T], answer: asyncio.Future[T]) -> None:
    """Do the work, and set the answer if a task still waits for it.

    Like `asyncio.shield`, with one iteration of the event loop less.
    """
    try:
        result = await work
    except asyncio.CancelledError:
        answer.cancel()
        raise
    except Exception as error:  # noqa: BLE001  # raised in the task that waits
        if not answer.done():
            answer.set_exception(error)
    else:
        if not answer.done():
            answer.set_result(result)


async def _roll_back(connection: Connection) -> None:
    if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
        with contextlib.suppress(psycopg.Error):
            await connection.execute("ROLLBACK")


async def _end(connection: Connection | None) -> None:
    if connection is not None:
        await connection.close()
