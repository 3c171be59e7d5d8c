"""Requests of random shape at every route of a gateway, with every kind of credential.

    python -m benchmarks.fuzz                     10,000 requests
    python -m benchmarks.fuzz --requests 500      fewer; --seed makes others

A request takes a route of the table and breaks some of it: method, path, query, headers, framing,
credential, body, or all of them. A guest and senders without a credential look for a word that only
the owner has written: in a title, a message and the memory. Ends with 1 after a 5xx, a word that
went astray, or if memory or descriptors grow with the requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from benchmarks.processes.server import PATIENCE, Gateway, open_gateway
from clew.api.operation import Operation
from clew.api.table import OPERATIONS
from clew.gateway.app import DOCUMENT, HEALTH, RPC
from clew.gateway.browser_login import LOGIN, LOGOUT, MAKE_LINK
from clew.gateway.metrics import METRICS
from clew.gateway.webhook_endpoint import WEBHOOK

ROUTES: Final = (*OPERATIONS, RPC, HEALTH, DOCUMENT, LOGIN, LOGOUT, MAKE_LINK, WEBHOOK, METRICS)
ENDLESS: Final = 1.0
"""Seconds after which a stream that goes on is left."""
AT_ONCE: Final = 8
ROUND: Final = 500
"""Requests after which what was revoked or deleted is made anew."""
GROWTH: Final = 40_000_000
MORE_DESCRIPTORS: Final = 20
"""Bytes and descriptors that the gateway may have more in the end than after a third."""
KEPT: Final = frozenset({"tokens.revoke", "logout"})
"""Not asked for with the ids of the credentials that are used here."""
ENDING: Final = frozenset({"gateway.drain"})
"""Ends the gateway, so it is not asked for with a credential that may."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW", "get")
NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**63, 2**70, 1.5, "", " ", "\0", "\ud800", "'; DROP TABLE turns; --",
    "../../etc/passwd", "%2e%2e%2f", "a" * 300, "a" * 100_000, "日本語", "\u202e", "<script>", "*",
    [], {}, [[[[[]]]]], {"a": {"b": {}}}, ["x"] * 200, "2026-11-18", "1e999", "-0", "null", "NaN",
)  # fmt: skip
HOSTS = (
    "localhost",
    "127.0.0.1",
    "[::1]",
    "[::1]evil",
    "evil.example",
    "",
    "localhost:99999",
    "a b",
)
ORIGINS = (
    "http://localhost",
    "https://evil.example",
    "null",
    "http://localhost/path",
    "",
    "http://[",
)
KINDS = (
    "application/json",
    "text/plain",
    "application/json; charset=utf-16",
    "",
    "multipart/form-data",
)


class Found(msgspec.Struct):
    """What was answered, and what is wrong with it."""

    statuses: dict[int, int] = {}
    faults: list[str] = []
    memory: list[int] = []
    descriptors: list[int] = []
    seen: int = 0
    """Answers to the owner with the word in them: it was there to be found."""


class Setting(msgspec.Struct):
    """Whom and what there is to ask with. `word` is the owner's alone."""

    word: str
    owner: dict[str, str]
    guests: dict[str, str]
    sessions: list[str]


class Asked(msgspec.Struct, frozen=True):
    """A request as it goes over the wire, and whether the owner's word may be in its answer."""

    data: bytes
    name: str
    is_owner: bool


async def run(requests: int, seed: int, folder: Path) -> Found:
    """All of it."""
    found = Found()
    with open_gateway(folder, folder / "sessions.db", log=folder / "log") as gateway:
        rng = random.Random(seed)
        word = f"only-{secrets.token_hex(8)}"
        done = 0
        while done < requests:
            count = min(ROUND, requests - done)
            setting = await asyncio.to_thread(_set_up, gateway, word)
            await _ask_all([make_request(rng, setting) for _ in range(count)], gateway, word, found)
            done += count
            await _settle(gateway, found)
    _judge_growth(found)
    return found


