"""Every test of an adapter runs on both stores, each time an empty one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from clew.ports import Store
from clew.store import open_store
from tests.postgres.server import Server
from tests.stores import lay_store


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store."""
    if request.param == "sqlite":
        lay_store(tmp_path / "sessions.db")
        yield f"sqlite://{tmp_path}/sessions.db"
        return
    server: Server = request.getfixturevalue("server")
    name = server.create_database()
    yield server.url(name)
    server.drop_database(name)


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with await open_store(url) as store:
        yield store
