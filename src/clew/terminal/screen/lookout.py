"""The lookout keeps what stands beside the conversation as it is: status line, todos, queue.

It looks when something happens here, when another process has written, and once in a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Final

from clew.errors import ClewError
from clew.runtime.commands.desk import Desk
from clew.terminal.screen.glance import Glance, gather, look
from clew.terminal.screen.screen import ChatScreen
from clew.terminal.talk import Talk

TICK: Final = 1.0
"""Seconds between two looks at the clock and the store, when nothing happens."""

REST: Final = 0.1
"""Seconds between two looks, however much happens."""


class Lookout:
    """What was seen last, and since when a turn runs. `pending` is sent, and not yet taken."""

    def __init__(self, desk: Desk, talk: Talk, screen: ChatScreen, pending: Sequence[str]) -> None:
        self._desk = desk
        self._talk = talk
        self._screen = screen
        self._pending = pending
        self._happened = asyncio.Event()
        self._seen = Glance()
        self._began: float | None = None

    def wake(self) -> None:
        """Something has happened."""
        self._happened.set()

    def begin(self) -> None:
        """A turn begins now."""
        self._began = time.monotonic()

    async def run(self) -> None:
        """Look, for as long as the chat lasts."""
        pulse = -1
        while True:
            with contextlib.suppress(ClewError):  # what was seen last stays
                now = await self._desk.store.pulse()
                if now != pulse or self._happened.is_set():
                    self._happened.clear()
                    pulse, self._seen = now, await look(self._desk)
            self._draw()
            await asyncio.sleep(REST)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK - REST):
                    await self._happened.wait()

    def _draw(self) -> None:
        if not self._talk.is_running:
            self._began = None
        elif self._began is None:
            self._began = time.monotonic()
        working = None if self._began is None else int(time.monotonic() - self._began)
        screen, seen = self._screen, self._seen
        waiting = len(screen.approvals.waiting)
        screen.status.facts = gather(self._desk, seen, working=working, waiting=waiting)
        screen.todos.show(seen.todos)
        screen.queue.show((*seen.queued, *self._pending), self._desk.seat.queue_mode)
