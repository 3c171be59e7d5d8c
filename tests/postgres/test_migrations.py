"""Updating the schema of a database: all of it or nothing, and told in words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from clew.core.changes import RedoTurn
from clew.core.message import Draft
from clew.errors import StoreUnavailable
from clew.store import open_store
from clew.store.migrations import Migration
from clew.store.postgres import doctor, schema
from clew.store.postgres.connection import connect, conninfo_of
from clew.store.postgres.repair import repair_database
from clew.store.postgres.schema import shipped_migrations
from clew.store.postgres.store import PostgresStore
from clew.store.rows import checksum
from clew.testing.contract.case import make, record, say
from tests.patience import PATIENCE
from tests.postgres.server import Server
from tests.store.files import Child
from tests.store.old_tokens import OLD_TOKENS

OLD = "aaaaaaaa-0000-4000-8000-000000000001"
FORK = "aaaaaaaa-0000-4000-8000-000000000002"

FILL = f"""
INSERT INTO sessions (id, key, agent, person, platform, kind, parent_id, forked_at_seq,
  message_count, content_bytes, head, created_at, updated_at)
VALUES ('{OLD}', 'cli:old', 'main', 'owner', 'cli', 'cli', NULL, NULL, 1, 27, 3, 7, 7),
  ('{FORK}', 'cli:old:fork:7', 'main', 'owner', 'cli', 'cli', '{OLD}', 3, 1, 0, 3, 7, 7);
INSERT INTO leases VALUES ('{OLD}', NULL, 0, 0), ('{FORK}', NULL, 0, 0);
INSERT INTO turns (id, session_id, first_seq, status, started_at, ended_at)
  VALUES ('taken back', '{OLD}', 2, 'done', 7, 7);
INSERT INTO undone (session_id, turn_id, undone_at)
  VALUES ('{OLD}', 'taken back', 7), ('{FORK}', 'taken back', 7);
INSERT INTO messages (id, session_id, seq, turn_id, role, content, parts, tool_call_id, tool_name,
  is_error, model, cost, at)
VALUES (11, '{OLD}', 1, NULL, 'user', 'ключ und 狐狸', '[]', NULL, NULL, false, NULL, NULL, 5),
  (12, '{OLD}', 2, 'taken back', 'tool', 'no', NULL, 'call', 'shell', true, NULL, NULL, 6),
  (13, '{OLD}', 3, 'taken back', 'assistant', 'oh', NULL, NULL, NULL, false, 'model', 4, 7);
SELECT setval('messages_id_seq', 99);
"""

LATEST = shipped_migrations()[-1].number

SCHEMA = """
SELECT 'column', format('%s.%s %s %s', attrelid::regclass, attname, atttypid::regtype, attnotnull)
FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
WHERE relnamespace = 'public'::regnamespace AND attnum > 0
UNION ALL SELECT 'index', indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint', format('%s %s', conname, pg_get_constraintdef(oid))
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'step', format('%s %s %s', number, name, applied_at) FROM clew_schema
UNION ALL SELECT 'session', id FROM sessions
ORDER BY 1, 2
"""


@pytest.fixture
def older(server: Server, template: str) -> Iterator[str]:
    """A database of this clew, for which the steps below are new."""
    name = server.create_database(template)
    yield name
    server.drop_database(name)


def step(sql: str, number: int = 1) -> Migration:
    return Migration(LATEST + number, f"step{number}", sql)


async def test_an_update_that_fails_leaves_everything_as_it_was(server: Server, older: str) -> None:
    url = server.url(older)
    async with await open_store(url) as store:
        await make(store)
    server.execute("CREATE TABLE added (id INT)", older)
    before = server.execute(SCHEMA, older)
    steps = (
        *shipped_migrations(),
        step("ALTER TABLE sessions ADD colour TEXT; DELETE FROM sessions; DROP TABLE todos", 1),
        step("CREATE INDEX sessions_colour ON sessions (colour); CREATE TABLE added (id INT)", 2),
    )

    with pytest.raises(StoreUnavailable, match=r"already exists.*Nothing was changed") as failed:
        await PostgresStore.open(url, migrations=steps)

    assert f"schema {LATEST} to {LATEST + 2}" in str(failed.value)
    assert server.execute(SCHEMA, older) == before
    async with await open_store(url) as store:  # which this clew can still use
        assert (await store.stats()).sessions == 1
    server.execute("DROP TABLE added", older)
    await (await PostgresStore.open(url, migrations=steps)).close()
    assert server.execute("SELECT max(number) FROM clew_schema", older) == [(LATEST + 2,)]


async def test_a_token_of_an_older_schema_may_do_what_it_could(server: Server) -> None:
    before = next(step.number for step in shipped_migrations() if step.name == "scopes") - 1
    name = server.create_database()
    try:
        url = server.url(name)
        await (await PostgresStore.open(url, migrations=shipped_migrations()[:before])).close()
        for number, token in enumerate(OLD_TOKENS):
            server.execute(token.insert(number, f"decode('0{number}', 'hex')"), name)
        async with await open_store(url) as store:
            assert await store.find_token(b"\x01") is not None
            found = [(each.name, each.scopes, each.kind) for each in await store.list_tokens()]
        assert found == [(each.name, each.scopes, each.kind) for each in OLD_TOKENS]
    finally:
        server.drop_database(name)


async def test_a_first_start_that_fails_leaves_the_database_empty(server: Server) -> None:
    name = server.create_database()
    try:
        with pytest.raises(StoreUnavailable, match="Nothing was changed"):
            await PostgresStore.open(
                server.url(name), migrations=(*shipped_migrations(), step("SELECT nonsense"))
            )
        sql = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        assert server.execute(sql, name) == [(0,)]
    finally:
        server.drop_database(name)


async def test_a_database_of_the_schema_before_messages_were_written_anew_keeps_all_it_has(
    server: Server,
) -> None:
    name = server.create_database()
    url = server.url(name)
    rows = """SELECT id, session_id, seq, turn_id, role, content, parts, tool_call_id, tool_name,
      tool_calls, is_error, model, cost, at FROM messages ORDER BY id"""
    reports: list[tuple[str, int, int]] = []
    try:
        connection = await connect(conninfo_of(url))
        await schema.apply(connection, shipped_migrations()[:4], "here")
        await connection.close()
        server.execute(FILL, name)
        before = server.execute(rows, name)

        opening = PostgresStore.open(url, report=lambda *report: reports.append(report))
        async with await opening as store:
            assert server.execute(rows, name) == before
            for each in (OLD, FORK):
                assert [m.seq for m in await store.get_messages(each)] == [1]
            await record(store, FORK, RedoTurn("taken back"))
            assert [m.seq for m in await store.get_messages(FORK)] == [1, 2, 3]
            lease = await store.acquire_lease(OLD, store.identity)
            added = await store.append(OLD, lease.epoch, Draft(role="user", content="new"))
            assert added.id == 100  # no id is given twice
        sums = server.execute(
            """SELECT checksum, turn_id, role, content, parts, tool_call_id, tool_name, tool_calls,
                 model, author FROM messages""",
            name,
        )
        assert [row[0] for row in sums] == [checksum(*row[1:]) for row in sums]
        found = {each.name: each for each in (await doctor.examine(url, full=True)).findings}
        assert found["references"].level == "ok"
        assert "disk" in reports[0][0]
        assert reports[-1] == ("Updating messages", 3, 3)
    finally:
        server.drop_database(name)


UPDATE = """
import asyncio, os, sys, threading, time
from clew.store.postgres.store import PostgresStore

