"""Full-text search in PostgreSQL: the newest candidates, ranked by bm25 and recency.

The index says which messages match; a query looks at its newest matches only, range by range, until
it has enough or its time is over. How often a message has a word is read from `ts_rank`, how common
a word is gets estimated from the newest messages.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import msgspec
import psycopg

from clew.core import query as language
from clew.core.query import Query
from clew.core.ranking import idf, score_all
from clew.core.search import SearchFilter, SearchHit, SearchPage
from clew.core.snippets import Snippet, snippet
from clew.core.text import decode_text
from clew.store.cursors import check_limit, make_cursor, read_cursor
from clew.store.postgres.connection import Connection, fetch
from clew.store.postgres.database import Database
from clew.store.postgres.scope import Bindings, Scope
from clew.store.postgres.words import asked, frequency, rarest, tokens_of
from clew.store.rows import Row, plain

CANDIDATES = 1000
"""Most matches that are ranked."""

DEADLINE = 0.14
"""Seconds for gathering candidates; the rest of the promised 200 ms is for ranking and snippets."""

SNIPPETS = 0.03
SHORT = 500

_SAMPLE = 500
"""Newest messages from which the frequency of a word is estimated."""

_CANDIDATES = """
SELECT m.id, w.size, w.partial, ARRAY[{ranks}]::float4[], m.session_id, m.seq, m.role, m.at,
  s.deleted_at
FROM messages_words w JOIN messages m ON m.id = w.message_id JOIN sessions s ON s.id = m.session_id
WHERE {match} AND w.message_id BETWEEN {low} AND {high} AND {conditions}
ORDER BY w.message_id DESC LIMIT {limit}
"""

_COMMON = """
SELECT {counts} FROM (
  SELECT words FROM messages_words WHERE message_id <= {newest} ORDER BY message_id DESC
  LIMIT {sample}) AS newest