def _set_up(gateway: Gateway, word: str) -> Setting:
    """A session of the owner with the word in it, one of a guest, and tokens of both."""
    guests = {scope: gateway.make_token(scope, "guest") for scope in ("read", "chat", "write")}
    owner = {scope: gateway.make_token(scope) for scope in ("read", "chat", "write")}
    owner["admin"] = gateway.token
    headers = {"Authorization": f"Bearer {gateway.token}"}
    with httpx.Client(base_url=gateway.url, headers=headers, timeout=PATIENCE) as client:
        said = client.post("/v1/chat", json={"text": f"My secret is {word}"})
        mine = str(said.raise_for_status().json()["session"])
        titled = client.patch(f"/v1/sessions/{mine}", json={"title": f"{word} {mine}"})
        titled.raise_for_status()
        client.put("/v1/memory/user", json={"content": f"It is {word}."}).raise_for_status()
        if word not in client.get("/v1/sessions").text:
            raise SystemExit("The owner's word is not there to be found.")
        as_guest = {"Authorization": f"Bearer {guests['chat']}"}
        theirs = client.post("/v1/chat", json={"text": "Hello"}, headers=as_guest)
        sessions = [mine, str(theirs.raise_for_status().json()["session"])]
    return Setting(word, owner, guests, sessions)


# --- a request ----------------------------------------------------------------------------------


def make_request(rng: random.Random, setting: Setting) -> Asked:
    """A request of random shape."""
    operation = rng.choice(ROUTES)
    token, is_owner = _choose_token(rng, setting)
    if operation.name in ENDING and token == setting.owner["admin"]:
        token = setting.owner["write"]
    values = {name: _choose_value(rng, name, setting) for name in _some_fields(rng, operation)}
    path, query, body = _place(rng, operation, values, setting)
    method = operation.method if rng.random() < 0.85 else rng.choice(METHODS)
    headers = _headers(rng, token, body)
    if rng.random() < 0.03:
        path = _mangle(rng, path)
    target = f"{path}?{query}" if query else path
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    data = "\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + body
    if rng.random() < 0.03:
        data = _break(rng, data)
    return Asked(data, f"{method} {target[:200]}", is_owner)


def _choose_token(rng: random.Random, setting: Setting) -> tuple[str | None, bool]:
    chance = rng.random()
    if chance < 0.35:
        return setting.owner[rng.choice(tuple(setting.owner))], True
    if chance < 0.8:
        return setting.guests[rng.choice(tuple(setting.guests))], False
    return rng.choice((None, "clew_wrong", "", "\xff", "a" * 5_000)), False


def _some_fields(rng: random.Random, operation: Operation[Any, Any]) -> list[str]:
    chosen = [
        each.name
        for each in msgspec.structs.fields(operation.takes)
        if each.name != "stream" and rng.random() < (0.95 if each.required else 0.3)
    ]
    return chosen + (["nonsense"] if rng.random() < 0.05 else [])


def _choose_value(rng: random.Random, name: str, setting: Setting) -> Any:
    if name in ("id", "session", "value", "ids", "sessions") and rng.random() < 0.7:
        chosen = rng.choice(setting.sessions)
        return [chosen] if name.endswith("s") else chosen
    if name == "method" and rng.random() < 0.8:
        return rng.choice([each.name for each in OPERATIONS if each.name not in ENDING])
    if name in ("limit", "messages", "before", "after", "seconds") and rng.random() < 0.6:
        return rng.randint(0, 20)
    likely = {
        "by": ("day", "session", "model"), "format": ("md", "html", "jsonl"), "render": ("html",),
        "store": ("memory", "user"), "text": ("Hello", "/status", "/help", f"# {name}"),
        "params": ({}, {"id": setting.sessions[0]}), "q": ("secret", "only", '"', "a OR b"),
    }  # fmt: skip
    if name in likely and rng.random() < 0.7:
        return rng.choice(likely[name])
    return rng.choice(NASTY)


def _place(
    rng: random.Random, operation: Operation[Any, Any], values: dict[str, Any], setting: Setting
) -> tuple[str, str, bytes]:
    """The path, the query and the body."""
    path = operation.path
    for name in operation.path_fields:
        value = values.pop(name, rng.choice(setting.sessions))
        if operation.name in KEPT:
            value = "0192f0c1-2a3b-4c5d-8e9f-001122334455"
        path = path.replace(f"{{{name}}}", _quote(str(value)[:300]))
    if operation.has_body is (rng.random() < 0.95):
        body = json.dumps(values).encode() if rng.random() < 0.95 else _random_bytes(rng)
        return path, "", body
    pairs = ((name, value) for name, value in values.items() if value is not None)
    return path, "&".join(f"{name}={_quote(str(value)[:3_000])}" for name, value in pairs), b""


def _quote(text: str) -> str:
    return httpx.QueryParams({"a": text.encode("utf-8", "replace").decode()}).__str__()[2:]


def _random_bytes(rng: random.Random) -> bytes:
    return rng.choice(
        (b"{", b"[]", b"\xff\xfe", b'{"a":' * 2_000, rng.randbytes(200), b" " * 90_000)
    )


