"""Feeds of the list: one look at a person's list for all of their clients that follow it.

Hints tell what is different, so a client that missed some is told the difference to what it knows.
What a list is, and which differences count, is `api.handlers.live`'s work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from clew.api.handlers.live import compare, list_newest
from clew.api.handlers.parts import Caller, Parts
from clew.api.sessions import ListedSession
from clew.errors import ClewError
from clew.gateway.outlet import Item, Outlet, item_of

LOOK: Final = 0.25
"""Seconds between two looks at the list."""


class ListFeed:
    """The beginning of a person's list, looked at whenever anything was written at all."""

    def __init__(self, parts: Parts, caller: Caller) -> None:
        self.parts = parts
        self.caller = caller
        self.present: tuple[ListedSession, ...] | None = None
        self.followers: set[ListFollower] = set()
        self._task = asyncio.create_task(self._run(), name=f"list of {caller.person}")

    async def close(self) -> None:
        """Look no more."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        pulse: int | None = None
        while True:
            # The store may be away for a while; the next look finds what was missed.
            with contextlib.suppress(ClewError):
                if pulse != (now := await self.parts.store.pulse()):
                    self._tell(await list_newest(self.parts, self.caller))
                    pulse = now
            await asyncio.sleep(LOOK)

    def _tell(self, present: tuple[ListedSession, ...]) -> None:
        before, self.present = self.present, present
        items = [] if before is None else [item_of(each) for each in compare(before, present)]
        for follower in tuple(self.followers):
            follower.offer(items)


class ListFollower:
    """One client's view of the list: `shown` is what all hints together have told it."""

    def __init__(self, feed: ListFeed, outlet: Outlet, shown: tuple[ListedSession, ...]) -> None:
        self.feed = feed
        self._shown = shown
        self._outlet = outlet
        self._is_behind = True
        outlet.fall_behind(self)

    def offer(self, items: Sequence[Item]) -> None:
        """What is different now. For who is behind, the difference is told later, as a whole."""
        if self._is_behind:
            return
        if self._outlet.offer(items) < len(items):
            self._is_behind = True
            self._outlet.fall_behind(self)
        elif self.feed.present is not None:
            self._shown = self.feed.present

    async def catch_up(self) -> Sequence[Item]:
        """See `Follower`."""
        present = self.feed.present
        if present is None:
            await asyncio.sleep(LOOK / 10)
            return ()
        hints = compare(self._shown, present)
        self._shown, self._is_behind = present, False
        self._outlet.forget(self)
        return [item_of(each) for each in hints]
