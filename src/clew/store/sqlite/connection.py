"""Connections to a SQLite file, and the threads that use them.

A single writer thread commits whole groups of jobs (one savepoint each, one sync for all); a few
reader threads answer queries. Jobs are plain functions over a connection. Only SQLite itself ever
opens the file.
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
"""Bytes to which the write-ahead log is shrunk after a large transaction."""

PATIENCE = 60.0
"""Seconds that a writer waits for the lock of another process before it gives up."""


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
    connection.set_busy_handler(BusyHandler())
    connection.pragma("foreign_keys", True)
    connection.pragma("synchronous", durability)
    connection.pragma("journal_size_limit", WAL_KEPT)
    return connection


def connect_read_only(path: Path) -> apsw.Connection:
    """Open an existing file for reading.

    A connection that may write would delete the log of a damaged file when it closes. One is used
    only if SQLite has to roll back the work of a dead process first.
    """
    try:
        return connect(path, mode="ro")
    except apsw.ReadOnlyError:
        return connect(path, mode="rw")


def fetch(connection: apsw.Connection, sql: str, bindings: Row = ()) -> list[Row]:
    """All rows of a query. The schema guarantees the types of the columns."""
    return connection.execute(sql, bindings).fetchall()


def fetch_one(connection: apsw.Connection, sql: str, bindings: Row = ()) -> Row | None:
    """The first row of a query, if there is one."""
    row: Row | None = connection.execute(sql, bindings).fetchone()
    return row


def lock_path(path: Path) -> Path:
    """The file whose lock is held by every process that has the store open."""
    return path.with_name("store.lock" if path.name == "sessions.db" else f"{path.name}.lock")


class BusyHandler:
    """Waits for a lock with short jittered pauses: SQLite's own handler starves some writers."""

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


class Threads:
    """Threads that take jobs from one queue; each has a connection of its own."""

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
        """Run a job in one of the threads; another thread is started if all are busy."""
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
        """Wait for a job and take all that are queued; empty if the queue has ended."""
        first = self._queue.get()
        if first is None:
            return []
        taken = [first]
        while len(taken) < self._batch and not self._queue.empty():
            try:
                further = self._queue.get_nowait()
            except Empty:
                break  # another thread was first
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
                except BaseException as error:  # noqa: BLE001  # raised in every waiting task
                    for pending in batch:
                        pending.error = error
                self._wake_tasks(batch)
        finally:
            if connection is not None:
                connection.close()

    def _wake_tasks(self, batch: list[Pending]) -> None:
        """Wake the waiting tasks, with one call per event loop."""
        for loop in {pending.loop for pending in batch}:
            done = [pending for pending in batch if pending.loop is loop]
            try:
                loop.call_soon_threadsafe(_settle_all, done)
            except RuntimeError:
                continue  # that event loop has ended, and the tasks with it


NO_WAL = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph"})
"""Network file systems: write-ahead logging needs memory that all processes share."""


def file_system(path: Path) -> str | None:
    """The type of the file system (`ext4`, `nfs4`, …); None if the system doesn't say."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    place = path.resolve()
    best: tuple[int, str] | None = None
    for line in lines:
        fields, _, rest = line.partition(" - ")
        mount = Path(fields.split()[4].replace("\\040", " "))
        if place.is_relative_to(mount) and (best is None or len(mount.parts) >= best[0]):
            best = (len(mount.parts), rest.split()[0])
    return best[1] if best else None
