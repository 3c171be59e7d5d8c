"""Sessions at a glance in SQLite: all their names, and what goes on in a few."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from clew.core.overview import NamePage, SessionState, state_of
from clew.core.session import SessionFilter
from clew.store.cursors import check_limit, read_cursor
from clew.store.overview import MAX_NAMES, name_page
from clew.store.rows import NAME_COLUMNS
from clew.store.sqlite.connection import Row, fetch
from clew.store.sqlite.database import Database, snapshot
from clew.store.sqlite.holds import among, living_attachments, living_leases
from clew.store.sqlite.listing import list_query

# A question that was asked in an unfinished turn and waits for its answer.
NEWEST_TURNS = """
SELECT s.id, t.status, u.turn_id IS NOT NULL, t.ended_at IS NULL AND EXISTS (
  SELECT 1 FROM approvals a
  WHERE a.session_id = s.id AND a.turn_id = t.id AND a.decision IS NULL AND a.expires_at > ?2)
FROM json_each(?1) wanted CROSS JOIN sessions s ON s.id = wanted.value
LEFT JOIN turns t ON t.rowid =
  (SELECT rowid FROM turns WHERE session_id = s.id ORDER BY rowid DESC LIMIT 1)
LEFT JOIN undone u ON u.session_id = s.id AND u.turn_id = t.id
WHERE s.purged_at IS NULL
"""


class SqliteOverview:
    """What `ports.Sessions` has for a person who picks one."""

    _db: Database

    async def list_names(
        self, where: SessionFilter, *, limit: int = 2000, cursor: str | None = None
    ) -> NamePage:
        """See `ports.Sessions`."""
        limit = min(check_limit(limit), MAX_NAMES)
        if limit == 0:
            return NamePage(())
        after = None if cursor is None else read_cursor(cursor, tuple[int, int, str])
        # Active and archived sessions have an index each: asked for both, two lists are merged.
        both = where.archived is None and not where.trashed
        states = (False, True) if both else (bool(where.archived),)

        def job(connection: apsw.Connection) -> NamePage:
            lists: list[list[Row]] = []
            for archived in states:
                sql, bindings = list_query(
                    where, archived=archived, after=after, columns=NAME_COLUMNS
                )
                lists.append(fetch(connection, sql, (*bindings, limit + 1)))
            return name_page(where, lists, limit)

        return await self._db.read(snapshot(job) if both else job)

    async def list_states(self, ids: Sequence[str]) -> dict[str, SessionState]:
        """See `ports.Sessions`."""

        def job(connection: apsw.Connection) -> dict[str, SessionState]:
            wanted = (among(ids), self._db.clock())
            newest = fetch(connection, NEWEST_TURNS, wanted)
            leases = living_leases(connection, self._db, ids)
            attachments = living_attachments(connection, self._db, ids)
            return {
                each: state_of(
                    status,
                    is_leased=each in leases,
                    is_asking=asking == 1,
                    is_undone=undone == 1,
                    attachment=attachments.get(each),
                )
                for each, status, undone, asking in newest
            }

        return await self._db.read(snapshot(job))
