"""Faults of driver, file system and clock: each is an error of clew's, or does no harm."""

from __future__ import annotations

import asyncio
import resource
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from clew.core.message import Draft
from clew.errors import LeaseHeld, StoreDamaged, StoreUnusable
from clew.store import open_sqlite
from clew.store.sqlite.store import SqliteStore
from clew.testing.clock import FakeClock
from clew.testing.contract.case import make
from tests.patience import PATIENCE
from tests.store.files import use_in_a_fork

YEAR = 365 * 24 * 3_600_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(2 * YEAR)


@pytest.fixture
async def store(path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    async with await open_sqlite(str(path), durability="normal", clock=clock) as opened:
        yield opened


async def test_a_further_connection_that_fails_is_told_in_clews_words(store: SqliteStore) -> None:
    session = await make(store)
    begun, ends = threading.Event(), threading.Event()

    def keep_busy(_: object) -> None:
        begun.set()
        ends.wait(PATIENCE)

    # The reader that is there has something to do, so the next call needs a connection of its own.
    busy = asyncio.create_task(store._db.read(keep_busy))
    await asyncio.to_thread(begun.wait, PATIENCE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # no further file can be opened
    try:
        with pytest.raises(StoreUnusable):
            await store.get_session(session.id)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        ends.set()
        await busy


async def test_text_that_is_no_utf_8_is_damage(store: SqliteStore, path: Path) -> None:
    session = await make(store)
    lease = await store.acquire_lease(session.id, "me")
    await store.append(session.id, lease.epoch, Draft(role="user", content="hello"))
    with closing(apsw.Connection(str(path))) as by_hand:
        by_hand.execute("UPDATE messages SET content = CAST(x'fffe' AS TEXT)")
    with pytest.raises(StoreDamaged, match="UTF-8"):
        await store.get_messages(session.id)


async def test_a_process_file_that_can_not_be_removed_is_no_error(
    store: SqliteStore, path: Path
) -> None:
    dead = path.parent / "processes" / f"{'0' * 32}.json"
    dead.mkdir()  # neither opened as a file nor unlinked
    async with await open_sqlite(str(path)) as other:
        assert await other.is_living(store.identity)
    dead.rmdir()


async def test_a_forked_child_is_told_at_once(store: SqliteStore) -> None:
    session = await make(store)
    first, second, third = use_in_a_fork(store, session.id)
    assert first.startswith("StoreClosed: ")
    assert "forked" in first
    assert first == second
    assert third == "done"
    assert await store.is_living(store.identity)
    assert (await store.get_session(session.id)).deleted_at is None


@pytest.mark.parametrize("holder", ["runner", f"{'a' * 32}@elsewhere"])
async def test_a_clock_that_is_set_back_does_not_keep_a_lease_alive(
    store: SqliteStore, clock: FakeClock, holder: str
) -> None:
    session = await make(store)
    await store.acquire_lease(session.id, holder)
    with pytest.raises(LeaseHeld):
        await store.acquire_lease(session.id, "me")
    clock.now -= YEAR
    assert await store.find_lease(session.id) is None
    assert (await store.acquire_lease(session.id, "me")).holder == "me"
