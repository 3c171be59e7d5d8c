"""The floor: the least SQL that does the job, with bare apsw, no threads, no values, no checks.

What clew takes beyond this is the price of its safety and comfort. A floor has the same schema,
the same triggers and the same durability as clew.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import apsw

from clew.store.sqlite.database import CHANGES_PER_PAGE, MERGE_EVERY
from clew.store.sqlite.rows import MESSAGE_COLUMNS, SESSION_COLUMNS

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
        before = self._connection.total_changes()
        execute("BEGIN IMMEDIATE")
        head: int = execute("SELECT head FROM sessions WHERE id = ?", (session_id,)).get
        execute(
            """INSERT INTO messages (session_id, seq, role, content, is_error, at)
               VALUES (?, ?, 'user', ?, 0, ?)""",
            (session_id, head + 1, content, now),
        )
        execute(
            """UPDATE sessions SET head = head + 1, message_count = message_count + 1,
                 content_bytes = content_bytes + ?2, updated_at = ?3, last_interaction_at = ?3
               WHERE id = ?1""",
            (session_id, len(content), now),
        )
        self._merge(self._connection.total_changes() - before)
        execute("COMMIT")

    def _merge(self, changes: int) -> None:
        """Merge the index as clew does: it belongs to the price of an append."""
        self._unmerged += changes
        if self._unmerged >= MERGE_EVERY:
            pages, self._unmerged = self._unmerged // CHANGES_PER_PAGE, 0
            self._connection.execute(
                "INSERT INTO messages_fts (messages_fts, rank) VALUES ('merge', ?)", (pages,)
            )

    def newest(self, session_id: str, limit: int) -> Rows:
        """The newest messages of a session."""
        rows = self._connection.execute(
            f"""SELECT {MESSAGE_COLUMNS} FROM messages WHERE session_id = ?
                ORDER BY seq DESC LIMIT ?""",  # noqa: S608  # constants
            (session_id, limit),
        ).fetchall()
        rows.reverse()
        return rows

    def list_sessions(self, limit: int) -> Rows:
        """The sessions that a list shows first."""
        return self._connection.execute(
            f"""SELECT {SESSION_COLUMNS} FROM sessions
                WHERE deleted_at IS NULL AND archived_at IS NULL
                ORDER BY pinned DESC, updated_at DESC, id DESC LIMIT ?""",  # noqa: S608  # constants
            (limit,),
        ).fetchall()

    def find_sessions(self, prefix: str) -> Rows:
        """Sessions by the beginning of their id."""
        return self._connection.execute(
            f"""SELECT {SESSION_COLUMNS} FROM sessions
                WHERE id >= ?1 AND id < ?1 || 'g' AND deleted_at IS NULL""",  # noqa: S608  # constants
            (prefix,),
        ).fetchall()

    def find_titles(self, title_key: str) -> Rows:
        """Sessions by their title; the newest ten."""
        return self._connection.execute(
            f"""SELECT {SESSION_COLUMNS} FROM sessions WHERE title_key = ? AND deleted_at IS NULL
                ORDER BY updated_at DESC LIMIT 10""",  # noqa: S608  # constants
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
