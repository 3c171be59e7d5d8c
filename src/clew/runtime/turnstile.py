"""What of a lane may begin now: nothing passes before what came before it.

A lane's own queue is held against what else waits for the session (`precedence`), and against what
was cut off there. What has to wait goes back to the lane, which runs it in its time; whose lease it
is, and what a turn does, is not known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from clew.core.turn import Turn
from clew.runtime.precedence import Precedence
from clew.runtime.queueing import Queue, Work

FindCutOff = Callable[[Turn], Awaitable[Work | None]]
"""What goes on with the newest turn of a session, which was cut off; None to leave it."""


class Later(Exception):  # no error
    """What was to run has to wait for what came before it, and is in this lane too."""

    def __init__(self, *first: Work, order: Sequence[str] = ()) -> None:
        super().__init__("something comes first")
        self.first = first
        self.order = order


class Turnstile:
    """Who is next, of what one lane has."""

    def __init__(
        self,
        queue: Queue,
        precedence: Precedence,
        find_cut_off: FindCutOff,
        list_begun: Callable[[], Sequence[Work]],
    ) -> None:
        """`list_begun`: what the lane has taken out of the queue, and is at."""
        self._queue = queue
        self._precedence = precedence
        self._find_cut_off = find_cut_off
        self._list_begun = list_begun
        self._attempted: set[str] = set()
        """Turns that were cut off, and are gone on with here."""

    async def let_pass(self, work: Work, tell: Callable[[], None]) -> None:
        """Wait for what came before this message, in other processes; `Later` if it is here."""
        if work.inbound is None:
            return
        standing = await self._precedence.wait(work.inbound.id, self._list_here, tell)
        waiting = {each.inbound.id for each in self._queue.works if each.inbound is not None}
        if not waiting.isdisjoint(standing.list_before(work.inbound.id)):
            raise Later(order=standing.ids)

    async def check_place(self, work: Work, newest: Turn | None) -> None:
        """Whether what was cut off here is still, and is gone on with before anything new."""
        is_cut_off = newest is not None and newest.status == "interrupted"
        if work.after is not None:
            if not is_cut_off or newest is None or newest.id != work.after:
                raise asyncio.CancelledError  # somebody was quicker: this is as if taken back
        elif newest is not None and is_cut_off and work.inbound is not None:
            if newest.id in self._attempted:
                return  # it could not be begun, and this one may
            first = await self._find_cut_off(newest)
            if first is not None:
                self._attempted.add(newest.id)
                raise Later(first)

    async def find_early(self, first: Work | None = None) -> frozenset[str]:
        """What waits here, but not for this turn: another process has something that comes before
        it, or has taken it back. If that may be so of the first one, all wait for their own.
        """
        while works := self._queue.works:
            standing = await self._precedence.look(self._list_here())
            if works == self._queue.works:
                ids = frozenset(each.inbound.id for each in works if each.inbound is not None)
                row = None if first is None else first.inbound
                is_gone = row is not None and row.id not in standing.ids
                return ids if is_gone else ids - standing.list_ready(ids)
        return frozenset()

    def _list_here(self) -> frozenset[str]:
        works = (*self._list_begun(), *self._queue.works)
        return frozenset(each.inbound.id for each in works if each.inbound is not None)
