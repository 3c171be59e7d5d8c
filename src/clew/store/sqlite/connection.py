"""Connections to a SQLite file, and the threads that use them.

A single writer thread commits whole groups of jobs (one savepoint each, one sync for all); a few
reader threads answer queries. Jobs are plain functions over a connection. Only SQLite itself ever
opens the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
import time
from array import array
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


_UNWRITABLE = (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.IOError)
"""Errors where nothing can be written; reading may work all the same."""


def connect(
    path: Path,
    *,
    durability: Durability = "full",
    mode: str = "rwc",
    lock: Path | None = None,
    is_still: bool = False,
    is_alone: bool = False,
) -> apsw.Connection:
    """Open the file. A new one gets the permissions of the store's lock file (0600).

    `is_still`: no process writes to it, and its log is empty. `is_alone`: no process writes to it,
    and no lock is taken.
    """
    more = "&immutable=1" * is_still + "&vfs=unix-none" * is_alone
    name = f"{path.as_uri()}?mode={mode}{more}"
    if mode == "rwc":
        name += f"&modeof={quote(str(lock or lock_path(path)))}"
    flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOMUTEX
    flags |= apsw.SQLITE_OPEN_READONLY if mode == "ro" else apsw.SQLITE_OPEN_READWRITE
    connection = apsw.Connection(name, flags=flags | (apsw.SQLITE_OPEN_CREATE * (mode == "rwc")))
    connection.set_busy_handler(BusyHandler())
    if is_alone:
        connection.pragma("locking_mode", "exclusive")  # then its shared memory is its own
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
        connection = connect(path, mode="ro")
        connection.pragma("schema_version")  # the first read opens what is beside the file
    except apsw.ReadOnlyError:
        return connect(path, mode="rw")
    except _UNWRITABLE:
        return connect_unwritable(path)
    return connection


def connect_to_copy(path: Path) -> apsw.Connection:
    """Open an existing file that is to be copied; where nothing can be written, for reading."""
    try:
        connection = connect(path, mode="rw")
        connection.pragma("schema_version")
    except _UNWRITABLE:
        return connect_unwritable(path)
    return connection


def connect_unwritable(path: Path) -> apsw.Connection:
    """Open a file for reading where nothing can be written, not even SQLite's shared memory.

    If that is there, another process may be writing. If it can't be used, no process is, and the
    file is read as it is, with what a crash has left in its log.
    """
    log, shared = (path.with_name(path.name + ending) for ending in ("-wal", "-shm"))
    if shared.exists():
        with contextlib.suppress(*_UNWRITABLE):
            connection = connect(path, mode="ro")
            connection.pragma("schema_version")  # the first read opens what is beside the file
            return connection
    if not log.exists() or not log.stat().st_size:
        return connect(path, mode="ro", is_still=True)
    return connect(path, mode="ro", is_alone=True)


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


class Anchor:
    """What a connection has open: compared with what is at its path. For one thread."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        connection.pragma("schema_version")  # a read opens the log
        self._connection = connection
        self._path, self._log = str(path), f"{path}-wal"
        self._file_inode, self._log_inode = _find_inode(self._path), _find_inode(self._log)
        self._moved = array("i", [0])
        self._answer = self._moved.buffer_info()[0]

    @property
    def is_in_place(self) -> bool:
        """Whether file and log are those that were there at first. Any thread may ask."""
        return self._has_log() and _find_inode(self._path) == self._file_inode

    def find_fault(self) -> str | None:
        """What is wrong with the place, for people; None if all is in place. Takes some 5 µs."""
        self._connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, self._answer)
        if self._moved[0]:
            return "another file is in its place, or none"
        return None if self._has_log() else "its write-ahead log was removed or replaced"

    def _has_log(self) -> bool:
        return _find_inode(self._log) == self._log_inode


def _find_inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino  # noqa: PTH116  # at every commit: a Path takes as long again
    except OSError:
        return None


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
        close_connection: Callable[[apsw.Connection], None] = apsw.Connection.close,
    ) -> None:
        self._name = name
        self._size = size
        self._open = open_connection
        self._work = work
        self._batch = batch
        self._close_connection = close_connection
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
                self._close_connection(connection)

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
