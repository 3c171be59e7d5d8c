"""Is the store sound? Checks that only look, and may run beside every other process.

What can be put right is done by `mending`, on the strength of what is found here. The live file is
opened by SQLite alone, read-only; what has to write to check (FTS5's own test) gets a copy.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import msgspec

from clew.core.names import counted, format_bytes
from clew.errors import ClewError, StoreDamaged
from clew.files.locks import FileLock
from clew.store.findings import FIX, Advance, Diagnosis, Finding
from clew.store.presence import Presence, ProcessInfo
from clew.store.sqlite import migrating
from clew.store.sqlite.connection import DRIVER_ERRORS, connect_to_look, lock_path
from clew.store.sqlite.filesystem import NO_WAL, file_system
from clew.store.sqlite.soundness import RESTORE, check_contents, check_schema
from clew.version import __version__

LOW_DISK = 1 << 30
NO_DISK = 64 << 20
LARGE_LOG = 256 << 20


def examine(
    path: Path,
    *,
    now: int,
    home: Path | None = None,
    full: bool = False,
    advance: Advance = lambda _: None,
) -> Diagnosis:
    """Look at everything: a sample of the rows, or all of them with `full`.

    `home` is clew's own directory. A store anywhere else is among things that are not clew's.
    """
    findings = [check_library(apsw.sqlite_lib_version())]
    if not path.exists():
        what = f"there is none at {path} yet"
        return Diagnosis((*findings, Finding("store", "ok", what, "The first start makes it.")))
    findings += _check_place(path)
    advance(1)
    findings += _check_permissions(path, home)
    advance(1)
    for check in (_check_disk, _check_log):
        findings += check(path)
        advance(1)
    with _present(path, now) as (findings_about_others, free):
        findings += findings_about_others
        if not free:
            return Diagnosis(tuple(findings))
        try:
            findings += _look_inside(path, full=full, advance=advance)
        except (ClewError, *DRIVER_ERRORS) as error:
            findings.append(_unusable(error, path))
            return Diagnosis(tuple(findings), usable=False)
    return Diagnosis(tuple(findings))


def _look_inside(path: Path, *, full: bool, advance: Advance) -> Iterator[Finding]:
    with closing(connect_to_look(path)) as connection:
        latest = migrating.shipped_migrations()[-1].number
        version = migrating.stored_version(connection, path, latest)
        if version == 0:
            what = "empty, as a start that is killed in its first moment leaves it"
            yield Finding("store", "warning", what, "The next start makes it a store.")
            return
        yield from check_schema(connection, version, latest)
        yield from check_contents(connection, path, full=full, advance=advance)


def _unusable(error: Exception, path: Path) -> Finding:
    """Why the store can't be read. clew's own errors say themselves what to do."""
    match error:
        case StoreDamaged():
            return Finding("store", "problem", str(error), RESTORE)
        case ClewError():
            return Finding("store", "problem", str(error))
        case apsw.CorruptError() | apsw.NotADBError():
            return Finding("store", "problem", f"{path} is damaged: {error}", RESTORE)
        case _:
            advice = "Check the permissions of the file and its directory."
            return Finding("store", "problem", f"{path} can't be read: {error}", advice)


# --- around the file --------------------------------------------------------------------------


def check_library(version: str) -> Finding:
    """Whether this SQLite is free of the bug that can lose commits when the log is reset."""
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    fixed = {(3, 51): 3, (3, 50): 7, (3, 44): 6}
    if (major, minor) > (3, 51) or patch >= fixed.get((major, minor), patch + 1):
        return Finding("SQLite", "ok", version)
    what = f"{version} can lose commits (the WAL-reset bug)"
    return Finding("SQLite", "problem", what, "Update apsw: `pip install -U apsw`.")


def _check_place(path: Path) -> Iterator[Finding]:
    kind = file_system(path.parent)
    if kind in NO_WAL:
        what = f"{path} is on {kind}, where SQLite can't be safe"
        yield Finding("file system", "problem", what, "Move the store to a local disk.")
    else:
        yield Finding("file system", "ok", kind or "unknown to this system")


def _check_permissions(path: Path, home: Path | None) -> Iterator[Finding]:
    open_to_others = [
        f"{each.name} ({each.stat().st_mode & 0o777:04o})" for each in private_files(path, home)
    ]
    if open_to_others:
        what = f"others may read {', '.join(open_to_others)}"
        yield Finding("permissions", "warning", what, FIX, "permissions")
    else:
        yield Finding("permissions", "ok", "only its owner may read the store")


def private_files(path: Path, home: Path | None) -> Iterator[Path]:
    """What others could read or write although it is the owner's alone.

    The directory is only if it is clew's `home`; and a home that many write to, such as /tmp, was
    not made by clew.
    """
    own = [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm")]
    own += [lock_path(path), path.parent / "processes"]
    if home is not None and home.exists() and home.samefile(path.parent):
        own += [] if home.stat().st_mode & stat.S_ISVTX else [path.parent]
    for each in own:
        if each.exists() and each.stat().st_mode & 0o077:
            yield each


def _check_disk(path: Path) -> Iterator[Finding]:
    free, size = shutil.disk_usage(path.parent).free, path.stat().st_size
    what = f"{format_bytes(free)} free, the store takes {format_bytes(size)}"
    if free < NO_DISK:
        yield Finding("disk space", "problem", what, "Free some: writes are about to fail.")
    elif free < max(LOW_DISK, 2 * size):
        yield Finding("disk space", "warning", what, "Backups and migrations need as much again.")
    else:
        yield Finding("disk space", "ok", what)


def _check_log(path: Path) -> Iterator[Finding]:
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    what = format_bytes(size)
    if size > LARGE_LOG:
        advice = "Something reads for very long; it shrinks when that ends."
        yield Finding("write-ahead log", "warning", what, advice)
    else:
        yield Finding("write-ahead log", "ok", what)


# --- who else is there ------------------------------------------------------------------------


@contextmanager
def _present(path: Path, now: int) -> Iterator[tuple[list[Finding], bool]]:
    """Hold the store as others do, so that nobody swaps it: what was found, and if we do."""
    directory = path.parent / "processes"
    presence = Presence(directory, version=__version__, started_at=now)
    lock = FileLock(lock_path(path))
    try:
        free = lock.acquire(shared=True)
        left = presence.dead()
        others = _living(directory, left)
        if free:
            presence.announce()
    except OSError as error:
        what = f"who has the store open can't be told: {error.strerror or error}"
        yield [Finding("processes", "warning", what, "Run it as the owner of the store.")], True
    else:
        yield _about_others(others, left, free=free), free
    finally:
        presence.leave()
        lock.release()


def _living(directory: Path, dead: tuple[str, ...]) -> list[ProcessInfo]:
    """The processes that are there. Unlike `Presence.others` it clears nothing away."""
    found = []
    for file in directory.glob("*.json"):
        if file.name not in dead:
            try:
                found.append(msgspec.json.decode(file.read_bytes(), type=ProcessInfo))
            except (OSError, msgspec.MsgspecError):
                continue  # it left, or is not one of ours
    return sorted(found, key=lambda info: info.started_at)


def _about_others(others: list[ProcessInfo], left: tuple[str, ...], *, free: bool) -> list[Finding]:
    names = "; ".join(map(str, others))
    if not free:
        what = f"the store is being updated or restored by {names or 'another process'}"
        return [Finding("processes", "warning", what, "Wait for it, then look again.")]
    findings = [
        Finding("processes", "ok", f"open in {names}" if names else "nobody else has it open")
    ]
    if left:
        what = f"{counted(len(left), 'file')} left behind by processes that died"
        findings.append(Finding("process files", "warning", what, FIX, "processes"))
    return findings
