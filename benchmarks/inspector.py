"""Looks into a store that was killed, with SQLite alone, and holds it against the ledger.

It shares no code with the store but the list of what belongs in the second index: what clew wrote
is not judged by what clew reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from benchmarks.processes.writer import WHOLE, Ledger, text_of
from clew.core.search.query import spaceless_tokens


def inspect_file(connection: apsw.Connection, ledger: Ledger) -> list[str]:
    """What is wrong: nothing, one hopes."""
    if connection.execute("SELECT count(*) FROM sqlite_schema").get == 0:
        return [] if ledger == Ledger() else ["acknowledged facts, and an empty file"]
    return [
        *_unsound(connection),
        *_out_of_step(connection),
        *_lost_messages(connection, ledger),
        *_half_records(connection, ledger),
        *_lost_forks(connection, ledger),
        *_back_from_the_dead(connection, ledger),
    ]


def _unsound(connection: apsw.Connection) -> Iterator[str]:
    for (found,) in connection.execute("PRAGMA integrity_check"):
        if found != "ok":
            yield f"integrity: {found}"


def _out_of_step(connection: apsw.Connection) -> Iterator[str]:
    """Both full-text indexes hold exactly the messages that there are."""
    for index in ("messages_fts", "messages_spaceless"):
        try:
            check = f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)"  # noqa: S608
            connection.execute(check)
        except apsw.Error as error:
            yield f"{index}: {error}"
    messages = dict(connection.execute("SELECT id, content FROM messages"))
    spaceless = {row for row, content in messages.items() if spaceless_tokens(content) is not None}
    for index, expected in (("messages_fts", set(messages)), ("messages_spaceless", spaceless)):
        sql = f"SELECT id FROM {index}_docsize"  # noqa: S608  # constants
        indexed = {row for (row,) in connection.execute(sql)}
        if indexed != expected:
            yield f"{index}: {len(indexed)} messages indexed, {len(expected)} there"


def _lost_messages(connection: apsw.Connection, ledger: Ledger) -> Iterator[str]:
    for session, count in ledger.said.items():
        rows = connection.execute(
            "SELECT seq, content FROM messages WHERE session_id = ? ORDER BY seq", (session,)
        ).fetchall()
        if rows != [(number, text_of(number)) for number in range(1, len(rows) + 1)]:
            yield f"{session}: messages doubled, lost or out of order"
        # One more may be stored than the writer could report.
        if len(rows) not in (count, count + 1):
            yield f"{session}: {count} acknowledged, {len(rows)} stored"
        if _one(connection, "SELECT head FROM sessions WHERE id = ?", session) != len(rows):
            yield f"{session}: the head is not the last message"


def _half_records(connection: apsw.Connection, ledger: Ledger) -> Iterator[str]:
    for session, count in ledger.imported.items():
        stored = _one(connection, "SELECT count(*) FROM messages WHERE session_id = ?", session)
        if stored not in (count * WHOLE, (count + 1) * WHOLE):
            yield f"{session}: {count} records acknowledged, {stored} messages stored"


def _lost_forks(connection: apsw.Connection, ledger: Ledger) -> Iterator[str]:
    for session, knot in ledger.forks.items():
        if _one(connection, "SELECT forked_at_seq FROM sessions WHERE id = ?", session) != knot:
            yield f"the fork {session} is gone"
        if _one(connection, "SELECT count(*) FROM scratchpad WHERE session_id = ?", session) != 1:
            yield f"the fork {session} is half made"


def _back_from_the_dead(connection: apsw.Connection, ledger: Ledger) -> Iterator[str]:
    alive = "SELECT count(*) FROM sessions WHERE id = ? AND deleted_at IS NULL"
    for session in ledger.trashed:
        if _one(connection, alive, session):
            yield f"{session} is back from the trash"
    for session in ledger.purged:
        if _one(connection, "SELECT count(*) FROM messages WHERE session_id = ?", session):
            yield f"{session} was purged and is still there"


def _one(connection: apsw.Connection, sql: str, session: str) -> Any:
    return connection.execute(sql, (session,)).get
