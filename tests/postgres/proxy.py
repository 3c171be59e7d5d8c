"""A small local proxy in front of a server, that cuts connections when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self


class Proxy:
    """Passes bytes on, both ways, until `cut`; or until so many bytes of an answer have passed."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self._streams: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers_left: int | None = None
        self.port = 0
        self.cuts = 0

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
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> None:
        """End every connection, as a network does: without a word."""
        self.cuts += 1
        self._answers_left = None
        for stream in self._streams:
            stream.transport.abort()

    def cut_after(self, answers: int) -> None:
        """Cut when so many more pieces of answers are due: the server has done its work by then."""
        self._answers_left = answers

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind_reader, behind = await asyncio.open_connection("127.0.0.1", self._behind)
        except OSError:
            writer.transport.abort()
            return
        self._streams |= {writer, behind}
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        try:
            await asyncio.gather(
                self._pass(reader, behind, answers=False),
                self._pass(behind_reader, writer, answers=True),
            )
        finally:
            for stream in (writer, behind):
                self._streams.discard(stream)
                stream.transport.abort()
                with contextlib.suppress(OSError):
                    await stream.wait_closed()
            if task is not None:
                self._tasks.discard(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if answers and self._answers_left is not None:
                    self._answers_left -= 1
                    if self._answers_left < 0:
                        self.cut()
                        return
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
