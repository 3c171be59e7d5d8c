"""The floor: the SQL that clew runs, with bare apsw and nothing around it.

No threads, no values, no checks. What clew takes beyond this is the price of its safety and
comfort. A floor has the same schema, triggers and durability, and runs the same statements.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import apsw

from clew.core.session import OWNER, SessionFilter
from clew.store.rows import SESSION_COLUMNS
from clew.store.sqlite import log
from clew.store.sqlite.database import CHANGES_PER_PAGE, MERGE_EVERY
from clew.store.sqlite.engine import DIALECT, spell
from clew.store.work.listing import list_query

Rows = list[tuple[Any, ...]]


class Floor:
    """One bare connection to a store's file."""

    def __init__(self, path: Path, *, durability: str = "full") -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.set_busy_timeout(10_000)
        self._connection.execute(f"PRAGMA foreign_keys = ON; PRAGMA synchronous = {durability}")
        self._unmerged = 0

    def append(self, session_id: str, content: str) -> None:
        """One message at the end of a session."""
        execute = self._connection.execute
        now = time.time_ns() // 1_000_000
        execute("BEGIN IMMEDIATE")
        before = self._connection.total_changes()
        begin: Rows = execute(log.BEGIN, (session_id,)).fetchall()
        head = begin[0][0]
        unset = (None,) * 6
        # The checksum is clew's own idea: a bare program has none.
        message = (session_id, head + 1, None, None, "user", content, *unset[:5], 0, *unset, now)
        execute(log.INSERT_MESSAGE, message).fetchall()
        execute(log.ADVANCE, (session_id, head + 1, 1, len(content), now, now, None))
        execute("SELECT 1 FROM spaceless_queue LIMIT 1").fetchall()
        self._merge(self._connection.total_changes() - before)
        execute("COMMIT")

    def _merge(self, changes: int) -> None:
        """Merge the indexes as clew does: it belongs to the price of an append."""
        self._unmerged += changes
        if self._unmerged >= MERGE_EVERY:
            pages, self._unmerged = self._unmerged // CHANGES_PER_PAGE, 0
            for index in ("messages_fts", "messages_spaceless"):
                self._connection.execute(
                    f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)",  # noqa: S608  # constants
                    (pages,),
                )

    def newest(self, session_id: str, limit: int) -> Rows:
        """The newest messages of a session."""
        execute = self._connection.execute
        execute("BEGIN")
        ((_, head, _),) = execute(log.SESSION, (session_id,)).fetchall()
        sql = log.MESSAGES.format(hide="")
        rows = execute(sql, (session_id, 0, head, limit, 0)).fetchall()
        execute("COMMIT")
        rows.reverse()
        return rows

    def list_sessions(self, limit: int) -> Rows:
        """The sessions that a list shows first, and the one after, which tells of a next page."""
        where = SessionFilter(viewer=OWNER)
        sql, bindings = list_query(DIALECT, where, archived=False, after=None, limit=limit + 1)
        return self._connection.execute(spell(sql).sql, bindings).fetchall()

    def find_sessions(self, prefix: str) -> Rows:
        """Sessions by the beginning of their id."""
        return self._connection.execute(
            f"""SELECT {SESSION_COLUMNS} FROM sessions
                WHERE id >= ?1 AND id < ?1 || 'g' AND deleted_at IS NULL
                ORDER BY updated_at DESC, id DESC LIMIT 10""",  # noqa: S608  # constants
            (prefix,),
        ).fetchall()

    def find_titles(self, title_key: str) -> Rows:
        """Sessions by their title; the newest ten."""
        return self._connection.execute(
            f"""SELECT {SESSION_COLUMNS} FROM sessions WHERE title_key = ? AND deleted_at IS NULL
                ORDER BY updated_at DESC, id DESC LIMIT 10""",  # noqa: S608  # constants
            (title_key,),
        ).fetchall()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def copy_store(source: Path, target: Path) -> Path:
    """A copy of a store's file, made by SQLite itself."""
    target.parent.mkdir(parents=True, exist_ok=True)
    old, new = apsw.Connection(str(source)), apsw.Connection(str(target))
    with new.backup("main", old, "main") as backup:
        backup.step(-1)
    new.pragma("journal_mode", "wal")
    new.close()
    old.close()
    return target


def sync_times(folder: Path, *, times: int = 100) -> list[float]:
    """Seconds that this machine's disk takes to keep 8 KB for good, again and again."""
    path = folder / "sync-probe"
    taken = []
    with path.open("wb", buffering=0) as file:
        for _ in range(times):
            file.write(os.urandom(8192))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    path.unlink()
    return taken
