"""Pieces of work over SQLite's transactions: how shared SQL is spelled, bound and run."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from clew.core.changes import Change
from clew.core.session import NewSession
from clew.store import open_sqlite
from clew.store.rows import Row
from clew.store.sqlite.engine import spell
from clew.store.sqlite.store import SqliteStore
from clew.store.work.record import _HANDLERS
from clew.store.work.transaction import Transaction
from clew.testing.clock import FakeClock

WORK = Path(__file__).resolve().parent.parent.parent / "src" / "clew" / "store" / "work"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    async with await open_sqlite(str(tmp_path / "sessions.db"), clock=clock) as store:
        yield store


async def ask(store: SqliteStore, sql: str, *bindings: object) -> list[Row]:
    return await store._engine.read(lambda tx: tx.fetch(sql, bindings))


# --- bindings -------------------------------------------------------------------------------------


async def test_a_binding_that_is_named_before_another_gets_its_own_value(
    store: SqliteStore,
) -> None:
    assert await ask(store, "SELECT $2, $1", "first", "second") == [("second", "first")]


async def test_a_binding_that_is_named_twice_has_its_value_in_both_places(
    store: SqliteStore,
) -> None:
    assert await ask(store, "SELECT $1, $2, $1", "a", "b") == [("a", "b", "a")]


async def test_bindings_of_two_digits_are_not_taken_for_one(store: SqliteStore) -> None:
    values = tuple(range(12))
    marks = ", ".join(f"${number}" for number in range(12, 0, -1))

    assert await ask(store, f"SELECT {marks}", *values) == [values[::-1]]


async def test_a_list_is_bound_wherever_any_of_it_is_asked_for(store: SqliteStore) -> None:
    sql = "SELECT $1 = ANY ($2), $3 = ANY ($2), $4 = ANY ($5)"

    assert await ask(store, sql, "b", ["a", "b"], "c", 7, [7]) == [(1, 0, 1)]
    assert await ask(store, sql, "b", [], "c", 7, ["7"]) == [(0, 0, 0)]


# --- spelling -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lock", ["FOR UPDATE", "FOR NO KEY UPDATE", "FOR KEY SHARE", "FOR UPDATE SKIP LOCKED"]
)
def test_locks_of_rows_are_left_out(lock: str) -> None:
    assert spell(f"SELECT 1 FROM (SELECT 2 {lock})\n{lock}").sql == "SELECT 1 FROM (SELECT 2)"


def test_the_order_of_rows_is_that_of_their_rowids() -> None:
    spelled = spell("SELECT min(ordinal), ordinals FROM t ORDER BY ordinal").sql

    assert spelled == "SELECT min(rowid), ordinals FROM t ORDER BY rowid"


def test_a_statement_is_spelled_once() -> None:
    assert spell("SELECT $1, $2") is spell("SELECT $1, $2")


def literals() -> list[str]:
    """All texts in the modules of shared work."""
    trees = [ast.parse(path.read_text("utf-8")) for path in WORK.glob("*.py")]
    return [
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_shared_sql_has_nothing_that_one_database_alone_understands() -> None:
    sql = [each for each in literals() if re.search(r"\b(SELECT|INSERT|UPDATE|DELETE)\b", each)]

    assert len(sql) > 100
    assert [each for each in sql if "::" in each or "?" in each] == []


# --- running --------------------------------------------------------------------------------------


async def test_work_that_yields_is_refused_and_has_changed_nothing(store: SqliteStore) -> None:
    session = await store.create_session(NewSession(key="k"))

    async def wait(tx: Transaction) -> None:
        await tx.run("UPDATE sessions SET title = 'x' WHERE id = $1", (session.id,))
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="its transaction only"):
        await store._engine.write(wait)

    assert await store.get_session(session.id) == session
    assert (await store.create_session(NewSession(key="after"))).key == "after"


async def test_a_reader_goes_on_after_work_that_yields(store: SqliteStore) -> None:
    async def wait(tx: Transaction) -> None:
        await tx.fetch("SELECT id FROM sessions")
        await asyncio.sleep(0)

    for run in (store._engine.read, store._engine.snapshot):
        with pytest.raises(RuntimeError, match="its transaction only"):
            await run(wait)
        assert await ask(store, "SELECT count(*) FROM sessions") == [(0,)]


async def test_what_a_piece_of_work_raises_is_raised_and_has_changed_nothing(
    store: SqliteStore,
) -> None:
    session = await store.create_session(NewSession(key="k"))

    async def fail(tx: Transaction) -> None:
        await tx.run("UPDATE sessions SET title = 'x' WHERE id = $1", (session.id,))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await store._engine.write(fail)

    assert await store.get_session(session.id) == session


async def test_a_transaction_counts_what_it_changed_and_knows_the_time(
    store: SqliteStore, clock: FakeClock
) -> None:
    for key in "ab":
        await store.create_session(NewSession(key=key))

    async def work(tx: Transaction) -> tuple[int, int, int, Row | None]:
        await tx.serialize("anything")
        sql = "UPDATE sessions SET title = $1 WHERE key <> $2"
        both, none = await tx.run(sql, ("t", "c")), await tx.run(f"{sql} AND key = 'c'", ("t", "a"))
        return both, none, await tx.now(), await tx.one("SELECT 1 WHERE $1 = 2", (1,))

    assert await store._engine.write(work) == (2, 0, clock(), None)


def test_every_change_can_be_recorded() -> None:
    assert set(_HANDLERS) == set(get_args(Change))
