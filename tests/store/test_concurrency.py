"""Many writers of one SQLite file: processes, tasks, groups, and those who only come and go.

A tenth of what `make proof` does. Syncs are counted, never timed.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from clew.core.changes import AddMessage
from clew.core.message import Draft, Message
from clew.core.session import NewSession
from clew.errors import InvalidInput, SessionNotFound
from clew.store import open_sqlite
from clew.store.sqlite.store import SqliteStore
from clew.testing.contract.case import UNKNOWN, contents, make, read
from tests.patience import PATIENCE
from tests.store.test_state_machine import check_file

PROCESSES = 8
APPENDS = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    async with await open_sqlite(f"sqlite://{path}") as store:
        yield store


async def start(code: str, *arguments: object) -> asyncio.subprocess.Process:
    """Another process; it gets its arguments as JSON."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        json.dumps(arguments, default=str),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
    )


async def finish(*processes: asyncio.subprocess.Process) -> list[str]:
    """What they print once nobody talks to them any more; they must end well."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    try:
        async with asyncio.timeout(PATIENCE):
            ends = await asyncio.gather(*(process.communicate() for process in processes))
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    for process, (_, error) in zip(processes, ends, strict=True):
        assert process.returncode == 0, error.decode()
    return [output.decode() for output, _ in ends]


# --- processes ------------------------------------------------------------------------------------

APPENDER = """
import asyncio, json, sys
from clew.core.message import Draft
from clew.store import open_sqlite, open_store

path, session, epoch, name, appends = json.loads(sys.argv[1])

async def main():
    async with await open_store(path) as store:
        if epoch is None:
            lease = await store.acquire_lease(session, name, ttl=10**9)
        number = lease.epoch if epoch is None else epoch
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for n in range(appends):
            draft = Draft(role="user", content=f"{name} {n}")
            await store.append(session, number, draft)

asyncio.run(main())
"""


async def append_at_once(path: Path, jobs: list[tuple[str, int | None]]) -> None:
    """One process for each session (and epoch, if they share one); all begin together."""
    processes = [
        await start(APPENDER, path, session, epoch, f"p{number}", APPENDS)
        for number, (session, epoch) in enumerate(jobs)
    ]
    for process in processes:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await process.stdout.readline()
        if line != b"ready\n":
            await finish(process)
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
    await finish(*processes)


async def test_eight_processes_write_to_eight_sessions(store: SqliteStore, path: Path) -> None:
    sessions = [await make(store) for _ in range(PROCESSES)]

    await append_at_once(path, [(session.id, None) for session in sessions])

    for number, session in enumerate(sessions):
        messages = await store.get_messages(session.id)
        assert contents(messages) == [f"p{number} {n}" for n in range(APPENDS)]
        assert [message.seq for message in messages] == list(range(1, APPENDS + 1))
    check_file(path)


async def test_eight_processes_write_to_one_session(store: SqliteStore, path: Path) -> None:
    session = await make(store)
    lease = await store.acquire_lease(session.id, "all", ttl=10**9)

    await append_at_once(path, [(session.id, lease.epoch)] * PROCESSES)

    messages = await store.get_messages(session.id)
    assert [message.seq for message in messages] == list(range(1, PROCESSES * APPENDS + 1))
    for number in range(PROCESSES):
        own = [text for text in contents(messages) if text.startswith(f"p{number} ")]
        assert own == [f"p{number} {n}" for n in range(APPENDS)]
    assert (await store.get_session(session.id)).message_count == PROCESSES * APPENDS
    check_file(path)


PASSER_BY = """
import asyncio, json, sys, threading
from clew.core.session import SessionFilter
from clew.store import open_sqlite, open_store

(path,) = json.loads(sys.argv[1])
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()

async def main():
    rounds = 0
    while not (ended.is_set() and rounds >= 5):
        async with await open_store(path) as store:
            await store.list_sessions(SessionFilter(viewer="owner"))
        rounds += 1
        if rounds == 1:
            print("ready", flush=True)
    print(rounds)

asyncio.run(main())
"""


async def test_who_opens_and_closes_the_store_disturbs_nobody(
    store: SqliteStore, path: Path
) -> None:
    session = await make(store)
    lease = await store.acquire_lease(session.id, "me", ttl=10**9)
    passer_by = await start(PASSER_BY, path)
    assert passer_by.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert await passer_by.stdout.readline() == b"ready\n"

    for number in range(200):
        await store.append(session.id, lease.epoch, Draft(role="user", content=str(number)))
        assert len(await store.get_messages(session.id, 1)) == 1

    (rounds,) = await finish(passer_by)
    assert int(rounds) >= 5
    assert await read(store, session.id) == [str(number) for number in range(200)]
    check_file(path)


async def test_two_processes_make_one_store(tmp_path: Path) -> None:
    path = tmp_path / "new" / "sessions.db"
    maker = """
import asyncio, json, sys
from clew.core.session import NewSession
from clew.store import open_sqlite, open_store
(path,) = json.loads(sys.argv[1])

async def main():
    async with await open_store(path) as store:
        session, _ = await store.open_session(NewSession(key="cli:a"))
        print(session.id)

asyncio.run(main())
"""

    ids = await finish(*[await start(maker, path) for _ in range(6)])

    assert len(set(ids)) == 1
    check_file(path)


# --- tasks ----------------------------------------------------------------------------------------

COUNTED = """
import asyncio, json, sys
import apsw

