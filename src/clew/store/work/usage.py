"""What turns have spent: sums that the store keeps, read, checked and made anew.

Triggers of the schema keep them (see the migration `usage_sums`): quarter-hours, and UTC days for
each model, platform and session. Changes that are not in the sums yet are few, and added here. So a
report costs what the days cost that it is about, however many turns there were. Turns themselves
are read for the part of a day, or of a quarter-hour, with which a report begins.
"""

from __future__ import annotations

from typing import Final

from clew.core.names import counted
from clew.core.usage import Usage, UsageBy, UsageRanking, UsageRow
from clew.store.diagnosis import FIX, SAMPLE, Finding
from clew.store.rows import Row, plain
from clew.store.work.transaction import Transaction

QUARTER: Final = 900_000
DAY: Final = 86_400_000

_LAST: Final = (1 << 63) - 1

_NUMBERS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "cost",
    "api_calls", "turns", "unknown", "estimated",
)  # fmt: skip
_COLUMNS = ", ".join(_NUMBERS)
_SUMS = ", ".join(f"CAST(sum({each}) AS bigint) AS {each}" for each in _NUMBERS)

# As in the migrations; there is no time before 1970 that a division would round up.
_QUARTER = f"CAST(at - (at % {QUARTER} + {QUARTER}) % {QUARTER} AS text)"
_NAMES = {
    "day": _QUARTER,
    "model": "model",
    "session": "session_id",
    "platform": "platform",
}

# $1: from when on, $2: where the first whole bucket begins.
_SPENT = f"""
SELECT name, {_SUMS} FROM (
  SELECT name, {_COLUMNS} FROM usage_sums WHERE kind = '{{by}}' AND at >= $2
  UNION ALL
  SELECT {{name}}, {_COLUMNS} FROM usage_changes WHERE at >= $2
  UNION ALL
  SELECT {{name}}, {_COLUMNS} FROM usage_turns WHERE at >= $1 AND at < $2
) AS spent GROUP BY name HAVING sum(turns) > 0
"""
_TOTAL = f"SELECT {_SUMS} FROM ({_SPENT}) AS spent"

# One unknown price makes the whole cost unknown.
_ORDER = """unknown > 0, CASE WHEN unknown > 0 THEN 0 ELSE cost END DESC,
  input_tokens + output_tokens DESC, name"""
_BY_SESSION = _SPENT.format(by="session", name="session_id")
_RANK = f"SELECT *, count(*) OVER () FROM ({_BY_SESSION}) AS spent ORDER BY {_ORDER} LIMIT $3"

# A session never changes hands: no sums of their own are kept for people.
_BY_PERSON = f"""
SELECT coalesce((SELECT person FROM sessions WHERE id = spent.name), '') AS person, {_SUMS}
FROM ({_BY_SESSION}) AS spent GROUP BY 1
"""

# Of all time: sessions whose sums are up to date come in the order of an index, the others beside.
_CHANGED = "SELECT session_id FROM usage_changes"
_RANK_WHOLE = f"""
SELECT * FROM (
  SELECT * FROM (
    SELECT name, {_COLUMNS} FROM usage_sums
    WHERE kind = 'whole' AND turns > 0 AND name NOT IN ({_CHANGED}) ORDER BY {_ORDER} LIMIT $1
  ) AS first
  UNION ALL
  SELECT name, {_SUMS} FROM (
    SELECT session_id AS name, {_COLUMNS} FROM usage_changes
    UNION ALL
    SELECT name, {_COLUMNS} FROM usage_sums
    WHERE kind = 'whole' AND at = 0 AND name IN ({_CHANGED})
  ) AS changed GROUP BY name HAVING sum(turns) > 0
) AS spent ORDER BY {_ORDER} LIMIT $1
"""
_COUNT_WHOLE = f"""
SELECT (SELECT count(*) FROM usage_sums WHERE kind = 'whole' AND turns > 0)
  + (SELECT count(*) FROM (
       SELECT session_id FROM usage_changes WHERE NOT EXISTS (
         SELECT 1 FROM usage_sums
         WHERE kind = 'whole' AND at = 0 AND name = session_id AND turns > 0)
       GROUP BY session_id HAVING sum(turns) > 0) AS added)
  - (SELECT count(*) FROM usage_sums s WHERE kind = 'whole' AND at = 0 AND turns > 0
       AND name IN ({_CHANGED})
       AND turns + (SELECT sum(c.turns) FROM usage_changes c WHERE c.session_id = name) = 0)
"""
_BEGINNING = "SELECT min(started_at) FROM turns"


async def sum_usage(tx: Transaction, since: int) -> Usage:
    """See `ports.Log.get_usage`."""
    return (await _total(tx, since)).usage


async def list_usage(tx: Transaction, by: UsageBy, since: int) -> tuple[UsageRow, ...]:
    """See `ports.Log`."""
    size = QUARTER if by == "day" else DAY
    sql = _BY_PERSON if by == "person" else _SPENT.format(by=by, name=_NAMES[by])
    rows = await tx.fetch(sql, (since, _whole(since, size)))
    rows.sort(key=lambda row: str(row[0]))
    return tuple(map(_row, rows))


