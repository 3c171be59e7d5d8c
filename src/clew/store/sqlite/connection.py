"""One SQLite file: how it is opened, who waits for whom, and which thread does what.

A single writer thread commits whole groups of jobs (one savepoint each, one sync for all); a few
reader threads answer queries. Jobs are plain functions over a connection. What the jobs mean is
the business of the modules beside this one; only SQLite itself ever opens the file.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import apsw

from clew.errors import StoreClosed

T = TypeVar("T")
Row = tuple[Any, ...]
Job = Callable[[apsw.Connection], T]
Durability = Literal["full", "normal"]

READERS = 4
WAL_KEPT = 16 * 1024 * 1024
"""Bytes to which the write-ahead log shrinks again after something large."""

PATIENCE = 60.0
"""Seconds that a writer waits for the others before it gives up."""

DRIVER_ERRORS = (apsw.Error, OverflowError)


def connect(
    path: Path, *, durability: Durability = "full", mode: str = "rwc", lock: Path | None = None
) -> apsw.Connection:
    """Open the file. A new one gets the permissions of the store's lock file (0600)."""
    name = f"{path.as_uri()}?mode={mode}"
    if mode == "rwc":
        name += f"&modeof={quote(str(lock or lock_path(path)))}"
    flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOMUTEX
    flags |= apsw.SQLITE_OPEN_READONLY if mode == "ro" else apsw.SQLITE_OPEN_READWRITE
    connection = apsw.Connection(name, flags=flags | (apsw.SQLITE_OPEN_CREATE * (mode == "rwc")))
    connection.set_busy_handler(Patience())
    connection.pragma("foreign_keys", True)
    connection.pragma("synchronous", durability)
    connection.pragma("journal_size_limit", WAL_KEPT)
    return connection


def connect_to_look(path: Path) -> apsw.Connection:
    """Open an existing file to look at it.

    Without the right to write: who has it throws away the log of a damaged file on closing. Only
    where a process died in a way that SQLite has to roll back first is that right needed.
    """
    try:
        return connect(path, mode="ro")
    except apsw.ReadOnlyError:
        return connect(path, mode="rw")


def fetch(connection: apsw.Connection, sql: str, bindings: Row = ()) -> list[Row]:
    """All rows of a query. What the columns hold is the schema's promise."""
    return connection.execute(sql, bindings).fetchall()


def fetch_one(connection: apsw.Connection, sql: str, bindings: Row = ()) -> Row | None:
    """The first row of a query, if there is one."""
    row: Row | None = connection.execute(sql, bindings).fetchone()
    return row


def lock_path(path: Path) -> Path:
    """The file whose lock says who has the store open."""
    return path.with_name("store.lock" if path.name == "sessions.db" else f"{path.name}.lock")


class Patience:
    """A busy handler with short jittered naps: SQLite's own lets some writers starve."""

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self, tries: int) -> bool:
        """Whether to try again."""
        now = time.monotonic()
        if tries == 0:
            self._since = now
        elif now - self._since > PATIENCE:
            return False
        time.sleep(random.uniform(0.0002, 0.002))  # noqa: S311  # jitter, no secret
        return True


class Pending:
    """A job, and the future of the task that waits for it."""

    __slots__ = ("error", "future", "job", "loop", "result")

    def __init__(self, job: Job[Any]) -> None:
        self.job = job
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Wake the waiting task; called in its loop."""
        if not self.future.done():
            if self.error is not None:
                self.future.set_exception(self.error)
            else:
                self.future.set_result(self.result)


def _settle_all(done: list[Pending]) -> None:
    for pending in done:
        pending.settle()


class Crew:
    """Threads that work through one queue; each has a connection of its own."""

    def __init__(
        self,
        name: str,
        size: int,
        open_connection: Callable[[], apsw.Connection],
        work: Callable[[apsw.Connection, list[Pending]], None],
        *,
        batch: int,
    ) -> None:
        self._name = name
        self._size = size
        self._open = open_connection
        self._work = work
        self._batch = batch
        self._queue: SimpleQueue[Pending | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._waiting = 0
        self._closed = False

    async def submit(self, job: Job[T]) -> T:
        """Do a job in one of the threads; another thread is started if all are busy."""
        if self._closed:
            raise StoreClosed("The store is closed.")
        pending = Pending(job)
        self._waiting += 1
        if self._waiting > len(self._threads) < self._size:
            thread = threading.Thread(target=self._run, name=f"clew-{self._name}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._queue.put(pending)
        try:
            result: T = await pending.future
        finally:
            self._waiting -= 1
        return result

    async def close(self) -> None:
        """Finish the queue and end the threads."""
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _take(self) -> list[Pending]:
        """Wait for a job, and take along what else has come; nothing means the end."""
        first = self._queue.get()
        if first is None:
            return []
        taken = [first]
        while len(taken) < self._batch and not self._queue.empty():
            try:
                further = self._queue.get_nowait()
            except Empty:
                break  # another thread was quicker
            if further is None:
                self._queue.put(None)
                break
            taken.append(further)
        return taken

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        try:
            while taken := self._take():
                batch = [each for each in taken if not each.future.cancelled()]
                try:
                    connection = connection or self._open()
                    self._work(connection, batch)
                except BaseException as error:  # noqa: BLE001  # every waiting task must hear of it
                    for pending in batch:
                        pending.error = error
                self._wake_tasks(batch)
        finally:
            if connection is not None:
                connection.close()

    def _wake_tasks(self, batch: list[Pending]) -> None:
        """Wake all who wait, each loop once."""
        for loop in {pending.loop for pending in batch}:
            done = [pending for pending in batch if pending.loop is loop]
            try:
                loop.call_soon_threadsafe(_settle_all, done)
            except RuntimeError:
                continue  # that loop has ended, and whoever waited with it
