"""The contract of `clew.testing`, kept by the PostgreSQL store."""

from __future__ import annotations

import pytest

from clew.ports import Clock, Store
from clew.store import open_store as open_postgres
from clew.testing.contract import StoreContract
from clew.testing.contract.case import OpenStore


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def open_store(self, url: str) -> OpenStore:
        async def open_store(clock: Clock) -> Store:
            return await open_postgres(url, clock=clock)

        return open_store
