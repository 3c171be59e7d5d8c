"""Many live clients in a process of their own, so that their work is not the gateway's.

`benchmarks.streams` starts it and tells it what to do, a line of JSON each; it answers with one. A
group is some clients that do the same: they read, or they stop reading as soon as they follow. Each
keeps the number of every message that it got, and in the end says whether those are all of them,
once each and in order.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

PATIENCE = 120.0
SEQ = re.compile(r'"seq":(\d+)\}$')
"""The number stands at the end of a frame; a hint has none."""
START = re.compile(r'"after":(\d+)\}$')


class Client:
    """One client of one main session, and perhaps of more that it does not count."""

    def __init__(self, url: str, token: str, main: str, more: list[str]) -> None:
        self._url = url
        self._token = token
        self._main = main
        self._more = more
        self._socket: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._grown = asyncio.Event()
        self.start: int | None = None
        self.seqs: list[int] = []
        self.gaps = 0

    @property
    def last(self) -> int:
        """The last number that it has."""
        return self.seqs[-1] if self.seqs else self.start or 0

    async def join(self, *, is_reading: bool) -> None:
        """Connect and follow, from where it was; then read on, or not."""
        place = urlsplit(self._url)
        made = socket.socket()
        if not is_reading:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, (place.hostname, place.port))
        self._socket = await connect(
            f"ws://{place.netloc}/v1/live",
            sock=made,
            additional_headers={"Authorization": f"Bearer {self._token}"},
            compression=None,
            max_size=None,
            max_queue=64 if is_reading else 1,
            ping_interval=None,
        )
        # After the first time from where it was; before, from now on.
        after = None if self.start is None else self.last
        for session, since in ((self._main, after), *((each, None) for each in self._more)):
            asked = {"type": "subscribe", "session": session, "after": since}
            await self._socket.send(json.dumps(asked))
        while True:
            text = str(await self._socket.recv())
            self._count(text)
            if text.startswith('{"type":"subscribed"') and self._main in text:
                break
        if self.start is None:
            self.start = int(START.findall(text)[0])
        if is_reading:
            self.read()

    def read(self) -> None:
        """Read on, from where it stopped."""
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._socket is not None
        try:
            async for text in self._socket:
                self._count(str(text))
        except ConnectionClosed:
            return

    def _count(self, text: str) -> None:
        if self._main not in text[:200]:
            return
        if text.startswith('{"type":"gap"'):
            self.gaps += 1
        elif text.startswith('{"type":"event"') and (found := SEQ.search(text[-40:])):
            self.seqs.append(int(found[1]))
            self._grown.set()

    async def wait(self, last: int) -> None:
        """Until it has this one."""
        while self.last < last:
            self._grown.clear()
            await self._grown.wait()

    async def leave(self) -> None:
        """Break off, without a word."""
        if self._socket is not None:
            self._socket.transport.abort()
            await self._socket.wait_closed()
        if self._task is not None:
            await self._task
            self._task = None

    def find_fault(self, last: int) -> str | None:
        """What is wrong with what it got, if anything."""
        assert self.start is not None
        wanted = list(range(self.start + 1, last + 1))
        if self.seqs == wanted:
            return None
        missing = sorted(set(wanted) - set(self.seqs))[:5]
        return f"{len(self.seqs)} of {len(wanted)} messages, missing {missing}, {self.seqs[-5:]=}"


class Crowd:
    """The groups."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token
        self._groups: dict[str, list[Client]] = {}

    async def join(self, group: str, count: int, main: str, more: list[str], reading: bool) -> None:
        """New clients."""
        made = [Client(self._url, self._token, main, more) for _ in range(count)]
        self._groups[group] = made
        await asyncio.gather(*(each.join(is_reading=reading) for each in made))

    async def leave(self, group: str) -> None:
        """All of a group go."""
        await asyncio.gather(*(each.leave() for each in self._groups[group]))

    async def again(self, group: str) -> None:
        """All of a group come back, each from where it was, and read."""
        await asyncio.gather(*(each.join(is_reading=True) for each in self._groups[group]))

    async def read(self, group: str) -> None:
        """All of a group that stopped reading go on."""
        for each in self._groups[group]:
            each.read()

    async def wait(self, group: str, last: int) -> None:
        """Until all of a group have this message."""
        await asyncio.gather(*(each.wait(last) for each in self._groups[group]))

    async def check(self, group: str, last: int) -> dict[str, Any]:
        """What is wrong with what they got; and how many were told of a gap."""
        found = [each.find_fault(last) for each in self._groups[group]]
        gaps = sum(each.gaps > 0 for each in self._groups[group])
        return {"faults": [each for each in found if each], "gaps": gaps}


async def main() -> None:
    """Do what is asked until nobody asks any more."""
    crowd = Crowd(sys.argv[1], sys.argv[2])
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        async with asyncio.timeout(PATIENCE):
            answer = await getattr(crowd, asked.pop("do"))(**asked)
        print(json.dumps(answer or {}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
