"""The contract of `clew.testing`, kept by the SQLite store."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.ports import Clock, Store
from clew.store.sqlite.store import SqliteStore
from clew.testing.contract import StoreContract
from clew.testing.contract.case import Contract, OpenStore
from tests.stores import lay_store


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        async def open_store(clock: Clock) -> Store:
            # What is tested here does not depend on the sync of a disk.
            # Nor on how busy the machine is: a search that ran out of time finds less.
            path = tmp_path / "home" / "sessions.db"
            lay_store(path)
            return SqliteStore(path, durability="normal", clock=clock, search_seconds=30)

        return open_store


def test_no_test_of_the_contract_hides_another() -> None:
    names = [name for part in StoreContract.__bases__ for name in vars(part) if name[:5] == "test_"]

    assert sorted(names) == sorted(set(names))
    assert len(names) == len([name for name in dir(TestSqliteStore) if name[:5] == "test_"])
    assert all(issubclass(part, Contract) for part in StoreContract.__bases__)