async def rank_usage(tx: Transaction, since: int, limit: int) -> UsageRanking:
    """See `ports.Log`. All of it is of one moment, if the transaction is."""
    beginning = await tx.one(_BEGINNING)
    if beginning is None or beginning[0] is None:
        return UsageRanking((), 0, UsageRow("total", Usage(), 0))
    if since <= beginning[0]:
        rows = await tx.fetch(_RANK_WHOLE, (limit,))
        ((count,),) = await tx.fetch(_COUNT_WHOLE)
    else:
        found = await tx.fetch(_RANK, (since, _whole(since, DAY), limit))
        rows = [row[:-1] for row in found]
        count = found[0][-1] if found else 0
    return UsageRanking(tuple(map(_row, rows)), count, await _total(tx, since))


async def _total(tx: Transaction, since: int) -> UsageRow:
    # Platforms are the fewest.
    sql = _TOTAL.format(by="platform", name="platform")
    row = await tx.one(sql, (since, _whole(since, DAY)))
    return _row(("total", *(each or 0 for each in row or ())))


def _whole(since: int, size: int) -> int:
    """Where the first bucket begins that is not from before `since`."""
    return min(-(-since // size) * size, _LAST)


def _row(row: Row) -> UsageRow:
    name, tokens_in, tokens_out, read, created, cost, calls, turns, unknown, estimated = row
    usage = Usage(tokens_in, tokens_out, read, created, None if unknown else cost, calls)
    return UsageRow(plain(name) or "", usage, turns, estimated > 0)


# --- for `clew doctor` ------------------------------------------------------------------------

_SESSIONS = "SELECT id FROM sessions ORDER BY updated_at DESC LIMIT $1"
_AT: dict[str, tuple[str, str]] = {
    "day": (f"at - (at % {QUARTER} + {QUARTER}) % {QUARTER}", _QUARTER),
    **{
        kind: (f"at - (at % {DAY} + {DAY}) % {DAY}", _NAMES[kind])
        for kind in ("model", "platform", "session")
    },
    "whole": ("0", "session_id"),
}
_NEGATIVE = ", ".join(f"-{each}" for each in _NUMBERS)
# As fractions: these can't be too large. Only sums beyond all reason lose a digit by it.
_DIFFERS = " OR ".join(
    f"abs(sum({each})) > sum(abs({each})) / 1e12"
    for each in (f"CAST({each} AS double precision)" for each in _NUMBERS)
)
_WRONG = f"""
SELECT count(*) FROM (SELECT 1 AS wrong FROM (
  SELECT at, name, {_COLUMNS} FROM usage_sums WHERE kind = '{{kind}}' {{kept}}
  UNION ALL
  SELECT {{at}}, {{name}}, {_COLUMNS} FROM usage_changes {{of}}
  UNION ALL
  SELECT {{at}}, {{name}}, {_NEGATIVE} FROM usage_turns {{of}}
) AS spent GROUP BY at, name HAVING {_DIFFERS}) AS sums
"""

_FORGET = ("DELETE FROM usage_sums", "DELETE FROM usage_changes")
_KEY = "at, session_id, model, platform"
_FILL = f"""
INSERT INTO usage_changes ({_KEY}, {_COLUMNS}) SELECT {_KEY}, {_COLUMNS} FROM usage_turns
"""


async def check_usage_sums(tx: Transaction, *, full: bool) -> Finding:
    """Compare the sums with the turns: of the newest sessions, or all sums with `full`."""
    kinds: tuple[str, ...] = tuple(_AT)
    bindings: Row = ()
    kept = of = ""
    if not full:
        newest = [session_id for (session_id,) in await tx.fetch(_SESSIONS, (SAMPLE,))]
        kinds, bindings = ("whole",), (newest,)
        kept, of = "AND at = 0 AND name = ANY ($1)", "WHERE session_id = ANY ($1)"
    wrong = 0
    for kind in kinds:
        at, name = _AT[kind]
        sql = _WRONG.format(kind=kind, at=at, name=name, kept=kept, of=of)
        ((count,),) = await tx.fetch(sql, bindings)
        wrong += count
    if wrong:
        what = f"{counted(wrong, 'sum')} of usage differ{'s' if wrong == 1 else ''} from the turns"
        return Finding("usage", "problem", what, FIX, "usage")
    checked = "all sums are" if full else "the newest sessions' sums are"
    return Finding("usage", "ok", f"{checked} what their turns have spent")


async def rebuild_usage_sums(tx: Transaction) -> str:
    """Make all sums anew from the turns. No turn may be written meanwhile."""
    for sql in _FORGET:
        await tx.run(sql)
    count = await tx.run(_FILL)
    have = "has" if count == 1 else "have"
    return f"what {counted(count, 'turn')} {have} spent was summed up again"
