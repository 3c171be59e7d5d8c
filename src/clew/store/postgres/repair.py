"""What `clew doctor --fix` does in PostgreSQL: only what can't lose anything, in short steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from clew.core.names import counted
from clew.core.text import decode_text
from clew.store.diagnosis import Diagnosis, Repaired
from clew.store.postgres.connection import Connection, connect, conninfo_of, place_of
from clew.store.postgres.database import DIALECT
from clew.store.postgres.doctor import list_unindexed
from clew.store.postgres.errors import DRIVER_ERRORS, translate
from clew.store.postgres.words import vector_of
from clew.store.work.checksums import accept_changes
from clew.store.work.counters import correct_counters
from clew.store.work.usage import rebuild_usage_sums


async def repair_database(url: str, diagnosis: Diagnosis) -> tuple[Repaired, ...]:
    """Repair what the diagnosis says can be repaired. A store that is not usable is left alone."""
    wanted = {finding.fix: finding.name for finding in diagnosis.findings if finding.fix}
    if not diagnosis.usable or not wanted:
        return ()
    fixes: dict[str, Callable[[Connection], Awaitable[str]]] = {
        "index": _index_again,
        "processes": _clear_processes,
        "counters": _count_again,
        "usage": _sum_up_usage,
        "checksums": _accept_changes,
    }
    try:
        connection = await connect(conninfo_of(url))
        try:
            return tuple([
                Repaired(wanted[fix], await work(connection))
                for fix, work in fixes.items()
                if fix in wanted
            ])  # fmt: skip
        finally:
            await connection.close()
    except DRIVER_ERRORS as error:
        raise translate(error, place_of(url)) from error


async def _clear_processes(connection: Connection) -> str:
    rows = await connection.fetch(
        "DELETE FROM processes WHERE pg_try_advisory_xact_lock_shared(lock) RETURNING 1",
    )
    whose = "a dead process" if len(rows) == 1 else "dead processes"
    return f"{counted(len(rows), 'row')} of {whose} removed"


async def _accept_changes(connection: Connection) -> str:
    return await accept_changes(connection, DIALECT)


async def _sum_up_usage(connection: Connection) -> str:
    async with connection.transaction():
        await connection.execute("LOCK TABLE sessions, turns IN SHARE MODE")
        return await rebuild_usage_sums(connection)


async def _count_again(connection: Connection) -> str:
    """Correct session by session, each locked like for an append, so that no writer waits long."""
    corrected = 0
    for (session_id,) in await connection.fetch("SELECT id FROM sessions WHERE purged_at IS NULL"):
        async with connection.transaction():
            corrected += await correct_counters(connection, session_id)
    return f"the counters of {counted(corrected, 'session')} corrected"


async def _index_again(connection: Connection) -> str:
    """Index the messages that are missing or wrong, one by one."""
    wrong = [row_id async for row_id in list_unindexed(connection)]
    for row_id in wrong:
        async with connection.transaction():
            for (content,) in await connection.fetch(
                "SELECT content FROM messages WHERE id = $1 FOR KEY SHARE", (row_id,)
            ):
                await connection.execute(
                    """INSERT INTO messages_words (message_id, words, size, partial)
                       VALUES ($1, $2::tsvector, $3::bigint, $4::boolean)
                       ON CONFLICT (message_id) DO UPDATE SET words = excluded.words,
                         size = excluded.size, partial = excluded.partial""",
                    (row_id, *vector_of(decode_text(content))),
                )
    return f"{counted(len(wrong), 'message')} indexed again"