def die():
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), 9)

threading.Thread(target=die).start()
asyncio.run(PostgresStore.open(sys.argv[1]))
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.1, 0.2, 0.4])
async def test_an_update_that_is_killed_leaves_the_old_database_or_the_new(
    server: Server, seconds: float
) -> None:
    name = server.create_database()
    url = server.url(name)
    try:
        connection = await connect(conninfo_of(url))
        await schema.apply(connection, shipped_migrations()[:4], "here")
        await connection.close()
        server.execute(FILL, name)
        rows = "SELECT id, session_id, seq, content FROM messages ORDER BY id"
        before = server.execute(rows, name)
        with Child(UPDATE, url, seconds) as child:
            await asyncio.to_thread(child.process.wait, PATIENCE)

        assert server.execute("SELECT max(number) FROM clew_schema", name)[0][0] in (4, LATEST)
        async with await open_store(url) as store:
            assert [m.seq for m in await store.get_messages(OLD, undone=True)] == [1, 2, 3]
        assert server.execute(rows, name) == before
        assert server.execute("SELECT max(number) FROM clew_schema", name) == [(LATEST,)]
    finally:
        server.drop_database(name)


async def test_a_changed_message_has_no_checksum_any_more(server: Server, older: str) -> None:
    async with await open_store(server.url(older)) as store:
        session = await make(store)
        await say(store, session.id, "one", "two")
    server.execute("UPDATE messages SET content = 'three' WHERE seq = 2", older)
    left = "SELECT checksum IS NULL FROM messages ORDER BY seq"
    assert server.execute(left, older) == [(False,), (True,)]
    url = server.url(older)
    found = {each.name: each for each in (await doctor.examine(url, full=True)).findings}
    assert (found["checksums"].level, found["changed by hand"].level) == ("ok", "warning")
    repaired = await repair_database(url, await doctor.examine(url, full=True))
    assert "changed by hand" in {each.name for each in repaired}
    assert server.execute(left, older) == [(False,), (False,)]


async def test_a_damaged_message_is_found(server: Server, older: str) -> None:
    url = server.url(older)
    async with await open_store(url) as store:
        session = await make(store)
        await say(store, session.id, "one", "two")
        server.execute("UPDATE messages SET checksum = checksum # 1 WHERE seq = 2", older)
        assert await store.list_damaged(session.id) == (2,)
    found = {each.name: each for each in (await doctor.examine(url, full=True)).findings}
    assert found["checksums"].level == "problem"
    assert f"{session.id} message 2" in found["checksums"].what


async def test_an_update_may_take_as_long_as_it_takes(server: Server, older: str) -> None:
    sql = "CREATE TABLE limits AS SELECT current_setting('statement_timeout')"
    steps = (*shipped_migrations(), step(sql))
    async with await PostgresStore.open(server.url(older), migrations=steps):
        assert server.execute("SELECT * FROM limits", older) == [("0",)]


async def test_the_doctor_names_the_backup_to_make_before_an_update(
    server: Server, older: str
) -> None:
    server.execute("DELETE FROM clew_schema WHERE number > 1", older)
    found = {each.name: each for each in (await doctor.examine(server.url(older))).findings}
    assert found["schema"].level == "warning"
    assert "pg_dump --format custom" in found["schema"].advice
