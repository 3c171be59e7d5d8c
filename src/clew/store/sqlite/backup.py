"""Backups of a SQLite store, and restoring one: online, verified, and complete or absent.

A backup is a plain database file with a manifest beside it. Only SQLite opens the live store; the
backup file itself is also read as bytes, for its hash. It blocks: meant for a command of its own.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import apsw
import msgspec

from clew.errors import (
    ClewError,
    Conflict,
    InvalidInput,
    Locked,
    NotFound,
    StoreDamaged,
    StoreInUse,
    TargetNotEmpty,
)
from clew.files.durable import sync_directory
from clew.files.locks import FileLock
from clew.store.migrations import REBUILD
from clew.store.sqlite import schema
from clew.store.sqlite.connection import (
    connect,
    connect_read_only,
    connect_to_copy,
    fetch_one,
    lock_path,
)
from clew.store.sqlite.database import hold_store
from clew.store.sqlite.doctor import find_faults
from clew.store.sqlite.engine import DIALECT, SqliteTransaction, run_through
from clew.store.sqlite.errors import translated
from clew.store.work.checksums import count_damaged
from clew.version import __version__

Progress = Callable[[int, int], None]
"""Bytes done, and bytes in all."""


_READING = (apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)
"""Errors of the file that is copied, not of the copy."""


def _quiet(_done: int, _total: int) -> None:
    """Show no progress."""


def _copy_to(target: Path, source: apsw.Connection, path: Path, progress: Progress) -> None:
    """Copy a database and check the copy; it gets the permissions of the store's lock."""
    page: int = source.pragma("page_size")
    schema.verified_copy(
        source,
        target,
        lock=lock_path(path),
        progress=lambda done, total: progress(done * page, total * page),
    )


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup file must be. `schema` is the number of its last migration.

    `damaged` messages are not what was stored: the store itself was damaged.
    """

    sha256: str
    bytes: int
    schema: int
    sessions: int
    messages: int
    clew: str
    made_at: int
    damaged: int = 0


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What was restored. `kept` is where the old store is now, if there was one.

    Without a manifest (`hashed` is False) only the database itself could be checked.
    """

    sessions: int
    messages: int
    hashed: bool
    kept: Path | None
    damaged: int = 0


def manifest_path(backup: Path) -> Path:
    """The manifest beside a backup."""
    return backup.with_name(f"{backup.name}.manifest.json")


def back_up(
    path: Path, target: Path, *, now: int, force: bool = False, progress: Progress = _quiet
) -> Manifest:
    """Copy the store at `path` to `target` as it is at this moment. Writers need not stop."""
    target = target.absolute()
    if not path.exists():
        raise NotFound(f"There is no store at {path} yet: nothing to back up.")
    _check_target(target, path, force=force)
    new = target.with_name(f"{target.name}.new")
    with (
        hold_store(path, "Backing up", now=now, alone=False),
        translated(path),
        _as_only_writer(target),
    ):
        try:
            with _writing(target):
                new.touch(0o600)  # the system says why not, SQLite only that it can't
            manifest = _copy(path, new, target, now=now, progress=progress)
            with _writing(target):
                _publish(new, target, manifest)
        finally:
            with suppress(OSError):
                schema.discard(new)
    return manifest


def _check_target(target: Path, path: Path, *, force: bool) -> None:
    try:
        if not target.parent.is_dir():
            raise NotFound(f"There is no directory {target.parent}. Make it, or name another one.")
        if target.is_dir():
            raise Conflict(f"{target} is a directory. Give the backup a name in it.")
        if target.exists() and target.samefile(path):
            raise InvalidInput(f"{target} is the store itself. Give the backup another name.")
        if target.exists() and not force:
            raise Conflict(f"{target} already exists. Use --force to write over it.")
    except OSError as error:
        raise ClewError(f"{target} can't be used: {error.strerror}.") from error


