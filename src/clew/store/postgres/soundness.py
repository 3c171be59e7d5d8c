"""Is what the database holds in step with itself? Checks that only look.

What the server promises (pages, constraints) is asked of it; what clew promises is counted anew.
The server itself is looked at by `doctor`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from clew.core.names import counted, format_count
from clew.core.text import decode_text
from clew.store.findings import FIX, SAMPLE, Finding, some
from clew.store.postgres import migrating
from clew.store.postgres.connection import Connection
from clew.store.postgres.words import vector_of
from clew.store.work.thread import hidden_messages

_STEP = 500

_REFERENCES = """
SELECT conrelid::regclass::text, confrelid::regclass::text, a.attname, b.attname, convalidated
FROM pg_constraint
JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = conkey[1]
JOIN pg_attribute b ON b.attrelid = confrelid AND b.attnum = confkey[1]
WHERE contype = 'f' AND connamespace = current_schema()::regnamespace
"""

_SOME_MESSAGES = """
SELECT m.id, m.content
FROM messages m
WHERE m.id IN (
  SELECT id FROM (SELECT id FROM messages ORDER BY id DESC LIMIT $1) newest
  UNION
  SELECT (SELECT id FROM messages WHERE id >= thrown.at ORDER BY id LIMIT 1)
  FROM (SELECT (random() * (SELECT max(id) FROM messages))::bigint AS at
        FROM generate_series(1, $1)) thrown)
"""

_NEXT_MESSAGES = """
SELECT m.id, m.content
FROM messages m
WHERE m.id > $1 ORDER BY m.id LIMIT $2
"""


async def check_references(connection: Connection, *, full: bool) -> AsyncIterator[Finding]:
    """The server keeps them, unless somebody took that away; `full` looks for itself."""
    wanted = sum(step.sql.count("REFERENCES ") for step in migrating.shipped_migrations())
    rows = await connection.fetch(_REFERENCES)
    broken = [f"{row[0]}.{row[2]} is not checked" for row in rows if not row[4]]
    if len(rows) < wanted:
        broken.append(f"{counted(wanted - len(rows), 'constraint')} missing")
    for table, other, column, key, _ in rows if full else ():
        ((count,),) = await connection.fetch(
            f"""SELECT count(*) FROM {table} a WHERE a.{column} IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM {other} b WHERE b.{key} = a.{column})""",
        )
        if count:
            broken.append(f"{format_count(count)} in {table} belong to nothing")
    if broken:
        advice = "Somebody changed it by hand: restore it with pg_restore from a pg_dump."
        yield Finding("references", "problem", ", ".join(broken), advice)
    else:
        what = "every row belongs somewhere" if full else f"the server keeps all {len(rows)}"
        yield Finding("references", "ok", what)


async def check_counters(connection: Connection, *, full: bool) -> AsyncIterator[Finding]:
    """`head` and gaps are the thread itself and can't be recomputed; the counters can."""
    wrong, torn = [], []
    sessions = await connection.fetch(
        "SELECT id FROM sessions WHERE purged_at IS NULL ORDER BY updated_at DESC LIMIT $1",
        (None if full else SAMPLE,),
    )
    for (session_id,) in sessions:
        counters = await count_session(connection, session_id)
        if not counters.whole:
            torn.append(session_id)
        elif counters.stored != counters.actual:
            wrong.append(session_id)
    if torn:
        what = f"messages are missing from {some(torn)}"
        yield Finding("threads", "problem", what, "Restore it with pg_restore from a pg_dump.")
    if wrong:
        yield Finding("counters", "problem", f"wrong for {some(wrong)}", FIX, "counters")
    if not torn and not wrong:
        yield Finding("counters", "ok", f"right for {counted(len(sessions), 'session')}")


class Counters(NamedTuple):
    """(message_count, content_bytes) as stored and as counted; `whole`: no message is missing."""

    stored: tuple[int, int]
    actual: tuple[int, int]
    whole: bool


async def count_session(connection: Connection, session_id: str) -> Counters:
    """Count a session's thread anew."""
    row = await connection.one(
        """SELECT message_count, content_bytes, head, coalesce(forked_at_seq, 0),
                  (SELECT count(*) FROM messages WHERE session_id = s.id),
                  (SELECT coalesce(max(seq), 0) FROM messages WHERE session_id = s.id),
                  (SELECT coalesce(sum(size), 0)::bigint FROM scratchpad WHERE session_id = s.id),
                  (SELECT coalesce(sum(octet_length(content) + coalesce(octet_length(parts), 0)
                          + coalesce(octet_length(tool_calls), 0)), 0)::bigint
                   FROM messages WHERE session_id = s.id)
           FROM sessions s WHERE id = $1""",
        (session_id,),
    )
    assert row is not None
    count, size, head, knot, own, last, scratch, said = row
    shown = head - await hidden_messages(connection, session_id, head)
    whole = own == head - knot and (last == head or own == 0)
    return Counters((count, size), (shown, said + scratch), whole)


async def check_index(connection: Connection, *, full: bool) -> AsyncIterator[Finding]:
    ((messages, indexed),) = await connection.fetch(
        "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM messages_words)",
    )
    if messages != indexed:
        what = f"{format_count(indexed)} of {counted(messages, 'message')} indexed"
        yield Finding("search index", "problem", what, FIX, "index")
    elif lost := await find_unindexed(
        connection, await connection.fetch(_SOME_MESSAGES, (SAMPLE,))
    ):
        what = f"messages can't be found: rows {some([str(each) for each in lost])}"
        yield Finding("search index", "problem", what, FIX, "index")
    else:
        yield Finding("search index", "ok", f"in step, {counted(messages, 'message')}")
    if full:
        wrong = [str(each) async for each in list_unindexed(connection)]
        if wrong:
            what = f"does not say what the messages say: {some(wrong)}"
            yield Finding("whole index", "problem", what, FIX, "index")
        else:
            yield Finding("whole index", "ok", "compared with every message")


async def list_unindexed(connection: Connection) -> AsyncIterator[int]:
    """Every message that the index does not have as it should."""
    last = 0
    while rows := await connection.fetch(_NEXT_MESSAGES, (last, _STEP)):
        for row_id in await find_unindexed(connection, rows):
            yield row_id
        last = rows[-1][0]


async def find_unindexed(connection: Connection, rows: list[tuple[object, ...]]) -> list[int]:
    """Which of these messages the index does not have as it should. The server compares."""
    wanted = [vector_of(decode_text(str(content))) for _, content, *_ in rows]
    found = await connection.fetch(
        """SELECT given.id FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::boolean[])
             AS given (id, words, size, partial)
           LEFT JOIN messages_words w ON w.message_id = given.id
           WHERE (w.words, w.size, w.partial)
             IS DISTINCT FROM (given.words::tsvector, given.size::integer, given.partial)""",
        (
            [row[0] for row in rows],
            [vector.words for vector in wanted],
            [vector.size for vector in wanted],
            [vector.partial for vector in wanted],
        ),
    )
    return [row_id for (row_id,) in found]
