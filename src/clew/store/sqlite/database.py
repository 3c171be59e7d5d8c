"""The open store file: its locks, its schema, its threads.

Other modules call `read(job)` or `write(job)`. A write returns after its commit, and errors of the
driver are raised as clew's own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from clew.errors import ClewError, StoreBusy, StoreInUse, StoreUnavailable
from clew.files.locks import FileLock
from clew.ports import Clock
from clew.store.migrations import Migration
from clew.store.presence import Presence
from clew.store.sqlite import schema
from clew.store.sqlite.connection import (
    NO_WAL,
    READERS,
    Durability,
    Job,
    Pending,
    Threads,
    connect,
    connect_read_only,
    file_system,
    lock_path,
)
from clew.store.sqlite.errors import DRIVER_ERRORS, translate, translated
from clew.store.sqlite.search_index import INDEXES, index_queued, register_functions
from clew.version import __version__

T = TypeVar("T")

GROUP = 64
"""How many jobs share a commit at most."""

MERGE_EVERY = 100
CHANGES_PER_PAGE = 6
"""One page of the index is merged for so many changed rows. An append changes about a dozen rows,
those of the indexes included, so it merges two pages: that keeps the number of segments low.
"""

SHARED_PATIENCE = 30.0
EXCLUSIVE_PATIENCE = 2.0
"""In seconds: long enough for a `clew list` to end, too short for a chat."""


class Database:
    """One file, open in this process."""

    def __init__(
        self, path: Path, *, clock: Clock, version: str, durability: Durability = "full"
    ) -> None:
        self.path = path
        self.clock = clock
        self.presence = Presence(path.parent / "processes", version=version, started_at=clock())
        self._durability = durability
        self._unmerged = 0
        self._first: apsw.Connection | None = None
        self._lock = FileLock(lock_path(path))
        self._writer = Threads("writer", 1, self._connect, self._commit, batch=GROUP)
        self._readers = Threads("reader", READERS, self._connect_reader, self._answer, batch=1)
        self._watcher = Threads("watcher", 1, self._connect, self._answer, batch=1)

    def open(self, migrations: Sequence[Migration] | None = None) -> None:
        """Take the locks and bring the schema up to date. After an error no lock is held."""
        steps = schema.shipped_migrations() if migrations is None else migrations
        try:
            self._make_directory()
            if not _keep_trying(partial(self._lock.acquire, shared=True), SHARED_PATIENCE):
                who = "; ".join(self._names_of_others()) or "another process"
                raise StoreBusy(
                    f"{self.path} is being updated or restored by {who}. Try again in a moment."
                )
            self.presence.announce()
            self._bring_up_to_date(steps)
        except DRIVER_ERRORS as error:
            self._release()
            raise translate(error, self.path) from error
        except OSError as error:
            self._release()
            raise StoreUnavailable(f"{self.path} can't be opened: {error}.") from error
        except ClewError:
            self._release()
            raise

    async def read(self, job: Job[T]) -> T:
        """Run a query in a reader thread."""
        return await self._readers.submit(job)

    async def write(self, job: Job[T]) -> T:
        """Run a job in the writer thread; returns after its commit."""
        return await self._writer.submit(job)

    async def watch(self, job: Job[T]) -> T:
        """Run a query about the connection itself, always on the same one that never writes."""
        return await self._watcher.submit(job)

    async def close(self) -> None:
        """Finish what is queued, and release every lock."""
        await self._watcher.close()
        await self._readers.close()
        await self._writer.close()
        self._release()

    def _connect(self) -> apsw.Connection:
        return connect(self.path, durability=self._durability)

    def _connect_reader(self) -> apsw.Connection:
        # The first reader reuses the connection that checked the schema: opening is slow.
        first, self._first = self._first, None
        connection = first or self._connect()
        register_functions(connection)
        return connection

    def _release(self) -> None:
        if self._first is not None:
            self._first.close()
            self._first = None
        self.presence.leave()
        self._lock.release()

    def _make_directory(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        kind = file_system(self.path.parent)
        if kind in NO_WAL:
            raise StoreUnavailable(
                f"{self.path} is on a network file system ({kind}), where SQLite can't be safe. "
                "Put the store on a local disk with --store or CLEW_HOME, or use PostgreSQL."
            )

    def _bring_up_to_date(self, steps: Sequence[Migration]) -> None:
        latest = steps[-1].number
        version = self._stored_version(latest)
        if 0 < version < latest:
            self._migrate(steps)
        self._first = self._connect()
        make = partial(self._make, self._first, steps)
        if version == 0 and not _keep_trying(make, SHARED_PATIENCE):
            raise StoreBusy(f"Other processes kept {self.path} from being made. Try again.")

    def _make(self, connection: apsw.Connection, steps: Sequence[Migration]) -> bool:
        """Make the schema of a new file; False if another process is making it.

        If two processes switch to WAL at the same time, SQLite reports "busy" without waiting.
        """
        try:
            schema.use_wal(connection, self.path)
            schema.apply(connection, steps)
        except apsw.BusyError:
            return False
        return True

    def _stored_version(self, latest: int) -> int:
        """The schema number of the file as it is now."""
        if not self.path.exists():
            return 0
        with closing(connect_read_only(self.path)) as connection:
            return schema.stored_version(connection, self.path, latest)

    def _migrate(self, steps: Sequence[Migration]) -> None:
        """Update the schema while no other process has the store open.

        If two processes try at the same time, one does it and the other sees that it is done.
        """
        latest = steps[-1].number

        def alone_or_done() -> bool:
            self._lock.release()  # while two processes hold it, neither can get it alone
            return self._lock.acquire() or self._stored_version(latest) == latest

        if not _keep_trying(alone_or_done, EXCLUSIVE_PATIENCE):
            raise StoreInUse(f"Updating {self.path}", self._names_of_others())
        try:
            if self._stored_version(latest) != latest:
                backup = f"{self.path.name}.before-{latest:04d}"
                with closing(self._connect()) as connection:
                    schema.verified_copy(connection, self.path.with_name(backup))
                    schema.apply(connection, steps)
        finally:
            _keep_trying(partial(self._lock.acquire, shared=True), SHARED_PATIENCE)

    def _names_of_others(self) -> tuple[str, ...]:
        return tuple(str(info) for info in self.presence.others())

    def _answer(self, connection: apsw.Connection, batch: list[Pending]) -> None:
        for pending in batch:
            try:
                pending.result = pending.job(connection)
            except DRIVER_ERRORS as error:
                pending.error = translate(error, self.path)
                pending.error.__cause__ = error
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _commit(self, connection: apsw.Connection, batch: list[Pending]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            before = connection.total_changes()
            for pending in batch:
                self._do(connection, pending, alone=len(batch) == 1)
            index_queued(connection)
            self._merge(connection, connection.total_changes() - before)
            connection.execute("COMMIT")
        except DRIVER_ERRORS as error:
            raise translate(error, self.path) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _merge(self, connection: apsw.Connection, changes: int) -> None:
        """Merge the full-text indexes step by step, in proportion to what was written."""
        self._unmerged += changes
        if self._unmerged >= MERGE_EVERY:
            pages = self._unmerged // CHANGES_PER_PAGE
            self._unmerged = 0
            for index in INDEXES:
                connection.execute(
                    f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)",
                    (pages,),
                )

    def _do(self, connection: apsw.Connection, pending: Pending, *, alone: bool) -> None:
        """Run one job. An error affects only this job, unless it ended the group's transaction."""
        if alone:
            pending.result = pending.job(connection)
            return
        connection.execute("SAVEPOINT job")
        try:
            pending.result = pending.job(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise
            ours = translate(error, self.path) if isinstance(error, DRIVER_ERRORS) else error
            pending.error = ours
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")


def _keep_trying(attempt: Callable[[], bool], seconds: float) -> bool:
    """Try until it works or the time is over, with short jittered pauses."""
    deadline = time.monotonic() + seconds
    while not attempt():
        if time.monotonic() > deadline:
            return False
        time.sleep(random.uniform(0.005, 0.03))  # noqa: S311  # jitter, no secret
    return True


def snapshot(job: Callable[[apsw.Connection], T]) -> Job[T]:
    """A read of several statements that see the same state of the file."""

    def run(connection: apsw.Connection) -> T:
        connection.execute("BEGIN")
        try:
            return job(connection)
        finally:
            connection.execute("COMMIT")

    return run


@contextmanager
def hold_store(path: Path, purpose: str, *, now: int, alone: bool) -> Iterator[None]:
    """Hold the store's locks as if it were open; `alone`: exclusively.

    For work on a store file without a `Database`. `StoreInUse` names the processes that prevent the
    purpose.
    """
    lock = FileLock(lock_path(path))
    presence = Presence(path.parent / "processes", version=__version__, started_at=now)
    try:
        with translated(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not lock.acquire(shared=not alone):
                raise StoreInUse(purpose, tuple(str(info) for info in presence.others()))
            presence.announce()
        yield
    finally:
        presence.leave()
        lock.release()
