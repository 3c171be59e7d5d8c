"""A gateway over a real store and runtime, reached in process; an actor stands for the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from clew.api.handlers.tokens import make_token
from clew.api.local import Calls
from clew.api.problems import MEDIA_TYPE
from clew.clock import host_clock
from clew.core.session import OWNER, NewSession, Session
from clew.core.tokens import ALL, SCOPES, Scope, Scopes, TokenKind, digest_of
from clew.gateway.app import build_app
from clew.gateway.auth import Gate, Setup
from clew.gateway.endpoints import Endpoint
from clew.gateway.unknown_senders import Limits
from clew.ports import Store
from tests.client.calling import open_calls

HOME = "http://localhost:7717"
HOUR = 3_600_000


class Watch:
    """The host's clock, and a hand that moves it forward."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return host_clock() + self.ahead


class House:
    """A gateway, and ways to talk to it."""

    def __init__(self, calls: Calls, gate: Gate, app: Starlette, watch: Watch) -> None:
        self.calls = calls
        self.gate = gate
        self.app = app
        self.watch = watch
        self.actor: Any = calls.parts.runtime.agent
        self._clients: dict[str, httpx.AsyncClient] = {}

    @property
    def store(self) -> Store:
        return self.calls.parts.store

    async def secret(
        self,
        scope: Scope | Scopes = ALL,
        person: str = OWNER,
        *,
        expires_at: int | None = None,
        kind: TokenKind = "bearer",
    ) -> str:
        now = host_clock()
        scopes = (scope,) if isinstance(scope, str) else scope
        token, secret = make_token(
            "test", scopes, now, person=person, expires_at=expires_at, kind=kind
        )
        await self.store.add_token(token, digest_of(secret))
        return secret

    async def revoke(self, secret: str) -> None:
        token = await self.store.find_token(digest_of(secret))
        assert token is not None
        await self.store.revoke_token(token.id)

    async def session(self, key: str = "cli:test", **facts: Any) -> Session:
        return await self.store.create_session(NewSession(key=key, **facts))

    async def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        address: str = "127.0.0.1",
        headers: dict[str, Any] | None = None,
        **more: Any,
    ) -> httpx.Response:
        """One request. A bug in the application is raised here."""
        if address not in self._clients:
            transport = httpx.ASGITransport(self.app, client=(address, 50_000))
            self._clients[address] = httpx.AsyncClient(transport=transport, base_url=HOME)
        credential = {"Authorization": f"Bearer {token}"} if token is not None else {}
        return await self._clients[address].request(
            method, path, headers=credential | (headers or {}), **more
        )

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()


def check_problem(response: httpx.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """The problem document of an answer that has to be one."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == MEDIA_TYPE
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["code"] == code if code else problem["code"]
    return problem


@asynccontextmanager
async def open_gatehouse(
    path: Path,
    setup: Setup | None = None,
    endpoints: Sequence[Endpoint] = (),
    limits: Limits | None = None,
) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        calls = await stack.enter_async_context(open_calls(path))
        watch = Watch()
        gate = Gate(calls.parts.store, watch, setup, limits, calls.parts.runtime.events)
        app = build_app(calls, gate, endpoints=endpoints)
        house = House(calls, gate, app, watch)
        stack.push_async_callback(house.close)
        yield house


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_gatehouse(tmp_path) as made:
        yield made


@pytest.fixture
async def admin(house: House) -> str:
    return await house.secret()


@pytest.fixture(params=SCOPES)
def scope(request: pytest.FixtureRequest) -> Scope:
    chosen: Scope = request.param
    return chosen
