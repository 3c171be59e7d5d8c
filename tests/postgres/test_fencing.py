"""A holder that is paused, taken over and woken never writes again; one that is killed is dead."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys

import psycopg
import pytest

from clew.core.changes import AddMessage, StartTurn
from clew.core.message import Draft
from clew.core.session import SessionState
from clew.core.turn import Lease
from clew.errors import LeaseHeld, StaleLease, StoreUnavailable
from clew.ports import Store
from clew.store import open_store
from clew.store.postgres.connection import Connection
from clew.store.postgres.store import PostgresStore
from clew.store.work.sessions import lock
from clew.testing.contract.case import make, read
from tests.patience import PATIENCE
from tests.postgres.server import Server
from tests.postgres.test_state_machine import check_database
from tests.sizes import pick

ROUNDS = pick(25, 100)

HOLDER = """
import asyncio, json, sys
from clew.core.message import Draft
from clew.core.turn import Lease
from clew.errors import LeaseHeld, StaleLease, StoreUnavailable
from clew.store import open_store

url, session = json.loads(sys.argv[1])

async def main():
    store = await open_store(url)
    async with store:
        number = 0
        while True:
            try:
                lease = await store.acquire_lease(session, f"{store.identity}#holder", ttl=1)
            except LeaseHeld:
                await asyncio.sleep(0.001)
                continue
            except StoreUnavailable:
                continue  # paused for so long, with a lock, that the server ended its transaction
            try:
                while True:
                    number += 1
                    draft = Draft(role="user", content=f"holder {lease.epoch} {number}")
                    message = await store.append(session, lease.epoch, draft)
                    print(message.seq, message.content, flush=True)
            except StaleLease:
                print("fenced", lease.epoch, flush=True)
            except StoreUnavailable:
                print("lost", lease.epoch, flush=True)  # likewise: it may be written or not

asyncio.run(main())
"""


async def start(*arguments: object) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, json.dumps(arguments),
        stdout=subprocess.PIPE, limit=2**24,
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip


async def take_over(store: Store, session_id: str) -> Lease:
    """Take the lease as soon as it has run out."""
    while True:
        try:
            return await store.acquire_lease(session_id, "taker", ttl=10**6)
        except LeaseHeld:
            await asyncio.sleep(0.001)


async def run_rounds(url: str, rounds: int) -> None:
    """Pause the holder somewhere, take over, write, wake it; then see who wrote what when."""
    chance = random.Random(7)
    store = await open_store(url)
    async with store:
        session = await make(store)
        holder = await start(url, session.id)
        assert holder.stdout is not None
        reports: list[str] = []

        async def listen() -> None:
            assert holder.stdout is not None
            while line := await holder.stdout.readline():
                reports.append(line.decode().strip())

        listening = asyncio.create_task(listen())
        taken: list[tuple[int, int, int]] = []
        try:
            for _ in range(rounds):
                seen = len(reports)
                while len(reports) == seen:  # noqa: ASYNC110  # another process
                    await asyncio.sleep(0.001)
                await asyncio.sleep(chance.uniform(0, 0.004))
                os.kill(holder.pid, signal.SIGSTOP)
                lease = await take_over(store, session.id)
                first = await store.append(
                    session.id, lease.epoch, Draft(role="user", content="mine")
                )
                os.kill(holder.pid, signal.SIGCONT)
                last = first
                for _ in range(3):  # while the other is awake and tries to write
                    await asyncio.sleep(0.001)
                    last = await store.append(
                        session.id, lease.epoch, Draft(role="user", content="mine")
                    )
                taken.append((lease.epoch, first.seq, last.seq))
                await store.release_lease(lease)
        finally:
            os.kill(holder.pid, signal.SIGKILL)
            await holder.wait()
            await listening
        said = await read(store, session.id)
    for epoch, began, ended in taken:
        assert set(said[began - 1 : ended]) == {"mine"}, "somebody wrote in between"
        for late in said[ended:]:
            assert late == "mine" or int(late.split()[1]) > epoch
        for early in said[: began - 1]:
            assert early == "mine" or int(early.split()[1]) < epoch
    for report in reports:
        number, _, text = report.partition(" ")
        if number not in ("fenced", "lost"):
            assert said[int(number) - 1] == text, "acknowledged, and not there"
    assert len([text for text in said if text != "mine"]) == len(
        {text for text in said if text != "mine"}
    )


async def test_a_paused_holder_that_wakes_after_a_takeover_writes_nothing(
    server: Server, database: str
) -> None:
    async with asyncio.timeout(PATIENCE):
        await run_rounds(server.url(database), ROUNDS)
    check_database(server.url(database))


WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND datname = current_database()
"""


