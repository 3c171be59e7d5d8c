"""The checks of `clew doctor` for a PostgreSQL store. They change nothing and block no process.

First the server and the connection to it, then which processes have the store open, then the rows:
what the server promises (references) is asked of it, what clew promises (counters, the search
index) is counted again. `repair` does what can be repaired.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Callable

import psycopg

from clew.core.names import counted, format_bytes, format_count
from clew.core.text import decode_text
from clew.errors import ClewError
from clew.store.diagnosis import FIX, SAMPLE, Advance, Diagnosis, Finding, some
from clew.store.postgres import schema
from clew.store.postgres.connection import (
    Connection,
    connect,
    conninfo_of,
    place_of,
)
from clew.store.postgres.database import DIALECT
from clew.store.postgres.errors import DRIVER_ERRORS, translate
from clew.store.postgres.words import vector_of
from clew.store.presence import ProcessInfo
from clew.store.work.checksums import check_checksums
from clew.store.work.counters import check_counters
from clew.store.work.usage import check_usage_sums

OLDEST = 14
"""The oldest version of PostgreSQL that clew is written for."""

SLOW = 50.0
"""Milliseconds of one round trip to the server, above which commands feel slow."""

CONSTRAINTS = 16
"""References between tables that the schema has."""

_RESTORE = "Restore it with pg_restore from a pg_dump."
_BACK_UP = "Make a backup before: pg_dump --format custom --file clew.dump URL."

_ROUNDS = 5
_PATIENCE = 2.0

_SERVER = """
SELECT current_setting('server_version'), current_setting('server_version_num')::int,
  current_setting('fsync'), current_setting('full_page_writes'),
  coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
  inet_server_addr() IS NULL, pg_database_size(current_database()),
  current_setting('max_connections')::int, pg_is_in_recovery()
"""

_PROCESSES = """
SELECT process, host, pid, version, command, started_at,
  NOT pg_try_advisory_xact_lock_shared(lock) FROM processes ORDER BY started_at
