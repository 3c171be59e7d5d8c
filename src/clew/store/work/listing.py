"""Finds and lists sessions, always by an index; their names, states and counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from clew.core.keys import SHORTEST_ENDING, id_ending, id_prefix, shortest_prefix
from clew.core.names import recent_name
from clew.core.session import (
    MAX_FACETS,
    OWNER,
    ListedState,
    NamePage,
    Session,
    SessionFacets,
    SessionFilter,
    SessionPage,
    SessionState,
    StoreStats,
    is_in_state,
    state_of,
)
from clew.core.text import decode_text, fold
from clew.core.turn import Attachment, Lease
from clew.errors import InvalidInput
from clew.store.presence import process_of
from clew.store.rows import (
    LAST_CHARACTER,
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

_NARROW = ("agent", "kind", "person", "project", "active_since", "active_until")

IS_ARCHIVED = "(archived_at IS NOT NULL)"
"""Written exactly as in SQLite's indexes."""

MAIN_AGENT = "main"
"""The agent of nearly every session: the index of agents has the others."""

STATE_PAGE = 200
"""How many sessions are looked at in one step of a list by state."""

# The sessions that may be in a state. Which of them are depends on the processes that are alive.
CANDIDATES: dict[ListedState, str] = {
    "waiting": "SELECT session_id FROM approvals WHERE decision IS NULL",
    "running": "SELECT session_id FROM turns WHERE status IN ('running', 'waiting')",
    "interrupted": """
        SELECT session_id FROM turns WHERE status IN ('running', 'waiting')
        UNION SELECT session_id FROM turns cut WHERE status = 'interrupted' AND NOT EXISTS (
          SELECT 1 FROM turns later
          WHERE later.session_id = cut.session_id AND later.ordinal > cut.ordinal)""",
    "open": "SELECT session_id FROM attachments",
}

# Steps from value to value along an index, however many sessions have the same one.
NEXT_VALUES = """
WITH RECURSIVE steps (value, step) AS (
  SELECT (SELECT min({column}) FROM sessions WHERE deleted_at IS NULL AND {condition}), 1
  UNION ALL SELECT (SELECT min({column}) FROM sessions
    WHERE deleted_at IS NULL AND {condition} AND {column} > value), step + 1
  FROM steps WHERE value IS NOT NULL AND step <= {most}
)
SELECT value FROM steps WHERE value IS NOT NULL
"""

FACETS = {
    "platform": "TRUE",
    "agent": f"agent <> '{MAIN_AGENT}'",
    "kind": "TRUE",
    "project": "project IS NOT NULL",
    "person": f"person <> '{OWNER}'",
}
"""The columns with values to filter by, and the condition of the index of each."""

