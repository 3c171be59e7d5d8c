"""A thread is read as it was at one moment, whatever others do to it meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from clew.core.changes import AddMessage, EndTurn, RedoTurn, StartTurn, UndoTurn
from clew.core.message import Draft
from clew.errors import SessionNotFound, StoreClosed
from clew.ports import Store
from clew.store import open_store
from clew.testing.contract.case import make, say
from tests.patience import PATIENCE
from tests.postgres.server import Server

ROUNDS = 60


async def test_a_thread_is_never_read_half_before_and_half_after_a_change(url: str) -> None:
    """Two turns on both sides of a knot, one of them undone: a reader sees the other, always."""
    async with await open_store(url) as store, await open_store(url) as other:
        session = await make(store)
        await _turn(store, session.id, "one")
        fork = await store.fork_session(session.id)
        await _turn(store, fork.id, "two")
        lease = await store.acquire_lease(fork.id, "me")
        await store.record(fork.id, lease.epoch, UndoTurn("two"))

        async def swap() -> None:
            pair = ("one", "two")
            for number in range(ROUNDS):
                gone, back = pair if number % 2 == 0 else pair[::-1]
                await store.record(fork.id, lease.epoch, UndoTurn(gone), RedoTurn(back))

        swapping = asyncio.create_task(swap())
        seen = set()
        while not swapping.done():
            thread = await other.get_messages(fork.id)
            seen.add(tuple(message.content for message in thread))
        await swapping

        assert seen == {("one",), ("two",)}


async def _turn(store: Store, session_id: str, turn: str) -> None:
    lease = await store.acquire_lease(session_id, "me")
    await store.record(
        session_id,
        lease.epoch,
        StartTurn(turn_id=turn),
        AddMessage(Draft(role="user", content=turn), turn),
        EndTurn(turn_id=turn, status="done"),
    )


async def test_a_fork_is_read_across_its_knot(url: str) -> None:
    async with await open_store(url) as store:
        session = await make(store)
        await say(store, session.id, *"abcd")
        fork = await store.fork_session(session.id, at=3)
        await say(store, fork.id, *"xy")

        async def read(limit: int | None = None, **where: Any) -> str:
            messages = await store.get_messages(fork.id, limit, **where)
            return "".join(message.content for message in messages)

        assert await read() == "abcxy"
        assert [await read(limit) for limit in range(6)] == ["", "y", "xy", "cxy", "bcxy", "abcxy"]
        assert await read(2, offset=1) == "cx"
        assert await read(1, offset=1) == "x"
        assert await read(after=2, before=5) == "cx"
        assert await read(after=5) == ""
        with pytest.raises(SessionNotFound):
            await store.get_messages("00000000-0000-4000-8000-000000000000")


async def test_a_reader_that_gives_up_is_no_burden_to_the_server(
    server: Server, database: str, url: str
) -> None:
    """The server is told to stop at once, and the connection is as good as before."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    async with await open_store(url) as store:
        session = await make(store)
        with psycopg.connect(url) as connection:
            connection.execute("LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE")
            reading = asyncio.create_task(store.get_session(session.id))
            async with asyncio.timeout(PATIENCE):
                while server.execute(waiting, database) == [(0,)]:  # noqa: ASYNC110  # the server's
                    await asyncio.sleep(0.01)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert server.execute(waiting, database) == [(0,)]

        assert await store.get_session(session.id) == session


async def test_closing_waits_for_those_who_read(url: str) -> None:
    store = await open_store(url)
    session = await make(store)
    await say(store, session.id, *["word"] * 50)
    reading = [asyncio.create_task(store.get_messages(session.id)) for _ in range(20)]
    await asyncio.sleep(0)  # all of them have begun

    await store.close()

    assert {len(await each) for each in reading} == {50}
    with pytest.raises(StoreClosed):
        await store.get_messages(session.id)
