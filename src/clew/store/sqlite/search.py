"""Full-text search in SQLite: the newest candidates of two indexes, ranked together.

`messages_fts` holds every message, `messages_spaceless` those with a script that has no spaces; a
message that is in the second is ranked by that one only. FTS5's own bm25() first counts every match
of every word, which takes seconds for common words: here a query looks at its newest matches only,
and estimates how common a word is from how far back those reach.

`Scope` has the filters of a search, as conditions and as ranges of rows. Conditions alone would be
right. The ranges make it fast: the rows of an old or rare session are gone to directly, instead of
passing over every newer match of a common word.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apsw
import msgspec

from clew.core.search import query as language
from clew.core.search.hits import (
    SearchFilter,
    SearchHit,
    SearchPage,
    Snippet,
    idf,
    snippet,
    with_recency,
)
from clew.core.search.query import Query
from clew.core.session import OWNER, may_see
from clew.core.text import decode_text
from clew.errors import SessionNotFound
from clew.store.rows import check_limit, make_cursor, plain, read_cursor, text
from clew.store.sqlite.connection import Row, fetch, fetch_one
from clew.store.sqlite.database import Database, snapshot
from clew.store.sqlite.engine import SqliteTransaction, run_through
from clew.store.sqlite.search_index import has_queued
from clew.store.work.sessions import get
from clew.store.work.thread import Stretch, read_line

CANDIDATES = 1000
"""Most matches that are ranked."""

DEADLINE = 0.14
"""Seconds for gathering candidates; the rest of the promised 200 ms is for ranking and snippets."""

SNIPPETS = 0.03
SHORT = 500

_SAMPLE = 200
"""Newest matches from which the frequency of a word is estimated."""

_PHRASE = re.compile(r'"(?:[^"]|"")*"')

_INDEXES = ("messages_fts", "messages_spaceless")

_CANDIDATES = """
SELECT f.rowid, clew_score({index}, {weights}), m.session_id, m.seq, m.role, m.at, s.deleted_at
FROM {index} f CROSS JOIN messages m ON m.id = f.rowid CROSS JOIN sessions s ON s.id = m.session_id
WHERE f.{index} MATCH ? AND f.rowid BETWEEN ? AND ? AND {conditions}
ORDER BY f.rowid DESC LIMIT ?
"""


FEW_SESSIONS = 64
FEW_MESSAGES = 50_000
"""Filters that leave at most so many sessions, and messages in them, are searched by their rows."""

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


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a page of results ends: the same candidates, some further on."""

    newest: int
    now: int
    offset: int


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
        place = None if cursor is None else read_cursor(cursor, Place)
        parsed = language.parse(query, typing=typing)
        if parsed.is_empty or limit == 0:
            return SearchPage(())
        if await self._db.read(has_queued):
            await self._db.write(lambda _: None)  # every write empties the queue first

        def job(connection: apsw.Connection) -> SearchPage:
            here = place or Place(_newest(connection), self._db.clock(), 0)
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
        place: Place,
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
        further = Place(self._place.newest, self._place.now, start + limit)
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
        weights = self._weights(index)
        conditions, bindings = self._conditions(index)
        sql = _CANDIDATES.format(
            index=index, weights=", ".join("?" * len(weights)), conditions=" AND ".join(conditions)
        )
        left = CANDIDATES + 1
        for low, high in self._scope.zones():
            values = (*weights, expression, low, high, *bindings, left)
            for row in self._connection.execute(sql, values):
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

    def _conditions(self, index: str) -> tuple[list[str], list[Any]]:
        conditions, bindings = self._scope.conditions()
        if index == "messages_fts" and language.spaceless_expression(self._query) is not None:
            conditions.append(
                "NOT EXISTS (SELECT 1 FROM messages_spaceless_docsize d WHERE d.id = f.rowid)"
            )
        return conditions, bindings

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
        (content,) = self._row("SELECT content FROM messages WHERE id = ?", candidate.row_id)
        title, preview, platform, cwd, archived_at = self._row(
            "SELECT title, preview, platform, cwd, archived_at FROM sessions WHERE id = ?",
            session_id,
        )
        return SearchHit(
            session_id=session_id,
            seq=candidate.seq,
            role=candidate.role,  # type: ignore[arg-type]  # the table checks it
            at=candidate.at,
            snippet=self._snippet(content),
            score=self._rank(candidate)[0],
            title=plain(title),
            preview=plain(preview),
            platform=plain(platform) or "",
            cwd=plain(cwd),
            archived=archived_at is not None,
        )

    def _row(self, sql: str, key: object) -> Row:
        row = fetch_one(self._connection, sql, (key,))
        assert row is not None  # one transaction: what was found is there
        return row

    def _snippet(self, content: str) -> Snippet:
        # A match deep in a long text takes long to find; out of time, its beginning will do.
        late = time.monotonic() > self._deadline + SNIPPETS
        shown = decode_text(content[:SHORT] if late else content)
        return snippet(shown, self._query)


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
        self._conditions, self._bindings = self._about_sessions()
        self._parts = self._few_parts()

    def conditions(self) -> tuple[list[str], list[Any]]:
        """The conditions on a message and its session, and their bindings."""
        conditions, bindings = [_LIVING, *self._conditions], [*self._bindings]
        if self._where.role is not None:
            conditions.append("m.role = ?")
            bindings.append(self._where.role)
        for comparison, value in ((">=", self._where.since), ("<=", self._where.until)):
            if value is not None:
                conditions.append(f"m.at {comparison} ?")
                bindings.append(value)
        if self._parts is not None:
            # On the rowid of the index, so that other sessions' matches are never looked up.
            stretch = "SELECT id FROM messages WHERE session_id = ? AND seq > ? AND seq <= ?"
            conditions.append(f"+f.rowid IN ({' UNION ALL '.join([stretch] * len(self._parts))})")
            for part in self._parts:
                bindings += [part.session_id, part.low, part.high]
        return conditions, bindings

    def zones(self) -> Iterator[tuple[int, int]]:
        """Ranges of rows to look through, in this order. Together they miss nothing."""
        if self._parts is not None:
            yield from self._ranges(self._parts)
            return
        # Rows are mostly in the order of time. Where they should be comes first; what an import
        # put elsewhere is found in the rest.
        newest, since, until = self._newest, self._where.since, self._where.until
        low = 1 if since is None else self._first_at(since)
        high = newest if until is None else self._first_at(until + 1) - 1
        yield low, high
        if high < newest:
            yield max(low, high + 1), newest
        if low > 1:
            yield 1, low - 1

    def _about_sessions(self) -> tuple[list[str], list[Any]]:
        conditions: list[str] = []
        bindings: list[Any] = []
        if self._where.viewer != OWNER:
            conditions += ["s.person = ?", f"s.person <> '{OWNER}'"]
            bindings.append(text(self._where.viewer))
        for column in ("platform", "agent", "cwd", "project"):
            value = getattr(self._where, column)
            if value is not None:
                conditions.append(f"s.{column} = ?")
                bindings.append(text(value))
        return conditions, bindings

    def _few_parts(self) -> list[Stretch] | None:
        """The stretches of the sessions that the filters leave; None if they are too many."""
        if self._where.session is not None:
            session = run_through(get(SqliteTransaction(self._connection), self._where.session))
            if not may_see(self._where.viewer, session.person):
                raise SessionNotFound(self._where.session)
            return self._stretches(self._where.session)
        if not self._conditions:
            return None
        rows = fetch(
            self._connection,
            f"""SELECT s.id FROM sessions s
                WHERE s.deleted_at IS NULL AND {" AND ".join(self._conditions)} LIMIT ?""",
            (*self._bindings, FEW_SESSIONS + 1),
        )
        if len(rows) > FEW_SESSIONS:
            return None
        parts = {part for (each,) in rows for part in self._stretches(each)}
        few = sum(part.high - part.low for part in parts) <= FEW_MESSAGES
        return list(parts) if few and len(parts) <= 2 * FEW_SESSIONS else None

    def _stretches(self, session_id: str) -> list[Stretch]:
        line = run_through(read_line(SqliteTransaction(self._connection), session_id))
        return list(line.stretches)

    def _ranges(self, parts: list[Stretch]) -> Iterator[tuple[int, int]]:
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
