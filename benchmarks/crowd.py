"""A crowd without a credential, silent, half-sent and slow, while the owner chats.

    python -m benchmarks.crowd            2,000 connections
    python -m benchmarks.crowd --quick    700, and 512 descriptors; the CPU has no bar

Each of the crowd connects and says nothing, half a header or half a body, then a byte a second. One
that is hung up on comes back some seconds later. The owner's turns are told apart by rounds, one
quiet and one in the crowd, and the gateway's CPU is that of its whole process for all of a round.
Ends with 1 if the owner is not answered, if a turn costs more than 1.3 times as much as a quiet
one, or if the log grows with the crowd.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec

from benchmarks.processes.server import PATIENCE, Gateway, open_gateway
from benchmarks.timing import seconds
from clew.client import Client
from clew.core.live_events import TurnEnded
from clew.gateway.unknown_senders import raise_descriptor_limit

SLACK = 1.3
LINES = 100
DRIP = 1.0
BACK = 10.0
"""Seconds between two bytes of one client, and until one that was hung up on is back."""

HOST = b"Host: localhost\r\nContent-Type: application/json\r\n"
BEGINNINGS = (
    b"",
    b"GET /health HTTP/1.1\r\nX-Slow: ",
    b"POST /v1/login HTTP/1.1\r\n" + HOST + b'Content-Length: 900\r\n\r\n{"code": "',
    b"POST /v1/chat HTTP/1.1\r\n" + HOST + b'Content-Length: 900000\r\n\r\n{"text": "',
    b"POST /v1/hooks/x HTTP/1.1\r\n" + HOST + b'Content-Length: 900000\r\n\r\n{"text": "',
)


class Size(msgspec.Struct, frozen=True):
    """How much of it."""

    clients: int
    rounds: int
    turns: int
    is_timed: bool = True
    """Whether the CPU of a turn has a bar, or is only stated."""
    descriptors: int | None = None
    """How many the gateway may have."""


FULL = Size(clients=2_000, rounds=5, turns=100)
QUICK = Size(clients=700, rounds=1, turns=5, is_timed=False, descriptors=512)


class Found(msgspec.Struct):
    """What was measured."""

    quiet: list[float] = []
    crowded: list[float] = []
    faults: list[str] = []
    lines: int = 0


class Crowd:
    """The clients, and how many of them have come at least once."""

    def __init__(self, url: str, size: int) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._place = host, int(port)
        self._size = size
        self._tasks: list[asyncio.Task[None]] = []
        self._came = 0

    async def come(self) -> None:
        """All of them, or as many as the machine takes."""
        self._came = 0
        self._tasks = [asyncio.create_task(self._stay(each)) for each in range(self._size)]
        async with asyncio.timeout(PATIENCE):
            while self._came < self._size:  # noqa: ASYNC110  # a bounded wait for all of them
                await asyncio.sleep(0.05)

    async def go(self) -> None:
        """All of them."""
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stay(self, number: int) -> None:
        is_new = True
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(*self._place)
                try:
                    writer.write(BEGINNINGS[number % len(BEGINNINGS)])
                    self._came, is_new = self._came + is_new, False
                    await self._drip(reader, writer, is_silent=number % len(BEGINNINGS) == 0)
                finally:
                    writer.close()
            await asyncio.sleep(BACK * random.uniform(0.8, 1.2))

    async def _drip(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_silent: bool
    ) -> None:
        """Until the other end hangs up."""
        while not reader.at_eof():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRIP * random.uniform(0.8, 1.2)):
                    await reader.read()
            if not is_silent:
                writer.write(b"a")


async def run(size: Size, folder: Path) -> Found:
    """All of it."""
    raise_descriptor_limit()
    found, log = Found(), folder / "log"
    store, most = folder / "sessions.db", size.descriptors
    with open_gateway(folder, store, log=log, descriptors=most) as gateway:
        async with Client(gateway.url, gateway.token) as client:
            session = await _talk(client, None, 1, found)
            for _ in range(size.rounds):
                found.quiet.append(await _round(gateway, client, session, size, found))
                async with _crowded(gateway, size):
                    found.crowded.append(await _round(gateway, client, session, size, found))
                    await _look(gateway, found)
    found.lines = len(log.read_text("utf-8").splitlines())
    return found


@asynccontextmanager
async def _crowded(gateway: Gateway, size: Size) -> AsyncIterator[None]:
    crowd = Crowd(gateway.url, size.clients)
    await crowd.come()
    try:
        yield
    finally:
        await crowd.go()


async def _round(gateway: Gateway, client: Client, session: str, size: Size, found: Found) -> float:
    """Seconds of the gateway's CPU for each of some turns."""
    before, began = gateway.cpu(), time.perf_counter()
    await _talk(client, session, size.turns, found)
    cost = (gateway.cpu() - before) / size.turns
    took = (time.perf_counter() - began) / size.turns
    print(f"  a turn: {seconds(took)}, CPU {seconds(cost)}", flush=True)
    return cost


async def _talk(client: Client, session: str | None, turns: int, found: Found) -> str:
    done = 0
    for number in range(turns):
        sending = client.chat.send(f"Turn {number}", session=session)
        async with asyncio.timeout(PATIENCE):
            async for frame in sending:
                if isinstance(frame.event, TurnEnded):
                    done += frame.event.turn.status == "done"
        if sending.accepted is not None:
            session = sending.accepted.session
    if done != turns or session is None:
        found.faults.append(f"{turns - done} of {turns} turns were not answered")
    return session or ""


async def _look(gateway: Gateway, found: Found) -> None:
    """A new connection, with a credential and without one, is answered too."""
    headers = {"Authorization": f"Bearer {gateway.token}"}
    for path in ("/v1/sessions", "/health"):
        async with httpx.AsyncClient(base_url=gateway.url, timeout=PATIENCE) as client:
            answer = await client.get(path, headers=headers if path != "/health" else {})
        if answer.status_code != 200:
            found.faults.append(f"{path} in the crowd: {answer.status_code}")


def judge(size: Size, found: Found) -> list[str]:
    """What is wrong."""
    faults = list(found.faults)
    ratio = statistics.median(found.crowded) / max(1e-9, statistics.median(found.quiet))
    print(f"CPU of a turn in the crowd: {ratio:.2f} of a quiet one (bar {SLACK})")
    print(f"The log has {found.lines} lines (bar {LINES})")
    if size.is_timed and ratio > SLACK:
        faults.append(f"a turn costs {ratio:.2f} times as much in the crowd")
    if found.lines >= LINES:
        faults.append(f"the log has {found.lines} lines")
    return faults


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowd", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="less of everything")
    size = QUICK if parser.parse_args().quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        faults = judge(size, asyncio.run(run(size, Path(folder))))
    for each in faults:
        print(f"WRONG: {each}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
