"""What `clew doctor --fix` does to a SQLite store: only what can't lose anything, in short steps.

Rebuilding the search index is one long transaction that keeps writers waiting, so it needs the
store alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from clew.core.names import counted
from clew.errors import ClewError
from clew.store.diagnosis import Diagnosis, Repaired
from clew.store.presence import Presence
from clew.store.sqlite import schema
from clew.store.sqlite.backup import restore
from clew.store.sqlite.connection import connect, fetch
from clew.store.sqlite.database import hold_store
from clew.store.sqlite.doctor import private_files
from clew.store.sqlite.engine import DIALECT, SqliteTransaction, run_through
from clew.store.sqlite.errors import DRIVER_ERRORS, translate
from clew.store.sqlite.rescue import list_rescues, mark_restored, may_replace
from clew.store.sqlite.search_index import index_queued, rebuild
from clew.store.work.checksums import accept_changes
from clew.store.work.counters import correct_counters
from clew.store.work.usage import rebuild_usage_sums
from clew.version import __version__

T = TypeVar("T")


def repair_file(
    path: Path, diagnosis: Diagnosis, *, now: int, home: Path | None = None
) -> tuple[Repaired, ...]:
    """Repair what the diagnosis says can be repaired. A store that is not usable is left alone.

    `home` is clew's own directory, as for `examine`. `StoreInUse`, before anything is changed, if
    the index has to be rebuilt and another process has the store open.
    """
    wanted = {finding.fix: finding.name for finding in diagnosis.findings if finding.fix}
    if not diagnosis.usable:
        usable = ("permissions", "rescue")
        wanted = {fix: name for fix, name in wanted.items() if fix in usable}
    fixes: dict[str, Callable[[], str]] = {
        "rescue": lambda: _put_rescue_back(path, now),
        "index": lambda: _rebuild_index(path, now),
        "permissions": lambda: _close_to_others(path, home),
        "processes": lambda: _clear_processes(path, now),
        "queue": lambda: _in_store(path, _empty_queue),
        "counters": lambda: _count_again(path),
        "usage": lambda: _in_store(path, _sum_up_usage),
        "checksums": lambda: _in_store(path, _accept_changes),
    }
    try:
        return tuple(Repaired(wanted[fix], work()) for fix, work in fixes.items() if fix in wanted)
    except DRIVER_ERRORS as error:
        raise translate(error, path) from error


def _put_rescue_back(path: Path, now: int) -> str:
    for rescue in list_rescues(path):
        if may_replace(rescue, path):
            restored = restore(path, rescue, now=now, replace=True)
            mark_restored(rescue, path)
            return f"{rescue.name} is the store again: {counted(restored.messages, 'message')}"
    return "there is none any more"


def _rebuild_index(path: Path, now: int) -> str:
    with hold_store(path, "Rebuilding the search index", now=now, alone=True):
        _in_store(path, rebuild)
    return "the search index was rebuilt"


def _close_to_others(path: Path, home: Path | None) -> str:
    changed = list(private_files(path, home))
    for each in changed:
        try:
            each.chmod(each.stat().st_mode & 0o700)
        except OSError as error:
            raise ClewError(
                f"{each} can't be closed to others: {error.strerror}. Run it as the owner."
            ) from error
    names = [each.name for each in changed]
    which = " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
    whose = "is now readable by its" if len(names) == 1 else "are now readable by their"
    return f"{which} {whose} owner only"


def _clear_processes(path: Path, now: int) -> str:
    presence = Presence(path.parent / "processes", version=__version__, started_at=now)
    left = presence.dead()
    for name in left:
        presence.is_alive(name.removesuffix(".json"))  # removes the file of a dead one
    whose = "a dead process" if len(left) == 1 else "dead processes"
    return f"{counted(len(left), 'file')} of {whose} removed"


def _in_store(path: Path, work: Callable[[apsw.Connection], T]) -> T:
    """Do something in one short transaction, like any other writer."""
    with closing(connect(path, mode="rw")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        done = work(connection)
        connection.execute("COMMIT")
        return done


def _empty_queue(connection: apsw.Connection) -> str:
    index_queued(connection)
    return "the queued messages are indexed"


def _accept_changes(connection: apsw.Connection) -> str:
    schema.register_checksum(connection)
    return run_through(accept_changes(SqliteTransaction(connection), DIALECT))


def _sum_up_usage(connection: apsw.Connection) -> str:
    return run_through(rebuild_usage_sums(SqliteTransaction(connection)))


def _count_again(path: Path) -> str:
    """Session by session, so that no writer waits for long."""
    with closing(connect(path, mode="rw")) as connection:
        sessions = fetch(connection, "SELECT id FROM sessions WHERE purged_at IS NULL")
    corrected = sum(_in_store(path, partial(_correct, session_id=each)) for (each,) in sessions)
    return f"the counters of {counted(corrected, 'session')} corrected"


def _correct(connection: apsw.Connection, session_id: str) -> bool:
    return run_through(correct_counters(SqliteTransaction(connection), session_id))
