"""The contract of `clew.testing`, kept by the PostgreSQL store."""

from __future__ import annotations

import pytest

from clew.ports import Clock, Store
from clew.store.postgres.store import PostgresStore
from clew.testing.contract import StoreContract
from clew.testing.contract.case import OpenStore


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def open_store(self, url: str) -> OpenStore:
        async def open_store(clock: Clock) -> Store:
            # On a busy machine a search may take longer than a person would wait.
            return await PostgresStore.open(url, clock=clock, search_seconds=30)

        return open_store
