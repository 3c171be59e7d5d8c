"""Which messages a search looks through: its filters as conditions, and as ranges of rows.

Conditions alone would be enough to be right. The ranges make it quick: an old or rare session is
gone to directly, instead of passing over every newer match of a common word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from clew.core.search import SearchFilter
from clew.core.session import OWNER, may_see
from clew.errors import SessionNotFound
from clew.store.rows import text
from clew.store.sqlite.connection import fetch
from clew.store.sqlite.engine import Transaction, run_through
from clew.store.work.sessions import get
from clew.store.work.thread import Stretch, stretches

FEW_SESSIONS = 64
FEW_MESSAGES = 50_000
"""Up to so many sessions, and messages in them, are gone to one by one."""

# Said in a session that is deleted, but perhaps still read by forks: looked at one by one.
_LIVING = """(s.deleted_at IS NULL
  OR s.id IN (SELECT parent_id FROM sessions WHERE parent_id IS NOT NULL))"""


class Scope:
    """The filters of one search, in one read transaction. `s` and `m` are session and message."""

    def __init__(self, connection: apsw.Connection, where: SearchFilter, newest: int) -> None:
        self._connection = connection
        self._where = where
        self._newest = newest
        self._conditions, self._bindings = self._about_sessions()
        self._parts = self._few_parts()

    def conditions(self) -> tuple[list[str], list[Any]]:
        """What a message and its session must be, and the values for it."""
        conditions, bindings = [_LIVING, *self._conditions], [*self._bindings]
        if self._where.role is not None:
            conditions.append("m.role = ?")
            bindings.append(self._where.role)
        for comparison, value in ((">=", self._where.since), ("<=", self._where.until)):
            if value is not None:
                conditions.append(f"m.at {comparison} ?")
                bindings.append(value)
        if self._parts is not None:
            # On the rowid of the index, so that other sessions' matches are never looked up.
            stretch = "SELECT id FROM messages WHERE session_id = ? AND seq > ? AND seq <= ?"
            conditions.append(f"+f.rowid IN ({' UNION ALL '.join([stretch] * len(self._parts))})")
            for part in self._parts:
                bindings += [part.session_id, part.low, part.high]
        return conditions, bindings

    def zones(self) -> Iterator[tuple[int, int]]:
        """Ranges of rows to look through, in this order. Together they miss nothing."""
        if self._parts is not None:
            yield from self._ranges(self._parts)
            return
        # Rows are mostly in the order of time. Where they should be comes first; what an import
        # put elsewhere is found in the rest.
        newest, since, until = self._newest, self._where.since, self._where.until
        low = 1 if since is None else self._first_at(since)
        high = newest if until is None else self._first_at(until + 1) - 1
        yield low, high
        if high < newest:
            yield max(low, high + 1), newest
        if low > 1:
            yield 1, low - 1

    def _about_sessions(self) -> tuple[list[str], list[Any]]:
        conditions: list[str] = []
        bindings: list[Any] = []
        if self._where.viewer != OWNER:
            conditions += ["s.person = ?", f"s.person <> '{OWNER}'"]
            bindings.append(text(self._where.viewer))
        for column in ("platform", "agent", "cwd", "project"):
            value = getattr(self._where, column)
            if value is not None:
                conditions.append(f"s.{column} = ?")
                bindings.append(text(value))
        return conditions, bindings

    def _few_parts(self) -> list[Stretch] | None:
        """What the sessions in question are made of, if those are few; None: look everywhere."""
        if self._where.session is not None:
            session = run_through(get(Transaction(self._connection), self._where.session))
            if not may_see(self._where.viewer, session.person):
                raise SessionNotFound(self._where.session)
            return self._stretches(self._where.session)
        if not self._conditions:
            return None
        rows = fetch(
            self._connection,
            f"""SELECT s.id FROM sessions s
                WHERE s.deleted_at IS NULL AND {" AND ".join(self._conditions)} LIMIT ?""",
            (*self._bindings, FEW_SESSIONS + 1),
        )
        if len(rows) > FEW_SESSIONS:
            return None
        parts = {part for (each,) in rows for part in self._stretches(each)}
        few = sum(part.high - part.low for part in parts) <= FEW_MESSAGES
        return list(parts) if few and len(parts) <= 2 * FEW_SESSIONS else None

    def _stretches(self, session_id: str) -> list[Stretch]:
        return run_through(stretches(Transaction(self._connection), session_id))[0]

    def _ranges(self, parts: list[Stretch]) -> Iterator[tuple[int, int]]:
        """The rows of these parts, newest first, each once."""
        found = []
        for part in parts:
            ((low, high),) = fetch(
                self._connection,
                """SELECT (SELECT id FROM messages WHERE session_id = ?1 AND seq > ?2
                           ORDER BY seq LIMIT 1),
                          (SELECT id FROM messages WHERE session_id = ?1 AND seq <= ?3
                           ORDER BY seq DESC LIMIT 1)""",
                (part.session_id, part.low, part.high),
            )
            if low is not None and high is not None:
                found.append((low, min(high, self._newest)))
        ceiling = self._newest + 1
        for low, high in sorted(found, key=lambda each: each[1], reverse=True):
            if low < ceiling:
                yield low, min(high, ceiling - 1)
                ceiling = low

    def _first_at(self, at: int) -> int:
        """About the first row of that time or later, as if rows were in the order of time."""
        low, high = 1, self._newest + 1
        while low < high:
            middle = (low + high) // 2
            found = self._connection.execute(
                "SELECT at FROM messages WHERE id >= ? ORDER BY id LIMIT 1", (middle,)
            ).get
            if found is not None and found < at:
                low = middle + 1
            else:
                high = middle
        return low
