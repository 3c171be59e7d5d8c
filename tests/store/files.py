"""Store files for the tests of backup, doctor and migrations: made, looked at, damaged."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import apsw

from clew.core.changes import AddMessage
from clew.core.message import Draft
from clew.core.session import NewSession
from clew.ports import Store
from clew.store import open_store
from clew.store.migrations import REBUILD, Migration
from clew.store.sqlite.connection import connect
from clew.store.sqlite.database import Database
from clew.store.sqlite.search_index import index_queued
from tests.patience import PATIENCE

SRC = Path(__file__).resolve().parent.parent.parent / "src"


def fill(path: Path, *texts: str, key: str = "cli:test") -> str:
    """A store with one more session; returns its id."""

    async def work() -> str:
        async with await open_store(str(path)) as store:
            session = await store.create_session(NewSession(key=key))
            lease = await store.acquire_lease(session.id, "test")
            drafts = [AddMessage(Draft(role="user", content=text)) for text in texts]
            await store.record(session.id, lease.epoch, *drafts)
            await store.release_lease(lease)
            return session.id

    return asyncio.run(work())


def contents(path: Path) -> list[str]:
    """What is said in a store, in order."""
    return [text for (text,) in query(path, "SELECT content FROM messages ORDER BY id")]


def query(path: Path, sql: str) -> list[tuple]:
    """What SQLite itself, without clew, finds in a file."""
    with closing(apsw.Connection(str(path))) as connection:
        return connection.execute(sql).fetchall()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def snapshot(folder: Path) -> dict[str, str]:
    """Every file of a folder that holds anything, and what it holds.

    Locks and process files are not looked at, nor is what SQLite shares between processes.
    """
    passing = ("store.lock", "sessions.db-shm")
    return {
        file.name: digest(file)
        for file in sorted(folder.iterdir())
        if file.is_file() and file.name not in passing and file.stat().st_size
    }


def flip(path: Path, text: bytes, *, bit: int = 1) -> None:
    """Flip one bit of a text in the file, as a bad disk does."""
    query(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    data[data.index(text)] ^= bit
    path.write_bytes(data)


class Child:
    """Another process with the store open, until it is told to go on or killed."""

    def __init__(self, code: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def wait_for(self, word: str) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line == word, f"expected {word!r}, the child said {line!r}"

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process.stdout.close()


HOLDER = """
import asyncio, sys
from clew.ports import Store
from clew.store import open_store

async def main():
    async with await open_store(sys.argv[1]) as store:
        await store.stats()
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def holding(path: Path) -> Child:
    """A process that has the store open."""
    child = Child(HOLDER, path)
    child.wait_for("open")
    return child


def use_in_a_fork(store: Store, session_id: str) -> list[str]:
    """What a forked child is told that reads, writes and closes the store of its parent."""
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        works = (store.get_session(session_id), store.delete_sessions([session_id]), store.close())
        for work in works:
            try:
                asyncio.run(asyncio.wait_for(work, PATIENCE))
                os.write(tell, b"done\n")
            except BaseException as error:  # noqa: BLE001  # the parent sees it
                os.write(tell, f"{type(error).__name__}: {error}\n".encode())
        os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    with os.fdopen(told) as lines:
        return lines.read().splitlines()


OLD = "aaaaaaaa-0000-4000-8000-000000000001"
FORK = "aaaaaaaa-0000-4000-8000-000000000002"
GONE = "aaaaaaaa-0000-4000-8000-000000000003"

FILL = f"""
INSERT INTO sessions (id, key, agent, person, platform, kind, title, title_key, title_by,
  parent_id, forked_at_seq, message_count, content_bytes, head, created_at, updated_at, deleted_at)
VALUES
  ('{OLD}', 'cli:old', 'main', 'owner', 'cli', 'cli', 'Old', 'old', 'user', NULL, NULL, 1, 16, 3,
    7, 7, NULL),
  ('{FORK}', 'cli:old:fork:7', 'main', 'owner', 'cli', 'cli', NULL, NULL, NULL, '{OLD}', 3, 1, 0,
    3, 7, 7, NULL),
  ('{GONE}', 'cli:old', 'main', 'owner', 'cli', 'cli', NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 7,
    7, 7);
INSERT INTO blobs VALUES ('hash', 'text/plain', x'00', 7);
INSERT INTO turns (id, session_id, first_seq, status, started_at, ended_at)
  VALUES ('taken back', '{OLD}', 2, 'done', 7, 7);
INSERT INTO undone (session_id, turn_id, undone_at)
  VALUES ('{OLD}', 'taken back', 7), ('{FORK}', 'taken back', 7);
INSERT INTO messages (id, session_id, seq, turn_id, role, content, parts, tool_call_id, tool_name,
  is_error, model, cost, at)
VALUES
  (11, '{OLD}', 1, NULL, 'user', 'ключ und 狐狸', '[{{"blob":"hash"}}]', NULL, NULL, 0, NULL, NULL,
    5),
  (12, '{OLD}', 2, 'taken back', 'tool', 'no', NULL, 'call', 'shell', 1, NULL, NULL, 6),
  (13, '{OLD}', 3, 'taken back', 'assistant', 'oh', NULL, NULL, NULL, 0, 'model', 4, 7),
  (99, '{OLD}', 4, NULL, 'user', 'gone', NULL, NULL, NULL, 0, NULL, NULL, 7);
INSERT INTO message_blobs VALUES (11, 'hash');
DELETE FROM messages WHERE id = 99;
INSERT INTO inbox (id, channel, account, key, person, payload, status, received_at)
  VALUES ('in', 'c', 'default', 'k', 'owner', '{{}}', 'done', 6);
"""


def made_with(path: Path, steps: Sequence[Migration]) -> None:
    """A store of an older schema, with something in it that the first ones could have too."""
    _open(path, steps[: REBUILD - 1])
    with closing(connect(path)) as connection:
        connection.execute(FILL)
        index_queued(connection)
    _open(path, steps)


def _open(path: Path, steps: Sequence[Migration]) -> None:
    database = Database(path, clock=lambda: 7, version="0.1")
    database.open(steps)
    database._release()
