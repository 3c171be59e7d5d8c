"""The gateway behind a real server: sockets, limits on the wire, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import http.client
import shlex
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from clew.api.operation import NoParams, Operation
from clew.core.channels.incoming import message_for
from clew.core.session import Session
from clew.errors import ClewError, InvalidInput
from clew.gateway.auth import Credential
from clew.gateway.endpoints import Endpoint
from clew.gateway.server import Address, listen, own_hosts, serving, wind_down
from tests.gateway.conftest import House, check_problem, open_gatehouse
from tests.patience import PATIENCE
from tests.runtime.conftest import Held, soon

SOCKET: Operation[Any, Any] = Operation(
    name="echo",
    method="GET",
    path="/v1/echo",
    scope="chat",
    takes=NoParams,
    gives=None,
    help="Says what it hears.",
)
MAKE_CERTIFICATE = shlex.split(
    "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost "
    "-addext subjectAltName=IP:127.0.0.1"
)


async def echo(ws: WebSocket, given: Credential) -> None:
    await ws.accept()
    await ws.send_text(f"hello {given.caller.person}")
    async for text in ws.iter_text():
        await ws.send_text(text)


ECHO = Endpoint(operation=SOCKET, respond=echo, is_socket=True)


@asynccontextmanager
async def open_server(house: House, address: Address | None = None) -> AsyncIterator[str]:
    address = address or Address(port=0)
    with listen(address) as listener:
        async with serving(house.app, house.gate, address, listener, grace=2.0) as url:
            yield url


@pytest.fixture
async def echoing(tmp_path: Path) -> AsyncIterator[House]:
    async with open_gatehouse(tmp_path, endpoints=[ECHO]) as made:
        yield made


async def exchange(url: str, data: bytes) -> bytes:
    """Send bytes, and read until the server hangs up."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        return await soon(reader.read())
    finally:
        writer.close()


# --- sockets --------------------------------------------------------------------------------------


def knock(url: str, token: str | None, **headers: str) -> Any:
    credential = {} if token is None else {"Authorization": f"Bearer {token}"}
    origin: Any = headers.pop("Origin", None)
    address = f"ws{url.removeprefix('http')}/v1/echo"
    return connect(
        address,
        additional_headers=credential | headers,
        origin=origin,
        proxy=None,
        open_timeout=PATIENCE,
    )


async def refusal(url: str, token: str | None, **headers: str) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as caught:
        async with knock(url, token, **headers):
            pass
    response = caught.value.response
    assert response.headers["content-security-policy"]
    return response.status_code, msgspec.json.decode(response.body or b"{}")["code"]


async def test_a_socket_is_refused_like_any_request(echoing: House) -> None:
    good, weak = await echoing.secret("chat"), await echoing.secret("read")
    async with open_server(echoing) as url:
        assert await refusal(url, None) == (401, "unauthorized")
        assert await refusal(url, "clew_wrong") == (401, "unauthorized")
        assert await refusal(url, weak) == (403, "forbidden")
        assert await refusal(url, good, Origin="https://evil.example") == (403, "foreign_origin")
        assert await refusal(url, good, Origin="http://localhost:1") == (403, "foreign_origin")
        site = {"Sec-Fetch-Site": "cross-site"}
        assert await refusal(url, good, **site) == (403, "cross_site")
        plain = await asyncio.to_thread(httpx.get, f"{url}/v1/echo")
        check_problem(plain, 401)


async def test_a_socket_of_a_foreign_host_is_refused(echoing: House) -> None:
    good = await echoing.secret("chat")
    async with open_server(echoing) as url:
        asked = (
            "GET /v1/echo HTTP/1.1\r\nHost: evil.example\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            f"Sec-WebSocket-Version: 13\r\nAuthorization: Bearer {good}\r\n\r\n"
        )
        assert (await exchange(url, asked.encode())).startswith(b"HTTP/1.1 421")