def _copy(path: Path, new: Path, target: Path, *, now: int, progress: Progress) -> Manifest:
    with closing(connect_to_copy(path)) as connection:
        version = schema.stored_version(connection, path, _latest())
        if version == 0:
            raise NotFound(f"{path} is empty: nothing to back up.")
        # The open read pins this moment: no writer can make the copy start again.
        connection.execute("BEGIN")
        counts = _counts(connection)
        with _writing(target):
            _copy_to(new, connection, path, progress)
        connection.execute("COMMIT")
    with closing(_open_still(new)) as copy:
        if _counts(copy) != counts:
            raise StoreDamaged(
                f"The copy of {path} is incomplete: sessions or messages are missing."
            )
        damaged = _count_damaged(copy, version)
    return Manifest(
        sha256=_hash(new),
        bytes=new.stat().st_size,
        schema=version,
        sessions=counts[0],
        messages=counts[1],
        clew=__version__,
        made_at=now,
        damaged=damaged,
    )


def _publish(new: Path, target: Path, manifest: Manifest) -> None:
    """Give the copy its name. An older manifest goes first: it must not be beside the new file."""
    unnamed = new.with_name(f"{new.name}.manifest.json")
    try:
        with os.fdopen(
            os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
        ) as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        manifest_path(target).unlink(missing_ok=True)
        new.replace(target)
        unnamed.replace(manifest_path(target))
    finally:
        unnamed.unlink(missing_ok=True)
    with suppress(OSError):  # not every file system can
        sync_directory(target.parent)


def restore(
    path: Path, source: Path, *, now: int, replace: bool = False, progress: Progress = _quiet
) -> Restored:
    """Put the backup `source` in the place of the store at `path`.

    `TargetNotEmpty` for a store that has sessions, unless `replace`: then it is kept beside the
    new one. At every moment either the old store or the complete new one is in place.
    """
    source = source.absolute()
    if not source.is_file():
        raise NotFound(f"There is no backup file {source}.")
    if path.exists() and path.samefile(source):
        raise InvalidInput(f"{source} is the store itself, not a backup of it.")
    staged = path.with_name(f"{path.name}.restoring")
    with translated(source):
        manifest = _checked_manifest(source)
    with hold_store(path, "Restoring", now=now, alone=True):
        try:
            if path.exists() and not replace:
                with translated(path):
                    _refuse_sessions(path)
            with translated(source):
                counts, damaged = _stage(source, staged, path, manifest, progress)
            with translated(path):
                kept = _put_in_place(staged, path, now=now)
        finally:
            schema.discard(staged)
    return Restored(
        sessions=counts[0],
        messages=counts[1],
        hashed=manifest is not None,
        kept=kept,
        damaged=damaged,
    )