"""


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


async def describe(url: str) -> tuple[str, str, int]:
    """Where a store is, its engine, and the schema that this clew has."""
    place = place_of(url) if conninfo_of(url) else ""
    try:
        connection = await connect(conninfo_of(url))
        try:
            ((version,),) = await connection.fetch("SHOW server_version")
        finally:
            await connection.close()
    except DRIVER_ERRORS as error:
        raise translate(error, place) from error
    return place, f"PostgreSQL {version}", schema.shipped_migrations()[-1].number


async def examine(url: str, *, full: bool = False, advance: Advance = lambda _: None) -> Diagnosis:
    """Check everything: a sample of the rows, or all of them with `full`."""
    place = place_of(url) if conninfo_of(url) else ""
    findings: list[Finding] = []
    try:
        connection = await connect(conninfo_of(url))
        try:
            await connection.execute("SET statement_timeout = '10min'")
            checking = _check(connection, url, full=full, advance=advance)
            findings.extend([finding async for finding in checking])
        finally:
            await connection.close()
    except DRIVER_ERRORS as error:
        findings.append(Finding("store", "problem", str(translate(error, place))))
    except ClewError as error:
        findings.append(Finding("store", "problem", str(error)))
    else:
        return Diagnosis(tuple(findings))
    return Diagnosis(tuple(findings), usable=False)


async def _check(
    connection: Connection, url: str, *, full: bool, advance: Advance
) -> AsyncIterator[Finding]:
    place = place_of(url)
    async for finding in _check_server(connection, place):
        yield finding
    advance(1)
    yield await _check_latency(connection)
    advance(1)
    yield await _check_notifications(connection, url)
    advance(1)
    latest = schema.shipped_migrations()[-1].number
    version = await schema.stored_version(connection, place, latest)
    if version == 0:
        yield Finding("store", "ok", f"there is none in {place} yet", "The first start makes it.")
        return
    if version < latest:
        what = f"{version}, this clew has {latest}"
        yield Finding("schema", "warning", what, f"The next start updates it. {_BACK_UP}")
        return  # the other checks need what the update brings
    yield Finding("schema", "ok", str(version))
    advance(1)
    checks: tuple[Callable[..., AsyncIterator[Finding]], ...] = (
        _check_processes,
        _check_references,
        _check_counters,
        _check_usage,
        _check_index,
        *([_check_checksums] if full else []),
    )
    for check in checks:
        # All that a check reads is of one moment.
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        async for finding in check(connection, full=full):
            yield finding
        await connection.execute("COMMIT")
        advance(1)


async def _check_server(connection: Connection, place: str) -> AsyncIterator[Finding]:
    row = await connection.one(_SERVER)
    assert row is not None
    version, number, fsync, whole_pages, encrypted, is_socket, size, most, standby = row
    if number < OLDEST * 10_000:
        what = f"{version} is older than clew supports ({OLDEST})"
        yield Finding("PostgreSQL", "warning", what, "Update the server.")
    else:
        yield Finding("PostgreSQL", "ok", str(version))
    how = "over a local socket" if is_socket else "encrypted" if encrypted else "not encrypted"
    yield Finding("connection", "ok", f"{place}, {how}, the database takes {format_bytes(size)}")
    if standby:
        what = "this server is a standby, which can't be written to"
        yield Finding("server", "problem", what, "Use the primary's address.")
    if "off" in (fsync, whole_pages):
        what = f"fsync is {fsync}, full_page_writes is {whole_pages}: a power cut can damage it"
        yield Finding("durability", "warning", what, "Switch both on in postgresql.conf.")
    ((used,),) = await connection.fetch(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    )
    what = f"{used} of {most} in use"
    if used > most * 9 // 10:
        yield Finding("connections", "warning", what, "Raise max_connections.")
    else:
        yield Finding("connections", "ok", what)


async def _check_latency(connection: Connection) -> Finding:
    taken = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        await connection.execute("SELECT 1")
        taken.append((time.perf_counter() - start) * 1000)
    median = statistics.median(taken)
    what = f"{median:.1f} ms for one round"
    if median > SLOW:
        return Finding("latency", "warning", what, "Every command waits for several of these.")
    return Finding("latency", "ok", what)


async def _check_notifications(connection: Connection, url: str) -> Finding:
    """Whether one connection receives what another notifies; behind some poolers none does."""
    try:
        await connection.execute("LISTEN clew_doctor")
    except psycopg.errors.ReadOnlySqlTransaction:
        return Finding("notifications", "warning", "a standby has none")
    other = await connect(conninfo_of(url))
    try:
        await other.execute("NOTIFY clew_doctor")
    finally:
        await other.close()
    received = [each async for each in connection.notifies(timeout=_PATIENCE, stop_after=1)]
    await connection.execute("UNLISTEN clew_doctor")
    if received:
        return Finding("notifications", "ok", "arrive")
    advice = "A PgBouncer in between has to be in session mode."
    return Finding("notifications", "problem", "do not arrive", advice)


async def _check_processes(connection: Connection, *, full: bool) -> AsyncIterator[Finding]:  # noqa: ARG001  # it always checks all
    rows = await connection.fetch(_PROCESSES)
    living = [str(ProcessInfo(*row[:6])) + f" on {row[1]}" for row in rows if row[6]]
    what = f"open in {'; '.join(living)}" if living else "no other process has it open"
    yield Finding("processes", "ok", what)
    dead = sum(not row[6] for row in rows)
    if dead:
        what = f"{counted(dead, 'row')} left behind by processes that died"
        yield Finding("process rows", "warning", what, FIX, "processes")


# --- rows -------------------------------------------------------------------------------------


async def _check_references(connection: Connection, *, full: bool) -> AsyncIterator[Finding]:
    """The server keeps references, unless its constraints were removed; `full` checks the rows."""
    rows = await connection.fetch(_REFERENCES)
    broken = [f"{row[0]}.{row[2]} is not checked" for row in rows if not row[4]]
    if len(rows) < CONSTRAINTS:
        broken.append(f"{counted(CONSTRAINTS - len(rows), 'constraint')} missing")
    for table, other, column, key, _ in rows if full else ():
        ((count,),) = await connection.fetch(
            f"""SELECT count(*) FROM {table} a WHERE a.{column} IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM {other} b WHERE b.{key} = a.{column})""",
        )
        if count:
            broken.append(f"{format_count(count)} in {table} refer to rows that are missing")
    if broken:
        advice = "Another program changed it: restore it with pg_restore from a pg_dump."
        yield Finding("references", "problem", ", ".join(broken), advice)
    else:
        what = (
            "every row that is referred to exists" if full else f"the server keeps all {len(rows)}"
        )
        yield Finding("references", "ok", what)


async def _check_checksums(connection: Connection, *, full: bool) -> AsyncIterator[Finding]:  # noqa: ARG001  # it always checks all
    for finding in await check_checksums(connection, DIALECT, restore=_RESTORE):
        yield finding


async def _check_counters(connection: Connection, *, full: bool) -> AsyncIterator[Finding]:
    for finding in await check_counters(connection, full=full, restore=_RESTORE):
        yield finding


async def _check_usage(connection: Connection, *, full: bool) -> AsyncIterator[Finding]:
    yield await check_usage_sums(connection, full=full)


async def _check_index(connection: Connection, *, full: bool) -> AsyncIterator[Finding]:
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
            what = f"differs from the messages: {some(wrong)}"
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
    """Which of these messages the index does not have as it should; the server compares."""
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
