"""The checks of `clew doctor` for a SQLite store. They change nothing and block no process.

First what surrounds the file, then which processes have it open, then its contents. The live file
is opened by SQLite alone, read-only; FTS5's own test, which has to write, gets a copy. `repair`
does what can be repaired.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import msgspec

from clew.core.names import counted, format_bytes, format_count
from clew.core.search.query import spaceless_tokens
from clew.core.text import decode_text
from clew.errors import ClewError, StoreDamaged
from clew.files.locks import FileLock
from clew.store.diagnosis import FIX, SAMPLE, Advance, Diagnosis, Finding, some
from clew.store.presence import Presence, ProcessInfo
from clew.store.sqlite import schema
from clew.store.sqlite.connection import (
    NO_WAL,
    connect,
    connect_read_only,
    fetch,
    fetch_one,
    file_system,
    lock_path,
)
from clew.store.sqlite.engine import DIALECT, SqliteTransaction, run_through
from clew.store.sqlite.errors import DRIVER_ERRORS
from clew.store.sqlite.rescue import check_rescues
from clew.store.work.checksums import check_checksums
from clew.store.work.counters import check_counters
from clew.store.work.usage import check_usage_sums
from clew.version import __version__

LOW_DISK = 1 << 30
NO_DISK = 64 << 20
NO_LOG = 1 << 16
LARGE_LOG = 256 << 20


FAULTS = 3
"""How many faults of a damaged file are named."""

RESTORE = "`clew restore BACKUP --replace` puts a backup in its place and keeps this one."
_WORD = re.compile(r"(?<![\w\u0080-\U0010ffff])[A-Za-z0-9]{3,40}(?![\w\u0080-\U0010ffff])")
"""A word that every tokenizer would call one."""


def examine(
    path: Path,
    *,
    now: int,
    home: Path | None = None,
    full: bool = False,
    advance: Advance = lambda _: None,
) -> Diagnosis:
    """Check everything: a sample of the rows, or all of them with `full`.

    `home` is clew's own directory, whose permissions are checked if the store is in it.
    """
    findings = [check_library(apsw.sqlite_lib_version())]
    findings += check_rescues(path)
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


def examine_place(path: Path, home: Path | None = None) -> tuple[Finding, ...]:
    """Check what is around the file, without opening it: the same cost for every store."""
    try:
        checks = (_check_place(path), _check_permissions(path, home), _check_disk(path))
        return tuple(each for found in (*checks, _check_log(path)) for each in found)
    except OSError as error:
        return (Finding("store", "problem", f"{path} can't be looked at: {error.strerror}."),)


def _look_inside(path: Path, *, full: bool, advance: Advance) -> Iterator[Finding]:
    with closing(connect_read_only(path)) as connection:
        latest = schema.shipped_migrations()[-1].number
        version = schema.stored_version(connection, path, latest)
        if version == 0:
            what = "empty: its first start was killed before it made the tables"
            yield Finding("store", "warning", what, "The next start makes them.")
            return
        yield from _check_schema(connection, version, latest)
        if version < latest:
            yield from _check_integrity(connection, full=full)
            return  # the other checks need what the update brings
        yield from _check_contents(connection, path, full=full, advance=advance)


def _unusable(error: Exception, path: Path) -> Finding:
    """Why the store can't be read. Errors of clew say themselves what to do."""
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
        what = f"other users can read {', '.join(open_to_others)}"
        yield Finding("permissions", "warning", what, FIX, "permissions")
    else:
        yield Finding("permissions", "ok", "only its owner can read the store")


