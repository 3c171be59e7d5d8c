"""A platform for tests: a peer on a local port, and the channel that speaks to it.

A test tells the peer what to do with each message: accept it, refuse it, ask to wait, hang up, or
say nothing. It delivers messages as often as a test wants, until each is acknowledged. One JSON
document per line.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

import msgspec

from clew.core.channels.incoming import Incoming
from clew.core.channels.replies import Parcel, Piece, cut_pieces
from clew.core.delivery import Outbound
from clew.errors import ReplyDelayed, ReplyRefused
from clew.ports import Receive

Reaction = Literal["take", "refuse", "later", "flood", "vanish", "silence"]
"""What the peer does with a message. It has read it in any case; `vanish` hangs up then."""

HOST: Final = "127.0.0.1"
LIMIT: Final = 4_000
LONGEST_LINE: Final = 1 << 24


class Delivered(msgspec.Struct, frozen=True):
    """A message that the peer has read, and what it did with it."""

    id: str
    text: str
    address: dict[str, Any]
    key: str
    reaction: Reaction


class Peer:
    """The other side. `received` is what it has read, in order."""

    def __init__(self) -> None:
        self.received: list[Delivered] = []
        self.reactions: deque[Reaction] = deque()
        self.wait_seconds = 0.01
        self.port = 0
        self.arrived = asyncio.Event()
        self._listeners: list[asyncio.StreamWriter] = []
        self._listening = asyncio.Event()
        self._acknowledged: dict[str, asyncio.Event] = {}
        self._server: asyncio.Server | None = None

    @property
    def taken(self) -> list[str]:
        """The texts that it has accepted."""
        return [each.text for each in self.received if each.reaction == "take"]

    async def open(self, port: int = 0) -> None:
        """Listen at a local port."""
        self._server = await asyncio.start_server(self._serve, HOST, port, limit=LONGEST_LINE)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and hang up."""
        if self._server is not None:
            self._server.close()
            for writer in self._listeners:
                writer.close()
            await self._server.wait_closed()

    async def wait_for(self, count: int) -> None:
        """Wait until it has read so many messages."""
        while len(self.received) < count:
            self.arrived.clear()
            await self.arrived.wait()

    async def bring(self, incoming: Incoming, *, times: int = 1) -> None:
        """Send a message to the listener, so often; returns when it is acknowledged."""
        await self._listening.wait()
        name = incoming.external_id or ""
        done = self._acknowledged.setdefault(name, asyncio.Event())
        for _ in range(times):
            for writer in self._listeners:
                await _write(writer, {"message": msgspec.to_builtins(incoming)})
        await done.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while line := await reader.readline():
                document = msgspec.json.decode(line)
                if "listen" in document:
                    self._listeners.append(writer)
                    self._listening.set()
                elif "ack" in document:
                    self._acknowledged.setdefault(document["ack"], asyncio.Event()).set()
                elif not await self._take(document, writer):
                    break
        if writer in self._listeners:
            self._listeners.remove(writer)
        writer.close()

    async def _take(self, document: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        reaction: Reaction = self.reactions.popleft() if self.reactions else "take"
        self.received.append(Delivered(**document, reaction=reaction))
        self.arrived.set()
        answers: dict[Reaction, dict[str, Any]] = {
            "take": {"receipt": {"number": len(self.received)}},
            "refuse": {"refused": "The chat is closed."},
            "later": {"later": self.wait_seconds},
            "flood": {"flood": self.wait_seconds},
        }
        if reaction in answers:
            await _write(writer, answers[reaction])
        return reaction != "vanish"


@asynccontextmanager
async def open_peer() -> AsyncIterator[Peer]:
    """A peer for the time of the block."""
    peer = Peer()
    await peer.open()
    try:
        yield peer
    finally:
        await peer.close()


class PeerChannel:
    """`ports.Channel` to a `Peer`."""

    def __init__(
        self,
        port: int,
        *,
        name: str = "peer",
        account: str = "default",
        limit: int = LIMIT,
        repeats: bool = False,
    ) -> None:
        self.name = name
        self.account = account
        self._port = port
        self._limit = limit
        self._repeats = repeats

    async def run(self, receive: Receive) -> None:
        """See `ports.Channel`."""
        reader, writer = await asyncio.open_connection(HOST, self._port, limit=LONGEST_LINE)
        try:
            await _write(writer, {"listen": True})
            while line := await reader.readline():
                incoming = msgspec.convert(msgspec.json.decode(line)["message"], Incoming)
                await receive(incoming)
                await _write(writer, {"ack": incoming.external_id})
        finally:
            writer.close()

    def render(self, text: str) -> str:
        """See `ports.Channel`."""
        return text

    def split(self, text: str) -> Iterator[Piece]:
        """See `ports.Channel`."""
        return cut_pieces(text, self._limit)

    def may_repeat(self, outbound: Outbound) -> bool:  # noqa: ARG002  # the same for every message
        """See `ports.Channel`."""
        return self._repeats

    async def send(self, parcel: Parcel) -> dict[str, Any]:
        """See `ports.Channel`."""
        try:
            reader, writer = await asyncio.open_connection(HOST, self._port, limit=LONGEST_LINE)
        except OSError as error:
            raise ReplyDelayed("The peer can't be reached.") from error
        try:
            outbound = parcel.outbound
            await _write(
                writer,
                {
                    "id": parcel.id,
                    "text": parcel.text,
                    "address": outbound.address,
                    "key": outbound.key,
                },
            )
            line = await reader.readline()
        finally:
            writer.close()
        if not line:
            raise ConnectionError("the peer closed the connection without an answer")
        answer = msgspec.json.decode(line)
        if "refused" in answer:
            raise ReplyRefused(answer["refused"])
        if "later" in answer:
            raise ReplyDelayed("The peer asks to wait.", after=answer["later"])
        if "flood" in answer:
            after = answer["flood"]
            raise ReplyDelayed("The peer has a limit.", after=after, stops="account")
        receipt: dict[str, Any] = answer["receipt"]
        return receipt


async def _write(writer: asyncio.StreamWriter, document: dict[str, Any]) -> None:
    writer.write(msgspec.json.encode(document) + b"\n")
    await writer.drain()
