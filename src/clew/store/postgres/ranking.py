"""The statement of a search: which messages match, how they rank, which of them a page shows.

PostgreSQL does all of it, and only the rows of the page are transferred. `words` has the query,
`scope` the filters, `search` the time limit and the hits. The numbers are
those of `core.search.hits`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from clew.core.search.hits import DAY_MS, HALF_LIFE_DAYS, K1, LEAST_IDF, RECENCY, B
from clew.core.search.query import MAX_INDEXED
from clew.store.postgres.scope import Scope
from clew.store.postgres.words import IndexQuery, rarest
from clew.store.rows import Row
from clew.store.work.search import Bindings

CANDIDATES = 1000
"""Most matches that are ranked."""

_SAMPLE = 500
"""Newest messages from which the frequency of a word is estimated."""

LONGEST = 4 * MAX_INDEXED + 1
"""Characters of a message that a snippet can need: `encode_text` makes up to four of one."""

# A zone is searched if those before it had too few matches, and there is time left.
_ZONE = """
zone{number} AS MATERIALIZED (
  SELECT w.message_id AS id, w.size, w.partial, m.session_id, m.seq, m.role, m.at, s.deleted_at,
    {shares}
  FROM messages_words w JOIN messages m ON m.id = w.message_id
    JOIN sessions s ON s.id = m.session_id
  WHERE {gate} {match} AND w.message_id BETWEEN {low} AND {high} AND {conditions}
  ORDER BY w.message_id DESC LIMIT {most}
)"""

_GATE = """
gate{number} AS MATERIALIZED (
  SELECT count(*) < {most} AS few,
    clock_timestamp() < statement_timestamp() + {patience} * interval '1 second' AS in_time
  FROM ({before}) AS before
)"""

# The weight of a word depends on how many of the newest messages have it.
_WEIGHTS = """
weights AS MATERIALIZED (
  SELECT {weights} FROM (
    SELECT {counts} FROM (
      SELECT words FROM messages_words WHERE message_id <= {newest}
      ORDER BY message_id DESC LIMIT {sample}) AS sample) AS counted
)"""

# A message of a deleted session is opened in the oldest fork outside the trash that has it; forks
# of the session itself come before forks of its deleted forks.
_OPENED = """
CASE WHEN deleted_at IS NULL THEN session_id ELSE (
  WITH RECURSIVE forks AS (
    SELECT f.id, f.deleted_at, ARRAY[ROW(f.deleted_at IS NOT NULL, f.created_at, f.id)] AS path
    FROM sessions f WHERE f.parent_id = found.session_id AND f.forked_at_seq >= found.seq
    UNION ALL
    SELECT f.id, f.deleted_at, path || ROW(f.deleted_at IS NOT NULL, f.created_at, f.id)
    FROM forks JOIN sessions f ON f.parent_id = forks.id AND f.forked_at_seq >= found.seq
    WHERE forks.deleted_at IS NOT NULL)
  SELECT id FROM forks WHERE deleted_at IS NULL ORDER BY path LIMIT 1) END"""

_SEARCH = """
WITH {tables},
found AS MATERIALIZED (SELECT * FROM ({zones}) AS every ORDER BY id DESC LIMIT {candidates}),
facts AS MATERIALIZED (
  SELECT greatest(1, avg(size))::float8 AS average, {partial} AS partial FROM found),
judged AS MATERIALIZED (
  SELECT found.*, {opened} AS opened,
    {plain}::float8 + {slope}::float8 / average * size AS norm,
    1 + {recency}::float8 * 2 ^ greatest(-1000, least(0, (at::float8 - {now}) / {half_life})) AS new
  FROM found, facts),
scored AS (SELECT *, ({score}) * new AS score FROM judged{weighing} WHERE opened IS NOT NULL),
page AS (
  SELECT * FROM ({shown}) AS shown ORDER BY score DESC, id DESC LIMIT {limit} OFFSET {offset})
SELECT {cut}, facts.partial, page.opened, page.seq, page.role, page.at, page.score,
  left(m.content, {longest}), o.title, o.preview, o.platform, o.cwd, o.archived_at IS NOT NULL,
  m.author
FROM facts LEFT JOIN (
  page JOIN messages m ON m.id = page.id JOIN sessions o ON o.id = page.opened) ON true
