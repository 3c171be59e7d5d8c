"""The webhook channel keeps the channel contract: its platform is a program with a callback."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from clew.channels.webhook import Hook, WebhookChannel, read_hook, sign
from clew.clock import host_clock
from clew.core.channels.replies import Attached
from clew.ports import Receive
from clew.testing.channel_contract import ChannelContract, Reaction, Shown, keep_running

SECRET = "a long enough secret"


class Program:
    """A program that calls the hook, and has a callback."""

    sender = "deploys"

    def __init__(self) -> None:
        self._shown: list[Shown] = []
        self._reactions: deque[Reaction] = deque()
        self._receive: Receive | None = None
        self._said: dict[str, bytes] = {}
        self._accepted: set[str] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.hook = Hook(name="deploys", secret=SECRET, callback=f"http://127.0.0.1:{port}/")
        self.channel = WebhookChannel(self.hook, clock=host_clock)

    async def go_away(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    @asynccontextmanager
    async def listening(self, receive: Receive) -> AsyncIterator[None]:
        self._receive = receive
        async with keep_running(self.channel, receive):
            yield

    async def say(self, text: str, *, name: str, files: Sequence[Attached] = ()) -> None:
        self._said[name] = json.dumps({"text": text, "id": name}).encode()
        await self.say_again(name)

    async def say_again(self, name: str) -> None:
        body, now = self._said[name], host_clock()
        assert self._receive is not None
        await self._receive(read_hook(self.hook, sign(SECRET, body, now // 1000), body, now=now))
        self._accepted.add(name)

    async def is_acknowledged(self, name: str) -> bool:
        return name in self._accepted

    def react(self, *reactions: Reaction) -> None:
        self._reactions.extend(reactions)

    def list_shown(self) -> list[Shown]:
        return self._shown

    def count_typing(self) -> int:
        return 0

    async def disconnect(self) -> None:
        pass

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].split("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        reaction = self._reactions.popleft() if self._reactions else "take"
        if reaction == "take":
            self._shown.append(Shown(body["text"]))
        status = {"take": "200 OK", "refuse": "403 No", "flood": "429 Slow\r\nRetry-After: 3"}
        if reaction in status:
            head = f"HTTP/1.1 {status[reaction]}\r\nContent-Length: 0\r\nConnection: close"
            writer.write(f"{head}\r\n\r\n".encode())
            await writer.drain()
        writer.close()


class TestWebhookChannel(ChannelContract):
    @pytest.fixture
    async def platform(self) -> AsyncIterator[Program]:
        program = Program()
        await program.open()
        yield program
        await program.go_away()