"""


class Candidate(NamedTuple):
    """A message that matches, before it is known whether it is shown."""

    row_id: int
    size: int
    partial: bool
    ranks: Sequence[float]
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
        place = None if cursor is None else read_cursor(cursor, Place)
        parsed = language.parse(query, typing=typing)
        if parsed.is_empty or limit == 0:
            return SearchPage(())

        async def job(connection: Connection) -> SearchPage:
            here = place or Place(await _newest(connection), await self._db.now(connection), 0)
            scope = await Scope.find(connection, where, here.newest)
            searching = Searching(connection, parsed, scope, here)
            return await searching.page(limit, per_session=per_session)

        return await self._db.snapshot(job)


class Searching:
    """One search, inside one read transaction."""

    def __init__(self, connection: Connection, query: Query, scope: Scope, place: Place) -> None:
        self._connection = connection
        self._query = query
        self._asked = asked(query)
        self._judged = [rarest(phrase) for phrase in self._asked.wanted]
        self._scope = scope
        self._place = place
        self._deadline = time.monotonic() + DEADLINE
        self._cut = False

    async def page(self, limit: int, *, per_session: bool) -> SearchPage:
        """The hits of one page, best first."""
        ranked = await self._ranked()
        start = self._place.offset
        wanted: list[tuple[Candidate, str, float]] = []
        more = False
        index = 0
        async for each in self._visible(ranked, once=per_session):
            if index >= start + limit:
                more = True
                break
            if index >= start:
                wanted.append(each)
            index += 1
        hits = await self._hits(wanted)
        further = Place(self._place.newest, self._place.now, start + limit)
        return SearchPage(hits, make_cursor(further) if more else None, self._cut)

    async def _ranked(self) -> list[tuple[float, int, Row]]:
        """The candidates with their scores, best first; as rows, for few of them are shown."""
        candidates = await self._candidates()
        if not candidates:
            return []
        ids, sizes, _, ranks, _, _, _, times, _ = zip(*candidates, strict=True)
        frequencies = []
        for wanted, column in zip(self._judged, zip(*ranks, strict=True), strict=True):
            # Few ranks are different: what each stands for is looked up once.
            known = {rank: frequency(rank, wanted) for rank in set(column)}
            frequencies.append([known[rank] for rank in column])
        weights = await self._weights()
        scores = score_all(frequencies, weights, sizes, times, self._place.now)
        return sorted(zip(scores, ids, candidates, strict=True), reverse=True)

    # --- finding ------------------------------------------------------------------------------

    async def _candidates(self) -> list[Row]:
        found: list[Row] = []
        for low, high in await self._scope.zones(self._connection):
            left = CANDIDATES + 1 - len(found)
            if low > high:
                continue
            if left <= 0 or not self._time_left():
                self._cut = True
                break
            sql, values = self._statement(low, high, left)
            rows = await self._bounded(sql, values)
            if self._asked.has_phrases:
                rows = [row for row in rows if not row[2] or await self._stands(row[0])]
            found += rows
        found.sort(key=itemgetter(0), reverse=True)
        self._cut = self._cut or len(found) > CANDIDATES
        return found[:CANDIDATES]

    def _statement(self, low: int, high: int, limit: int) -> tuple[str, Row]:
        bindings = Bindings()
        ranks = [f"ts_rank(w.words, {bindings.bind(str(each))}::tsquery)" for each in self._judged]
        match = f"w.words @@ {bindings.bind(self._asked.exact())}::tsquery"
        if self._asked.has_phrases:
            loose = bindings.bind(self._asked.loose())
            match = f"({match} OR (w.partial AND w.words @@ {loose}::tsquery))"
        sql = _CANDIDATES.format(
            ranks=", ".join(ranks),
            match=match,
            low=bindings.bind(low),
            high=bindings.bind(high),
            conditions=" AND ".join(self._scope.conditions(bindings)),
            limit=bindings.bind(limit),
        )
        return sql, tuple(bindings.values)

    async def _bounded(self, sql: str, values: Row) -> list[Row]:
        """What a statement finds in the time that is left; nothing if that is not enough."""
        left = max(1, int((self._deadline - time.monotonic()) * 1000))
        await self._connection.execute(f"SAVEPOINT looking; SET LOCAL statement_timeout = {left}")
        try:
            # Planned anew for these words: a plan for any words takes them all for common ones.
            rows = await self._connection.fetch(sql, values, prepare=False, binary=True)
        except psycopg.errors.QueryCanceled:
            self._cut = True
            await self._connection.execute("ROLLBACK TO looking")
            return []
        await self._connection.execute("SET LOCAL statement_timeout = '60s'; RELEASE looking")
        return rows

    def _time_left(self) -> bool:
        return time.monotonic() < self._deadline

    async def _stands(self, row_id: int) -> bool:
        """Whether a message whose positions the index could not keep has the phrases."""
        if not self._time_left():
            self._cut = True
            return False
        ((content,),) = await fetch(
            self._connection, "SELECT content FROM messages WHERE id = $1", (row_id,)
        )
        return self._asked.fits(tokens_of(decode_text(content)))

    async def _weights(self) -> list[float]:
        """What each term is worth, by how many of the newest messages have it."""
        if len(self._judged) == 1:
            return [1.0]  # alone, it changes no order
        bindings = Bindings()
        counts = [
            f"count(*) FILTER (WHERE words @@ {bindings.bind(str(each))}::tsquery)"
            for each in self._judged
        ]
        sql = _COMMON.format(
            counts=", ".join(["count(*)", *counts]),
            newest=bindings.bind(self._place.newest),
            sample=_SAMPLE,
        )
        rows = await self._bounded(sql, tuple(bindings.values))
        if not rows:
            return [1.0] * len(self._judged)
        documents, *common = rows[0]
        return [idf(documents, count) for count in common]

    # --- showing ------------------------------------------------------------------------------

    async def _visible(
        self, ranked: list[tuple[float, int, Row]], *, once: bool
    ) -> AsyncIterator[tuple[Candidate, str, float]]:
        """Candidates with the session to open for them, without those that have none."""
        seen: set[str] = set()
        for score, _, row in ranked:
            candidate = Candidate._make(row)
            session = candidate.session_id
            if candidate.deleted_at is not None:
                fork = await self._living_fork(session, candidate.seq)
                if fork is None:
                    continue
                session = fork
            if once:
                if session in seen:
                    continue
                seen.add(session)
            yield candidate, session, score

    async def _living_fork(self, session_id: str, seq: int) -> str | None:
        """A fork that still reads this message of a deleted session, the oldest one."""
        children = await fetch(
            self._connection,
            """SELECT id, deleted_at FROM sessions WHERE parent_id = $1 AND forked_at_seq >= $2
               ORDER BY created_at, id""",
            (session_id, seq),
        )
        for child, deleted_at in children:
            if deleted_at is None:
                return str(child)
        for child, _ in children:
            found = await self._living_fork(child, seq)
            if found is not None:
                return found
        return None

    async def _hits(self, wanted: list[tuple[Candidate, str, float]]) -> tuple[SearchHit, ...]:
        if not wanted:
            return ()
        contents = await fetch(
            self._connection,
            "SELECT id, content FROM messages WHERE id = ANY ($1)",
            ([candidate.row_id for candidate, _, _ in wanted],),
        )
        sessions = await fetch(
            self._connection,
            """SELECT id, title, preview, platform, cwd, archived_at FROM sessions
               WHERE id = ANY ($1)""",
            ([session for _, session, _ in wanted],),
        )
        said = {row[0]: row[1] for row in contents}
        about = {row[0]: row[1:] for row in sessions}
        return tuple(
            self._hit(candidate, session, score, said[candidate.row_id], about[session])
            for candidate, session, score in wanted
        )

    def _hit(
        self, candidate: Candidate, session_id: str, score: float, content: str, about: Row
    ) -> SearchHit:
        title, preview, platform, cwd, archived_at = about
        return SearchHit(
            session_id=session_id,
            seq=candidate.seq,
            role=candidate.role,  # type: ignore[arg-type]  # the table checks it
            at=candidate.at,
            snippet=self._snippet(content),
            score=score,
            title=plain(title),
            preview=plain(preview),
            platform=plain(platform) or "",
            cwd=plain(cwd),
            archived=archived_at is not None,
        )

    def _snippet(self, content: str) -> Snippet:
        # A match deep in a long text takes long to find; out of time, its beginning will do.
        late = time.monotonic() > self._deadline + SNIPPETS
        shown = decode_text(content[:SHORT] if late else content)
        return snippet(shown, self._query)


async def _newest(connection: Connection) -> int:
    ((newest,),) = await fetch(connection, "SELECT coalesce(max(id), 0) FROM messages")
    return int(newest)