def private_files(path: Path, home: Path | None) -> Iterator[Path]:
    """The files of the store that other users could read or write.

    Its directory is one of them only if it is clew's `home`, and not one such as /tmp that many
    users write to.
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
        yield Finding("disk space", "problem", what, "Free some space: writes are about to fail.")
    elif free < max(LOW_DISK, 2 * size):
        yield Finding(
            "disk space", "warning", what, "Backups and migrations need as much again as the store."
        )
    else:
        yield Finding("disk space", "ok", what)


def _check_log(path: Path) -> Iterator[Finding]:
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    what = format_bytes(size)
    if size > LARGE_LOG:
        advice = "A very long read keeps it large; it shrinks when that read ends."
        yield Finding("write-ahead log", "warning", what, advice)
    else:
        yield Finding("write-ahead log", "ok", what)


# --- other processes ------------------------------------------------------------------------


@contextmanager
def _present(path: Path, now: int) -> Iterator[tuple[list[Finding], bool]]:
    """Hold the store like other processes, so that none replaces it during the checks.

    Yields the findings about other processes, and whether the store could be held.
    """
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
        what = f"can't tell which processes have it open: {error.strerror or error}"
        yield [Finding("processes", "warning", what, "Run it as the owner of the store.")], True
    else:
        yield _about_others(others, left, free=free), free
    finally:
        presence.leave()
        lock.release()


def _living(directory: Path, dead: tuple[str, ...]) -> list[ProcessInfo]:
    """The processes that are alive. Unlike `Presence.others` it removes no file."""
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
        return [
            Finding("processes", "warning", what, "Wait until it is done, then run this again.")
        ]
    findings = [
        Finding("processes", "ok", f"open in {names}" if names else "no other process has it open")
    ]
    if left:
        what = f"{counted(len(left), 'file')} left behind by processes that died"
        findings.append(Finding("process files", "warning", what, FIX, "processes"))
    return findings


# --- contents ---------------------------------------------------------------------------------


def _check_schema(connection: apsw.Connection, version: int, latest: int) -> Iterator[Finding]:
    if version < latest:
        what = f"{version}, this clew has {latest}"
        yield Finding("schema", "warning", what, "The next start updates it, after a backup.")
    else:
        yield Finding("schema", "ok", str(version))
    mode = connection.pragma("journal_mode")
    if mode != "wal" and _is_writable(Path(connection.filename).parent):
        what = f"the journal mode is {mode}, not wal"
        yield Finding("journal", "problem", what, "Another program changed it: set it back to wal.")


def _is_writable(directory: Path) -> bool:
    """Whether SQLite can make its log there. If not, it reads the file as if it had none."""
    return os.access(directory, os.W_OK) and shutil.disk_usage(directory).free > NO_LOG


def _check_contents(
    connection: apsw.Connection, path: Path, *, full: bool, advance: Advance
) -> Iterator[Finding]:
    sound = True
    for finding in _check_integrity(connection, full=full):
        sound = finding.level == "ok"
        yield finding
    advance(1)
    if not sound:
        return  # other findings about a damaged file would be guesses
    if full:
        for finding in _check_checksums(connection):
            sound &= finding.level != "problem"
            yield finding
        advance(1)
        if not sound:
            return  # a damaged text may be none, and nothing else can read it
    checks: tuple[Callable[..., Iterable[Finding]], ...] = (
        _check_references,
        _check_counters,
        _check_usage,
        _check_index,
    )
    for check in checks:
        connection.execute("BEGIN")  # all that a check reads is of one moment
        yield from check(connection, full=full)
        connection.execute("COMMIT")
        advance(1)
    if full:
        yield from _check_whole_index(connection, path)
        advance(1)


def find_faults(connection: apsw.Connection, *, full: bool) -> str:
    """What SQLite finds wrong with the file, in one line: its first faults, or nothing."""
    rows = fetch(connection, f"PRAGMA {'integrity_check' if full else 'quick_check'}(10)")
    lines = [line.strip() for (text,) in rows for line in str(text).splitlines()]
    faults = [line for line in lines if line not in ("", "ok") and not line.startswith("***")]
    return "; ".join(faults[:FAULTS])


def _check_integrity(connection: apsw.Connection, *, full: bool) -> Iterator[Finding]:
    faults = find_faults(connection, full=full)
    if faults:
        yield Finding("integrity", "problem", f"damaged: {faults}", RESTORE)
    else:
        yield Finding("integrity", "ok", "every page checked" if full else "quick check passed")


def _check_checksums(connection: apsw.Connection) -> list[Finding]:
    schema.register_checksum(connection)
    tx = SqliteTransaction(connection)
    return run_through(check_checksums(tx, DIALECT, restore=RESTORE))


def _check_references(connection: apsw.Connection, *, full: bool) -> Iterator[Finding]:  # noqa: ARG001  # it always checks all
    broken = fetch(connection, 'SELECT "table", count(*) FROM pragma_foreign_key_check GROUP BY 1')
    if broken:
        what = ", ".join(f"{format_count(count)} in {table}" for table, count in broken)
        what = f"rows that refer to missing rows: {what}"
        yield Finding("references", "problem", what, RESTORE)
    else:
        yield Finding("references", "ok", "every row that is referred to exists")


def _check_counters(connection: apsw.Connection, *, full: bool) -> list[Finding]:
    tx = SqliteTransaction(connection)
    return run_through(check_counters(tx, full=full, restore=RESTORE))


def _check_usage(connection: apsw.Connection, *, full: bool) -> Iterator[Finding]:
    yield run_through(check_usage_sums(SqliteTransaction(connection), full=full))


def _check_index(connection: apsw.Connection, *, full: bool) -> Iterator[Finding]:  # noqa: ARG001  # `_check_whole_index` checks all
    messages, indexed, queued = fetch_one(
        connection,
        """SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM messages_fts_docsize),
                  (SELECT count(*) FROM spaceless_queue)""",
    ) or (0, 0, 0)
    if queued:
        what = f"{counted(queued, 'message')} {'waits' if queued == 1 else 'wait'} to be indexed"
        yield Finding("search queue", "warning", what, FIX, "queue")
    lost = [] if messages != indexed else [*_unfindable(connection, queued=bool(queued))]
    if messages != indexed:
        what = f"{format_count(indexed)} of {counted(messages, 'message')} indexed"
        yield Finding("search index", "problem", what, FIX, "index")
    elif lost:
        what = f"messages can't be found: rows {some(lost)}"
        yield Finding("search index", "problem", what, FIX, "index")
    else:
        yield Finding("search index", "ok", f"in step, {counted(messages, 'message')}")


# random() has to depend on `n`, or SQLite calls it once for all rows.
_SOME_MESSAGES = """
WITH RECURSIVE throws (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM throws LIMIT ?1)
SELECT id, content FROM messages_indexed WHERE id IN (
  SELECT * FROM (SELECT id FROM messages ORDER BY id DESC LIMIT ?1)
  UNION
  SELECT (SELECT id FROM messages
          WHERE id >= abs(random() / 2 + n) % (SELECT max(id) + 1 FROM messages)
          ORDER BY id LIMIT 1)
  FROM throws)
