"""What an overview costs in SQLite, counted in steps of its machine and not timed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import apsw
import pytest
import pytest_asyncio

from clew.core.changes import Change, EndTurn, StartTurn
from clew.core.keys import new_id
from clew.core.session import OWNER, SessionFilter
from clew.store import open_sqlite
from clew.store.sqlite.connection import READERS
from clew.store.sqlite.store import SqliteStore
from clew.testing.contract.case import make, record
from clew.testing.contract.turns import ask
from tests.patience import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="module")

FEW, MANY = 40, 1_200
SCREENFUL = 30


async def fill(store: SqliteStore, count: int) -> None:
    async def add() -> None:
        session = await make(store, title="a session", cwd="/here")
        await record(store, session.id, *turns(2))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(add())


def turns(count: int) -> list[Change]:
    done: list[Change] = []
    for _ in range(count):
        turn_id = new_id()
        done += [StartTurn(turn_id=turn_id), ask(turn_id, new_id(), 0)]
        done += [EndTurn(turn_id=turn_id, status="done")]
    return done


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def small(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SqliteStore]:
    async with await filled(tmp_path_factory.mktemp("small"), FEW) as store:
        yield store


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def large(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SqliteStore]:
    async with await filled(tmp_path_factory.mktemp("large"), MANY) as store:
        yield store


async def filled(directory: Path, count: int) -> SqliteStore:
    store = await open_sqlite(f"sqlite://{directory}/sessions.db", durability="normal")
    await fill(store, count)
    return store


async def steps_of(store: SqliteStore, call: Callable[[], Awaitable[object]]) -> list[int]:
    """The instructions that each statement of a call takes, of those that read something."""
    counted: list[int] = []
    everybody = threading.Barrier(READERS)

    def count(event: dict[str, object]) -> None:
        if "FROM" in str(event["sql"]):
            counted.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])  # type: ignore[index]  # apsw's

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
        everybody.wait(PATIENCE)

    def unwatch(connection: apsw.Connection) -> None:
        connection.trace_v2(0, None)
        everybody.wait(PATIENCE)

    await asyncio.gather(*(store._db.read(watch) for _ in range(READERS)))
    try:
        await call()
    finally:
        await asyncio.gather(*(store._db.read(unwatch) for _ in range(READERS)))
    assert counted
    return counted


async def some(store: SqliteStore, count: int) -> list[str]:
    """Ids from all over the store."""
    names = (await store.list_names(SessionFilter(viewer=OWNER))).names
    return [name.id for name in names[:: len(names) // count]][:count]


async def test_states_take_as_many_steps_as_in_a_small_store(
    small: SqliteStore, large: SqliteStore
) -> None:
    taken = {}
    for store in (small, large):
        ids = await some(store, SCREENFUL)
        taken[store] = sum(await steps_of(store, lambda: store.list_states(ids)))  # noqa: B023

    assert taken[large] <= 1.1 * taken[small]


@pytest.mark.parametrize(
    "where",
    [
        SessionFilter(viewer=OWNER),
        SessionFilter(viewer=OWNER, archived=None),
        SessionFilter(viewer=OWNER, cwd="/here"),
    ],
    ids=["all", "archived too", "here"],
)
async def test_a_page_of_names_takes_as_many_steps_as_in_a_small_store(
    small: SqliteStore, large: SqliteStore, where: SessionFilter
) -> None:
    taken = {}
    for store in (small, large):
        call = lambda: store.list_names(where, limit=SCREENFUL)  # noqa: E731, B023
        taken[store] = sum(await steps_of(store, call))

    assert taken[large] <= 1.1 * taken[small]


async def test_states_of_many_take_as_many_statements_as_of_one(large: SqliteStore) -> None:
    ids = await some(large, 200)

    one = await steps_of(large, lambda: large.list_states(ids[:1]))
    many = await steps_of(large, lambda: large.list_states(ids))

    assert len(ids) == 200
    assert len(many) == len(one) <= 3


async def test_a_long_history_is_not_looked_through_for_its_newest_turn(
    small: SqliteStore,
) -> None:
    short, long = await make(small), await make(small)
    await record(small, short.id, *turns(1))
    await record(small, long.id, *turns(500))

    few = sum(await steps_of(small, lambda: small.list_states([short.id])))
    many = sum(await steps_of(small, lambda: small.list_states([long.id])))

    assert many <= 1.1 * few
