"""The beginning of every test of the contract: a store, a second handle on it, and a clock.

Also the few steps that most tests are made of. They write as a runner does, under a lease.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

import pytest
import pytest_asyncio

from clew.core.changes import AddMessage, Change, EndTurn, Recorded, StartTurn
from clew.core.keys import new_id
from clew.core.message import Draft, Message, Role
from clew.core.search.hits import SearchFilter, SearchHit
from clew.core.session import OWNER, NewSession, Session, SessionFilter
from clew.core.turn import Lease
from clew.ports import Clock, Store, list_missing
from clew.testing.clock import FakeClock

OpenStore = Callable[[Clock], Awaitable[Store]]


class Page(Protocol):
    """A page of a list or a search."""

    @property
    def cursor(self) -> str | None:
        """Where the next page begins; None after the last one."""
        ...


P = TypeVar("P", bound=Page)

UNKNOWN = "00000000-0000-4000-8000-000000000000"
"""An id that no session has."""


class Contract:
    """The fixtures of the suite; the store's own tests give `open_store`."""

    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def clock(self) -> FakeClock:
        """The time of all handles of a test."""
        return FakeClock()

    @pytest_asyncio.fixture
    async def store(self, open_store: OpenStore, clock: FakeClock) -> AsyncIterator[Store]:
        """An empty store."""
        store = await open_store(clock)
        missing = list_missing(store)
        if missing:
            pytest.fail(f"{type(store).__name__} has no {', '.join(missing)}", pytrace=False)
        yield store
        await store.close()

    @pytest_asyncio.fixture
    async def session(self, store: Store) -> Session:
        """A session of the owner, without messages."""
        return await make(store)

    @pytest_asyncio.fixture
    async def lease(self, store: Store, session: Session) -> Lease:
        """The lease on `session`."""
        return await store.acquire_lease(session.id, "me")

    @pytest_asyncio.fixture
    async def other(self, open_store: OpenStore, clock: FakeClock) -> AsyncIterator[Store]:
        """The same data, opened as by another process."""
        other = await open_store(clock)
        yield other
        await other.close()


async def make(store: Store, key: str | None = None, **fields: Any) -> Session:
    """A new session."""
    return await store.create_session(NewSession(key=key or f"cli:{new_id()}", **fields))


async def purge(store: Store, *session_ids: str) -> None:
    """Delete sessions for good."""
    await store.delete_sessions(session_ids)
    assert set(await store.purge_sessions(session_ids)) == set(session_ids)


async def dead_identity(open_store: OpenStore, clock: Clock) -> str:
    """The identity of a process that shared the store and is gone."""
    gone = await open_store(clock)
    identity = gone.identity
    await gone.close()
    return identity


async def record(store: Store, session_id: str, *changes: Change) -> Recorded:
    """Record changes under a lease of their own."""
    lease = await store.acquire_lease(session_id, "contract")
    recorded = await store.record(session_id, lease.epoch, *changes)
    await store.release_lease(lease)
    return recorded


async def say(store: Store, session_id: str, *contents: str, role: Role = "user") -> None:
    """Add messages."""
    await record(
        store, session_id, *(AddMessage(Draft(role=role, content=text)) for text in contents)
    )


async def take_turn(store: Store, session_id: str, *contents: str) -> str:
    """A whole turn of messages; returns its id."""
    turn_id = new_id()
    await record(
        store,
        session_id,
        StartTurn(turn_id=turn_id),
        *(AddMessage(Draft(role="user", content=text), turn_id) for text in contents),
        EndTurn(turn_id=turn_id, status="done"),
    )
    return turn_id


async def read(store: Store, session_id: str, *args: Any, **options: Any) -> list[str]:
    """The texts of a thread."""
    return contents(await store.get_messages(session_id, *args, **options))


def contents(messages: Iterable[Message]) -> list[str]:
    """The texts of messages."""
    return [message.content for message in messages]


async def find(
    store: Store, query: str, *, viewer: str = OWNER, **where: Any
) -> tuple[SearchHit, ...]:
    """The hits of a search; `where` are fields of its filter."""
    page = await store.search(query, SearchFilter(viewer=viewer, **where), limit=100)
    return page.hits


async def found(store: Store, query: str, **where: Any) -> set[tuple[str, int]]:
    """Which messages a search finds."""
    return {(hit.session_id, hit.seq) for hit in await find(store, query, **where)}


async def list_pages(get_page: Callable[[str | None], Awaitable[P]]) -> list[P]:
    """All pages, from the first to the one without a cursor."""
    pages = [await get_page(None)]
    while pages[-1].cursor is not None:
        pages.append(await get_page(pages[-1].cursor))
    return pages


async def listed(store: Store, *, viewer: str = OWNER, **where: Any) -> list[str]:
    """The ids of a list; `where` are fields of its filter."""
    page = await store.list_sessions(SessionFilter(viewer=viewer, **where), limit=100)
    return [session.id for session in page.sessions]
