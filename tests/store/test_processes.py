"""Processes that share a store: killed ones, and what a living one sees of the others."""

from __future__ import annotations

import signal
import socket
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clew.core.delivery import NewInbound
from clew.core.session import NewSession, SessionState
from clew.errors import LeaseHeld
from clew.files.locks import FileLock
from clew.store import open_sqlite, open_store
from clew.store.presence import Presence
from tests.patience import PATIENCE
from tests.store.files import Child

RUNNER = """
import asyncio, sys
from clew.core.changes import StartTurn
from clew.core.delivery import NewInbound
from clew.store import open_sqlite, open_store

async def main():
    async with await open_store(sys.argv[1]) as store:
        lease = await store.acquire_lease(sys.argv[2], store.identity + "#1", ttl=10**9)
        await store.record(sys.argv[2], lease.epoch, StartTurn(turn_id="t"))
        await store.accept(NewInbound(id="i", channel="c", key="k"), claimant=store.identity)
        print(store.identity, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            await store.set_route("route", sys.argv[2])
            print("routed", flush=True)

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def say(child: Child) -> None:
    assert child.process.stdin is not None
    child.process.stdin.write("go\n")
    child.process.stdin.flush()


def read_line(child: Child) -> str:
    assert child.process.stdout is not None
    return child.process.stdout.readline().strip()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
async def test_a_killed_process_loses_its_lease_at_once(path: Path) -> None:
    async with await open_store(str(path)) as store:
        session = await store.create_session(NewSession(key="cli:a"))
        with Child(RUNNER, path, session.id) as child:
            identity = read_line(child)
            assert await store.is_living(identity)
            with pytest.raises(LeaseHeld):
                await store.acquire_lease(session.id, store.identity)
            assert await store.interrupt_turns(session.id) == ()
            assert await store.list_states([session.id]) == {session.id: SessionState(running=True)}

            child.process.send_signal(signal.SIGKILL)
            child.process.wait(PATIENCE)

        assert await store.list_states([session.id]) == {session.id: SessionState(interrupted=True)}
        assert not await store.is_living(identity)
        assert await store.find_lease(session.id) is None
        assert [turn.id for turn in await store.interrupt_turns(session.id)] == ["t"]
        lease = await store.acquire_lease(session.id, store.identity)
        assert lease.epoch == 2
        assert await store.release_inbound(identity) == 1


async def test_the_pulse_tells_of_another_processs_commit(path: Path) -> None:
    async with await open_store(str(path)) as store:
        session = await store.create_session(NewSession(key="cli:a"))
        with Child(RUNNER, path, session.id) as child:
            read_line(child)
            for _ in range(3):
                before = await store.pulse()
                assert await store.pulse() == before
                say(child)
                child.wait_for("routed")
                assert await store.pulse() != before


async def test_the_pulse_stands_still_when_the_log_is_put_back_into_the_file(path: Path) -> None:
    async with await open_sqlite(str(path)) as store:
        for number in range(50):
            await store.accept(NewInbound(id=str(number), channel="c", key="k"))
        before = await store.pulse()

        await store._db.read(lambda connection: connection.wal_checkpoint())

        assert await store.pulse() == before


async def test_an_identity_names_the_process_and_its_host(path: Path) -> None:
    async with await open_store(str(path)) as store:
        process, host = store.identity.split("@")

        assert uuid.UUID(process).hex == process
        assert host == socket.gethostname()
        assert (path.parent / "processes" / f"{process}.json").exists()


async def test_who_looks_at_a_dead_process_is_not_taken_for_it(path: Path) -> None:
    async with await open_store(str(path)) as store:
        process = uuid.uuid4().hex
        looking = FileLock(path.parent / "processes" / f"{process}.json")
        assert looking.acquire(shared=True)

        assert not await store.is_living(f"{process}@{socket.gethostname()}")

        looking.release()


async def test_of_another_host_nothing_is_known(path: Path) -> None:
    async with await open_store(str(path)) as store:
        stranger = f"{uuid.uuid4().hex}@elsewhere.{socket.gethostname()}"
        session = await store.create_session(NewSession(key="cli:a"))
        lease = await store.acquire_lease(session.id, stranger)

        assert await store.is_living(stranger)
        assert await store.find_lease(session.id) == lease
        with pytest.raises(LeaseHeld):
            await store.acquire_lease(session.id, store.identity)


@pytest.mark.parametrize(
    "process", ["..", "x" * 32, "A" * 32, "0" * 31, "0" * 33, "../" + "0" * 29]
)
async def test_what_is_no_process_is_no_file(path: Path, process: str) -> None:
    async with await open_store(str(path)) as store:
        before = sorted(path.parent.rglob("*"))

        assert await store.is_living(f"{process}@{socket.gethostname()}")

        assert sorted(path.parent.rglob("*")) == before


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
async def test_what_killed_processes_leave_is_cleared_at_the_next_start(path: Path) -> None:
    async with await open_sqlite(str(path)) as living:
        session = await living.create_session(NewSession(key="k"))
        with Child(RUNNER, path, session.id) as child:
            assert child.process.stdout is not None
            child.process.stdout.readline()
            child.process.send_signal(signal.SIGKILL)
            child.process.wait(PATIENCE)
        folder = path.parent / "processes"
        (folder / f"{uuid.uuid4().hex}.new").write_text("half")
        assert len(list(folder.iterdir())) == 3

        async with await open_sqlite(str(path)) as other:
            left = {each.name for each in folder.iterdir()}
            identities = (living.identity, other.identity)
            assert left == {f"{each.partition('@')[0]}.json" for each in identities}


def test_processes_that_start_at_once_do_not_clear_each_other(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    folder = path.parent / "processes"

    def start(number: int) -> int:
        found = 0
        for _ in range(100):
            presence = Presence(folder, version="1", started_at=number)
            presence.announce()
            presence.clear()
            found += (folder / f"{presence.info.process}.json").exists()
            presence.leave()
        return found

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(start, range(8))) == [100] * 8
    assert list(folder.iterdir()) == []
