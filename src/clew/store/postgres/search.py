"""Full-text search in PostgreSQL: the newest candidates, ranked by bm25 and recency.

A query looks at its newest matches only, range by range, until it has enough or its time is over.
One statement does that, see `ranking`; here are its time limit, the phrases that the index can't
decide, and the hits.
"""

from __future__ import annotations

import time

import psycopg

from clew.core.search import query as language
from clew.core.search.hits import SearchFilter, SearchHit, SearchPage
from clew.core.search.query import Query
from clew.core.text import decode_text
from clew.store.postgres.connection import Connection
from clew.store.postgres.database import SNAPSHOT, Database
from clew.store.postgres.ranking import Question, statement
from clew.store.postgres.scope import Scope
from clew.store.postgres.words import to_index_query, tokens_of
from clew.store.rows import Row, author_from, check_limit, make_cursor, plain, read_cursor
from clew.store.work.search import SNIPPETS, SearchPlace, make_snippet

DEADLINE = 0.14
"""Seconds for finding and ranking; the rest of the promised 200 ms is for snippets."""

FIRST = 0.65
"""The part of the time for searching all messages. After it, only the newest are searched."""


def begin(seconds: float) -> str:
    """The beginning of a transaction for a search that may take so long."""
    return f"{SNAPSHOT}; SET LOCAL statement_timeout = {seconds * FIRST * 1000:.0f}"


_NEWEST = """
SELECT coalesce(max(id), 0),
  coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM messages
"""


class PostgresSearch:
    """`ports.Search`."""

    _db: Database

    async def search(
        self,
        query: str,
        where: SearchFilter,
        *,
        limit: int = 20,
        cursor: str | None = None,
        typing: bool = False,
        per_session: bool = False,
    ) -> SearchPage:
        """See `ports.Search`."""
        check_limit(limit)
        place = None if cursor is None else read_cursor(cursor, SearchPlace)
        parsed = language.parse(query, typing=typing)
        if parsed.is_empty or limit == 0:
            return SearchPage(())

        async def job(connection: Connection) -> SearchPage:
            try:
                here = place or await find_place(connection, connection.given_now)
                run = SearchRun(connection, parsed, where, here, self._db.search_seconds)
                return await run.page(limit, per_session=per_session)
            except psycopg.errors.QueryCanceled:
                return SearchPage((), cut=True)  # out of time before anything was found

        return await self._db.snapshot(job, begin=begin(self._db.search_seconds))


async def find_place(connection: Connection, now: int | None) -> SearchPlace:
    """Where a new search begins."""
    ((newest, at),) = await connection.fetch(_NEWEST, (now,))
    return SearchPlace(newest, at, 0)


class SearchRun:
    """One search, inside one read transaction."""

    def __init__(
        self,
        connection: Connection,
        query: Query,
        where: SearchFilter,
        place: SearchPlace,
        seconds: float = DEADLINE,
    ) -> None:
        self._connection = connection
        self._query = query
        self._asked = to_index_query(query)
        self._where = where
        self._place = place
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._cut = False

    async def page(self, limit: int, *, per_session: bool) -> SearchPage:
        """The hits of one page, best first."""
        # One more than are shown tells whether there is another page.
        rows = await self._rows(limit + 1, per_session=per_session)
        start = self._place.offset
        hits = tuple(map(self._hit, rows[:limit]))
        further = SearchPlace(self._place.newest, self._place.now, start + limit)
        return SearchPage(hits, make_cursor(further) if len(rows) > limit else None, self._cut)

    async def _rows(self, limit: int, *, per_session: bool) -> list[Row]:
        newest, now, offset = self._place.newest, self._place.now, self._place.offset
        scope = await Scope.find(self._connection, self._where, newest)
        zones = [zone for zone in await scope.zones(self._connection) if zone[0] <= zone[1]]
        question = Question(
            self._asked, newest, now, limit, offset, per_session, self._seconds * FIRST / 2
        )
        checked: set[int] = set()
        without: list[int] = []
        while zones:
            sql, values = statement(question, scope, zones, without=without)
            rows = await self._in_time(sql, values)
            if rows is None:
                self._cut = True
                zones = zones[:1] if len(zones) > 1 else []
                continue
            unsure = set(rows[0][1] or ()) - checked if self._asked.has_phrases else set()
            wrong = [each for each in sorted(unsure, reverse=True) if not await self._fits(each)]
            if not wrong:
                self._cut = self._cut or rows[0][0]
                return [row for row in rows if row[2] is not None]
            checked |= unsure
            without += wrong
        return []

    async def _in_time(self, sql: str, values: Row) -> list[Row] | None:
        """The rows of a statement; None if it runs out of time."""
        try:
            # Not prepared: a plan for any words would take these for common ones.
            return await self._connection.fetch(sql, values, prepare=False)
        except psycopg.errors.QueryCanceled:
            left = max(SNIPPETS, self._deadline - time.monotonic())
            again = f"ROLLBACK; {SNAPSHOT}; SET LOCAL statement_timeout = {left * 1000:.0f}"
            await self._connection.script(again)
            return None

    async def _fits(self, row_id: int) -> bool:
        """Whether a message whose positions the index could not keep has the phrases."""
        if time.monotonic() > self._deadline:
            self._cut = True
            return False
        sql = "SELECT content FROM messages WHERE id = $1"
        row = await self._connection.one(sql, (row_id,))
        return row is not None and self._asked.fits(tokens_of(decode_text(row[0])))

    def _hit(self, row: Row) -> SearchHit:
        (
            session_id, seq, role, at, score, content, title, preview, platform, cwd, archived,
            author,
        ) = row[2:]  # fmt: skip
        return SearchHit(
            session_id,
            seq,
            role,
            at,
            make_snippet(content, self._query, late=self._is_late()),
            score,
            plain(title),
            plain(preview),
            plain(platform) or "",
            plain(cwd),
            archived,
            author_from(author),
        )

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline + SNIPPETS
