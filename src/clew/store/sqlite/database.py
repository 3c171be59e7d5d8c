"""The open store file: its locks, its schema, its threads.

Other modules call `read(job)` or `write(job)`. A write returns after its commit, and errors of the
driver are raised as clew's own.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from clew.core.names import format_bytes
from clew.errors import (
    ClewError,
    StoreBusy,
    StoreClosed,
    StoreFull,
    StoreInUse,
    StoreMoved,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnusable,
)
from clew.files.locks import FileLock
from clew.ports import Clock
from clew.store.migrations import Migration, Report, quiet
from clew.store.presence import Presence
from clew.store.sqlite import schema
from clew.store.sqlite.connection import (
    NO_WAL,
    READERS,
    Anchor,
    Durability,
    Job,
    Pending,
    Threads,
    connect,
    connect_read_only,
    connect_unwritable,
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

CHECKED_EVERY = 100_000
"""Instructions of SQLite, some milliseconds, between two looks at whether a query is wanted."""

SHARED_PATIENCE = 30.0
EXCLUSIVE_PATIENCE = 2.0
"""In seconds: long enough for a `clew list` to end, too short for a chat."""
GONE_PATIENCE = 5.0
"""In seconds: long enough for a process that is making the store to finish."""

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NOT_ALLOWED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""Why a file can't be written that could be read."""

