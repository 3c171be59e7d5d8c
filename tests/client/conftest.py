"""One clew, reached in both ways: in this process, and over HTTP through a real server.

Every test that takes `place` runs once for each way, with the same words.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from clew.api.frames import EventFrame, LiveFrame
from clew.api.handlers.parts import Caller
from clew.api.local import Calls, LocalTransport
from clew.client.client import Client
from clew.clock import host_clock
from clew.core.live_events import Committed
from clew.core.message import Message
from clew.core.session import OWNER, NewSession, Session
from clew.core.tokens import ALL, SCOPES, Scope, Scopes, Token, digest_of
from clew.ports import Store
from clew.runtime.runtime import Runtime
from tests.client.calling import open_calls
from tests.client.serving import serving
from tests.patience import PATIENCE
from tests.runtime.conftest import soon

WAYS = ("local", "http")


class Place:
    """A clew with an actor in the model's place, and the owner's client of it."""

    def __init__(self, way: str, calls: Calls, url: str) -> None:
        self.way = way
        self.store: Store = calls.parts.store
        self.actor: Any = calls.parts.runtime.agent
        self.calls = calls
        self.url = url
        self.secrets: dict[tuple[str, Scopes], str] = {}
        self._clients: list[Client] = []

    @property
    def runtime(self) -> Runtime:
        return self.calls.parts.runtime

    async def client(self, person: str = OWNER, scope: Scope | Scopes = ALL) -> Client:
        """Somebody's client of it."""
        scopes = (scope,) if isinstance(scope, str) else scope
        if self.way == "local":
            return Client(transport=LocalTransport(self.calls, Caller(person, scopes)))
        if (person, scopes) not in self.secrets:
            self.secrets[person, scopes] = await self.add_token(person, scopes)
        client = Client(self.url, self.secrets[person, scopes])
        self._clients.append(client)
        return client

    async def add_token(self, person: str, scopes: Scopes) -> str:
        secret = secrets.token_urlsafe(32)
        token = Token(secrets.token_hex(8), "test", person, scopes, host_clock())
        await self.store.add_token(token, digest_of(secret))
        return secret

    async def session(self, key: str = "cli:test", **facts: Any) -> Session:
        return await self.store.create_session(NewSession(key=key, **facts))

    async def talked(self, client: Client, *texts: str, **where: Any) -> str:
        """A session in which this was said and answered."""
        session = where.pop("session", None)
        for text in texts:
            sending = client.chat.send(text, session=session, **where)
            await soon(drain(sending))
            assert sending.accepted is not None
            session = sending.accepted.session
        assert session is not None
        await soon(self.runtime.join(session))
        return str(session)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


async def drain(frames: Any) -> list[EventFrame]:
    return [frame async for frame in frames]


def outline(messages: tuple[Message, ...]) -> list[str]:
    return [f"{each.role}: {each.content}" for each in messages]


def said(frames: list[EventFrame]) -> list[str]:
    found = [each.event.message for each in frames if isinstance(each.event, Committed)]
    return outline(tuple(found))


async def next_of(live: AsyncIterator[LiveFrame], *kinds: type[LiveFrame]) -> Any:
    """The next frame of these kinds."""
    async with asyncio.timeout(PATIENCE):
        async for frame in live:
            if isinstance(frame, kinds):
                return frame
    raise AssertionError("the frames came to an end")


@pytest.fixture(params=WAYS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        calls = await stack.enter_async_context(open_calls(tmp_path))
        address = ""
        if request.param == "http":
            address = await stack.enter_async_context(serving(calls))
        made = Place(request.param, calls, address)
        stack.push_async_callback(made.close)
        yield made


@pytest.fixture
async def client(place: Place) -> Client:
    return await place.client()


@pytest.fixture(params=SCOPES)
def scope(request: pytest.FixtureRequest) -> Scope:
    chosen: Scope = request.param
    return chosen
