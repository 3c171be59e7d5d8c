"""What senders without a credential may take: time, connections, memory and lines of the log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from clew.channels.webhook import MAX_BODY, Hook, sign
from clew.clock import host_clock
from clew.gateway.auth import Setup
from clew.gateway.log_file import OncePerMinute
from clew.gateway.server import Address
from clew.gateway.unknown_senders import Limits, find_limits, network_of
from clew.gateway.webhook_endpoint import make_webhook_endpoint
from tests.gateway.conftest import House, check_problem, open_gatehouse
from tests.gateway.test_server import MAKE_CERTIFICATE, open_server
from tests.patience import PATIENCE
from tests.runtime.conftest import soon

SECRET = "a long enough secret"
HASTY = Limits(patience=0.3, young=0.05, check_every=0.05)
HALF = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
LOGIN = b"POST /v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def receive(_incoming: Any) -> Any:
    raise AssertionError("nothing of this was signed")


HOOKS = make_webhook_endpoint([Hook(name="deploys", secret=SECRET)], receive, clock=host_clock)


@contextlib.asynccontextmanager
async def open_with(
    path: Path, limits: Limits, setup: Setup | None = None
) -> AsyncIterator[tuple[House, str]]:
    async with (
        open_gatehouse(path, setup, endpoints=[HOOKS], limits=limits) as house,
        open_server(house) as url,
    ):
        yield house, url


@contextlib.asynccontextmanager
async def crowd(url: str, count: int, *said: bytes) -> AsyncIterator[list[Stream]]:
    """Clients that have connected, and have said something."""
    host, port = url.removeprefix("http://").split(":")
    made: list[Stream] = []
    try:
        for number in range(count):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(said[number % len(said)])
            made.append((reader, writer))
        yield made
    finally:
        for _, writer in made:
            writer.close()


async def read_end(stream: Stream) -> bytes:
    """What the server says before it hangs up."""
    with contextlib.suppress(ConnectionError):
        return await soon(stream[0].read())
    return b""


async def is_alive(url: str) -> bool:
    return (await asyncio.to_thread(httpx.get, f"{url}/health", timeout=PATIENCE)).is_success


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not what():  # noqa: ASYNC110  # counted, not told
            await asyncio.sleep(0.01)


# --- time -----------------------------------------------------------------------------------------


async def test_half_a_header_is_hung_up_on(tmp_path: Path) -> None:
    async with open_with(tmp_path, HASTY) as (_, url), crowd(url, 2, HALF, b"") as clients:
        half, silent = clients
        assert (await read_end(half)).startswith(b"HTTP/1.1 408")
        assert await read_end(silent) == b""
        assert await is_alive(url)


async def test_a_header_that_drips_gains_no_time(tmp_path: Path) -> None:
    async with open_with(tmp_path, HASTY) as (_, url), crowd(url, 1, HALF) as ((_, writer),):
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE):
                while not writer.transport.is_closing():
                    writer.write(b"a")
                    await asyncio.sleep(0.02)
        assert writer.transport.is_closing()


async def test_the_second_request_of_a_connection_has_the_same_time(tmp_path: Path) -> None:
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with open_with(tmp_path, HASTY) as (_, url), crowd(url, 1, whole + HALF) as (client,):
        assert (await read_end(client)).startswith(b"HTTP/1.1 200")


async def test_half_a_body_of_an_unknown_sender_is_hung_up_on(tmp_path: Path) -> None:
    data = LOGIN + b'Content-Length: 500\r\n\r\n{"code'
    async with open_with(tmp_path, HASTY) as (_, url), crowd(url, 1, data) as (client,):
        assert (await read_end(client)).startswith(b"HTTP/1.1 408")


async def test_a_body_with_a_credential_may_take_longer(tmp_path: Path) -> None:
    async with open_with(tmp_path, HASTY) as (house, url):
        body = b'{"method": "status"}'
        head = (
            "POST /v1/rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {await house.secret()}\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        async with crowd(url, 1, head.encode()) as (client,):
            await until(lambda: house.gate.unknown.count() == 0)
            await asyncio.sleep(3 * HASTY.patience)
            client[1].write(body)
            assert (await read_end(client)).startswith(b"HTTP/1.1 200")


async def test_a_tls_handshake_that_does_not_come_is_hung_up_on(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = [*MAKE_CERTIFICATE, "-keyout", str(key), "-out", str(cert)]
    await asyncio.to_thread(subprocess.run, make, check=True, capture_output=True)
    address = Address(host="127.0.0.1", port=0, cert=cert, key=key)
    trusted = ssl.create_default_context(cafile=str(cert))
    limits = Limits(patience=0.3, young=0.05, check_every=0.05, unknown=5)
    async with (
        open_gatehouse(tmp_path, limits=limits) as house,
        open_server(house, address) as url,
        crowd(url.replace("https", "http"), 20, b"", b"\x16\x03", b"nonsense") as clients,
    ):
        assert house.gate.unknown.count() <= 5
        answer = await asyncio.to_thread(
            httpx.get, f"{url}/health", verify=trusted, timeout=PATIENCE
        )
        assert answer.is_success
        for client in clients:
            await read_end(client)
        await until(lambda: house.gate.unknown.count() == 0)


# --- connections ----------------------------------------------------------------------------------


async def test_too_many_connections_give_way_to_newer_ones(tmp_path: Path) -> None:
    limits = Limits(unknown=20)
    async with open_with(tmp_path, limits) as (house, url), crowd(url, 100, HALF, b"") as clients:
        assert await is_alive(url)
        assert house.gate.unknown.count() <= 20
        assert (await read_end(clients[0])).startswith(b"HTTP/1.1 408")
        reader, writer = clients[-1]
        writer.write(b"\r\n\r\n")
        assert (await soon(reader.readline())).startswith(b"HTTP/1.1 ")


async def test_one_address_has_few_that_wait_and_a_burst_is_no_attack(tmp_path: Path) -> None:
    limits = Limits(of_one=5, young=0.3, check_every=0.05)
    async with open_with(tmp_path, limits) as (house, url), crowd(url, 50, HALF):
        await until(lambda: house.gate.unknown.count() == 5)
        assert await is_alive(url)


async def test_connections_with_a_credential_are_not_counted(tmp_path: Path) -> None:
    async with open_with(tmp_path, Limits(unknown=10)) as (house, url):
        token = await house.secret()
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE) as client:
            asked = [client.get("/v1/status") for _ in range(8)]
            assert all(each.is_success for each in await asyncio.gather(*asked))
            async with crowd(url, 60, HALF, b""):
                assert (await client.get("/v1/status")).is_success
                assert house.gate.unknown.count() <= 10


async def test_idle_connections_of_one_token_keep_nobody_out(tmp_path: Path) -> None:
    async with open_with(tmp_path, Limits(in_all=20)) as (house, url):
        token = await house.secret("read", "guest")
        asked = (
            f"GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        async with crowd(url, 20, asked.encode()) as clients:
            for reader, _ in clients:
                assert (await soon(reader.readline())).startswith(b"HTTP/1.1 200")
            assert house.gate.unknown.count() == 0
            assert await is_alive(url)


async def test_half_sent_bodies_of_one_token_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    async with open_with(tmp_path, Limits()) as (house, url):
        token, owner = await house.secret("chat", "guest"), await house.secret()
        half = (
            f"POST /v1/chat HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: 4000000\r\n\r\n" + "a" * 1_000
        )
        async with crowd(url, 120, half.encode()) as clients:
            firsts = [asyncio.create_task(reader.readline()) for reader, _ in clients]
            done, waiting = await asyncio.wait(firsts, return_when="FIRST_COMPLETED")
            assert all(each.result().startswith(b"HTTP/1.1 429") for each in done)
            headers = {"Authorization": f"Bearer {owner}"}
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE) as client:
                asked = {"method": "status"}
                assert (await client.post("/v1/rpc", json=asked)).is_success
            for each in waiting:
                each.cancel()


async def test_the_slow_and_the_half_are_forgotten_when_they_leave(tmp_path: Path) -> None:
    async with open_with(tmp_path, Limits()) as (house, url):
        async with crowd(url, 30, HALF, b"", LOGIN + b"Content-Length: 90\r\n\r\n{"):
            await until(lambda: house.gate.unknown.count() == 30)
        await until(lambda: house.gate.unknown.count() == 0)
        await until(lambda: house.gate.unknown.body_bytes == 0)


async def test_behind_a_proxy_the_forwarded_address_has_the_limit(tmp_path: Path) -> None:
    setup = Setup(behind_proxy=True)
    limits = Limits(readers_of_one=3, of_one=1, young=0.01, check_every=0.02)
    said = LOGIN + b"X-Forwarded-For: 203.0.113.5\r\nContent-Length: 90\r\n\r\n{"
    async with open_with(tmp_path, limits, setup) as (house, url), crowd(url, 3, said) as them:
        await until(lambda: house.gate.unknown.readers == 3)
        async with crowd(url, 1, said.replace(b"113.5", b"113.6")):
            await until(lambda: house.gate.unknown.readers == 4)
            async with crowd(url, 1, said):
                assert (await read_end(them[0])).startswith(b"HTTP/1.1 408")
                assert house.gate.unknown.readers == 4


def test_loopback_and_a_network_of_ipv6_are_one_address_each() -> None:
    assert network_of("127.0.0.1") == network_of("127.9.9.9") == network_of("::1")
    assert network_of("2001:db8::1") == network_of("2001:db8::2") != network_of("2001:db8:1::1")
    assert network_of("::ffff:203.0.113.5") == network_of("203.0.113.5")


def test_the_caps_fit_into_the_descriptors_that_there_are() -> None:
    small, large = find_limits(1_024), find_limits(65_536)
    assert small.unknown < small.in_all < 1_024 - 100
    assert large.in_all > 2_000
    assert large.unknown == Limits().unknown


# --- memory ---------------------------------------------------------------------------------------


async def test_a_login_has_a_kilobyte(house: House) -> None:
    check_problem(await house.ask("POST", "/v1/login", json={"code": "x" * 150}), 401)
    answer = await house.ask("POST", "/v1/login", json={"code": "x" * 1_100})
    check_problem(answer, 413, "body_too_large")


async def test_half_sent_bodies_share_a_budget(tmp_path: Path) -> None:
    limits = Limits(bodies=100_000, bodies_of_one=100_000)
    head = sign(SECRET, b"", host_clock() // 1_000)
    signed = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    half = (
        f"POST /v1/hooks/deploys HTTP/1.1\r\nHost: localhost\r\n{signed}"
        f"Content-Length: {MAX_BODY}\r\n\r\n" + "a" * 30_000
    ).encode()
    async with open_with(tmp_path, limits) as (house, url), crowd(url, 10, half) as clients:
        for each in clients[:-3]:
            assert (await read_end(each)).startswith(b"HTTP/1.1 408")
        assert house.gate.unknown.readers == 3
        assert house.gate.unknown.body_bytes == 90_000


async def test_one_address_has_a_part_of_the_budget(tmp_path: Path) -> None:
    async with open_gatehouse(tmp_path, limits=Limits(bodies_of_one=10)) as house:
        answer = await house.ask("POST", "/v1/login", json={"code": "longer than ten"})
        check_problem(answer, 503, "busy")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Clew-Timestamp": "1", "X-Clew-Signature": "v1=00"},
        {"X-Clew-Timestamp": "now", "X-Clew-Signature": "v1=" + "0" * 64},
        {
            "X-Clew-Timestamp": str(host_clock() // 1_000 - 900),
            "X-Clew-Signature": "v1=" + "0" * 64,
        },
    ],
)
async def test_a_hook_that_can_t_be_right_is_refused_before_its_body(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with open_gatehouse(tmp_path, endpoints=[HOOKS]) as house:
        for name in ("deploys", "nothing"):
            given = [(key.lower().encode(), value.encode()) for key, value in headers.items()]
            assert await ask_without_body(house, f"/v1/hooks/{name}", given) == 401


async def ask_without_body(house: House, path: str, headers: list[tuple[bytes, bytes]]) -> int:
    """The status that is answered before anything of the body was asked for."""
    status: list[int] = []

    async def hear() -> Any:
        if not status:
            raise AssertionError("it read the body")
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "scheme": "http",
        "http_version": "1.1",
        "client": ("127.0.0.1", 5),
        "headers": [(b"host", b"localhost"), (b"content-length", b"900"), *headers],
    }
    await house.app(scope, hear, send)
    return status[0]


# --- the log --------------------------------------------------------------------------------------


def test_the_same_failure_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 1_000.0
    log = logging.getLogger("clew.test.log_limit")
    log.addFilter(limit := OncePerMinute(lambda: now))
    try:
        for _ in range(500):
            log.warning("Invalid HTTP request received.")
        log.warning("something else")
        now += 61
        log.warning("Invalid HTTP request received.")
    finally:
        log.removeFilter(limit)
    first, other, later = (each.getMessage() for each in caplog.records)
    assert (first, other) == ("Invalid HTTP request received.", "something else")
    assert "499 more" in later


async def test_nonsense_fills_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_with(tmp_path, HASTY) as (_, url), crowd(url, 50, b"nonsense\r\n\r\n") as them:
        for each in them:
            await read_end(each)
    assert len(caplog.records) < 5


# --- a whole process ------------------------------------------------------------------------------
