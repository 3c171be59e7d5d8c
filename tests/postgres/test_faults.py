"""Faults of connections and of their use: each is an error of clew's that says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from clew.core.delivery import NewInbound
from clew.errors import ClewError, InvalidInput, LeaseHeld, StoreUnavailable
from clew.store.postgres.connection import Connection
from clew.store.postgres.errors import translate
from clew.store.postgres.store import PostgresStore
from clew.testing.clock import FakeClock
from clew.testing.contract.case import make
from tests.patience import PATIENCE
from tests.postgres.pooler import Pooler
from tests.postgres.proxy import Proxy
from tests.postgres.server import Server
from tests.store.files import use_in_a_fork

YEAR = 365 * 24 * 3_600_000


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    async with await PostgresStore.open(url) as store:
        yield store


async def test_a_call_takes_a_connection_that_comes_back_while_no_new_one_can_be_had(
    server: Server, database: str
) -> None:
    async with Proxy(server.port) as proxy:
        url = server.url(database, port=proxy.port)
        async with await PostgresStore.open(url, patience=1.0) as store:
            began = asyncio.Event()

            async def slow(connection: Connection) -> None:
                began.set()
                await connection.execute("SELECT pg_sleep(0.3)")

            async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
                tasks.create_task(store._db.read(slow))
                await began.wait()
                proxy.refuse()
                session = store.list_inbound()
                assert await session == ()


async def test_an_error_of_a_constraint_does_not_quote_the_text(
    store: PostgresStore,
) -> None:
    new = NewInbound(id="same", channel="x", key="k", payload={"text": "my secret"})
    await store.accept(new)
    with pytest.raises(InvalidInput) as caught:
        await store.accept(new)
    assert "inbox_pkey" in str(caught.value)
    assert "same" not in str(caught.value)

    async def wrong(connection: Connection) -> None:
        await connection.execute(
            "INSERT INTO inbox (id, channel, account, key, person, payload, status, received_at)"
            " VALUES ('y', 'x', 'a', 'k', 'p', 'my secret', 'no such status', 1)"
        )

    async def not_a_number(connection: Connection) -> None:
        await connection.execute("SELECT $1::text::bigint", ("my secret",))

    for job in (wrong, not_a_number):
        with pytest.raises(ClewError) as told:
            await store._db.write(job)
        assert "secret" not in str(told.value)
        assert "no such status" not in str(told.value)


def test_an_error_without_a_code_is_told_as_it_is() -> None:
    assert "gone away" in str(translate(psycopg.OperationalError("gone away"), "PostgreSQL"))


def test_a_second_event_loop_is_told_at_once(url: str) -> None:
    with asyncio.Runner() as runner:
        store = runner.run(PostgresStore.open(url))
        with pytest.raises(StoreUnavailable, match="another event loop"):
            asyncio.run(_call(store))
        runner.run(store.close())


async def _call(store: PostgresStore) -> None:
    async with asyncio.timeout(PATIENCE):
        await store.list_inbound()


async def test_a_forked_child_is_told_at_once(store: PostgresStore) -> None:
    session = await make(store)
    first, second, third = use_in_a_fork(store, session.id)
    assert first.startswith("StoreClosed: ")
    assert "forked" in first
    assert first == second
    assert third == "done"
    assert (await store.get_session(session.id)).deleted_at is None


async def test_a_clock_that_is_set_back_does_not_keep_a_lease_alive(url: str) -> None:
    clock = FakeClock(2 * YEAR)
    async with await PostgresStore.open(url, clock=clock) as store:
        session = await make(store)
        await store.acquire_lease(session.id, "runner")
        with pytest.raises(LeaseHeld):
            await store.acquire_lease(session.id, "me")
        clock.now -= YEAR
        assert await store.find_lease(session.id) is None
        assert (await store.acquire_lease(session.id, "me")).holder == "me"


@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_a_pooler_in_transaction_mode_is_refused_at_open(
    server: Server, database: str, mode: str
) -> None:
    async with Pooler(server.port, mode=mode) as pooler:
        url = server.url(database, port=pooler.port)
        if mode == "session":
            async with await PostgresStore.open(url) as store:
                await make(store)
        else:
            with pytest.raises(StoreUnavailable, match="pool_mode = session"):
                await PostgresStore.open(url)
