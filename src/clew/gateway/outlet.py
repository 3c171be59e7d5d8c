"""What waits for one client: bounded in number and in bytes, and putting something in never waits.

Who is too slow falls behind: from then on nothing more is put in for them, until what waits has
gone out; then they catch up by number from the store. So hints can be lost, messages can't, and
nobody who publishes ever waits for anybody. What is published, and from where one catches up, is
`feeds`' work; how it goes out is `live`'s and `sse`'s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from websockets.frames import Frame, Opcode

from clew.api.frames import EventFrame, LiveFrame, StreamFrame
from clew.core.jsontext import to_wire

MAX_FRAMES: Final = 512
MAX_BYTES: Final = 1_000_000
"""One frame may go beyond it, however long: a message has to fit."""

TOGETHER: Final = 16_000
"""Bytes after which no more frames go out together."""


class Item(NamedTuple):
    """A frame, and as a socket sends it, made once for all who get it. `seq` is a message's."""

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
        """The next of what was missed. With the last of it, the follower is no longer behind."""
        ...


class Outlet:
    """A client's queue, and what the client has to catch up with."""

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
        """Put in as many as it takes before it is full; how many those are."""
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
        """Put it in, full or not: for answers to a client who is then not listened to (`room`)."""
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
        """This one has to catch up, once everything that waits has gone out."""
        self._behind[follower] = None
        self._something.set()

    def forget(self, follower: Follower) -> None:
        """This one does not have to catch up, or not any more."""
        self._behind.pop(follower, None)

    async def wait(self) -> None:
        """Wait until there is something to take, or somebody who is behind."""
        await self._something.wait()

    def take(self) -> list[Item]:
        """The next that go out together, not too many of them; none if nothing waits."""
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
        """Who has to catch up next; the last one that did comes last."""
        for follower in self._behind:
            del self._behind[follower]
            self._behind[follower] = None
            return follower
        return None
