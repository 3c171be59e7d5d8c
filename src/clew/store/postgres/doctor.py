"""Is the store in PostgreSQL sound? Checks that only look, and may run beside everybody.

The server, the way to it and who else is there. Whether the rows are in step with each other is
looked at by `soundness`; what can be put right is done by `mending`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Callable

import psycopg

from clew.core.names import counted, format_bytes
from clew.errors import ClewError
from clew.store.findings import FIX, Advance, Diagnosis, Finding
from clew.store.postgres import migrating
from clew.store.postgres.connection import (
    Connection,
    connect,
    conninfo_of,
    place_of,
)
from clew.store.postgres.failures import DRIVER_ERRORS, translate
from clew.store.postgres.soundness import check_counters, check_index, check_references
from clew.store.presence import ProcessInfo

OLDEST = 14
"""The oldest server that everything here was written for."""

SLOW = 50.0
"""Milliseconds of one round to the server, above which every command feels it."""

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
    return place, f"PostgreSQL {version}", migrating.shipped_migrations()[-1].number


async def examine(url: str, *, full: bool = False, advance: Advance = lambda _: None) -> Diagnosis:
    """Look at everything: a sample of the rows, or all of them with `full`."""
    place = place_of(url) if conninfo_of(url) else ""
    findings: list[Finding] = []
    try:
        connection = await connect(conninfo_of(url))
        try:
            await connection.execute("SET statement_timeout = '10min'")
            looking = _look(connection, url, full=full, advance=advance)
            findings.extend([finding async for finding in looking])
        finally:
            await connection.close()
    except DRIVER_ERRORS as error:
        findings.append(Finding("store", "problem", str(translate(error, place))))
    except ClewError as error:
        findings.append(Finding("store", "problem", str(error)))
    else:
        return Diagnosis(tuple(findings))
    return Diagnosis(tuple(findings), usable=False)


async def _look(
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
    latest = migrating.shipped_migrations()[-1].number
    version = await migrating.stored_version(connection, place, latest)
    if version == 0:
        yield Finding("store", "ok", f"there is none in {place} yet", "The first start makes it.")
        return
    if version < latest:
        what = f"{version}, this clew has {latest}"
        yield Finding("schema", "warning", what, f"The next start updates it. {_BACK_UP}")
        return  # the other checks ask for what the update brings
    yield Finding("schema", "ok", str(version))
    advance(1)
    checks: tuple[Callable[..., AsyncIterator[Finding]], ...] = (
        _check_processes,
        check_references,
        check_counters,
        check_index,
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
        what = f"{version} is older than what clew is made for ({OLDEST})"
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
    """Whether one connection hears of what another does; with some poolers it never would."""
    try:
        await connection.execute("LISTEN clew_doctor")
    except psycopg.errors.ReadOnlySqlTransaction:
        return Finding("notifications", "warning", "a standby has none")
    other = await connect(conninfo_of(url))
    try:
        await other.execute("NOTIFY clew_doctor")
    finally:
        await other.close()
    heard = [each async for each in connection.notifies(timeout=_PATIENCE, stop_after=1)]
    await connection.execute("UNLISTEN clew_doctor")
    if heard:
        return Finding("notifications", "ok", "arrive")
    advice = "A PgBouncer in between has to be in session mode."
    return Finding("notifications", "problem", "do not arrive", advice)


async def _check_processes(connection: Connection, *, full: bool) -> AsyncIterator[Finding]:  # noqa: ARG001  # always whole
    rows = await connection.fetch(_PROCESSES)
    living = [str(ProcessInfo(*row[:6])) + f" on {row[1]}" for row in rows if row[6]]
    what = f"open in {'; '.join(living)}" if living else "nobody else has it open"
    yield Finding("processes", "ok", what)
    dead = sum(not row[6] for row in rows)
    if dead:
        what = f"{counted(dead, 'row')} left behind by processes that died"
        yield Finding("process rows", "warning", what, FIX, "processes")