@pytest.mark.parametrize("changes", [1, 2])
async def test_a_writer_that_waited_for_a_takeover_is_fenced(
    server: Server, database: str, changes: int
) -> None:
    """The epoch that counts is the one behind the lock, not the one when the call began."""
    async with asyncio.timeout(PATIENCE):
        store = await open_store(server.url(database))
        async with store:
            session = await make(store)
            lease = await store.acquire_lease(session.id, "slow")
            hello = AddMessage(Draft(role="user", content="late"))
            with psycopg.connect(server.url(database)) as taker:
                taker.execute("SELECT 1 FROM sessions WHERE id = %s FOR UPDATE", (session.id,))
                taker.execute(
                    "UPDATE leases SET epoch = epoch + 1, holder = 'taker' WHERE session_id = %s",
                    (session.id,),
                )
                late = asyncio.create_task(
                    store.record(session.id, lease.epoch, *[hello] * changes)
                )
                while server.execute(WAITING, database) == [(0,)]:  # noqa: ASYNC110  # the server
                    await asyncio.sleep(0.005)
                taker.commit()
            with pytest.raises(StaleLease):
                await late
            assert await read(store, session.id) == []


async def test_a_process_that_stops_in_a_transaction_is_waited_for_no_longer_than_seconds(
    server: Server, database: str
) -> None:
    async with asyncio.timeout(PATIENCE):
        store = await PostgresStore.open(server.url(database))
        other = await PostgresStore.open(server.url(database), patience=0)
        async with store, other:
            session = await make(store)
            lease = await store.acquire_lease(session.id, "stopped")
            stopped, awake = asyncio.Event(), asyncio.Event()

            async def stop_halfway(connection: Connection) -> None:
                await lock(connection, session.id)
                stopped.set()
                await awake.wait()

            stuck = asyncio.create_task(other._db.write(stop_halfway))
            await stopped.wait()
            await store.append(session.id, lease.epoch, Draft(role="user", content="goes on"))
            assert await read(store, session.id) == ["goes on"]
            awake.set()
            with pytest.raises(StoreUnavailable):
                await stuck
            assert await read(store, session.id) == ["goes on"]


async def kill(holder: asyncio.subprocess.Process, store: Store, identity: str) -> None:
    """Kill a process, and wait until the server has noticed that its connection is gone."""
    holder.kill()
    await holder.wait()
    while await store.is_living(identity):  # noqa: ASYNC110  # the server has no event for us
        await asyncio.sleep(0.01)


async def test_a_killed_process_is_dead_within_a_moment(server: Server, database: str) -> None:
    async with asyncio.timeout(PATIENCE):
        store = await open_store(server.url(database))
        async with store:
            session = await make(store)
            holder = await start(server.url(database), session.id)
            assert holder.stdout is not None
            await holder.stdout.readline()
            ((identity,),) = server.execute(
                f"""SELECT process || '@' || host FROM processes
                    WHERE process || '@' || host <> '{store.identity}'""",
                database,
            )
            assert await store.is_living(identity)

            await kill(holder, store, identity)

            assert await store.find_lease(session.id) is None


async def test_what_a_killed_process_was_at_is_seen_to_be_interrupted(
    server: Server, database: str
) -> None:
    async with asyncio.timeout(PATIENCE):
        store = await open_store(server.url(database))
        async with store:
            held, running = await make(store), await make(store)
            holder = await start(server.url(database), held.id)
            assert holder.stdout is not None
            await holder.stdout.readline()
            ((identity,),) = server.execute(
                f"""SELECT process || '@' || host FROM processes
                    WHERE process || '@' || host <> '{store.identity}'""",
                database,
            )
            lease = await store.acquire_lease(running.id, f"{identity}#1", ttl=int(PATIENCE) * 1000)
            await store.record(running.id, lease.epoch, StartTurn(turn_id="t"))
            before = await store.list_states([running.id])

            await kill(holder, store, identity)

            assert before == {running.id: SessionState(running=True)}
            after = await store.list_states([running.id])
            assert after == {running.id: SessionState(interrupted=True)}
