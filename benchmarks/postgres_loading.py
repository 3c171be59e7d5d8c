"""A PostgreSQL database full of conversations, by COPY: minutes become seconds.

The rows are those that the store itself would write: its bindings, its words, its counters. Forks
are left out, and nobody holds a lease afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import psycopg

from clew.core.changes import AddMessage, EndTurn, StartTurn
from clew.core.text import fold
from clew.store.postgres.words import vector_of
from clew.store.rows import NEW_MESSAGE_COLUMNS, USAGE_COLUMNS, Row
from clew.store.work.record import PREVIEW, new_message
from clew.testing.corpus import Conversation, Corpus

SEED = 7
LONG_ID = "10000000-0000-4000-8000-000000000000"
LONG = 10_000
"""Messages of the one long session that every database has besides."""

COLUMNS = {
    "sessions": (
        "id, key, agent, person, platform, kind, title, title_key, title_by, cwd, project, model, "
        "provider, channel, room, pinned, message_count, content_bytes, preview, preview_key, "
        "head, created_at, updated_at, last_interaction_at, archived_at"
    ),
    "leases": "session_id, epoch, expires_at",
    "turns": f"id, session_id, first_seq, status, model, {USAGE_COLUMNS}, started_at, ended_at",
    "messages": f"id, session_id, seq, {NEW_MESSAGE_COLUMNS}, at",
    "messages_words": "message_id, words, size, partial",
}


class Loaded(msgspec.Struct, frozen=True):
    """What a database holds."""

    messages: int
    sessions: int
    content_bytes: int


def fill(url: str, *, messages: int, now: int) -> Loaded:
    """Fill clew's empty tables: a session for each twenty messages, and the long one."""
    corpus = Corpus(now=now, seed=SEED, blend="english")
    long = corpus.conversation(LONG)
    long = msgspec.structs.replace(
        long, new=msgspec.structs.replace(long.new, id=LONG_ID), archived=False
    )
    rows = _Rows()
    with psycopg.connect(url, autocommit=True) as connection:
        for conversation in (*corpus.conversations(messages // 20, messages), long):
            rows.add(conversation)
            if rows.size >= 20_000:
                rows.write(connection)
        rows.write(connection)
        connection.execute("SELECT setval('messages_id_seq', (SELECT max(id) FROM messages))")
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    return Loaded(rows.messages, rows.sessions, rows.content_bytes)


class _Rows:
    """Rows that wait to be written."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Row]] = {table: [] for table in COLUMNS}
        self.messages = self.sessions = self.content_bytes = 0

    @property
    def size(self) -> int:
        """Messages that wait."""
        return len(self._waiting["messages"])

    def add(self, conversation: Conversation) -> None:
        """One session with all that was said in it."""
        new = conversation.new
        seq = size = last = 0
        preview: str | None = None
        for changes in conversation.turns:
            self._turn(new.id or "", seq + 1, changes)
            for change in changes:
                if not isinstance(change, AddMessage):
                    continue
                seq += 1
                bindings, taken, last = new_message(change, 0)
                size += taken
                self.messages += 1
                self._waiting["messages"].append((self.messages, new.id, seq, *bindings, last))
                self._waiting["messages_words"].append(
                    (self.messages, *vector_of(change.draft.content))
                )
                preview = preview or change.draft.content.strip()[:PREVIEW]
        self.sessions += 1
        self.content_bytes += size
        self._waiting["leases"].append((new.id, 0, 0))
        self._waiting["sessions"].append((
            new.id, new.key, new.agent, new.person, new.platform, new.kind, new.title,
            None if new.title is None else fold(new.title), new.title_by, new.cwd, new.project,
            new.model, new.provider, new.channel, new.room, conversation.pinned, seq, size, preview,
            None if preview is None else fold(preview), seq, new.created_at,
            max(last, new.created_at or 0), last or None, last if conversation.archived else None,
        ))  # fmt: skip

    def _turn(self, session_id: str, first: int, changes: Iterable[object]) -> None:
        started = ended = None
        for change in changes:
            started = change if isinstance(change, StartTurn) else started
            ended = change if isinstance(change, EndTurn) else ended
        if started is not None and ended is not None:
            self._waiting["turns"].append((
                started.turn_id, session_id, first, ended.status, started.model, *(0,) * 6,
                started.at, ended.at,
            ))  # fmt: skip

    def write(self, connection: psycopg.Connection) -> None:
        """Write what waits, parents first."""
        with connection.transaction(), connection.cursor() as cursor:
            for table, columns in COLUMNS.items():
                with cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
                    for row in self._waiting[table]:
                        copy.write_row(row)
                self._waiting[table].clear()