async def test_a_socket_opens_for_a_token_and_for_a_cookie(echoing: House) -> None:
    good = await echoing.secret("chat")
    async with open_server(echoing) as url:
        async with knock(url, good, Origin=url) as ws:
            assert await soon(ws.recv()) == "hello owner"
        own = await echoing.secret("chat", kind="cookie")
        cookie = {"Cookie": f"{echoing.gate.setup.cookie}={own}"}
        async with knock(url, None, **cookie) as ws:
            assert await soon(ws.recv()) == "hello owner"


async def test_a_socket_s_address_without_a_socket_is_told_so(echoing: House) -> None:
    good = await echoing.secret("chat")
    check_problem(await echoing.ask("GET", "/v1/echo", token=good), 426, "upgrade_required")


async def test_sockets_close_when_the_gateway_stops(echoing: House) -> None:
    good = await echoing.secret("chat")
    async with contextlib.AsyncExitStack() as stack:
        async with open_server(echoing) as url:
            ws: ClientConnection = await stack.enter_async_context(knock(url, good))
            await soon(ws.recv())
        assert echoing.gate.closed.is_set()
        with pytest.raises(ConnectionClosed) as caught:
            await soon(ws.recv())
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1012


# --- on the wire ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /health HTTP/1.0\r\n\r\n", 421),
        (b"GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000, 400),
    ],
)  # fmt: skip
async def test_what_is_hardly_http_is_refused(house: House, data: bytes, status: int) -> None:
    async with open_server(house) as url:
        assert (await exchange(url, data)).startswith(b"HTTP/1.1 %d" % status)
        answer = await asyncio.to_thread(httpx.get, f"{url}/health")
        assert answer.status_code == 200


@pytest.mark.parametrize("keeps", ["keep-alive", "close"])
async def test_whoever_sends_100_mb_reads_why_it_was_refused(
    house: House, admin: str, keeps: str
) -> None:
    def post(token: str) -> int:
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Connection": keeps,
        }
        # Unlike others, this client reads no answer before all is sent.
        client = http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)
        with contextlib.closing(client):
            client.request("POST", "/v1/chat", b" " * 100_000_000, headers)
            return client.getresponse().status

    async with open_server(house) as url:
        assert await asyncio.to_thread(post, admin) == 413
        assert await asyncio.to_thread(post, "wrong") == 401


async def test_it_tells_nothing_about_its_server(house: House) -> None:
    async with open_server(house) as url:
        answer = await asyncio.to_thread(httpx.get, f"{url}/health")
    assert "server" not in answer.headers


