"""Is the store sound? Checks that only look, and may run beside every other process.

What can be put right is done by `mending`, on the strength of what is found here. The live file is
opened by SQLite alone, read-only; what has to write to check (FTS5's own test) gets a copy.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import msgspec

from clew.errors import ClewError, StoreDamaged, StoreTooNew
from clew.store.locks import FileLock
from clew.store.presence import Presence, ProcessInfo
from clew.store.sqlite.connection import DRIVER_ERRORS, connect, lock_path
from clew.store.sqlite.failures import translate
from clew.store.sqlite.filesystem import NO_WAL, file_system
from clew.store.sqlite.soundness import (
    FIX,
    RESTORE,
    Advance,
    Finding,
    check_contents,
    check_schema,
)
from clew.version import __version__

LOW_DISK = 1 << 30
NO_DISK = 64 << 20
LARGE_LOG = 256 << 20


class Diagnosis(msgspec.Struct, frozen=True):
    """All findings. A store that is not `usable` can't be opened as it is."""

    findings: tuple[Finding, ...]
    usable: bool = True

    @property
    def sound(self) -> bool:
        """Whether there is nothing to worry about; warnings are no worry."""
        return self.usable and all(finding.level != "problem" for finding in self.findings)


def examine(
    path: Path, *, now: int, full: bool = False, advance: Advance = lambda _: None
) -> Diagnosis:
    """Look at everything: a sample of the rows, or all of them with `full`."""
    findings = [check_library(apsw.sqlite_lib_version())]
    if not path.exists():
        what = f"there is none at {path} yet"
        return Diagnosis((*findings, Finding("store", "ok", what, "The first start makes it.")))
    checks = (_check_place, _check_permissions, _check_disk, _check_log)
    for check in checks:
        findings += check(path)
        advance(1)
    with _present(path, now) as (findings_about_others, free):
        findings += findings_about_others
        if not free:
            return Diagnosis(tuple(findings))
        try:
            with closing(connect(path, mode="ro")) as connection:
                findings += check_schema(connection, path)
                findings += check_contents(connection, path, full=full, advance=advance)
        except ClewError as error:
            findings.append(_unusable(error))
            return Diagnosis(tuple(findings), usable=False)
        except DRIVER_ERRORS as error:
            findings.append(_unusable(translate(error, path)))
            return Diagnosis(tuple(findings), usable=False)
    return Diagnosis(tuple(findings))


def _unusable(error: ClewError) -> Finding:
    advice = RESTORE if isinstance(error, StoreDamaged) else ""
    advice = "Update clew." if isinstance(error, StoreTooNew) else advice
    return Finding("store", "problem", str(error), advice)


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


def _check_permissions(path: Path) -> Iterator[Finding]:
    open_to_others = [
        f"{each.name} ({each.stat().st_mode & 0o777:04o})" for each in private_files(path)
    ]
    if open_to_others:
        what = f"others may read {', '.join(open_to_others)}"
        yield Finding("permissions", "warning", what, FIX, "permissions")
    else:
        yield Finding("permissions", "ok", "only its owner may read the store")


def private_files(path: Path) -> Iterator[Path]:
    """What others could read or write although it is the owner's alone."""
    beside = (path.with_name(path.name + ending) for ending in ("", "-wal", "-shm"))
    for each in (path.parent, *beside, lock_path(path)):
        if each.exists() and each.stat().st_mode & 0o077:
            yield each


def _check_disk(path: Path) -> Iterator[Finding]:
    free, size = shutil.disk_usage(path.parent).free, path.stat().st_size
    what = f"{free / 1e9:.1f} GB free, the store takes {size / 1e9:.3f} GB"
    if free < NO_DISK:
        yield Finding("disk space", "problem", what, "Free some: writes are about to fail.")
    elif free < max(LOW_DISK, 2 * size):
        yield Finding("disk space", "warning", what, "Backups and migrations need as much again.")
    else:
        yield Finding("disk space", "ok", what)


def _check_log(path: Path) -> Iterator[Finding]:
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    what = f"{size / 1e6:.1f} MB"
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
        what = f"{len(left)} left behind by processes that died"
        findings.append(Finding("process files", "warning", what, FIX, "processes"))
    return findings