syncs = 0

class CountingFile(apsw.VFSFile):
    def xSync(self, flags):
        global syncs
        syncs += 1
        return super().xSync(flags)

    def xLock(self, level):
        try:
            super().xLock(level)
        except apsw.IOError as error:
            # A file that is open for reading can't be locked for writing. SQLite itself takes
            # that in its stride; only as an exception of Python's would it go further.
            raise apsw.BusyError from error

class CountingVFS(apsw.VFS):
    def __init__(self):
        self.base = apsw.vfs_names()[0]
        super().__init__("counting", self.base, makedefault=True)

    def xOpen(self, name, flags):
        return CountingFile(self.base, name, flags)

vfs = CountingVFS()

from clew.core.message import Draft, Message
from clew.core.session import NewSession
from clew.store import open_sqlite, open_store

path, tasks, appends = json.loads(sys.argv[1])

async def talk(store, name):
    session, _ = await store.open_session(NewSession(key=name))
    lease = await store.acquire_lease(session.id, name)
    for number in range(appends):
        await store.append(session.id, lease.epoch, Draft(role="user", content=str(number)))

async def main():
    async with await open_store(path) as store:
        before = syncs
        await asyncio.gather(*(talk(store, f"t{n}") for n in range(tasks)))
        print(syncs - before)

asyncio.run(main())
"""


async def test_tasks_of_one_process_share_their_syncs(path: Path) -> None:
    (eight,) = await finish(await start(COUNTED, path, 8, APPENDS))
    (one,) = await finish(await start(COUNTED, path, 1, APPENDS))

    assert int(one) >= APPENDS, "alone, every append is synced before it is acknowledged"
    assert int(eight) * 3 <= 8 * APPENDS


async def test_a_failing_write_leaves_its_group_committed(store: SqliteStore, path: Path) -> None:
    session = await make(store)
    lease = await store.acquire_lease(session.id, "me")
    drafts = [Draft(role="user", content=str(number)) for number in range(30)]
    robot, nothing = "robot", None
    bad = [
        Draft(role=robot),  # type: ignore[arg-type]  # the point
        Draft(role="user", at=2**70),
        Draft(role="user", content=nothing),  # type: ignore[arg-type]  # the point
    ]

    answers = await asyncio.gather(
        *(store.append(session.id, lease.epoch, draft) for draft in (*drafts, *bad, *drafts)),
        *(store.append(UNKNOWN, 1, draft) for draft in drafts[:3]),
        return_exceptions=True,
    )

    failed = [type(answer) for answer in answers if isinstance(answer, BaseException)]
    assert failed == [InvalidInput] * 3 + [SessionNotFound] * 3
    assert await read(store, session.id) == [draft.content for draft in (*drafts, *drafts)]
    check_file(path)


async def test_a_write_that_ends_the_transaction_fails_with_its_group_and_the_next_goes_on(
    store: SqliteStore, path: Path
) -> None:
    session = await make(store)
    lease = await store.acquire_lease(session.id, "me")

    def give_up(connection: apsw.Connection) -> None:
        connection.execute("ROLLBACK")
        raise apsw.FullError("the disk is full")

    answers = await asyncio.gather(
        store.append(session.id, lease.epoch, Draft(role="user", content="before")),
        store._db.write(give_up),
        store.append(session.id, lease.epoch, Draft(role="user", content="after")),
        return_exceptions=True,
    )
    stored = [answer.content for answer in answers if isinstance(answer, Message)]

    await store.append(session.id, lease.epoch, Draft(role="user", content="next"))

    assert await read(store, session.id) == [*stored, "next"]
    check_file(path)


async def test_a_cancelled_task_leaves_whole_messages_and_a_working_store(
    store: SqliteStore, path: Path
) -> None:
    session = await make(store)
    lease = await store.acquire_lease(session.id, "me")

    async def talk(name: str) -> None:
        for number in range(1_000):
            changes = [AddMessage(Draft(role="user", content=f"{name} {number}"))] * 2
            await store.record(session.id, lease.epoch, *changes)

    tasks = [asyncio.create_task(talk(name)) for name in "abcd"]
    async with asyncio.timeout(PATIENCE):
        while (await store.get_session(session.id)).head < 40:  # noqa: ASYNC110  # see the file
            await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends)

    await store.append(session.id, lease.epoch, Draft(role="user", content="last"))

    texts = await read(store, session.id)
    assert texts[-1] == "last"
    assert texts[:-1:2] == texts[1:-1:2], "a record is whole"
    seqs = [message.seq for message in await store.get_messages(session.id)]
    assert seqs == list(range(1, len(seqs) + 1))
    check_file(path)


async def test_readers_see_whole_records_while_others_write(store: SqliteStore, path: Path) -> None:
    session, _ = await store.open_session(NewSession(key="cli:a"))
    lease = await store.acquire_lease(session.id, "me")
    pair = [AddMessage(Draft(role="user", content="x"))] * 2
    writing = True

    async def watch() -> None:
        while writing:
            counted = (await store.get_session(session.id)).message_count
            messages = await store.get_messages(session.id)
            assert len(messages) % 2 == 0
            assert len(messages) >= counted

    watchers = [asyncio.create_task(watch()) for _ in range(4)]
    for _ in range(50):
        await store.record(session.id, lease.epoch, *pair)
    writing = False
    await asyncio.gather(*watchers)
    assert len(await store.get_messages(session.id)) == 100
