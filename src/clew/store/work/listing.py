"""Finds and lists sessions, always by an index; their names, states and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.core.keys import SHORTEST_ENDING, id_ending, id_prefix, shortest_prefix
from clew.core.names import recent_name
from clew.core.session import (
    OWNER,
    NamePage,
    Session,
    SessionFilter,
    SessionPage,
    SessionState,
    StoreStats,
    state_of,
)
from clew.core.text import decode_text, fold
from clew.core.turn import Attachment, Lease
from clew.store.presence import process_of
from clew.store.rows import (
    NAME_COLUMNS,
    SESSION_COLUMNS,
    Row,
    check_limit,
    make_cursor,
    name_place,
    names_from,
    plain,
    read_cursor,
    sessions_from,
    text,
)
from clew.store.work.leases import identity_of, living_attachments, living_leases
from clew.store.work.transaction import Dialect, Engine, Transaction

MAX_SESSIONS = 1000
MAX_NAMES = 5000
"""The longest pages: building one blocks other threads."""

Place = tuple[int, int, str]
"""The position of a session in a list: pinned, time, id."""

IS_ARCHIVED = "(archived_at IS NOT NULL)"
"""Written exactly as in SQLite's indexes."""

_PREFIXES = f"""
SELECT {SESSION_COLUMNS} FROM sessions WHERE id >= $1 AND id < $2 AND deleted_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT $3
"""

_TITLES = f"""
SELECT {SESSION_COLUMNS} FROM sessions WHERE title_key = $1 AND deleted_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT $2
"""

# The index has the last four digits; the few sessions with these are compared in full.
ENDINGS = f"""
SELECT {SESSION_COLUMNS} FROM sessions
WHERE {{id_ending}} = $1 AND id LIKE $2 AND deleted_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT $3
"""

KEYS = f"""
SELECT {SESSION_COLUMNS} FROM sessions WHERE key = $1 AND deleted_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT $2
"""

_NEIGHBOURS = """
SELECT wanted.id, (SELECT max(id) FROM sessions WHERE sessions.id < wanted.id),
  (SELECT min(id) FROM sessions WHERE sessions.id > wanted.id)
FROM {wanted_ids}
"""

_NAMES = """
SELECT s.id, s.title, s.short_summary, s.preview FROM {wanted_ids} CROSS JOIN sessions s
WHERE s.id = wanted.id AND s.purged_at IS NULL
"""

# The last column: whether an unfinished turn waits for an approval.
_NEWEST_TURNS = """
SELECT s.id, t.status, u.turn_id IS NOT NULL, t.ended_at IS NULL AND EXISTS (
  SELECT 1 FROM approvals a
  WHERE a.session_id = s.id AND a.turn_id = t.id AND a.decision IS NULL AND a.expires_at > $2)
FROM {wanted_ids} CROSS JOIN sessions s {newest_turn}
LEFT JOIN undone u ON u.session_id = s.id AND u.turn_id = t.id AND u.ended IS NULL
WHERE s.id = wanted.id AND s.purged_at IS NULL
"""

_STATS = """
SELECT count(*) FILTER (WHERE deleted_at IS NULL AND archived_at IS NULL),
  count(*) FILTER (WHERE deleted_at IS NULL AND archived_at IS NOT NULL),
  count(*) FILTER (WHERE deleted_at IS NOT NULL AND purged_at IS NULL),
  (SELECT count(*) FROM messages), CAST(coalesce(sum(content_bytes), 0) AS bigint),
  {store_size}, min(created_at), max(updated_at)
FROM sessions
"""

_PLATFORMS = """
SELECT platform, count(*) FROM sessions WHERE deleted_at IS NULL
GROUP BY platform ORDER BY count(*) DESC, platform
"""


