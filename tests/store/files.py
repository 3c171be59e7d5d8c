"""Store files for the tests of backup, doctor and migrations: made, looked at, damaged."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw

from clew.core.changes import AddMessage
from clew.core.message import Draft
from clew.core.session import NewSession
from clew.ports import Store
from clew.store import open_store
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
