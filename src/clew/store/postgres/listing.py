"""Finding and listing sessions in PostgreSQL, always along an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.core.ids import SHORTEST_ENDING, id_ending, id_prefix, shortest_prefix
from clew.core.session import OWNER, Session, SessionFilter, SessionPage
from clew.core.text import fold
from clew.store.cursors import check_limit, make_cursor, read_cursor
from clew.store.postgres.connection import Connection, fetch
from clew.store.postgres.database import Database
from clew.store.rows import SESSION_COLUMNS, Row, sessions_from, text

MAX_LIMIT = 1000

PREFIXES = f"""
SELECT {SESSION_COLUMNS} FROM sessions WHERE id >= $1 AND id < $2 AND deleted_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT $3
"""

TITLES = f"""
SELECT {SESSION_COLUMNS} FROM sessions WHERE title_key = $1 AND deleted_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT $2
"""

# The index has the last four digits; of those few sessions each is looked at.
ENDINGS = f"""
SELECT {SESSION_COLUMNS} FROM sessions
WHERE right(id, 4) = $1 AND right(id, length($2)) = $2 AND deleted_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT $3
"""

KEYS = f"""
SELECT {SESSION_COLUMNS} FROM sessions WHERE key = $1 AND deleted_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT $2
"""

NEIGHBOURS = """
SELECT each, (SELECT max(id) FROM sessions WHERE id < each COLLATE "C"),
  (SELECT min(id) FROM sessions WHERE id > each COLLATE "C")
FROM unnest($1::text[]) AS each
"""


class PostgresListing:
    """The reading half of `ports.Sessions`."""

    _db: Database

    async def find_sessions(self, prefix: str, *, limit: int = 10) -> tuple[Session, ...]:
        """See `ports.Sessions`."""
        self._db.check_open()
        start = id_prefix(prefix)
        if start is None:
            return ()
        # "g" comes after every hexadecimal digit and the hyphen.
        return await self._select(PREFIXES, (start, start + "g", check_limit(limit)))

    async def find_titles(self, title: str, *, limit: int = 10) -> tuple[Session, ...]:
        """See `ports.Sessions`."""
        return await self._select(TITLES, (text(fold(title.strip())), check_limit(limit)))

    async def find_endings(self, ending: str, *, limit: int = 10) -> tuple[Session, ...]:
        """See `ports.Sessions`."""
        end = id_ending(ending)
        if end is None:
            return ()
        return await self._select(ENDINGS, (end[-SHORTEST_ENDING:], end, check_limit(limit)))

    async def find_keys(self, key: str, *, limit: int = 10) -> tuple[Session, ...]:
        """See `ports.Sessions`."""
        return await self._select(KEYS, (text(key), check_limit(limit)))

    async def _select(self, sql: str, bindings: Row) -> tuple[Session, ...]:
        async def job(connection: Connection) -> tuple[Session, ...]:
            return tuple(sessions_from(await fetch(connection, sql, bindings)))

        return await self._db.read(job)

    async def shorten_ids(self, ids: Sequence[str]) -> dict[str, str]:
        """See `ports.Sessions`."""
        stored = {text(each): each for each in ids}

        async def job(connection: Connection) -> dict[str, str]:
            rows = await fetch(connection, NEIGHBOURS, (list(stored),))
            return {stored[each]: shortest_prefix(stored[each], *near) for each, *near in rows}

        return await self._db.read(job)

    async def list_sessions(
        self, where: SessionFilter, *, limit: int = 20, cursor: str | None = None
    ) -> SessionPage:
        """See `ports.Sessions`."""
        limit = min(check_limit(limit), MAX_LIMIT)
        if limit == 0:
            return SessionPage(())
        after = None if cursor is None else read_cursor(cursor, tuple[int, int, str])
        # Active and archived sessions have an index each: asked for both, two lists are merged.
        both = where.archived is None and not where.trashed
        states = (False, True) if both else (bool(where.archived),)

        async def job(connection: Connection) -> SessionPage:
            found: list[Row] = []
            for archived in states:
                sql, bindings = list_query(where, archived=archived, after=after, limit=limit + 1)
                found += await connection.fetch(sql, bindings, binary=True)
            position = _trash_position if where.trashed else _position
            sessions = sessions_from(found if both else found[:limit])
            if both:
                sessions.sort(key=position, reverse=True)
            page = tuple(sessions[:limit])
            more = len(found) > limit
            return SessionPage(page, make_cursor(position(page[-1])) if more else None)

        return await (self._db.snapshot(job) if both else self._db.read(job))

    async def count_sessions(self, where: SessionFilter) -> int:
        """See `ports.Sessions`."""
        conditions, bindings = _conditions(where, archived=where.archived)
        sql = f"SELECT count(*) FROM sessions WHERE {' AND '.join(conditions)}"

        async def job(connection: Connection) -> int:
            ((count,),) = await fetch(connection, sql, tuple(bindings))
            return int(count)

        return await self._db.read(job)


def _conditions(where: SessionFilter, *, archived: bool | None) -> tuple[list[str], list[Any]]:
    bindings: list[Any] = []

    def bind(value: object) -> str:
        bindings.append(value)
        return f"${len(bindings)}"

    if where.trashed:
        conditions = ["deleted_at IS NOT NULL", "purged_at IS NULL"]
    else:
        conditions = ["deleted_at IS NULL"]
        if archived is not None:
            conditions.append(f"archived_at IS {'NOT ' * archived}NULL")
    if where.viewer != OWNER:
        conditions += [f"person = {bind(text(where.viewer))}", f"person <> '{OWNER}'"]
    for column in ("platform", "agent", "kind", "cwd", "project"):
        value = getattr(where, column)
        if value is not None:
            conditions.append(f"{column} = {bind(text(value))}")
    if where.active_since is not None:
        conditions.append(f"updated_at >= {bind(where.active_since)}")
    if where.text:
        fragment = bind(text(fold(where.text)))
        conditions.append(
            f"(strpos(title_key, {fragment}) > 0 OR strpos(preview_key, {fragment}) > 0)"
        )
    return conditions, bindings


def list_query(
    where: SessionFilter,
    *,
    archived: bool,
    after: tuple[int, int, str] | None,
    limit: int,
    columns: str = SESSION_COLUMNS,
) -> tuple[str, Row]:
    """The query of a page; it walks along one of the indexes."""
    conditions, bindings = _conditions(where, archived=archived)
    order = ("deleted_at", "id") if where.trashed else ("pinned", "updated_at", "id")
    if after is not None:
        place = after[1:] if where.trashed else (bool(after[0]), *after[1:])
        marks = ", ".join(f"${len(bindings) + at}" for at in range(1, len(order) + 1))
        conditions.append(f"({', '.join(order)}) < ({marks})")
        bindings += place
    sql = f"""SELECT {columns} FROM sessions WHERE {" AND ".join(conditions)}
        ORDER BY {" DESC, ".join(order)} DESC LIMIT {limit}"""
    return sql, tuple(bindings)


def _position(session: Session) -> tuple[int, int, str]:
    return (int(session.pinned), session.updated_at, session.id)


def _trash_position(session: Session) -> tuple[int, int, str]:
    return (0, session.deleted_at or 0, session.id)
