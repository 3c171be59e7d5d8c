"""The filters of a search, as conditions and as ranges of rows.

Conditions alone would be right. The ranges make it fast: the newest rows are searched first, and
the rows of an old or rare session are gone to directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clew.core.search.hits import SearchFilter
from clew.core.session import OWNER, may_see
from clew.errors import SessionNotFound
from clew.store.postgres.connection import Connection
from clew.store.rows import text
from clew.store.work.sessions import get
from clew.store.work.thread import Stretch, read_line

FEW_SESSIONS = 64
FEW_MESSAGES = 50_000
"""Filters that leave at most so many sessions, and messages in them, are searched by their rows."""

WINDOWS = (10_000, 100_000)
"""Sizes of the first ranges, from the newest row on; then all the rest."""

# Forks may still have messages of a deleted session; the ranking looks at each.
_LIVING = """(s.deleted_at IS NULL
  OR EXISTS (SELECT 1 FROM sessions child WHERE child.parent_id = s.id))"""

# About the first row of a time or later, as if rows were in the order of time.
_FIRST_AT = """
WITH RECURSIVE halving AS (
  SELECT 1::bigint AS low, $2::bigint + 1 AS high
  UNION ALL
  SELECT CASE WHEN at < $1 THEN middle + 1 ELSE low END, CASE WHEN at < $1 THEN high ELSE middle END
  FROM (
    SELECT low, high, (low + high) / 2 AS middle,
      (SELECT at FROM messages WHERE id >= (low + high) / 2 ORDER BY id LIMIT 1) AS at
    FROM halving WHERE low < high
  ) AS half
)
SELECT max(low) FROM halving WHERE low >= high
"""


class Bindings:
    """The values of a statement that is composed; `bind` numbers them."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def bind(self, value: object) -> str:
        """Add a value; returns its mark in the statement."""
        self.values.append(value)
        return f"${len(self.values)}"


class Scope:
    """The filters of one search, in one transaction. `s` is the session, `m` the message."""

    def __init__(self, where: SearchFilter, newest: int, parts: list[Stretch] | None) -> None:
        self._where = where
        self._newest = newest
        self._parts = parts

    @classmethod
    async def find(cls, connection: Connection, where: SearchFilter, newest: int) -> Scope:
        """The scope of these filters at this moment."""
        return cls(where, newest, await _few_parts(connection, where))

    def conditions(self, bindings: Bindings) -> list[str]:
        """The conditions on a message and its session."""
        conditions = [_LIVING, *_about_sessions(self._where, bindings)]
        if self._where.role is not None:
            conditions.append(f"m.role = {bindings.bind(text(self._where.role))}")
        for comparison, value in ((">=", self._where.since), ("<=", self._where.until)):
            if value is not None:
                conditions.append(f"m.at {comparison} {bindings.bind(value)}")
        if self._parts is not None:
            choices = [
                f"(m.session_id = {bindings.bind(part.session_id)}"
                f" AND m.seq > {bindings.bind(part.low)} AND m.seq <= {bindings.bind(part.high)})"
                for part in self._parts
            ]
            conditions.append(f"({' OR '.join(choices) or 'false'})")
        return conditions

    async def zones(self, connection: Connection) -> list[tuple[int, int]]:
        """Ranges of rows to look through, in this order. Together they miss nothing."""
        newest, since, until = self._newest, self._where.since, self._where.until
        if self._parts is not None:
            return [(1, newest)]
        # Rows are mostly in the order of time. Where they should be comes first; what an import
        # put elsewhere is found in the rest.
        low = 1 if since is None else await _first_at(connection, since, newest)
        high = newest if until is None else await _first_at(connection, until + 1, newest) - 1
        zones = [*_windows(low, high)]
        if high < newest:
            zones.append((max(low, high + 1), newest))
        if low > 1:
            zones.append((1, low - 1))
        return zones


def _windows(low: int, high: int) -> Iterator[tuple[int, int]]:
    for size in WINDOWS:
        if high - size > low:
            yield high - size + 1, high
            high -= size
    yield low, high


def _about_sessions(where: SearchFilter, bindings: Bindings) -> list[str]:
    conditions: list[str] = []
    if where.viewer != OWNER:
        viewer = bindings.bind(text(where.viewer))
        conditions += [f"s.person = {viewer}", f"s.person <> '{OWNER}'"]
    for column in ("platform", "agent", "cwd", "project"):
        value = getattr(where, column)
        if value is not None:
            conditions.append(f"s.{column} = {bindings.bind(text(value))}")
    return conditions


async def _few_parts(connection: Connection, where: SearchFilter) -> list[Stretch] | None:
    """The stretches of the sessions that the filters leave; None if they are too many."""
    if where.session is not None:
        if not may_see(where.viewer, (await get(connection, where.session)).person):
            raise SessionNotFound(where.session)
        return list((await read_line(connection, where.session)).stretches)
    bindings = Bindings()
    conditions = _about_sessions(where, bindings)
    if not conditions:
        return None
    rows = await connection.fetch(
        f"""SELECT s.id FROM sessions s
            WHERE s.deleted_at IS NULL AND {" AND ".join(conditions)} LIMIT {FEW_SESSIONS + 1}""",
        tuple(bindings.values),
    )
    if len(rows) > FEW_SESSIONS:
        return None
    parts = {part for (each,) in rows for part in (await read_line(connection, each)).stretches}
    few = sum(part.high - part.low for part in parts) <= FEW_MESSAGES
    return list(parts) if few and len(parts) <= 2 * FEW_SESSIONS else None


async def _first_at(connection: Connection, at: int, newest: int) -> int:
    ((row,),) = await connection.fetch(_FIRST_AT, (at, newest))
    return int(row)
