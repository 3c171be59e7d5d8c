"""Sessions at a glance in PostgreSQL: all their names, and what goes on in a few."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.overview import NamePage, SessionState, state_of
from clew.core.session import SessionFilter
from clew.core.turn import Attachment
from clew.store.cursors import check_limit, read_cursor
from clew.store.overview import MAX_NAMES, name_page
from clew.store.postgres.connection import Connection, fetch
from clew.store.postgres.database import Database
from clew.store.postgres.holds import living_holds
from clew.store.postgres.listing import list_query
from clew.store.postgres.presence import process_of
from clew.store.rows import NAME_COLUMNS, Row, text

# A question that was asked in an unfinished turn and waits for its answer.
NEWEST_TURNS = """
SELECT s.id, t.status, u.turn_id IS NOT NULL, t.ended_at IS NULL AND EXISTS (
  SELECT 1 FROM approvals a
  WHERE a.session_id = s.id AND a.turn_id = t.id AND a.decision IS NULL AND a.expires_at > $2)
FROM sessions s LEFT JOIN LATERAL (
  SELECT id, status, ended_at FROM turns WHERE session_id = s.id ORDER BY ordinal DESC LIMIT 1
) t ON true
LEFT JOIN undone u ON u.session_id = s.id AND u.turn_id = t.id
WHERE s.id = ANY ($1) AND s.purged_at IS NULL
"""


class PostgresOverview:
    """What `ports.Sessions` has for a person who picks one."""

    _db: Database

    async def list_names(
        self, where: SessionFilter, *, limit: int = 2000, cursor: str | None = None
    ) -> NamePage:
        """See `ports.Sessions`."""
        self._db.check_open()
        limit = min(check_limit(limit), MAX_NAMES)
        if limit == 0:
            return NamePage(())
        after = None if cursor is None else read_cursor(cursor, tuple[int, int, str])
        # Active and archived sessions have an index each: asked for both, two lists are merged.
        both = where.archived is None and not where.trashed
        states = (False, True) if both else (bool(where.archived),)

        async def job(connection: Connection) -> NamePage:
            lists: list[list[Row]] = []
            for archived in states:
                sql, bindings = list_query(
                    where, archived=archived, after=after, limit=limit + 1, columns=NAME_COLUMNS
                )
                lists.append(await connection.fetch(sql, bindings, binary=True))
            return name_page(where, lists, limit)

        return await (self._db.snapshot(job) if both else self._db.read(job))

    async def list_states(self, ids: Sequence[str]) -> dict[str, SessionState]:
        """See `ports.Sessions`."""
        stored = [text(each) for each in ids]

        async def job(
            connection: Connection,
        ) -> tuple[list[Row], dict[str, str], dict[str, Attachment]]:
            now = await self._db.now(connection)
            newest = await fetch(connection, NEWEST_TURNS, (stored, now))
            return newest, *await living_holds(connection, now, stored)

        newest, leases, attachments = await self._db.snapshot(job)
        holders = [*leases.values(), *(f"{a.process}@{a.host}" for a in attachments.values())]
        dead = await self._db.find_dead(holders)
        return {
            each: state_of(
                status,
                is_leased=each in leases and process_of(leases[each]) not in dead,
                is_asking=bool(asking),
                is_undone=undone,
                attachment=_unless_dead(attachments.get(each), dead),
            )
            for each, status, undone, asking in newest
        }


def _unless_dead(attachment: Attachment | None, dead: set[str]) -> Attachment | None:
    return None if attachment is None or attachment.process in dead else attachment
