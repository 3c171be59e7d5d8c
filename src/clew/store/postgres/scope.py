"""The filters of a search, as conditions and as ranges of rows.

Conditions alone would be right. The ranges make it fast: the newest rows are searched first, and
the rows of an old or rare session are looked up directly.
"""

from __future__ import annotations

from collections.abc import Iterator

from clew.core.search.hits import SearchFilter
from clew.store.postgres.connection import Connection
from clew.store.work.search import (
    Bindings,
    find_few_segments,
    message_conditions,
    session_conditions,
)
from clew.store.work.thread import Segment

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


class Scope:
    """The filters of one search, in one transaction. `s` is the session, `m` the message."""

    def __init__(self, where: SearchFilter, newest: int, parts: list[Segment] | None) -> None:
        self._where = where
        self._newest = newest
        self._parts = parts

    @classmethod
    async def find(cls, connection: Connection, where: SearchFilter, newest: int) -> Scope:
        """The scope of these filters at this moment."""
        return cls(where, newest, await find_few_segments(connection, where))

    def conditions(self, bindings: Bindings) -> list[str]:
        """The conditions on a message and its session."""
        conditions = [
            _LIVING,
            *session_conditions(self._where, bindings),
            *message_conditions(self._where, bindings),
        ]
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
        # put in other places is found in the rest.
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


async def _first_at(connection: Connection, at: int, newest: int) -> int:
    ((row,),) = await connection.fetch(_FIRST_AT, (at, newest))
    return int(row)
