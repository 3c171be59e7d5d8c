"""What a database may be when it is opened, and the driver's errors in clew's words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from clew import errors
from clew.core.message import Draft
from clew.core.session import NewSession
from clew.store import open_store
from clew.store.migrations import Migration
from clew.store.postgres.errors import translate
from clew.store.postgres.schema import shipped_migrations
from clew.store.postgres.store import PostgresStore
from clew.store.sqlite.schema import shipped_migrations as sqlite_migrations
from clew.testing.contract.case import make, read
from tests.postgres.server import Server

NEXT = Migration(len(shipped_migrations()) + 1, "next", "CREATE TABLE added (id BIGINT)")


@pytest.fixture
def fresh(server: Server) -> Iterator[str]:
    """A database with nothing in it."""
    name = server.create_database()
    yield name
    server.drop_database(name)


def test_migrations_have_the_numbers_and_names_of_sqlites() -> None:
    ours = [(step.number, step.name) for step in shipped_migrations()]
    assert ours == [(step.number, step.name) for step in sqlite_migrations()]


async def test_many_that_open_an_empty_database_at_once_all_succeed(
    server: Server, fresh: str
) -> None:
    stores = await asyncio.gather(*(open_store(server.url(fresh)) for _ in range(8)))
    session = await make(stores[0])
    for store in stores:
        assert await store.get_session(session.id) == session
        await store.close()


async def test_a_newer_database_is_refused_untouched(server: Server, database: str) -> None:
    server.execute("INSERT INTO clew_schema VALUES (99, 'future')", database)
    try:
        with pytest.raises(errors.StoreTooNew, match="schema 99"):
            await open_store(server.url(database))
        assert server.execute("SELECT count(*) FROM processes", database) == [(0,)]
    finally:
        server.execute("DELETE FROM clew_schema WHERE number = 99", database)


async def test_a_database_with_other_tables_is_refused_untouched(
    server: Server, fresh: str
) -> None:
    server.execute("CREATE TABLE accounts (id int)", fresh)

    with pytest.raises(errors.StoreForeign):
        await open_store(server.url(fresh))

    assert server.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace", fresh
    ) == [("accounts",)]


async def test_an_older_database_is_updated_when_nobody_else_has_it_open(
    server: Server, fresh: str
) -> None:
    url, steps = server.url(fresh), (*shipped_migrations(), NEXT)
    old = await PostgresStore.open(url)
    await make(old)
    with pytest.raises(errors.StoreInUse, match=r"pg_dump.*pid"):
        await PostgresStore.open(url, migrations=steps)
    await old.close()

    new, other = await asyncio.gather(
        PostgresStore.open(url, migrations=steps), PostgresStore.open(url, migrations=steps)
    )

    async with new, other:
        assert (await new.stats()).sessions == 1
    assert server.execute("SELECT count(*) FROM added", fresh) == [(0,)]


async def test_a_user_that_may_only_read_is_told_so(server: Server, database: str) -> None:
    server.execute("CREATE ROLE reader LOGIN", database)
    try:
        server.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", database)
        url = server.url(database).replace("clew@", "reader@")
        with pytest.raises(errors.StoreReadOnly):
            await open_store(url)
    finally:
        server.execute("DROP OWNED BY reader; DROP ROLE reader", database)


async def test_a_missing_database_and_a_url_that_is_none_are_told(server: Server) -> None:
    with pytest.raises(errors.StoreUnavailable, match="does not exist"):
        await open_store(server.url("nowhere"))
    with pytest.raises(errors.InvalidInput, match="not a URL"):
        await open_store("postgresql://host/x?nonsense=1")


async def test_a_password_is_never_shown(server: Server) -> None:
    with pytest.raises(errors.StoreUnavailable) as refused:
        await open_store("postgresql://clew:s3cret@127.0.0.1:1/x")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("53100", errors.StoreFull),
        ("53300", errors.StoreUnavailable),
        ("42501", errors.StoreReadOnly),
        ("25006", errors.StoreReadOnly),
        ("57014", errors.StoreBusy),
        ("55P03", errors.StoreBusy),
        ("40P01", errors.StoreBusy),
        ("40001", errors.StoreBusy),
        ("22003", errors.InvalidInput),
        ("23514", errors.InvalidInput),
        ("54000", errors.InvalidInput),
        ("XX001", errors.StoreDamaged),
        ("57P01", errors.StoreUnavailable),
        ("08006", errors.StoreUnavailable),
        ("28P01", errors.StoreUnavailable),
        ("26000", errors.StoreUnavailable),
        ("42P05", errors.StoreUnavailable),
    ],
)
def test_an_error_of_the_server_is_said_in_clews_words(
    state: str, kind: type[errors.ClewError]
) -> None:
    error = psycopg.errors.lookup(state)("why")

    assert type(translate(error, "here")) is kind


async def test_times_are_postgresqls_own_without_a_clock(server: Server, url: str) -> None:
    async with await open_store(url) as store:
        ((before,),) = server.execute(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        )
        session, _ = await store.open_session(NewSession(key="k"))
        lease = await store.acquire_lease(session.id, "me", ttl=5_000)
        message = await store.append(session.id, lease.epoch, Draft(role="user", content="x"))
        ((after,),) = server.execute(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        )
        assert before <= session.created_at <= message.at <= after
        assert before + 5_000 <= lease.expires_at <= after + 5_000


async def test_a_long_message_keeps_its_phrases(url: str) -> None:
    """More words than a tsvector has positions for: clew looks for the phrase itself."""
    async with await open_store(url) as store:
        session = await make(store)
        lease = await store.acquire_lease(session.id, "me")
        for text in ("a b " * 9_000 + "quick brown fox", "a " * 300 + "brown quick"):
            await store.append(session.id, lease.epoch, Draft(role="user", content=text))
        from clew.core.search.hits import SearchFilter

        for query, found in (
            ('"quick brown"', {1}),
            ('"brown quick"', {2}),
            ("quick", {1, 2}),
            ('quick -"quick brown"', {2}),
        ):
            page = await store.search(query, SearchFilter(viewer="owner"))
            assert {hit.seq for hit in page.hits} == found, query
        assert len(await read(store, session.id)) == 2
