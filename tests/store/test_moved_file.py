"""A store file that is moved, replaced or deleted while it is open: what was said is not lost."""

# ruff: noqa: ASYNC240  # nothing else runs on these loops

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from clew.core.message import Draft
from clew.core.session import Session
from clew.errors import ClewError, StoreMoved
from clew.store import open_sqlite
from clew.store.sqlite.doctor import examine
from clew.store.sqlite.repair import repair_file
from clew.store.sqlite.store import SqliteStore
from clew.testing.contract.case import make, read
from tests.patience import PATIENCE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "sessions.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    async with await open_sqlite(str(path), durability="normal") as opened:
        yield opened


class Writer:
    """Says numbers, and remembers those that were acknowledged."""

    def __init__(self, store: SqliteStore, session: Session, epoch: int) -> None:
        self.store, self.session, self.epoch = store, session, epoch
        self.acknowledged: list[str] = []

    async def say(self, count: int) -> None:
        for _ in range(count):
            text = str(len(self.acknowledged) + 1)
            await self.store.append(self.session.id, self.epoch, Draft(role="user", content=text))
            self.acknowledged.append(text)


@pytest.fixture
async def writer(store: SqliteStore) -> Writer:
    session = await make(store)
    lease = await store.acquire_lease(session.id, "writer", ttl=10**9)
    writer = Writer(store, session, lease.epoch)
    await writer.say(5)
    return writer


def read_in_this_process(path: Path) -> None:
    """What the documentation warns of: Python's SQLite beside clew's, in one process."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM messages").fetchall()


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    shutil.rmtree(path.parent)


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def replace(path: Path) -> None:
    """With another SQLite file."""
    other = path.with_name("other.db")
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE other (x)")
    other.replace(path)


HARM = [read_in_this_process, move, delete, delete_all, delete_log, replace]


@pytest.mark.parametrize("harm", HARM)
async def test_what_was_acknowledged_is_in_the_rescue_copy(
    writer: Writer, path: Path, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    harm(path)
    with pytest.raises(StoreMoved) as caught:
        await writer.say(5)
    assert caught.value.rescue is not None
    assert caught.value.rescue in str(caught.value)
    copy = tmp_path / "copy.db"
    shutil.copy(caught.value.rescue, copy)
    async with await open_sqlite(str(copy)) as rescued:
        assert await read(rescued, writer.session.id) == writer.acknowledged


@pytest.mark.parametrize("harm", HARM)
async def test_the_store_stops_and_makes_no_other_file(
    writer: Writer, path: Path, harm: Callable[[Path], None]
) -> None:
    harm(path)
    before = path.read_bytes() if path.exists() else None
    for _ in range(2):
        with pytest.raises(StoreMoved):
            await writer.say(1)
    # More readers than there are connections yet.
    asked = [writer.store.get_session(writer.session.id) for _ in range(8)]
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(answer, StoreMoved)
    await writer.store.close()
    assert (path.read_bytes() if path.exists() else None) == before
    rescues = list(path.parent.glob("*.rescued-*"))
    assert len(rescues) == 1
    assert rescues[0].stat().st_mode & 0o077 == 0


async def test_a_reader_that_connects_later_makes_no_file(store: SqliteStore, path: Path) -> None:
    delete(path)
    asked = [store.get_session("x") for _ in range(8)]
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(answer, ClewError)
    assert not path.exists()


async def test_who_starts_makes_no_new_store_while_another_process_has_the_old_one(
    store: SqliteStore, path: Path
) -> None:
    delete(path)
    with pytest.raises(ClewError, match="still open"):
        await open_sqlite(str(path), durability="normal")
    assert not path.exists()


async def test_several_that_start_at_once_make_one_store(path: Path) -> None:
    async def start() -> SqliteStore:
        return await asyncio.to_thread(lambda: asyncio.run(open_sqlite(str(path))))

    async with asyncio.timeout(PATIENCE):
        stores = await asyncio.gather(*(start() for _ in range(6)))
    session = await make(stores[0])
    for each in stores:
        assert (await each.get_session(session.id)).id == session.id
        await each.close()


@pytest.mark.parametrize("harm", [read_in_this_process, delete])
async def test_doctor_puts_the_rescue_copy_back(
    writer: Writer, path: Path, harm: Callable[[Path], None]
) -> None:
    harm(path)
    with pytest.raises(StoreMoved):
        await writer.say(1)
    await writer.store.close()

    diagnosis = examine(path, now=0)
    assert [each.fix for each in diagnosis.findings if each.name == "rescue copy"] == ["rescue"]
    assert not diagnosis.sound
    repaired = repair_file(path, diagnosis, now=0)

    assert [each.name for each in repaired] == ["rescue copy"]
    assert not [each for each in examine(path, now=0).findings if each.name == "rescue copy"]
    async with await open_sqlite(str(path)) as again:
        assert await read(again, writer.session.id) == writer.acknowledged


async def test_doctor_does_not_put_it_in_the_place_of_newer_messages(
    writer: Writer, path: Path
) -> None:
    delete(path)
    with pytest.raises(StoreMoved):
        await writer.say(1)
    await writer.store.close()
    async with await open_sqlite(str(path)) as newer:
        await make(newer)
    diagnosis = examine(path, now=0)
    found = [each for each in diagnosis.findings if each.name == "rescue copy"]
    assert [each.fix for each in found] == [None]
    assert repair_file(path, diagnosis, now=0) == ()
