"""Webhooks at the gateway's door, with the whole way behind it: in, a turn, and the callback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from clew import config as configuration
from clew.channels.webhook import sign
from clew.clock import host_clock
from clew.gateway.auth import Setup
from clew.wiring import Gateway, open_gateway
from tests.runtime.conftest import soon, until

HOME = "http://localhost:7717"
SECRET = "a long enough secret"


class Callback:
    """Where replies are posted to."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        self.bodies.append(msgspec.json.decode(await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@pytest.fixture
async def callback() -> AsyncIterator[Callback]:
    made = Callback()
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as server:
        made.port = server.sockets[0].getsockname()[1]
        yield made


@pytest.fixture
async def gateway(tmp_path: Path, callback: Callback) -> AsyncIterator[Gateway]:
    script = tmp_path / "script.json"
    script.write_bytes(msgspec.json.encode({"answers": ["It is fine."]}))
    (tmp_path / "config.toml").write_text(
        f"""model = "script/x"
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{script}"
[webhooks.deploys]
secret = "{SECRET}"
callback = "http://127.0.0.1:{callback.port}/clew"
""",
        encoding="utf-8",
    )
    config = configuration.load(home=str(tmp_path), environ={})
    async with open_gateway(config, Setup()) as gateway:
        yield gateway


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=gateway.app)
    async with httpx.AsyncClient(transport=transport, base_url=HOME) as client:
        yield client


async def call(client: httpx.AsyncClient, body: bytes, *, name: str = "deploys") -> httpx.Response:
    headers = sign(SECRET, body, host_clock() // 1000)
    return await client.post(f"/v1/hooks/{name}", content=body, headers=headers)


async def test_a_signed_call_is_answered_at_its_callback_once(
    gateway: Gateway, client: httpx.AsyncClient, callback: Callback
) -> None:
    body = b'{"text": "Is the deploy fine?", "id": "d-1"}'
    first, again = await call(client, body), await call(client, body)

    assert (first.status_code, again.status_code) == (202, 202)
    assert (first.json()["is_new"], again.json()["is_new"]) == (True, False)
    assert first.json()["session_id"] == again.json()["session_id"]

    async def has_come() -> bool:
        return bool(callback.bodies)

    await until(has_come)
    (reply,) = callback.bodies
    assert (reply["text"], reply["session_id"]) == ("It is fine.", first.json()["session_id"])
    store = gateway.house.runtime.store
    session = await store.get_session(first.json()["session_id"])
    (turn,) = await store.list_turns(session.id)
    # A hook speaks for itself, not for the owner, and nobody is there because of it.
    assert turn.reply_to is not None
    assert (turn.reply_to["person"], session.kind) == ("webhook:deploys", "hook")
    assert session.last_interaction_at is None
    await soon(gateway.house.runtime.join(session.id))


@pytest.mark.parametrize("name", ["deploys", "nobody", "..%2Fup", "DEPLOYS%00"])
async def test_an_unsigned_call_is_refused_alike_whether_there_is_such_a_hook(
    gateway: Gateway, client: httpx.AsyncClient, name: str
) -> None:
    answer = await client.post(f"/v1/hooks/{name}", content=b"hi")

    assert answer.status_code in (401, 404)
    if "%" not in name:
        assert answer.json()["code"] == "unauthorized"
    assert await gateway.house.runtime.store.list_inbound() == ()


async def test_a_body_that_is_too_long_is_refused(client: httpx.AsyncClient) -> None:
    assert (await call(client, b"x" * 1_000_001)).status_code == 413


async def test_ten_wrong_signatures_a_minute_and_no_more(client: httpx.AsyncClient) -> None:
    answers = [await client.post("/v1/hooks/deploys", content=b"hi") for _ in range(12)]

    assert [each.status_code for each in answers] == [401] * 10 + [429] * 2
    assert (await call(client, b"who knows the secret comes in")).status_code == 202
