"""Frames that wait to be sent to one client: bounded, and adding one never blocks.

A client that is too slow falls behind: nothing more is put in for it until what waits has gone
out; then it catches up from the store, by message number. So live hints can be lost, messages
can't, and a publisher never waits for a client. What is published, and where a client catches up,
is decided in `feeds`; how it goes out in `live` and `event_streams`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from websockets.frames import Frame, Opcode

from clew.api.frames import EventFrame, LiveFrame, StreamFrame
from clew.core.text import to_wire

MAX_FRAMES: Final = 512
MAX_BYTES: Final = 1_000_000
"""The last frame may exceed it, since a message of any length has to fit."""

TOGETHER: Final = 16_000
"""Bytes after which no more frames go out together."""

WIRE: Final = "clew.wire"
"""The ASGI extension of `server.FrameSocket`: the key under which a message carries raw bytes."""


class Item(NamedTuple):
    """A frame and its bytes for a socket, made once for all clients; `seq` if it is a message."""

    frame: LiveFrame | StreamFrame
    wire: bytes
    seq: int | None = None

    @property
    def text(self) -> str:
        """Its JSON."""
        return to_wire(self.frame).decode()


def item_of(frame: LiveFrame | StreamFrame) -> Item:
    """A frame, ready to go out."""
    seq = frame.seq if isinstance(frame, EventFrame) else None
    return Item(frame, Frame(Opcode.TEXT, to_wire(frame)).serialize(mask=False), seq)


class Follower(Protocol):
    """Something that a client follows, and of which it may have missed a part."""

    async def catch_up(self) -> Sequence[Item]:
        """The next part of what was missed; after the last, the follower is not behind any more."""
        ...


class ClientQueue:
    """Frames that wait for a client, and followers that have to catch up for it."""

    def __init__(self, *, max_frames: int = MAX_FRAMES, max_bytes: int = MAX_BYTES) -> None:
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._waiting: deque[Item] = deque()
        self._bytes = 0
        self._behind: dict[Follower, None] = {}
        self._something = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_full(self) -> bool:
        """Whether nothing more goes in."""
        return len(self._waiting) >= self._max_frames or self._bytes >= self._max_bytes

    @property
    def size(self) -> tuple[int, int]:
        """Frames and bytes that wait."""
        return len(self._waiting), self._bytes

    def offer(self, items: Sequence[Item]) -> int:
        """Put in as many as fit; returns how many that are."""
        count = 0
        for item in items:
            if self.is_full:
                break
            self._waiting.append(item)
            self._bytes += len(item.wire)
            count += 1
        self._tell()
        return count

    def put(self, item: Item) -> None:
        """Put it in, full or not: for answers to a client, whose frames then wait (`room`)."""
        self._waiting.append(item)
        self._bytes += len(item.wire)
        self._tell()

    def _tell(self) -> None:
        self._something.set()
        if self.is_full:
            self._room.clear()

    async def room(self) -> None:
        """Wait until it is not full."""
        await self._room.wait()

    def fall_behind(self, follower: Follower) -> None:
        """Let a follower catch up, once everything that waits has gone out."""
        self._behind[follower] = None
        self._something.set()

    def forget(self, follower: Follower) -> None:
        """Remove a follower from those that have to catch up."""
        self._behind.pop(follower, None)

    async def wait(self) -> None:
        """Wait until there is something to take, or a follower is behind."""
        await self._something.wait()

    def take(self) -> list[Item]:
        """Take the next frames that go out together, about 16 KB; none if nothing waits."""
        items: list[Item] = []
        size = 0
        while self._waiting and size < TOGETHER:
            item = self._waiting.popleft()
            items.append(item)
            size += len(item.wire)
        self._bytes -= size
        if not self.is_full:
            self._room.set()
        if not items and not self._behind:
            self._something.clear()
        return items

    def find_behind(self) -> Follower | None:
        """The follower that has to catch up next; they take turns."""
        for follower in self._behind:
            del self._behind[follower]
            self._behind[follower] = None
            return follower
        return None
