"""What `clew doctor --fix` does: only what can't lose anything, in steps that disturb nobody.

Rebuilding the search index is the exception: it is one transaction that keeps writers waiting, so
it needs the store alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from clew.core.names import counted
from clew.core.query import spaceless_tokens
from clew.core.text import decode_text
from clew.errors import ClewError, StoreInUse
from clew.files.locks import FileLock
from clew.store.findings import Diagnosis, Mended
from clew.store.presence import Presence
from clew.store.sqlite.connection import DRIVER_ERRORS, connect, fetch, lock_path
from clew.store.sqlite.doctor import private_files
from clew.store.sqlite.failures import translate
from clew.store.sqlite.soundness import count_session
from clew.store.sqlite.spaceless import index_queued
from clew.version import __version__

T = TypeVar("T")


def mend(
    path: Path, diagnosis: Diagnosis, *, now: int, home: Path | None = None
) -> tuple[Mended, ...]:
    """Put right what the diagnosis says can be. Nothing is done to a store that is not usable.

    `home` is clew's own directory, as for `examine`. `StoreInUse`, before anything is changed, if
    the index has to be rebuilt and somebody else has the store open.
    """
    wanted = {finding.fix: finding.name for finding in diagnosis.findings if finding.fix}
    if not diagnosis.usable:
        wanted = {fix: name for fix, name in wanted.items() if fix == "permissions"}
    fixes: dict[str, Callable[[], str]] = {
        "index": lambda: _alone(path, now, lambda: _in_store(path, _rebuild)),
        "permissions": lambda: _close_to_others(path, home),
        "processes": lambda: _clear_processes(path, now),
        "queue": lambda: _in_store(path, _empty_queue),
        "counters": lambda: _count_again(path),
    }
    try:
        return tuple(Mended(wanted[fix], work()) for fix, work in fixes.items() if fix in wanted)
    except DRIVER_ERRORS as error:
        raise translate(error, path) from error


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
        presence.is_alive(name.removesuffix(".json"))  # clears what a dead one left
    whose = "a dead process" if len(left) == 1 else "dead processes"
    return f"{counted(len(left), 'file')} of {whose} removed"


def _in_store(path: Path, work: Callable[[apsw.Connection], T]) -> T:
    """One short transaction, like any other writer's."""
    with closing(connect(path, mode="rw")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        done = work(connection)
        connection.execute("COMMIT")
        return done


def _empty_queue(connection: apsw.Connection) -> str:
    index_queued(connection)
    return "what waited is indexed"


def _count_again(path: Path) -> str:
    """Session by session, so that no writer waits for long."""
    with closing(connect(path, mode="rw")) as connection:
        sessions = fetch(connection, "SELECT id FROM sessions WHERE purged_at IS NULL")
    corrected = sum(_in_store(path, partial(_correct, session_id=each)) for (each,) in sessions)
    return f"the counters of {counted(corrected, 'session')} corrected"


def _correct(connection: apsw.Connection, session_id: str) -> bool:
    counters = count_session(connection, session_id)
    if counters.stored == counters.actual or not counters.whole:
        return False
    connection.execute(
        "UPDATE sessions SET message_count = ?, content_bytes = ? WHERE id = ?",
        (*counters.actual, session_id),
    )
    return True


def _alone(path: Path, now: int, work: Callable[[], str]) -> str:
    presence = Presence(path.parent / "processes", version=__version__, started_at=now)
    lock = FileLock(lock_path(path))
    if not lock.acquire():
        others = tuple(str(info) for info in presence.others())
        raise StoreInUse("Rebuilding the search index", others)
    try:
        presence.announce()
        return work()
    finally:
        presence.leave()
        lock.release()


def _rebuild(connection: apsw.Connection) -> str:
    connection.execute("INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')")
    connection.execute("INSERT INTO messages_spaceless (messages_spaceless) VALUES ('delete-all')")
    connection.execute("DELETE FROM spaceless_queue")
    for row_id, content in connection.execute("SELECT id, content FROM messages_indexed"):
        tokens = None if content.isascii() else spaceless_tokens(decode_text(content))
        if tokens is not None:
            connection.execute(
                "INSERT INTO messages_spaceless (rowid, tokens) VALUES (?, ?)", (row_id, tokens)
            )
    return "the search index was built anew"