FORKED = (
    "{path} was opened before this process was forked, and can't be used in it. "
    "Open the store in the child, or start a new process."
)


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
        self._process = os.getpid()
        self._first: apsw.Connection | None = None
        self._lock = FileLock(lock_path(path))
        self._anchor: Anchor | None = None
        """What the first connection has open; a further one must have the same."""
        self._writers_anchor: Anchor | None = None
        self._moved: StoreMoved | None = None
        """Why nothing is read or written any more."""
        self._unwritable: StoreUnusable | None = None
        """Why the store is open for reading only."""
        threads = partial(Threads, close_connection=self._let_go)
        self._writer = threads("writer", 1, self._connect_writer, self._commit, batch=GROUP)
        self._readers = threads("reader", READERS, self._connect_reader, self._answer, batch=1)
        self._watcher = threads("watcher", 1, self._connect, self._answer, batch=1)

    def open(
        self, migrations: Sequence[Migration] | None = None, *, report: Report = quiet
    ) -> None:
        """Take the locks and bring the schema up to date. After an error no lock is held.

        Where nothing can be written, a store that is up to date is opened for reading only.
        """
        steps = schema.shipped_migrations() if migrations is None else migrations
        try:
            self._open(steps, report)
        except (OSError, *DRIVER_ERRORS) as error:
            self._release()
            ours = _name_failure(error, self.path)
            if _is_unwritable(error) and self._open_for_reading(steps, error):
                return
            raise ours from error
        except ClewError:
            self._release()
            raise

    def _open(self, steps: Sequence[Migration], report: Report) -> None:
        self._make_directory()
        if not _keep_trying(partial(self._lock.acquire, shared=True), SHARED_PATIENCE):
            who = "; ".join(self._names_of_others()) or "another process"
            raise StoreBusy(
                f"{self.path} is being updated or restored by {who}. Try again in a moment."
            )
        self.presence.announce()
        self.presence.clear()
        self._bring_up_to_date(steps, report)
        if self._first is not None:
            self._anchor = Anchor(self._first, self.path)

    def _open_for_reading(self, steps: Sequence[Migration], why: Exception) -> bool:
        """Open a store where nothing can be written; False if that can't be either.

        No other process can tell that this one has it open, so it must not write.
        """
        latest = steps[-1].number
        with suppress(OSError):
            self._lock.acquire(shared=True)  # so that no process replaces the file meanwhile
        try:
            connection = connect_unwritable(self.path)
            version = schema.stored_version(connection, self.path, latest)
        except (OSError, ClewError, *DRIVER_ERRORS):
            self._release()
            return False
        if version != latest:
            connection.close()
            self._release()
            return False
        self._first = connection
        hint = "Reading works. To write, put that right and start again."
        if isinstance(_name_failure(why, self.path), StoreFull):
            self._unwritable = StoreFull(f"No space left for {self.path}. {hint}")
        else:
            reason = why.strerror if isinstance(why, OSError) else why
            self._unwritable = StoreReadOnly(f"{self.path} can't be written to ({reason}). {hint}")
        return True

    async def read(self, job: Job[T]) -> T:
        """Run a query in a reader thread."""
        self._check_process()
        return await self._readers.submit(job)

    async def write(self, job: Job[T]) -> T:
        """Run a job in the writer thread; returns after its commit."""
        self._check_process()
        if self._unwritable is not None:
            raise type(self._unwritable)(str(self._unwritable))
        return await self._writer.submit(job)

    async def watch(self, job: Job[T]) -> T:
        """Run a query about the connection itself, always on the same one that never writes."""
        self._check_process()
        return await self._watcher.submit(job)

    async def close(self) -> None:
        """Finish what is queued, and release every lock; nothing in a fork, which has neither."""
        if self._process != os.getpid():
            return
        await self._watcher.close()
        await self._readers.close()
        await self._writer.close()
        self._release()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise StoreClosed(FORKED.format(path=self.path))

    def _connect(self) -> apsw.Connection:
        """A further connection, to the very file that the first one has open. It makes none."""
        self._stay_stopped()
        if self._anchor is not None and not self._anchor.is_in_place:
            raise self._tell_moved("seen when a further connection was opened")
        with translated(self.path):
            if self._unwritable is not None:
                return connect_unwritable(self.path)
            return connect(self.path, durability=self._durability, mode="rw")

    def _connect_writer(self) -> apsw.Connection:
        connection = self._connect()
        with translated(self.path):
            self._writers_anchor = Anchor(connection, self.path)
        return connection

    def _let_go(self, connection: apsw.Connection) -> None:
        """Close a connection. What it still has in its log goes into no other store's file."""
        if self._anchor is not None and not self._anchor.is_in_place:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()

    def _connect_reader(self) -> apsw.Connection:
        # The first reader reuses the connection that checked the schema: opening is slow.
        first, self._first = self._first, None
        connection = first or self._connect()
        register_functions(connection)
        schema.register_checksum(connection)
        return connection

    def _release(self) -> None:
        if self._first is not None:
            self._let_go(self._first)
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

    def _bring_up_to_date(self, steps: Sequence[Migration], report: Report) -> None:
        latest = steps[-1].number
        if not self.path.exists():
            self._make_alone(steps)
        version = self._stored_version(latest)
        if 0 < version < latest:
            self._migrate(steps, report)
        self._first = self._first or connect(self.path, durability=self._durability)
        make = partial(self._make, self._first, steps)
        if version == 0 and not _keep_trying(make, SHARED_PATIENCE):
            raise StoreBusy(f"Other processes kept {self.path} from being made. Try again.")

    def _make_alone(self, steps: Sequence[Migration]) -> None:
        """Make a file that is not there, unless another process still has it open.

        Of several that begin a store at once, one makes it, and the others find it.
        """

        def alone_or_there() -> bool:
            self._lock.release()
            return self._lock.acquire() or self.path.exists()

        if not _keep_trying(alone_or_there, GONE_PATIENCE):
            who = "; ".join(self._names_of_others()) or "another process"
            raise StoreMoved(
                f"{self.path} is not there, but is still open in {who}: it was moved or deleted. "
                "Put it back, or stop that process; no new store was made."
            )
        try:
            if not self.path.exists():
                self._first = connect(self.path, durability=self._durability)
                self._make(self._first, steps)
        finally:
            _keep_trying(partial(self._lock.acquire, shared=True), SHARED_PATIENCE)

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

    def _migrate(self, steps: Sequence[Migration], report: Report) -> None:
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
            version = self._stored_version(latest)
            if version != latest:
                with closing(connect(self.path, durability=self._durability)) as connection:
                    self._update(connection, steps, version, report)
        finally:
            _keep_trying(partial(self._lock.acquire, shared=True), SHARED_PATIENCE)

    def _update(
        self, connection: apsw.Connection, steps: Sequence[Migration], version: int, report: Report
    ) -> None:
        """Copy the file, then run the steps. Refused if the disk has too little room."""
        latest = steps[-1].number
        kept = self.path.with_name(f"{self.path.name}.before-{latest:04d}")
        needed = schema.needed_space(connection, version)
        free = shutil.disk_usage(self.path.parent).free
        what = f"{self.path} is from an older clew and is updated (schema {version} to {latest})"
        if needed > free:
            raise StoreFull(
                f"{self.path} is from an older clew. Updating it needs about "
                f"{format_bytes(needed)} of free disk, and there are {format_bytes(free)}. "
                "Nothing was changed: free some, and start clew again."
            )
        report(
            f"{what}. That takes about {format_bytes(needed)} of disk for a while; "
            f"the store as it was stays in {kept.name}.",
            0,
            0,
        )
        schema.verified_copy(connection, kept, progress=partial(report, "Copying the store"))
        schema.apply(connection, steps, progress=partial(report, "Updating messages"))
        # What was written anew is in the log, which may be as large as the file.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _names_of_others(self) -> tuple[str, ...]:
        return tuple(str(info) for info in self.presence.others())

    def _answer(self, connection: apsw.Connection, batch: list[Pending]) -> None:
        for pending in batch:
            # A query ends with the call that asked for it: else its reader would be lost to others.
            has_ended = pending.future.cancelled
            connection.set_progress_handler(has_ended, CHECKED_EVERY, id="has ended")
            try:
                self._stay_stopped()
                pending.result = pending.job(connection)
            except DRIVER_ERRORS as error:
                pending.error = translate(error, self.path)
                pending.error.__cause__ = error
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _commit(self, connection: apsw.Connection, batch: list[Pending]) -> None:
        """One transaction for the jobs. It counts only if the file was in its place before it and
        after it.
        """
        self._stay_stopped()
        anchor = self._writers_anchor
        assert anchor is not None  # for the type checker
        fault: str | None = None
        try:
            connection.execute("BEGIN IMMEDIATE")
            before = connection.total_changes()
            for pending in batch:
                self._do(connection, pending, alone=len(batch) == 1)
            index_queued(connection)
            self._merge(connection, connection.total_changes() - before)
            fault = anchor.find_fault()
            if fault is None:
                connection.execute("COMMIT")
                fault = anchor.find_fault()
        except DRIVER_ERRORS as error:
            fault = anchor.find_fault()
            if fault is None:
                raise translate(error, self.path) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if fault is not None:
            raise self._stop(connection, fault)

    def _stop(self, connection: apsw.Connection, fault: str) -> StoreMoved:
        """Write no more, and save what this connection still has."""
        from clew.store.sqlite.rescue import write_rescue  # noqa: PLC0415  # hardly ever needed

        try:
            rescue = str(write_rescue(connection, self.path, now=self.clock()))
        except (ClewError, OSError, *DRIVER_ERRORS) as error:
            # The next write tries again: there may be room by then.
            return self._tell_moved(f"{fault}; a rescue copy can't be written: {error}")
        self._moved = self._tell_moved(fault, rescue)
        return self._moved

    def _tell_moved(self, fault: str, rescue: str | None = None) -> StoreMoved:
        where = "" if rescue is None else f" What was acknowledged until then is in {rescue}."
        return StoreMoved(
            f"{self.path} was moved, replaced or deleted while clew had it open ({fault}), so "
            f"nothing more is written.{where} Stop every clew that uses this store; "
            "`clew doctor` then tells what to do.",
            rescue,
        )

    def _stay_stopped(self) -> None:
        if self._moved is not None:
            raise StoreMoved(str(self._moved), self._moved.rescue)

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


def _name_failure(error: Exception, path: Path) -> ClewError:
    if isinstance(error, DRIVER_ERRORS):
        return translate(error, path)
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return StoreFull(f"No space left for {path} ({error.strerror}).")
    return StoreUnavailable(f"{path} can't be opened: {error}.")


def _is_unwritable(error: Exception) -> bool:
    """Whether reading may work all the same."""
    if isinstance(error, OSError):
        return error.errno in NO_ROOM | NOT_ALLOWED
    kinds = (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.IOError)
    return isinstance(error, kinds)


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
            try:
                presence.announce()
            except OSError as error:
                if alone or not _is_unwritable(error):
                    raise
        yield
    finally:
        presence.leave()
        lock.release()
