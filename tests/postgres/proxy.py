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
        self._away = 0.0
        self._is_away = False
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

    def go_away_after(self, answers: int, seconds: float) -> None:
        """Cut then, and let no connection through for so long."""
        self._answers_left, self._away = answers, seconds

    def go_away(self, seconds: float) -> None:
        """Cut, and let no connection through for so long."""
        self._is_away, self._away = True, 0.0
        self.cut()
        asyncio.get_running_loop().call_later(seconds, self._come_back)

    def refuse(self) -> None:
        """Let no new connection through; those that are there go on."""
        self._is_away = True

    def _come_back(self) -> None:
        self._is_away = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_away:
            writer.transport.abort()
            return
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
                        if self._away:
                            self.go_away(self._away)
                        self.cut()
                        return
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