ORDER BY page.score DESC, page.id DESC
"""

_PARTIAL = "array_agg(id) FILTER (WHERE partial)"
_EVERY = "SELECT * FROM scored"
_BEST = "SELECT DISTINCT ON (opened) * FROM scored ORDER BY opened, score DESC, id DESC"


class Question(NamedTuple):
    """The parameters of one page of a search."""

    asked: IndexQuery
    newest: int
    now: int
    limit: int
    offset: int
    per_session: bool
    patience: float
    """Seconds after which no further zone is begun."""


class _Shape(NamedTuple):
    """All that the text of a statement depends on, with marks in the place of values."""

    zones: tuple[tuple[str, str], ...]
    match: str
    conditions: tuple[str, ...]
    terms: tuple[tuple[str, float], ...]
    newest: str
    now: str
    limit: str
    offset: str
    has_phrases: bool
    per_session: bool
    patience: float


def statement(
    question: Question,
    scope: Scope,
    zones: Sequence[tuple[int, int]],
    *,
    without: Sequence[int] = (),
) -> tuple[str, Row]:
    """The statement of one page, and its bindings. `without`: messages that don't match after all.

    Each row tells whether something was left out, which candidates have more positions than the
    index can keep, and a hit with its content and session; without hits there is one of NULLs.
    """
    bind = (bindings := Bindings()).bind
    asked = question.asked
    match = f"w.words @@ {bind(asked.exact())}::tsquery"
    if asked.has_phrases:
        match = f"({match} OR (w.partial AND w.words @@ {bind(asked.loose())}::tsquery))"
    judged = [rarest(phrase) for phrase in asked.wanted]
    conditions = scope.conditions(bindings)
    if without:
        conditions.append(f"w.message_id <> ALL ({bind(list(without))}::bigint[])")
    shape = _Shape(
        zones=tuple((bind(low), bind(high)) for low, high in zones),
        match=match,
        conditions=tuple(conditions),
        terms=tuple((bind(str(each)), len(each) / _UNIT) for each in judged),
        newest=bind(question.newest) if len(judged) > 1 else "",
        now=bind(float(question.now)),
        limit=bind(question.limit),
        offset=bind(question.offset),
        has_phrases=asked.has_phrases,
        per_session=question.per_session,
        patience=question.patience,
    )
    return _text(shape), tuple(bindings.values)


@lru_cache(maxsize=128)
def _text(shape: _Shape) -> str:
    """The text of a statement, cached: most searches have one of a few shapes."""
    tables = _zones(shape)
    if alone := len(shape.terms) == 1:  # a single weight changes no order
        score = _bm25(0)
    else:
        tables.append(_weights(shape))
        score = " + ".join(f"weight{at} * {_bm25(at)}" for at in range(len(shape.terms)))
    every = _union(len(shape.zones))
    cut = [f"(SELECT count(*) FROM ({every}) AS every) > {CANDIDATES}"]
    cut += [f"NOT (SELECT in_time FROM gate{number})" for number in range(1, len(shape.zones))]
    return _SEARCH.format(
        tables=",".join(tables),
        zones=every,
        candidates=CANDIDATES,
        partial=_PARTIAL if shape.has_phrases else "NULL",
        opened=_OPENED,
        plain=K1 * (1 - B),
        slope=K1 * B,
        recency=RECENCY,
        now=shape.now,
        half_life=float(DAY_MS * HALF_LIFE_DAYS),
        score=score,
        weighing="" if alone else ", weights",
        shown=_BEST if shape.per_session else _EVERY,
        limit=shape.limit,
        offset=shape.offset,
        cut=" OR ".join(cut),
        longest=LONGEST,
    )


def _zones(shape: _Shape) -> list[str]:
    shares = ", ".join(
        f"ts_rank(w.words, {words}::tsquery) * {scale}::float8 AS share{at}"
        for at, (words, scale) in enumerate(shape.terms)
    )
    tables: list[str] = []
    for number, (low, high) in enumerate(shape.zones):
        if number:
            before = _union(number)
            tables.append(
                _GATE.format(
                    number=number, most=CANDIDATES + 1, patience=shape.patience, before=before
                )
            )
        tables.append(
            _ZONE.format(
                number=number,
                shares=shares,
                gate=f"(SELECT few AND in_time FROM gate{number}) AND" if number else "",
                match=shape.match,
                low=low,
                high=high,
                conditions=" AND ".join(shape.conditions),
                most=CANDIDATES + 1,
            )
        )
    return tables


def _weights(shape: _Shape) -> str:
    counts = [
        f"count(*) FILTER (WHERE words @@ {words}::tsquery) AS has{at}"
        for at, (words, _) in enumerate(shape.terms)
    ]
    weights = [
        f"greatest({LEAST_IDF}, ln((total - has{at} + 0.5)::float8 / (has{at} + 0.5)))"
        f" AS weight{at}"
        for at in range(len(shape.terms))
    ]
    return _WEIGHTS.format(
        weights=", ".join(weights),
        counts=", ".join(["count(*) AS total", *counts]),
        newest=shape.newest,
        sample=_SAMPLE,
    )


def _union(zones: int) -> str:
    return " UNION ALL ".join(f"SELECT * FROM zone{number}" for number in range(zones))


# --- frequency -----------------------------------------------------------------------------------

# A word that is n times in a message adds 1 + 1/4 + … + 1/n² of a unit to its `ts_rank`, and the
# rank is divided by the number of words in the query. What is missing from the infinite sum is very
# nearly 1 / (n + ½), which tells n. The sum of several words is split as if all but one were
# frequent, which is good enough.
_WHOLE = math.pi**2 / 6
_UNIT = 0.1 / _WHOLE


def _frequency(share: str) -> str:
    wholes = f"floor({share} / {_WHOLE}::float8)"
    missing = f"{_WHOLE}::float8 * (1 + {wholes}) - {share}"
    return f"(2 * {wholes} + greatest(1, round(1 / greatest({missing}, 0.002) - 0.5)))"


def _bm25(at: int) -> str:
    return f"{K1 + 1}::float8 / (1 + norm / {_frequency(f'share{at}')})"