async def test_it_speaks_tls(house: House, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    await asyncio.to_thread(
        subprocess.run,
        [*MAKE_CERTIFICATE, "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    address = Address(host="127.0.0.1", port=0, cert=cert, key=key)
    trusted = ssl.create_default_context(cafile=str(cert))
    async with open_server(house, address) as url:
        assert url.startswith("https://")
        answer = await asyncio.to_thread(httpx.get, f"{url}/health", verify=trusted)
    assert answer.status_code == 200


async def test_a_broken_certificate_is_told(house: House, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("nothing")
    with pytest.raises(InvalidInput, match="certificate"):
        async with open_server(house, Address(port=0, cert=broken, key=broken)):
            pass


# --- where ----------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_told_in_words() -> None:
    with listen(Address(port=0)) as first:
        port = first.getsockname()[1]
        taken = pytest.raises(ClewError, match=f"Another program listens on port {port}")
        with taken, listen(Address(port=port)):
            pass


def test_what_is_sent_goes_out_at_once() -> None:
    """Else the second half of an answer waits for the other end, 40 ms each time."""
    with (
        listen(Address(port=0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as taken,
    ):
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_address_that_is_not_here_is_told() -> None:
    refused = pytest.raises(InvalidInput, match=r"no address 203\.0\.113\.9")
    with refused, listen(Address(host="203.0.113.9", port=0, behind_proxy=True)):
        pass


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "clew.example", ""])
def test_other_machines_need_tls_or_a_proxy(host: str) -> None:
    with pytest.raises(InvalidInput, match="--tls-cert"):
        Address(host=host).check()
    Address(host=host, behind_proxy=True).check()
    Address(host=host, cert=Path("c"), key=Path("k")).check()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_this_machine_needs_neither(host: str) -> None:
    Address(host=host).check()


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(InvalidInput, match="together"):
        Address(cert=Path("c")).check()


def test_it_answers_to_its_own_address_and_to_what_it_is_told() -> None:
    assert "192.168.1.5" in own_hosts(Address(host="192.168.1.5"))
    assert "0.0.0.0" not in own_hosts(Address(host="0.0.0.0"))
    assert "clew.lan" in own_hosts(Address(), ("clew.lan:8443",))
    assert "fd00::5" in own_hosts(Address(), ("fd00::5",))
    for nonsense in ("", "a b", "http://clew.lan", "clew.lan/x", "me@clew.lan", "clew.lan:port"):
        with pytest.raises(InvalidInput, match="not a host name"):
            own_hosts(Address(), (nonsense,))


def test_others_are_told_its_public_address() -> None:
    proxied = Address(behind_proxy=True)
    assert proxied.public_url(7717, "clew.example") == "https://clew.example"
    assert proxied.public_url(7717, "clew.example:8443") == "https://clew.example:8443"
    own = Address(host="0.0.0.0", cert=Path("c"), key=Path("k"))
    assert own.public_url(7717, "clew.lan") == "https://clew.lan:7717"
    assert own.public_url(7717, "fd00::5") == "https://[fd00::5]:7717"
    assert own.url(7717) == "https://127.0.0.1:7717"


async def test_it_listens_on_ipv6(house: House) -> None:
    async with open_server(house, Address(host="::1", port=0)) as url:
        answer = await asyncio.to_thread(httpx.get, f"{url}/health")
    assert answer.status_code == 200


# --- stopping -------------------------------------------------------------------------------------


async def accept(house: House, session: Session, name: str) -> None:
    await house.calls.parts.runtime.accept(
        message_for(session, name, channel="api", external_id=name)
    )


async def test_a_turn_that_runs_gets_its_time_and_no_other_begins(house: House) -> None:
    scene = Held("finished")
    house.actor.scenes.append(scene)
    session = await house.session()
    await accept(house, session, "one")
    await soon(scene.began.wait())
    await accept(house, session, "two")
    stopping = asyncio.create_task(wind_down(house.calls.parts.runtime, PATIENCE))
    while house.calls.parts.runtime.list_queued(session.id):  # noqa: ASYNC110  # it has no event
        await asyncio.sleep(0)
    scene.go_on.set()
    await soon(stopping)
    messages = await house.store.get_messages(session.id, 10)
    assert [each.content for each in messages] == ["one", "finished"]
    assert [each.external_id for each in await house.store.list_inbound(session.id)] == ["two"]


async def test_a_turn_without_time_is_aborted_and_nothing_that_waits_is_lost(house: House) -> None:
    scene = Held()
    house.actor.scenes.append(scene)
    session = await house.session()
    await accept(house, session, "one")
    await soon(scene.began.wait())
    await accept(house, session, "two")
    runtime = house.calls.parts.runtime
    await soon(wind_down(runtime, 0.05))
    await soon(runtime.close())
    assert scene.stopped
    first, *_ = await house.store.get_messages(session.id, 10)
    assert first.turn_id is not None
    assert (await house.store.get_turn(first.turn_id)).status == "aborted"
    waiting = await house.store.list_inbound(session.id)
    assert [(each.external_id, each.status) for each in waiting] == [("two", "queued")]


async def test_a_hurry_ends_the_wait_without_an_error(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Held()
    house.actor.scenes.append(scene)
    await accept(house, await house.session(), "one")
    await soon(scene.began.wait())
    hurry = asyncio.Event()
    stopping = asyncio.create_task(wind_down(house.calls.parts.runtime, 600.0, hurry))
    hurry.set()
    await soon(stopping)
    del stopping
    gc.collect()  # what nobody has looked at is told when it goes
    assert caplog.text == ""