_GUEST_VALUES = f"""
SELECT DISTINCT {{column}} FROM sessions
WHERE person = $1 AND person <> '{OWNER}' AND deleted_at IS NULL AND {{column}} IS NOT NULL
ORDER BY 1 LIMIT {MAX_FACETS}
"""

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
        after = None if cursor is None else read_cursor(cursor, tuple[int, int, str])
        if limit == 0:
            return SessionPage(())
        if where.state is not None:
            return await self._list_in_state(where, where.state, limit, after)
        return await self._list_page(where, limit, after)

    async def _list_page(
        self,
        where: SessionFilter,
        limit: int,
        after: Place | None,
        among: Sequence[str] | None = None,
    ) -> SessionPage:
        async def work(tx: Transaction) -> SessionPage:
            lists = await self._fetch_lists(tx, where, after, limit + 1, SESSION_COLUMNS, among)
            return _session_page(where, lists, limit)

        return await (self._engine.snapshot if _is_merged(where) else self._engine.read)(work)

    async def _list_in_state(
        self, where: SessionFilter, wanted: ListedState, limit: int, after: Place | None
    ) -> SessionPage:
        """Look at the sessions that may be in the state, until there is one more than fits."""
        among: list[str] | None = None
        if (sql := CANDIDATES.get(wanted)) is not None:
            rows = await self._engine.read(lambda tx: tx.fetch(sql))
            among = sorted({session_id for (session_id,) in rows})
        found: list[Session] = []
        while among is None or among:
            page = await self._list_page(where, STATE_PAGE, after, among)
            states = await self.list_states([each.id for each in page.sessions])
            found += [
                each
                for each in page.sessions
                if each.id in states and is_in_state(states[each.id], wanted)
            ]
            if page.cursor is None or len(found) > limit:
                break
            after = read_cursor(page.cursor, tuple[int, int, str])
        shown = tuple(found[:limit])
        place = _trash_place if where.trashed else _place
        return SessionPage(shown, make_cursor(place(shown[-1])) if len(found) > limit else None)

    async def count_sessions(self, where: SessionFilter) -> int:
        """See `ports.Sessions`."""
        _refuse_state(where)
        conditions, bindings = _conditions(self._engine.dialect, where, archived=where.archived)
        if where.pinned is not None:
            conditions.append(f"pinned = {where.pinned}")
        sql = f"SELECT count(*) FROM sessions WHERE {' AND '.join(conditions)}"
        ((count,),) = await self._engine.read(lambda tx: tx.fetch(sql, tuple(bindings)))
        return int(count)

    async def list_facets(self, viewer: str) -> SessionFacets:
        """See `ports.Sessions`."""

        async def work(tx: Transaction) -> SessionFacets:
            found = {each: await self._list_values(tx, viewer, each) for each in FACETS}
            return SessionFacets(
                platforms=found["platform"],
                agents=found["agent"],
                kinds=found["kind"],
                projects=found["project"],
                people=found["person"],
            )

        return await self._engine.snapshot(work)

    async def _list_values(self, tx: Transaction, viewer: str, column: str) -> tuple[str, ...]:
        """The values of a column; with the one that its index leaves out."""
        if viewer != OWNER:
            rows = await tx.fetch(_GUEST_VALUES.format(column=column), (text(viewer),))
            return tuple(decode_text(value) for (value,) in rows)
        values: set[str] = set()
        for sql in facet_queries(self._engine.dialect, column):
            values |= {decode_text(value) for (value,) in await tx.fetch(sql)}
        common = {"agent": MAIN_AGENT, "person": OWNER}
        if column in common:
            values.add(common[column])
        return tuple(sorted(values)[:MAX_FACETS])

    async def list_names(
        self, where: SessionFilter, *, limit: int = 2000, cursor: str | None = None
    ) -> NamePage:
        """See `ports.Sessions`."""
        _refuse_state(where)
        limit = min(check_limit(limit), MAX_NAMES)
        if limit == 0:
            return NamePage(())
        after = None if cursor is None else read_cursor(cursor, tuple[int, int, str])

        async def work(tx: Transaction) -> NamePage:
            lists = await self._fetch_lists(tx, where, after, limit + 1, NAME_COLUMNS)
            return _name_page(where, lists, limit)

        return await (self._engine.snapshot if _is_merged(where) else self._engine.read)(work)

    async def _fetch_lists(  # noqa: PLR0917  # one query of several
        self,
        tx: Transaction,
        where: SessionFilter,
        after: Place | None,
        limit: int,
        columns: str,
        among: Sequence[str] | None = None,
    ) -> list[list[Row]]:
        """The lists that a page is merged from; see `_split`."""
        lists = []
        for archived, pinned in _split(where):
            if after is not None and pinned and not after[0] and not where.trashed:
                continue  # the cursor is behind all of these
            sql, bindings = list_query(
                self._engine.dialect,
                where,
                archived=archived,
                pinned=pinned,
                after=after,
                limit=limit,
                columns=columns,
                among=among,
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


def facet_queries(dialect: Dialect, column: str) -> tuple[str, ...]:
    """The queries of the owner's values of a column, one for each index."""
    return tuple(
        NEXT_VALUES.format(column=column, condition=f"{FACETS[column]} AND {part}", most=MAX_FACETS)
        for part in dialect.listed_parts
    )


def list_query(  # a query has many parts
    dialect: Dialect,
    where: SessionFilter,
    *,
    archived: bool,
    after: Place | None,
    limit: int,
    pinned: bool | None = None,
    columns: str = SESSION_COLUMNS,
    among: Sequence[str] | None = None,
) -> tuple[str, Row]:
    """The query of a page; it uses one of the indexes, or looks up the sessions of `among`."""
    bindings: list[Any] = [] if among is None else [list(among)]
    conditions, bindings = _conditions(dialect, where, archived=archived, bindings=bindings)
    order: tuple[str, ...] = ("pinned", "updated_at", "id")
    if where.trashed:
        order = ("deleted_at", "id")
    if pinned is not None:
        conditions.append(f"pinned = {pinned}")
        order = order if where.trashed else order[1:]
    # A cursor among the pinned sessions is before all of the others.
    if after is not None and (pinned is None or where.trashed or pinned == bool(after[0])):
        place = (bool(after[0]), *after[1:])[-len(order) :]
        marks = ", ".join(f"${len(bindings) + at}" for at in range(1, len(order) + 1))
        conditions.append(f"({', '.join(order)}) < ({marks})")
        bindings += place
    source = "sessions"
    if among is not None:
        source = f"(SELECT id AS wanted_id FROM {dialect.wanted_ids}) AS asked CROSS JOIN sessions"
        conditions.append("sessions.id = wanted_id")
    sql = f"""SELECT {columns} FROM {source} WHERE {" AND ".join(conditions)}
        ORDER BY {" DESC, ".join(order)} DESC LIMIT {limit}"""
    return sql, tuple(bindings)


def _conditions(
    dialect: Dialect,
    where: SessionFilter,
    *,
    archived: bool | None,
    bindings: Sequence[Any] = (),
) -> tuple[list[str], list[Any]]:
    """The conditions of a filter, and the bindings with theirs behind the given ones."""
    bound = list(bindings)

    def bind(value: object) -> str:
        bound.append(value)
        return f"${len(bound)}"

    if where.trashed:
        conditions = ["deleted_at IS NOT NULL", "purged_at IS NULL"]
    else:
        conditions = ["deleted_at IS NULL"]
        if archived is not None:
            conditions.append(f"{IS_ARCHIVED} = {archived}")
    if where.viewer != OWNER:
        conditions += [f"person = {bind(text(where.viewer))}", f"person <> '{OWNER}'"]
    for column in ("platform", "agent", "kind", "person", "cwd", "project", "parent_id"):
        value = getattr(where, column)
        if value is not None:
            conditions.append(f"{column} = {bind(text(value))}")
    # What the indexes of agents and people leave out is said in their words.
    if where.agent not in (None, MAIN_AGENT):
        conditions.append(FACETS["agent"])
    if where.person not in (None, OWNER):
        conditions.append(FACETS["person"])
    if where.active_since is not None:
        conditions.append(f"updated_at >= {bind(where.active_since)}")
    if where.active_until is not None:
        conditions.append(f"updated_at <= {bind(where.active_until)}")
    if where.key_prefix is not None:
        prefix = text(where.key_prefix)
        conditions.append(f"key >= {bind(prefix)} AND key < {bind(prefix + LAST_CHARACTER)}")
    if where.text:
        conditions.append(dialect.contains_text.format(bind(text(fold(where.text)))))
    return conditions, bound


def _split(where: SessionFilter) -> Iterator[tuple[bool, bool | None]]:
    """The lists that a filter is made of: archived or not, and pinned, not pinned or both.

    Active and archived sessions have indexes of their own, and a span of time is one piece of an
    index only among the pinned or among the others. PostgreSQL also sees only then that the index
    of a filter is the shorter way to a later page.
    """
    narrow = any(getattr(where, each) is not None for each in _NARROW)
    pins = (True, False) if narrow and not where.trashed else (None,)
    for archived in (False, True) if _is_both(where) else (bool(where.archived),):
        for pinned in pins if where.pinned is None else (where.pinned,):
            yield archived, pinned


def _is_both(where: SessionFilter) -> bool:
    """Whether a list has both active and archived sessions."""
    return where.archived is None and not where.trashed


def _is_merged(where: SessionFilter) -> bool:
    """Whether a page is merged from several lists."""
    return len(list(_split(where))) > 1


def _refuse_state(where: SessionFilter) -> None:
    if where.state is not None:
        raise InvalidInput("Only `list_sessions` has a filter by state.")


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
