"""Finding and listing sessions in SQLite, always along an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from clew.core.ids import SHORTEST_ENDING, id_ending, id_prefix, shortest_prefix
from clew.core.session import OWNER, Session, SessionFilter, SessionPage
from clew.core.text import fold
from clew.store.cursors import check_limit, make_cursor, read_cursor
from clew.store.rows import SESSION_COLUMNS, session_from, text
from clew.store.sqlite.connection import Row, fetch, fetch_one
from clew.store.sqlite.database import Database

MAX_LIMIT = 1000

IS_ARCHIVED = "(archived_at IS NOT NULL)"
"""As the indexes spell it."""

# The index has the last four digits; of those few sessions each is looked at.
ENDINGS = f"""
SELECT {SESSION_COLUMNS} FROM sessions
WHERE substr(id, -4) = ?1 AND substr(id, -length(?2)) = ?2 AND deleted_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT ?3
"""

KEYS = f"""
SELECT {SESSION_COLUMNS} FROM sessions WHERE key = ? AND deleted_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT ?
"""


class SqliteListing:
    """The reading half of `ports.Sessions`."""

    _db: Database

    async def find_sessions(self, prefix: str, *, limit: int = 10) -> tuple[Session, ...]:
        """See `ports.Sessions`."""
        start = id_prefix(prefix)
        if start is None:
            return ()
        sql = f"""SELECT {SESSION_COLUMNS} FROM sessions
            WHERE id >= ? AND id < ? AND deleted_at IS NULL
            ORDER BY updated_at DESC, id DESC LIMIT ?"""
        # "g" comes after every hexadecimal digit and the hyphen.
        return await self._select(sql, (start, start + "g", check_limit(limit)))

    async def find_titles(self, title: str, *, limit: int = 10) -> tuple[Session, ...]:
        """See `ports.Sessions`."""
        sql = f"""SELECT {SESSION_COLUMNS} FROM sessions
            WHERE title_key = ? AND deleted_at IS NULL ORDER BY updated_at DESC, id DESC LIMIT ?"""
        return await self._select(sql, (text(fold(title.strip())), check_limit(limit)))

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
        def job(connection: apsw.Connection) -> tuple[Session, ...]:
            return tuple(map(session_from, connection.execute(sql, bindings)))

        return await self._db.read(job)

    async def shorten_ids(self, ids: Sequence[str]) -> dict[str, str]:
        """See `ports.Sessions`."""
        sql = """SELECT (SELECT max(id) FROM sessions WHERE id < ?1),
                        (SELECT min(id) FROM sessions WHERE id > ?1)"""

        def job(connection: apsw.Connection) -> dict[str, str]:
            return {
                each: shortest_prefix(each, *fetch_one(connection, sql, (text(each),)) or ())
                for each in ids
            }

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

        def job(connection: apsw.Connection) -> SessionPage:
            found: list[Row] = []
            for archived in states:
                sql, bindings = list_query(where, archived=archived, after=after)
                found += fetch(connection, sql, (*bindings, limit + 1))
            position = _trash_position if where.trashed else _position
            sessions = list(map(session_from, found))
            if len(states) > 1:
                sessions.sort(key=position, reverse=True)
            page = tuple(sessions[:limit])
            more = len(sessions) > limit
            return SessionPage(page, make_cursor(position(page[-1])) if more else None)

        return await self._db.read(job)

    async def count_sessions(self, where: SessionFilter) -> int:
        """See `ports.Sessions`."""
        conditions, bindings = _conditions(where, archived=where.archived)
        sql = f"SELECT count(*) FROM sessions WHERE {' AND '.join(conditions)}"
        return await self._db.read(lambda connection: int(connection.execute(sql, bindings).get))


def _conditions(where: SessionFilter, *, archived: bool | None) -> tuple[list[str], list[Any]]:
    if where.trashed:
        conditions = ["deleted_at IS NOT NULL", "purged_at IS NULL"]
    else:
        conditions = ["deleted_at IS NULL"]
        if archived is not None:
            conditions.append(f"{IS_ARCHIVED} = {int(archived)}")
    bindings: list[Any] = []
    if where.viewer != OWNER:
        conditions += ["person = ?", f"person <> '{OWNER}'"]
        bindings.append(text(where.viewer))
    for column in ("platform", "agent", "kind", "cwd", "project"):
        value = getattr(where, column)
        if value is not None:
            conditions.append(f"{column} = ?")
            bindings.append(text(value))
    if where.active_since is not None:
        conditions.append("updated_at >= ?")
        bindings.append(where.active_since)
    if where.text:
        conditions.append("(instr(title_key, ?) OR instr(clew_fold(preview), ?))")
        bindings += [text(fold(where.text))] * 2
    return conditions, bindings


def list_query(
    where: SessionFilter,
    *,
    archived: bool,
    after: tuple[int, int, str] | None,
    columns: str = SESSION_COLUMNS,
) -> tuple[str, list[Any]]:
    """The query of a page, all but its limit; it walks along one of the indexes."""
    conditions, bindings = _conditions(where, archived=archived)
    order = ("deleted_at", "id") if where.trashed else ("pinned", "updated_at", "id")
    if after is not None:
        conditions.append(f"({', '.join(order)}) < ({', '.join('?' * len(order))})")
        bindings += after[-len(order) :]
    sql = f"""SELECT {columns} FROM sessions WHERE {" AND ".join(conditions)}
        ORDER BY {" DESC, ".join(order)} DESC LIMIT ?"""
    return sql, bindings


def _position(session: Session) -> tuple[int, int, str]:
    return (int(session.pinned), session.updated_at, session.id)


def _trash_position(session: Session) -> tuple[int, int, str]:
    return (0, session.deleted_at or 0, session.id)
