"""One server for all tests of a worker; each test begins with an empty database of clew's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from clew.store import open_store
from tests.postgres.server import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def template(server: Server) -> str:
    """A database with clew's empty tables."""
    name = server.create_database()

    async def make() -> None:
        await (await open_store(server.url(name))).close()

    asyncio.run(make())
    return name


@pytest.fixture(scope="session")
def reused(server: Server, template: str) -> str:
    """One for most tests: emptying it takes a millisecond, a new one fifty."""
    return server.create_database(template)


@pytest.fixture
def database(server: Server, reused: str) -> Iterator[str]:
    """The name of a database of clew's, empty."""
    yield reused
    server.empty(reused)


@pytest.fixture
def url(server: Server, database: str) -> str:
    return server.url(database)
