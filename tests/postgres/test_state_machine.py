"""The PostgreSQL store beside a model in memory, over random histories."""

from __future__ import annotations

import psycopg

from clew.core.text import decode_text
from clew.ports import Clock, Store
from clew.store.postgres.store import PostgresStore
from clew.store.postgres.words import vector_of
from clew.testing.machine import run_machine
from tests.postgres.server import Server
from tests.sizes import pick

EXAMPLES = pick(12, 50)


def run(examples: int, server: Server, database: str) -> None:
    async def open_empty(clock: Clock) -> Store:
        server.empty(database)  # the history before this one has ended
        return await PostgresStore.open(server.url(database), clock=clock, search_seconds=30)

    async def check(store: Store) -> None:
        check_database(server.url(database))

    run_machine(open_empty, examples=examples, check=check)


def check_database(url: str) -> None:
    """What a sound database looks like: the index in step, nothing left over."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            """SELECT m.content, w.words::text, w.size, w.partial
               FROM messages m LEFT JOIN messages_words w ON w.message_id = m.id"""
        ).fetchall()
        for content, *kept in rows:
            words, *expected = vector_of(decode_text(content))
            as_kept = connection.execute("SELECT %s::tsvector::text", (words,)).fetchone()
            assert kept == [*(as_kept or ()), *expected]
        unread = connection.execute(
            """SELECT count(*) FROM messages m JOIN sessions s ON s.id = m.session_id
               WHERE s.purged_at IS NOT NULL AND m.seq > coalesce(
                 (SELECT max(forked_at_seq) FROM sessions c WHERE c.parent_id = s.id), 0)"""
        ).fetchone()
        assert unread == (0,)
        miscounted = connection.execute(
            """SELECT id FROM sessions s
               WHERE purged_at IS NULL AND head - coalesce(forked_at_seq, 0) <>
                 (SELECT count(*) FROM messages m WHERE m.session_id = s.id
                   AND seq > coalesce(s.forked_at_seq, 0))"""
        ).fetchall()
        assert miscounted == []


def test_the_store_answers_as_the_model_does(server: Server, database: str) -> None:
    run(EXAMPLES, server, database)