def _checked_manifest(source: Path) -> Manifest | None:
    """The manifest, None if there is none; `StoreDamaged` if the file is not what it says."""
    beside = manifest_path(source)
    try:
        manifest = msgspec.json.decode(beside.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise StoreDamaged(
            f"The manifest {beside} can't be read. Nothing was changed. "
            "Remove it to restore without it."
        ) from error
    if source.stat().st_size != manifest.bytes or _hash(source) != manifest.sha256:
        raise StoreDamaged(
            f"{source} is not the file that its manifest describes: it was changed or damaged. "
            "Nothing was changed. Use another backup."
        )
    return manifest


def _refuse_sessions(path: Path) -> None:
    with closing(connect_read_only(path)) as connection:
        if schema.stored_version(connection, path, _latest()) == 0:
            return
        if _counts(connection)[0]:
            raise TargetNotEmpty(str(path))


def _stage(
    source: Path, staged: Path, path: Path, manifest: Manifest | None, progress: Progress
) -> tuple[tuple[int, int], int]:
    """Make a checked copy of the backup beside the store.

    Returns its sessions and messages, and how many messages are damaged.
    """
    with closing(_open_still(source)) as backup:
        version = schema.stored_version(backup, source, _latest())
        if version == 0:
            raise StoreDamaged(f"{source} is empty: no backup of a store. Nothing was changed.")
        if source.stat().st_size % int(backup.pragma("page_size")):
            # SQLite takes the missing end of a page for zeros, and may find nothing wrong.
            raise StoreDamaged(f"{source} is incomplete: its end is missing. Nothing was changed.")
        with _writing(path):
            _copy_to(staged, backup, path, progress)
    with closing(connect(staged, mode="rw")) as copy:
        if manifest is None and (faults := find_faults(copy, full=True)):
            raise StoreDamaged(f"{source} is damaged ({faults}). Nothing was changed.")
        counts, damaged = _counts(copy), _count_damaged(copy, version)
        schema.use_wal(copy, path)
    return counts, damaged


def _put_in_place(staged: Path, path: Path, *, now: int) -> Path | None:
    """Replace the store. The old file gets a second name first, so a store is always in place."""
    kept = None
    if path.exists():
        kept = path.with_name(f"{path.name}.replaced-{_stamp(now)}")
        _settle(path)
        for ending in ("-wal", ""):
            file = path.with_name(path.name + ending)
            if file.exists():
                kept.with_name(kept.name + ending).hardlink_to(file)
    # The log of a damaged store must not be taken for the new one's.
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    staged.replace(path)
    with suppress(OSError):  # not every file system can
        sync_directory(path.parent)
    return kept


def _settle(path: Path) -> None:
    """Write the old store's log into its file. A damaged store stays as it is."""
    try:
        with closing(connect_read_only(path)) as connection:
            connection.pragma("schema_version")
    except (apsw.NotADBError, apsw.CorruptError):
        return
    with closing(connect(path, mode="rw")) as connection:
        connection.set_busy_timeout(1000)  # no process of clew's has it open
        busy, *_ = fetch_one(connection, "PRAGMA wal_checkpoint(TRUNCATE)") or (0,)
    log = path.with_name(f"{path.name}-wal")
    if busy or (log.exists() and log.stat().st_size):
        raise StoreInUse("Restoring", ("a program that is not clew",))


def _open_still(path: Path) -> apsw.Connection:
    """Open a file that no process writes to, leaving no file beside it."""
    log = path.with_name(f"{path.name}-wal")
    still = "" if log.exists() and log.stat().st_size else "&immutable=1"
    flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READONLY
    return apsw.Connection(f"{path.as_uri()}?mode=ro{still}", flags=flags)


def _counts(connection: apsw.Connection) -> tuple[int, int]:
    """How many sessions and messages there are."""
    sql = "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM messages)"
    sessions, messages = fetch_one(connection, sql) or (0, 0)
    return sessions, messages


def _count_damaged(connection: apsw.Connection, version: int) -> int:
    """How many messages are not what was stored. Older schemas have no checksums."""
    if version < REBUILD:
        return 0
    schema.register_checksum(connection)
    return run_through(count_damaged(SqliteTransaction(connection), DIALECT))


def _latest() -> int:
    return schema.shipped_migrations()[-1].number


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(now: int) -> str:
    return datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%d-%H%M%S-%f")[:-3]


@contextmanager
def _as_only_writer(target: Path) -> Iterator[None]:
    """Refuse a second backup into the same file at the same time."""
    lock = FileLock(target.with_name(f"{target.name}.lock"))
    with _writing(target):
        alone = lock.acquire()
    if not alone:
        raise Locked(
            f"Another backup is being written to {target}. "
            "Wait for it, or choose another name. Nothing was changed."
        )
    try:
        yield
    finally:
        lock.path.unlink(missing_ok=True)
        lock.release()


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Raise errors of the file that is written as such, not as errors of the store."""
    try:
        yield
    except apsw.FullError as error:
        raise ClewError(
            f"No space left for {target}. Free some, or choose another place."
        ) from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError) as error:
        if getattr(error, "extendedresult", None) in _READING:
            raise
        raise ClewError(
            f"Writing {target} failed. Check that disk and its quota, or choose another place."
        ) from error
    except OSError as error:
        raise ClewError(f"{target} can't be written: {error.strerror or error}.") from error