def _headers(rng: random.Random, token: str | None, body: bytes) -> list[tuple[str, str]]:
    headers = [("Host", "localhost" if rng.random() < 0.95 else rng.choice(HOSTS))]
    if token is not None:
        headers.append(("Authorization", f"Bearer {token}"))
    if rng.random() < 0.05:
        headers.append(("Origin", rng.choice(ORIGINS)))
    if rng.random() < 0.03:
        headers.append(("Sec-Fetch-Site", rng.choice(("cross-site", "same-origin", "x"))))
    if rng.random() < 0.05:
        headers.append(("If-Match", rng.choice(('"1"', "*", "1", '""', '"' + "9" * 50 + '"'))))
    if rng.random() < 0.03:
        headers.append(("X-Odd", rng.choice(("a" * 8_000, "\xe9", "\t", "a, b"))))
    if body:
        json_kind = KINDS[0] if rng.random() < 0.95 else rng.choice(KINDS)
        headers.append(("Content-Type", json_kind))
        length = len(body) if rng.random() < 0.97 else rng.choice((0, 5, 10**12, -1))
        headers.append(("Content-Length", str(length)))
    return [*headers, ("Connection", "close")]


def _mangle(rng: random.Random, path: str) -> str:
    return rng.choice(
        (path + "/", path.upper(), "/" + path, path + "%00", path + "/../..", "*", "x")
    )


def _break(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return rng.choice((data[:at], data[:at] + rng.randbytes(3) + data[at:], rng.randbytes(300)))


# --- asking -------------------------------------------------------------------------------------


async def _ask_all(asked: list[Asked], gateway: Gateway, word: str, found: Found) -> None:
    rest = iter(asked)

    async def work() -> None:
        for each in rest:
            await _ask(each, gateway, word, found)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


async def _ask(asked: Asked, gateway: Gateway, word: str, found: Found) -> None:
    host, port = gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    answer = bytearray()
    try:
        with suppress(ConnectionError):
            writer.write(asked.data)
            await _read(reader, answer)
    finally:
        writer.close()
    status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
    found.statuses[status] = found.statuses.get(status, 0) + 1
    if status >= 500:
        found.faults.append(f"{asked.name}: {bytes(answer[:600])!r}")
    if word.encode() in answer:
        found.seen += asked.is_owner
        if not asked.is_owner:
            found.faults.append(f"the owner's word in the answer to {asked.name}")


async def _read(reader: asyncio.StreamReader, answer: bytearray) -> None:
    """Read to the end; a stream that goes on, and half a request, for a while only."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    while loop.time() < until:
        try:
            async with asyncio.timeout(ENDLESS):
                piece = await reader.read(65_536)
        except TimeoutError:
            return
        if not piece:
            return
        answer += piece


async def _settle(gateway: Gateway, found: Found) -> None:
    """Measure when turns and connections of this round have ended."""
    headers = {"Authorization": f"Bearer {gateway.token}"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=PATIENCE) as client:
        await _until(client, lambda status: not status["queued"])
    await asyncio.sleep(ENDLESS)
    found.memory.append(gateway.memory())
    found.descriptors.append(gateway.descriptors())


async def _until(client: httpx.AsyncClient, is_so: Callable[[dict[str, Any]], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so(await _get_status(client)):  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.2)


async def _get_status(client: httpx.AsyncClient) -> dict[str, Any]:
    status: dict[str, Any] = (await client.get("/v1/status")).raise_for_status().json()
    return status


def _judge_growth(found: Found) -> None:
    third = len(found.memory) // 3
    grown = found.memory[-1] - found.memory[third]
    more = found.descriptors[-1] - found.descriptors[third]
    if grown > GROWTH:
        found.faults.append(f"{grown / 1e6:.0f} MB more than after a third")
    if more > MORE_DESCRIPTORS:
        found.faults.append(f"{more} descriptors more than after a third")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(run(options.requests, options.seed, Path(folder)))
    told = ", ".join(f"{count:,} of {status}" for status, count in sorted(found.statuses.items()))
    print(f"answers: {told}; the owner saw the word in {found.seen:,}")
    print("memory: " + ", ".join(f"{each / 1e6:.0f}" for each in found.memory) + " MB")
    print(f"descriptors: {', '.join(map(str, found.descriptors))}")
    for what, count in Counter(found.faults).most_common():
        print(f"WRONG ({count}): {what}")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
