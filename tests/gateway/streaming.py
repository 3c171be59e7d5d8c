"""A gateway behind a real server on a port of its own, and clients of its streams."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from websockets.asyncio.client import ClientConnection, connect

from clew.api.frames import EventFrame, Frame, GapFrame, Subscribe, read_frame
from clew.core.changes import AddMessage
from clew.core.live_events import TextDelta
from clew.core.message import Draft
from clew.core.session import Session
from clew.core.text import to_wire
from clew.gateway.app import build_app
from clew.gateway.event_streams import HEARTBEAT
from clew.gateway.server import Address, listen, serving
from clew.gateway.stream_guard import STALL, StreamGuard
from clew.ports import LiveTurn, Store
from clew.runtime.runtime import Runtime
from tests.gateway.conftest import House, open_gatehouse
from tests.patience import PATIENCE
from tests.runtime.conftest import Actor, Scene, added, ended, typed

KILOBYTES = "x" * 20_000


class Place(NamedTuple):
    """A gateway, and where it is."""

    house: House
    url: str

    @property
    def runtime(self) -> Runtime:
        return self.house.calls.parts.runtime

    @property
    def store(self) -> Store:
        return self.house.store

    @property
    def actor(self) -> Actor:
        actor: Actor = self.house.actor
        return actor

    async def say(self, session: Session, text: str, *scenes: Scene) -> None:
        """One turn, from its message to its end."""
        self.actor.scenes = list(scenes)
        await ended(await self.runtime.accept(typed(session, text)))

    @asynccontextmanager
    async def socket(self, token: str | None, **more: Any) -> AsyncIterator[ClientConnection]:
        address = f"ws{self.url.removeprefix('http')}/v1/live"
        bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
        headers = bearer | more.pop("headers", {})
        async with connect(
            address,
            additional_headers=headers,
            compression=None,
            max_size=None,
            open_timeout=PATIENCE,
            **more,
        ) as opened:
            yield opened

    @asynccontextmanager
    async def events(
        self, path: str, token: str, *, method: str = "GET", **more: Any
    ) -> AsyncIterator[httpx.Response]:
        headers = {"Authorization": f"Bearer {token}"} | more.pop("headers", {})
        async with (
            httpx.AsyncClient(base_url=self.url, timeout=PATIENCE) as client,
            client.stream(method, path, headers=headers, **more) as response,
        ):
            yield response


@asynccontextmanager
async def open_place(
    path: Path, *, heartbeat: float = HEARTBEAT, stall: float = STALL
) -> AsyncIterator[Place]:
    address = Address(port=0)
    async with open_gatehouse(path) as house:
        guard = StreamGuard(house.gate, stall=stall)
        app = build_app(house.calls, house.gate, stream_guard=guard, heartbeat=heartbeat)
        with listen(address) as listener:
            async with serving(app, house.gate, address, listener, grace=2) as url:
                yield Place(house, url)


def recording(count: int, *, signals: int = 0) -> Scene:
    """Many messages in one turn, each after a flood of hints."""

    async def scene(turn: LiveTurn) -> None:
        for number in range(count):
            for _ in range(signals):
                turn.signal(TextDelta(KILOBYTES))
                await asyncio.sleep(0)
            draft = Draft(role="assistant", content=f"part {number}")
            await turn.record(AddMessage(draft, turn.id, from_person=False))
        await turn.finish(added(turn, "done"))

    return scene


# --- sockets ----------------------------------------------------------------------------------


async def follow(live: ClientConnection, session: Session, after: int | None = None) -> None:
    await live.send(to_wire(Subscribe(session.id, after)).decode())


async def frames_of(live: ClientConnection) -> AsyncIterator[Frame]:
    async with asyncio.timeout(PATIENCE):
        async for data in live:
            yield read_frame(data)


async def next_frame(live: ClientConnection, *kinds: type[Frame]) -> Any:
    """The next frame, or the next of these kinds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            frame = read_frame(await live.recv())
            if not kinds or isinstance(frame, kinds):
                return frame


async def seqs_up_to(live: ClientConnection, last: int) -> list[int]:
    """The numbers of the messages that come, up to that one."""
    seqs: list[int] = []
    while not seqs or seqs[-1] < last:
        frame = await next_frame(live, EventFrame)
        seqs += [] if frame.seq is None else [frame.seq]
    return seqs


# --- event streams ----------------------------------------------------------------------------


class Told(NamedTuple):
    """One event of a stream, or a comment."""

    id: str | None
    frame: Frame | None
    comment: str | None = None


async def read_stream(response: httpx.Response) -> AsyncIterator[Told]:
    """The events as a browser reads them."""
    fields: dict[str, str] = {}
    async with asyncio.timeout(PATIENCE):
        async for line in response.aiter_lines():
            name, _, value = line.partition(":")
            if not line:
                data = fields.get("data")
                if data is not None or "" in fields:
                    frame = None if data is None else read_frame(data)
                    yield Told(fields.get("id"), frame, fields.get(""))
                fields = {}
            else:
                fields[name] = value.removeprefix(" ")


@asynccontextmanager
async def open_quietly(
    place: Place, path: str, token: str, body: bytes | None = None
) -> AsyncIterator[asyncio.StreamReader]:
    """A client that asks, and takes little from the network before it is read from."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, port = place.url.removeprefix("http://").split(":")
    made.connect((host, int(port)))
    reader, writer = await asyncio.open_connection(sock=made, limit=4096)
    method = "GET" if body is None else "POST"
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {host}:{port}",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(body or b'')}",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + (body or b""))
    try:
        yield reader
    finally:
        writer.close()


async def read_slowly(reader: asyncio.StreamReader, last: int) -> tuple[list[int], int]:
    """The ids up to this one, and how many gaps were announced between them."""
    ids: list[int] = []
    gaps = 0
    async with asyncio.timeout(PATIENCE):
        while not ids or ids[-1] < last:
            line = await _read_line(reader)
            ids += [int(line[4:])] if line.startswith(b"id: ") else []
            if line.startswith(b"event: gap"):
                gaps += 1
                gap = read_frame((await _read_line(reader)).removeprefix(b"data: "))
                assert isinstance(gap, GapFrame)
                assert gap.after == (ids[-1] if ids else 0)
    return ids, gaps


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        try:
            line += await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            line += await reader.readexactly(error.consumed)
    return line
