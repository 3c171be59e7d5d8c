"""Full-text search in SQLite: the newest candidates of two indexes, ranked together.

`messages_fts` holds every message, `messages_spaceless` those with a script that has no spaces; a
message that is in the second is ranked by that one only. FTS5's own bm25() first counts every match
of every word, which takes seconds for common words: here a query looks at its newest matches only,
and estimates how common a word is from how far back those reach.

`Scope` has the filters of a search, as conditions and as ranges of rows. Conditions alone would be
right. The ranges make it fast: the rows of an old or rare session are looked up directly, without
passing over every newer match of a common word.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import apsw

from clew.core.search import query as language
from clew.core.search.hits import (
    SearchFilter,
    SearchHit,
    SearchPage,
    idf,
    with_recency,
)
from clew.core.search.query import Query
from clew.errors import StoreBusy, StoreUnusable
from clew.store.rows import author_from, check_limit, make_cursor, plain, read_cursor
from clew.store.sqlite.connection import Row, fetch, fetch_one
from clew.store.sqlite.database import Database, snapshot
from clew.store.sqlite.engine import SqliteTransaction, run_through, spell
from clew.store.sqlite.search_index import has_queued
from clew.store.work.search import (
    SNIPPETS,
    Bindings,
    SearchPlace,
    find_few_segments,
    make_snippet,
    message_conditions,
    session_conditions,
)
from clew.store.work.thread import Segment

CANDIDATES = 1000
"""Most matches that are ranked."""

DEADLINE = 0.14
"""Seconds for gathering candidates; the rest of the promised 200 ms is for ranking and snippets."""

_SAMPLE = 200
"""Newest matches from which the frequency of a word is estimated."""

_PHRASE = re.compile(r'"(?:[^"]|"")*"')

_INDEXES = ("messages_fts", "messages_spaceless")

_CANDIDATES = """
SELECT f.rowid, clew_score({index}, {weights}), m.session_id, m.seq, m.role, m.at, s.deleted_at
FROM {index} f CROSS JOIN messages m ON m.id = f.rowid CROSS JOIN sessions s ON s.id = m.session_id
WHERE f.{index} MATCH {match} AND f.rowid BETWEEN {low} AND {high} AND {conditions}
ORDER BY f.rowid DESC LIMIT {most}
"""


# Forks may still have messages of a deleted session; `_visible` looks at each.
_LIVING = """(s.deleted_at IS NULL
  OR s.id IN (SELECT parent_id FROM sessions WHERE parent_id IS NOT NULL))"""


class Candidate(NamedTuple):
    """A message that matches, before it is decided whether it is shown."""

    row_id: int
    score: float
    session_id: str
    seq: int
    role: str
    at: int
    deleted_at: int | None


class SqliteSearch:
    """`ports.Search`."""

    _db: Database
    _search_seconds: float

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
        if await self._db.read(has_queued):
            with contextlib.suppress(StoreUnusable, StoreBusy):  # what waits is not found then
                await self._db.write(lambda _: None)  # every write empties the queue first

        def job(connection: apsw.Connection) -> SearchPage:
            here = place or SearchPlace(_newest(connection), self._db.clock(), 0)
            run = SearchRun(connection, parsed, where, here, self._search_seconds)
            return run.page(limit, per_session=per_session)

        return await self._db.read(snapshot(job))


class SearchRun:
    """One search, inside one read transaction."""

    def __init__(
        self,
        connection: apsw.Connection,
        query: Query,
        where: SearchFilter,
        place: SearchPlace,
        seconds: float = DEADLINE,
    ) -> None:
        self._connection = connection
        self._query = query
        self._scope = Scope(connection, where, place.newest)
        self._place = place
        self._deadline = time.monotonic() + seconds
        self._cut = False
        self._opened_by: dict[tuple[str, int], str | None] = {}

    def page(self, limit: int, *, per_session: bool) -> SearchPage:
        """The hits of one page, best first."""
        ranked = sorted(self._candidates(), key=self._rank, reverse=True)
        shown = self._visible(ranked, once=per_session)
        start = self._place.offset
        wanted: list[tuple[Candidate, str]] = []
        more = False
        for index, each in enumerate(shown):
            if index >= start + limit:
                more = True
                break
            if index >= start:
                wanted.append(each)
        hits = tuple(self._hit(candidate, session) for candidate, session in wanted)
        further = SearchPlace(self._place.newest, self._place.now, start + limit)
        return SearchPage(hits, make_cursor(further) if more else None, self._cut)

    def _rank(self, candidate: Candidate) -> tuple[float, int]:
        score = with_recency(candidate.score, candidate.at, self._place.now)
        return (score, candidate.row_id)

    def _candidates(self) -> list[Candidate]:
        found: dict[int, Candidate] = {}
        # The progress handler is called even while a query yields no rows.
        self._connection.set_progress_handler(self._too_late, 100)
        try:
            for index in _INDEXES:
                found.update((each.row_id, each) for each in self._matches(index))
        except apsw.InterruptError:
            self._cut = True
        finally:
            self._connection.set_progress_handler(None)
        newest = sorted(found, reverse=True)
        self._cut = self._cut or len(newest) > CANDIDATES
        return [found[row_id] for row_id in newest[:CANDIDATES]]

    def _too_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _matches(self, index: str) -> Iterator[Candidate]:
        expression = _expression(index, self._query)
        if expression is None:
            return
        bind = (bindings := Bindings()).bind
        composed = _CANDIDATES.format(
            index=index,
            weights=", ".join(map(bind, self._weights(index))),
            match=bind(expression),
            conditions=" AND ".join(self._conditions(index, bindings)),
            low=bind(0),
            high=bind(0),
            most=bind(0),
        )
        sql, values = spell(composed).sql, bindings.values[:-3]
        left = CANDIDATES + 1
        for low, high in self._scope.zones():
            for row in self._connection.execute(sql, (*values, low, high, left)):
                left -= 1
                yield Candidate(*row)
            if left <= 0:
                return

    def _weights(self, index: str) -> list[float]:
        """The weight of each phrase of the expression, in its order."""
        weights: list[float] = []
        for term in self._query.positive:
            expression = _expression(index, Query((term,)))
            assert expression is not None
            weight = self._weight(index, expression)
            weights += [weight] * len(_PHRASE.findall(expression))
        return weights

    def _weight(self, index: str, expression: str) -> float:
        """The idf of a term, by how far back its newest matches reach."""
        if len(self._query.positive) == 1:
            return 1.0  # a single weight changes no order
        documents = max(1, self._place.newest)
        rows = fetch(
            self._connection,
            f"""SELECT rowid FROM {index} WHERE {index} MATCH ? AND rowid <= ?
                ORDER BY rowid DESC LIMIT ?""",
            (expression, self._place.newest, _SAMPLE),
        )
        common = float(len(rows))
        if len(rows) == _SAMPLE:
            common = _SAMPLE * documents / (self._place.newest - rows[-1][0] + 1)
        return idf(documents, common)

    def _conditions(self, index: str, bindings: Bindings) -> list[str]:
        conditions = self._scope.conditions(bindings)
        if index == "messages_fts" and language.spaceless_expression(self._query) is not None:
            conditions.append(
                "NOT EXISTS (SELECT 1 FROM messages_spaceless_docsize d WHERE d.id = f.rowid)"
            )
        return conditions

    def _visible(
        self, ranked: Iterable[Candidate], *, once: bool
    ) -> Iterator[tuple[Candidate, str]]:
        """Candidates with the session to open for them, without those that have none."""
        seen: set[str] = set()
        for candidate in ranked:
            session = candidate.session_id
            if candidate.deleted_at is not None:
                fork = self._living_fork(session, candidate.seq)
                if fork is None:
                    continue
                session = fork
            if once:
                if session in seen:
                    continue
                seen.add(session)
            yield candidate, session

    def _living_fork(self, session_id: str, seq: int) -> str | None:
        """The oldest fork outside the trash that has this message of a deleted session."""
        children = fetch(
            self._connection,
            """SELECT id, deleted_at FROM sessions WHERE parent_id = ? AND forked_at_seq >= ?
               ORDER BY created_at, id""",
            (session_id, seq),
        )
        for child, deleted_at in children:
            if deleted_at is None:
                return str(child)
        for child, _ in children:
            found = self._living_fork(child, seq)
            if found is not None:
                return found
        return None

    def _hit(self, candidate: Candidate, session_id: str) -> SearchHit:
        content, author = self._row(
            "SELECT content, author FROM messages WHERE id = ?", candidate.row_id
        )
        title, preview, platform, cwd, archived_at = self._row(
            "SELECT title, preview, platform, cwd, archived_at FROM sessions WHERE id = ?",
            session_id,
        )
        return SearchHit(
            session_id=session_id,
            seq=candidate.seq,
            role=candidate.role,  # type: ignore[arg-type]  # the table checks it
            at=candidate.at,
            snippet=make_snippet(content, self._query, late=self._is_late()),
            score=self._rank(candidate)[0],
            title=plain(title),
            preview=plain(preview),
            platform=plain(platform) or "",
            cwd=plain(cwd),
            archived=archived_at is not None,
            author=author_from(author),
        )

    def _row(self, sql: str, key: object) -> Row:
        row = fetch_one(self._connection, sql, (key,))
        assert row is not None  # one transaction: what was found is there
        return row

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline + SNIPPETS


def _expression(index: str, query: Query) -> str | None:
    if index == "messages_fts":
        return language.words_expression(query)
    return language.spaceless_expression(query)


def _newest(connection: apsw.Connection) -> int:
    return connection.execute("SELECT max(id) FROM messages").get or 0


class Scope:
    """The filters of one search, in one read transaction. `s` is the session, `m` the message."""

    def __init__(self, connection: apsw.Connection, where: SearchFilter, newest: int) -> None:
        self._connection = connection
        self._where = where
        self._newest = newest
        tx = SqliteTransaction(connection)
        self._parts = run_through(find_few_segments(tx, where))

    def conditions(self, bindings: Bindings) -> list[str]:
        """The conditions on a message and its session."""
        conditions = [
            _LIVING,
            *session_conditions(self._where, bindings),
            *message_conditions(self._where, bindings),
        ]
        if self._parts is not None:
            # On the rowid of the index, so that other sessions' matches are never looked up.
            bind = bindings.bind
            rows = (
                f"SELECT id FROM messages WHERE session_id = {bind(part.session_id)}"
                f" AND seq > {bind(part.low)} AND seq <= {bind(part.high)}"
                for part in self._parts
            )
            conditions.append(f"+f.rowid IN ({' UNION ALL '.join(rows)})")
        return conditions

    def zones(self) -> Iterator[tuple[int, int]]:
        """Ranges of rows to look through, in this order. Together they miss nothing."""
        if self._parts is not None:
            yield from self._ranges(self._parts)
            return
        # Rows are mostly in the order of time. Where they should be comes first; what an import
        # put in other places is found in the rest.
        newest, since, until = self._newest, self._where.since, self._where.until
        low = 1 if since is None else self._first_at(since)
        high = newest if until is None else self._first_at(until + 1) - 1
        yield low, high
        if high < newest:
            yield max(low, high + 1), newest
        if low > 1:
            yield 1, low - 1

    def _ranges(self, parts: list[Segment]) -> Iterator[tuple[int, int]]:
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
