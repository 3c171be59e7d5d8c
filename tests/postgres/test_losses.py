"""Connections that are cut, backends that are ended, a server that goes and comes back.

Whatever was acknowledged is there, once; and everything goes on by itself.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator

import pytest

from clew.core.changes import AddMessage, StartTurn
from clew.core.message import Draft
from clew.core.session import Session
from clew.errors import StoreUnavailable
from clew.store import open_store
from clew.store.postgres.store import PostgresStore
from clew.testing.contract.case import make, read
from tests.patience import PATIENCE
from tests.postgres.proxy import Proxy
from tests.postgres.server import Server
from tests.postgres.test_state_machine import check_database

END_ALL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = await open_store(url)
    assert isinstance(store, PostgresStore)
    async with store:
        yield store


class Writer:
    """Says numbers in a session, remembering which were acknowledged."""

    def __init__(self, store: PostgresStore, session: Session, epoch: int) -> None:
        self.store = store
        self.session = session
        self.epoch = epoch
        self.acknowledged: list[str] = []
        self.unknown: list[str] = []

    async def say(self, number: int, *, key: bool) -> None:
        """One message: with a key again and again until it is acknowledged, without one once."""
        text = str(number)
        while True:
            try:
                if number % 3:
                    await self.store.append(
                        self.session.id, self.epoch, Draft(role="user", content=text),
                        idempotency_key=text if key else None,
                    )  # fmt: skip
                else:
                    await self.store.record(
                        self.session.id, self.epoch, StartTurn(turn_id=f"{self.session.id} {text}"),
                        AddMessage(Draft(role="user", content=text)),
                        idempotency_key=text if key else None,
                    )  # fmt: skip
            except StoreUnavailable:
                if key:
                    continue
                self.unknown.append(text)
                return
            self.acknowledged.append(text)
            return

    async def check(self, *, key: bool) -> None:
        """Everything acknowledged is there once, in order; what is unknown at most once."""
        said = await read(self.store, self.session.id)
        assert len(said) == len(set(said))
        assert [text for text in said if text not in self.unknown] == self.acknowledged
        if key:
            assert self.unknown == []
            assert said == self.acknowledged
        session = await self.store.get_session(self.session.id)
        assert session.head == session.message_count == len(said)


async def start_writer(store: PostgresStore) -> Writer:
    session = await make(store)
    lease = await store.acquire_lease(session.id, "writer", ttl=10**9)
    return Writer(store, session, lease.epoch)


@pytest.mark.parametrize("key", [True, False])
async def test_backends_that_are_ended_lose_nothing(
    store: PostgresStore, server: Server, database: str, key: bool
) -> None:
    writers = [await start_writer(store) for _ in range(3)]
    done = asyncio.Event()

    async def end_backends() -> None:
        while not done.is_set():
            await asyncio.to_thread(server.execute, END_ALL, database)
            await asyncio.sleep(0.03)

    async with asyncio.timeout(PATIENCE):
        enemy = asyncio.create_task(end_backends())
        await asyncio.gather(*(say_all(writer, 60, key=key) for writer in writers))
        done.set()
        await enemy
        for writer in writers:
            await writer.check(key=key)
    check_database(server.url(database))


async def say_all(writer: Writer, count: int, *, key: bool) -> None:
    for number in range(count):
        await writer.say(number, key=key)


@pytest.mark.parametrize("key", [True, False])
async def test_a_connection_cut_in_the_middle_of_appends_loses_and_doubles_nothing(
    server: Server, database: str, key: bool
) -> None:
    chance = random.Random(1)
    async with asyncio.timeout(PATIENCE), Proxy(server.port) as proxy:
        store = await open_store(server.url(database, port=proxy.port))
        assert isinstance(store, PostgresStore)
        async with store:
            writer = await start_writer(store)
            for number in range(120):
                if number % 2:
                    # The answer to a commit is lost as often as the commit itself.
                    proxy.cut_after(chance.randrange(3))
                elif chance.random() < 0.5:
                    proxy.cut()
                await writer.say(number, key=key)
            proxy.cut_after(10**9)
            await writer.check(key=key)
            assert proxy.cuts > 30
            if not key:
                assert writer.unknown  # some fates really were unknown
    check_database(server.url(database))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_a_restart_of_the_server_loses_nothing_and_everything_goes_on(
    store: PostgresStore, server: Server, database: str, how: signal.Signals
) -> None:
    writer = await start_writer(store)
    pulse = await store.pulse()
    await store.attach(writer.session.id)
    started = asyncio.Event()

    async def restart() -> None:
        await started.wait()
        await asyncio.to_thread(server.stop, how)
        await asyncio.sleep(0.2)
        await asyncio.to_thread(server.start)

    async with asyncio.timeout(PATIENCE):
        restarting = asyncio.create_task(restart())
        for number in range(200):
            if number == 50:
                started.set()
            await writer.say(number, key=True)
            if number >= 50:
                await asyncio.sleep(0.005)
        await restarting
        await writer.check(key=True)
        assert await store.pulse() != pulse
        other = await open_store(server.url(database))
        async with other:
            assert await other.is_living(store.identity)
            assert await other.find_attachment(writer.session.id) is not None


async def test_without_a_server_calls_fail_clearly_after_a_bounded_time(
    server: Server, database: str
) -> None:
    store = await PostgresStore.open(server.url(database), patience=0.3)
    async with store:
        session = await make(store)
        await asyncio.to_thread(server.stop)
        try:
            async with asyncio.timeout(PATIENCE):
                for call in (
                    store.get_session(session.id),
                    store.set_route("k", session.id),
                    store.pulse(),
                    open_store(server.url(database)),
                ):
                    with pytest.raises(StoreUnavailable) as refused:
                        await call
                    assert "can't be used" in str(refused.value)
        finally:
            await asyncio.to_thread(server.start)
        assert await store.get_session(session.id) == session


async def test_a_listener_that_was_cut_comes_back_and_the_pulse_moves(
    server: Server, database: str
) -> None:
    async with asyncio.timeout(PATIENCE), Proxy(server.port) as proxy:
        store = await open_store(server.url(database, port=proxy.port))
        other = await open_store(server.url(database))
        async with store, other:
            session = await make(other)
            before = await store.pulse()

            proxy.cut()

            after = await store.pulse()
            assert after != before
            assert await store.pulse() == after
            await other.set_route("k", session.id)
            assert await store.pulse() != after


async def test_a_process_whose_connection_was_cut_still_lives(
    server: Server, database: str
) -> None:
    async with asyncio.timeout(PATIENCE), Proxy(server.port) as proxy:
        store = await open_store(server.url(database, port=proxy.port))
        other = await open_store(server.url(database))
        async with store, other:
            session = await make(other)
            lease = await store.acquire_lease(session.id, f"{store.identity}#1", ttl=10**9)
            for _ in range(5):
                proxy.cut()
                assert await other.is_living(store.identity)
                assert await other.find_lease(session.id) == lease
