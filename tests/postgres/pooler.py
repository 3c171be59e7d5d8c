"""A small pooler in front of a server, as PgBouncer is one: it knows just enough of the protocol.

In session mode a client has one connection of the server's until it goes. In transaction mode it
has one from the first statement to the end of the transaction, and then another client may.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from types import TracebackType
from typing import Self

READY, STARTUP, SSL = b"Z", 196_608, 80_877_103
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Pooler:
    """Listens on a port of its own."""

    def __init__(self, port: int, *, mode: str) -> None:
        self._behind = port
        self._by_session = mode == "session"
        self._idle: list[Streams] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for _, writer in self._idle:
            await _close(writer)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._talk(reader, writer)
        self._tasks.discard(task)
        await _close(writer)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        startup = await _read_startup(reader)
        while struct.unpack("!I", startup[4:8])[0] != STARTUP:  # it asks for TLS
            writer.write(b"N")
            startup = await _read_startup(reader)
        server, greeting = await self._connect(startup)
        # The key data of a pooler are its own.
        key = struct.pack("!cIII", b"K", 12, 0x7FFFFFFF, 1)
        writer.write(greeting.replace(_find_key(greeting), key))
        if self._by_session:
            try:
                await asyncio.gather(_pump(reader, server[1]), _pump(server[0], writer))
            finally:
                await _close(server[1])
            return
        self._idle.append(server)
        asked: asyncio.Queue[bytes] = asyncio.Queue()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_read_all(reader, asked))
            while (first := await asked.get())[:1] != b"X":
                if not self._idle:
                    self._idle.append((await self._connect(startup))[0])
                server = self._idle.pop()
                await self._transact(first, asked, writer, server)
                self._idle.append(server)

    async def _transact(
        self,
        first: bytes,
        asked: asyncio.Queue[bytes],
        writer: asyncio.StreamWriter,
        server: Streams,
    ) -> None:
        """Pass messages on until the server is ready outside of any transaction."""
        server[1].write(first)
        asking = asyncio.ensure_future(asked.get())
        try:
            while True:
                answering = asyncio.ensure_future(_read_message(server[0]))
                while not answering.done():
                    done, _ = await asyncio.wait(
                        {asking, answering}, return_when=asyncio.FIRST_COMPLETED
                    )
                    if asking in done:
                        server[1].write(asking.result())
                        asking = asyncio.ensure_future(asked.get())
                answer = answering.result()
                writer.write(answer)
                if answer[:1] == READY and answer[5:6] == b"I":
                    return
        finally:
            asking.cancel()

    async def _connect(self, startup: bytes) -> tuple[Streams, bytes]:
        streams = await asyncio.open_connection("127.0.0.1", self._behind)
        streams[1].write(startup)
        greeting = b""
        while True:
            message = await _read_message(streams[0])
            greeting += message
            if message[:1] == READY:
                return streams, greeting


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _find_key(greeting: bytes) -> bytes:
    at = greeting.rindex(b"K\0\0\0\x0c")
    return greeting[at : at + 13]


async def _read_startup(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(4)
    return length + await reader.readexactly(struct.unpack("!I", length)[0] - 4)


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)


async def _read_all(reader: asyncio.StreamReader, into: asyncio.Queue[bytes]) -> None:
    """All messages of a client. Its going is one too."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            into.put_nowait(await _read_message(reader))
    into.put_nowait(b"X")


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.transport.abort()
