"""Updating the schema of a database: all of it or nothing, and told in words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clew.errors import StoreUnavailable
from clew.store import open_store
from clew.store.migrations import Migration
from clew.store.postgres import doctor
from clew.store.postgres.schema import shipped_migrations
from clew.store.postgres.store import PostgresStore
from clew.testing.contract.case import make
from tests.postgres.server import Server
from tests.store.old_tokens import OLD_TOKENS

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