"""


def _unfindable(connection: apsw.Connection, *, queued: bool) -> Iterator[str]:
    """Messages of a sample that a word of their own does not find."""
    for row_id, content in fetch(connection, _SOME_MESSAGES, (SAMPLE,)):
        word = _WORD.search(content)
        found = word is None or fetch_one(
            connection,
            "SELECT 1 FROM messages_fts WHERE messages_fts MATCH ? AND rowid = ?",
            (f'"{word[0]}"', row_id),
        )
        if not found or not (queued or _has_pairs(connection, row_id, content)):
            yield str(row_id)


def _has_pairs(connection: apsw.Connection, row_id: int, content: str) -> bool:
    """Whether the index of scripts without spaces has a message exactly if it should."""
    wanted = spaceless_tokens(decode_text(content)) is not None
    sql = "SELECT 1 FROM messages_spaceless_docsize WHERE id = ?"
    return wanted == (fetch_one(connection, sql, (row_id,)) is not None)


def _check_whole_index(connection: apsw.Connection, path: Path) -> Iterator[Finding]:
    """FTS5 compares its index with every message. That is a write, so it is done to a copy."""
    with tempfile.TemporaryDirectory(prefix="clew-doctor-") as folder:
        copy_path = schema.verified_copy(connection, Path(folder) / "copy.db", lock=lock_path(path))
        with closing(connect(copy_path, mode="rw")) as copy:
            try:
                copy.execute(
                    "INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)"
                )
                wrong = [
                    str(row_id)
                    for row_id, content in copy.execute("SELECT id, content FROM messages_indexed")
                    if not content.isascii() and not _has_pairs(copy, row_id, content)
                ]
            except apsw.CorruptError:
                wrong = ["(FTS5's own test)"]
    if wrong:
        what = f"differs from the messages: {some(wrong)}"
        yield Finding("whole index", "problem", what, FIX, "index")
    else:
        yield Finding("whole index", "ok", "compared with every message")