class SharedListing:
    """The part of `ports.Sessions` that finds and lists, and `ports.Store.stats`."""

    _engine: Engine

    async def find_sessions(self, prefix: str, *, limit: int = 10) -> tuple[Session, ...]:
        """See `ports.Sessions`."""
        start = id_prefix(prefix)
        if start is None:
            return ()
        # "g" comes after every hexadecimal digit and the hyphen.
        return await self._select(_PREFIXES, (start, start + "g", check_limit(limit)))

    async def find_titles(self, title: str, *, limit: int = 10) -> tuple[Session, ...]:
        """See `ports.Sessions`."""
        return await self._select(_TITLES, (text(fold(title.strip())), check_limit(limit)))

    async def find_endings(self, ending: str, *, limit: int = 10) -> tuple[Session, ...]:
        """See `ports.Sessions`."""
        end = id_ending(ending)
        if end is None:
            return ()
        sql = ENDINGS.format(id_ending=self._engine.dialect.id_ending)
        return await self._select(sql, (end[-SHORTEST_ENDING:], f"%{end}", check_limit(limit)))

    async def find_keys(self, key: str, *, limit: int = 10) -> tuple[Session, ...]:
        """See `ports.Sessions`."""
        return await self._select(KEYS, (text(key), check_limit(limit)))

    async def _select(self, sql: str, bindings: Row) -> tuple[Session, ...]:
        async def work(tx: Transaction) -> tuple[Session, ...]:
            return tuple(sessions_from(await tx.fetch(sql, bindings)))

        return await self._engine.read(work)

    async def shorten_ids(self, ids: Sequence[str]) -> dict[str, str]:
        """See `ports.Sessions`."""
        stored = {text(each): each for each in ids}
        sql = _NEIGHBOURS.format(wanted_ids=self._engine.dialect.wanted_ids)
        rows = await self._engine.read(lambda tx: tx.fetch(sql, (list(stored),)))
        return {stored[each]: shortest_prefix(stored[each], *near) for each, *near in rows}

    async def get_names(self, ids: Sequence[str]) -> dict[str, str]:
        """See `ports.Sessions`."""
        stored = {text(each): each for each in ids}
        sql = _NAMES.format(wanted_ids=self._engine.dialect.wanted_ids)
        rows = await self._engine.read(lambda tx: tx.fetch(sql, (list(stored),)))
        return {
            stored[each]: recent_name(plain(title), plain(summary), plain(preview), stored[each])
            for each, title, summary, preview in rows
        }

    async def list_sessions(
        self, where: SessionFilter, *, limit: int = 20, cursor: str | None = None
    ) -> SessionPage:
        """See `ports.Sessions`."""
        limit = min(check_limit(limit), MAX_SESSIONS)
        if limit == 0:
            return SessionPage(())
        after = None if cursor is None else read_cursor(cursor, tuple[int, int, str])

        async def work(tx: Transaction) -> SessionPage:
            lists = await self._fetch_lists(tx, where, after, limit + 1, SESSION_COLUMNS)
            return _session_page(where, lists, limit)

        return await (self._engine.snapshot if _is_both(where) else self._engine.read)(work)

    async def count_sessions(self, where: SessionFilter) -> int:
        """See `ports.Sessions`."""
        dialect = self._engine.dialect
        conditions, bindings = _conditions(dialect, where, archived=where.archived)
        sql = f"SELECT count(*) FROM sessions WHERE {' AND '.join(conditions)}"
        ((count,),) = await self._engine.read(lambda tx: tx.fetch(sql, tuple(bindings)))
        return int(count)

    async def list_names(
        self, where: SessionFilter, *, limit: int = 2000, cursor: str | None = None
    ) -> NamePage:
        """See `ports.Sessions`."""
        limit = min(check_limit(limit), MAX_NAMES)
        if limit == 0:
            return NamePage(())
        after = None if cursor is None else read_cursor(cursor, tuple[int, int, str])

        async def work(tx: Transaction) -> NamePage:
            lists = await self._fetch_lists(tx, where, after, limit + 1, NAME_COLUMNS)
            return _name_page(where, lists, limit)

        return await (self._engine.snapshot if _is_both(where) else self._engine.read)(work)

    async def _fetch_lists(
        self, tx: Transaction, where: SessionFilter, after: Place | None, limit: int, columns: str
    ) -> list[list[Row]]:
        """The lists that a page is merged from: active and archived sessions have own indexes."""
        states = (False, True) if _is_both(where) else (bool(where.archived),)
        lists = []
        for archived in states:
            sql, bindings = list_query(
                self._engine.dialect,
                where,
                archived=archived,
                after=after,
                limit=limit,
                columns=columns,
            )
            lists.append(await tx.fetch(sql, bindings))
        return lists

    async def list_states(self, ids: Sequence[str]) -> dict[str, SessionState]:
        """See `ports.Sessions`."""
        engine = self._engine
        stored = [text(each) for each in ids]
        sql = _NEWEST_TURNS.format(
            wanted_ids=engine.dialect.wanted_ids, newest_turn=engine.dialect.newest_turn
        )

        async def work(
            tx: Transaction,
        ) -> tuple[list[Row], dict[str, Lease], dict[str, Attachment]]:
            now = await tx.now()
            newest = await tx.fetch(sql, (stored, now))
            leases = await living_leases(engine, tx, now, ids)
            return newest, leases, await living_attachments(engine, tx, ids)

        newest, leases, attachments = await engine.snapshot(work)
        holders = [each.holder for each in leases.values()]
        dead = await engine.find_dead([*holders, *map(identity_of, attachments.values())])
        leased = {each for each, lease in leases.items() if process_of(lease.holder) not in dead}
        attached = {each: hold for each, hold in attachments.items() if hold.process not in dead}
        return {
            each: state_of(
                status,
                is_leased=each in leased,
                is_asking=bool(asking),
                is_undone=bool(undone),
                attachment=attached.get(each),
            )
            for each, status, undone, asking in newest
        }

    async def stats(self) -> StoreStats:
        """See `ports.Store`."""
        sql = _STATS.format(store_size=self._engine.dialect.store_size)

        async def work(tx: Transaction) -> StoreStats:
            (
                (sessions, archived, trashed, messages, size, taken, oldest, newest),
            ) = await tx.fetch(sql)
            platforms = await tx.fetch(_PLATFORMS)
            return StoreStats(
                sessions=sessions,
                archived=archived,
                trashed=trashed,
                messages=messages,
                content_bytes=size,
                file_bytes=taken,
                platforms={decode_text(name): count for name, count in platforms},
                oldest_at=oldest,
                newest_at=newest,
            )

        return await self._engine.snapshot(work)


def list_query(
    dialect: Dialect,
    where: SessionFilter,
    *,
    archived: bool,
    after: Place | None,
    limit: int,
    columns: str = SESSION_COLUMNS,
) -> tuple[str, Row]:
    """The query of a page; it uses one of the indexes."""
    conditions, bindings = _conditions(dialect, where, archived=archived)
    order = ("deleted_at", "id") if where.trashed else ("pinned", "updated_at", "id")
    if after is not None:
        place = after[1:] if where.trashed else (bool(after[0]), *after[1:])
        marks = ", ".join(f"${len(bindings) + at}" for at in range(1, len(order) + 1))
        conditions.append(f"({', '.join(order)}) < ({marks})")
        bindings += place
    sql = f"""SELECT {columns} FROM sessions WHERE {" AND ".join(conditions)}
        ORDER BY {" DESC, ".join(order)} DESC LIMIT {limit}"""
    return sql, tuple(bindings)


def _conditions(
    dialect: Dialect, where: SessionFilter, *, archived: bool | None
) -> tuple[list[str], list[Any]]:
    bindings: list[Any] = []

    def bind(value: object) -> str:
        bindings.append(value)
        return f"${len(bindings)}"

    if where.trashed:
        conditions = ["deleted_at IS NOT NULL", "purged_at IS NULL"]
    else:
        conditions = ["deleted_at IS NULL"]
        if archived is not None:
            conditions.append(f"{IS_ARCHIVED} = {archived}")
    if where.viewer != OWNER:
        conditions += [f"person = {bind(text(where.viewer))}", f"person <> '{OWNER}'"]
    for column in ("platform", "agent", "kind", "cwd", "project"):
        value = getattr(where, column)
        if value is not None:
            conditions.append(f"{column} = {bind(text(value))}")
    if where.active_since is not None:
        conditions.append(f"updated_at >= {bind(where.active_since)}")
    if where.text:
        conditions.append(dialect.contains_text.format(bind(text(fold(where.text)))))
    return conditions, bindings


def _is_both(where: SessionFilter) -> bool:
    """Whether a list has both active and archived sessions."""
    return where.archived is None and not where.trashed


def _session_page(where: SessionFilter, lists: list[list[Row]], limit: int) -> SessionPage:
    """Merge lists into a page. Each list has one row more than fits, if there are more."""
    rows = [row for each in lists for row in each]
    place = _trash_place if where.trashed else _place
    sessions = sessions_from(rows if len(lists) > 1 else rows[:limit])
    if len(lists) > 1:
        sessions.sort(key=place, reverse=True)
    page = tuple(sessions[:limit])
    return SessionPage(page, make_cursor(place(page[-1])) if len(rows) > limit else None)


def _place(session: Session) -> Place:
    return (int(session.pinned), session.updated_at, session.id)


def _trash_place(session: Session) -> Place:
    return (0, session.deleted_at or 0, session.id)


def _name_page(where: SessionFilter, lists: list[list[Row]], limit: int) -> NamePage:
    """The same for names; sorted as rows, because there are many."""

    def place(row: Row) -> Place:
        return name_place(row, trashed=where.trashed)

    rows = [row for each in lists for row in each]
    if len(lists) > 1:
        rows.sort(key=place, reverse=True)
    more = len(rows) > limit
    return NamePage(names_from(rows[:limit]), make_cursor(place(rows[limit - 1])) if more else None)
