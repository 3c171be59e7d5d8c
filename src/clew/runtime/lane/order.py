"""The order of messages in a session for which several processes accept messages.

Messages are answered in the order of the inbox, whichever process has them. A lane waits for
earlier messages of other processes; it first adopts messages and cut-off turns that a dead process
left. It does not wait forever: a live process that does nothing is passed over, and answers its
messages when it wakes up. The lease decides who may run turns; this module does not know it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from clew.core.decision import follows_key
from clew.core.delivery import Inbound
from clew.core.session import Session
from clew.core.turn import Turn
from clew.errors import SessionNotFound
from clew.runtime.inbound.inbox import MANY, is_own
from clew.runtime.lane.parts import RuntimeParts
from clew.runtime.lane.queue import Queue, Work, work_of

PERSONS: Final = ("cli", "spawn")
"""Channels whose messages no other process takes over: messages of a dead terminal wait until the
person confirms them, those of a dead sub-agent are never run.
"""

YOUNG_MS: Final = 600_000
"""Two gateways may begin one session at the same time; then a message may have another session's id
in its row. This long after a session began, such rows no longer occur.
"""

LOOK: Final = 0.2
"""Seconds between two checks of what comes next."""

OWN: Final = 1.0
"""Seconds that a message of this process may take from the inbox to its lane."""

TRIES: Final = 3
"""How often a message is adopted; after that it is passed over, because it can't be started."""


class Waiting(msgspec.Struct, frozen=True):
    """The messages that wait for a session: all, and those not in this process's lane."""

    ids: tuple[str, ...]
    others: tuple[Inbound, ...]

    def list_before(self, inbound_id: str) -> tuple[str, ...]:
        """The messages before this one; none if it does not wait itself."""
        known = inbound_id in self.ids
        return self.ids[: self.ids.index(inbound_id)] if known else ()

    def find_elsewhere(self, inbound_id: str) -> tuple[Inbound, ...]:
        """The messages before this one that are not in the lane."""
        earlier = set(self.list_before(inbound_id)) if self.others else ()
        return tuple(each for each in self.others if each.id in earlier)

    def list_ready(self, here: Collection[str]) -> frozenset[str]:
        """Messages of the lane that have no other process's message before them."""
        bar = self.ids.index(self.others[0].id) if self.others else len(self.ids)
        return frozenset(here).intersection(self.ids[:bar])


class Later(Exception):  # no error
    """Raised if an earlier message is in this lane too: the work has to wait for it."""

    def __init__(self, *first: Work, order: Sequence[str] = ()) -> None:
        super().__init__("something comes first")
        self.first = first
        self.order = order


class Order:
    """What comes next in one session, as one lane sees it."""

    def __init__(
        self,
        parts: RuntimeParts,
        session_id: str,
        queue: Queue,
        list_begun: Callable[[], Sequence[Work]],
    ) -> None:
        """`list_begun`: the work that the lane has taken out of the queue and runs."""
        self._parts = parts
        self._store = parts.store
        self._session_id = session_id
        self._queue = queue
        self._list_begun = list_begun
        self._patience = parts.lease_ms / 1000
        """Seconds in which another process has to begin its message."""
        self._passed: set[str] = set()
        """Messages that are passed over."""
        self._tries: Counter[str] = Counter()
        self._attempted: set[str] = set()
        """Turns that were cut off and are continued here."""
        self._session: Session | None = None
        """Read once, for what never changes: its key, and when it began."""

    # --- what of this lane may begin --------------------------------------------------------------

    async def let_pass(self, work: Work, tell: Callable[[], None]) -> None:
        """Wait for earlier messages of other processes; `Later` if one is in this lane."""
        if work.inbound is None:
            return
        waiting = await self._wait(work.inbound.id, tell)
        if not _ids(self._queue.works).isdisjoint(waiting.list_before(work.inbound.id)):
            raise Later(order=waiting.ids)

    async def check_place(self, work: Work, newest: Turn | None) -> None:
        """Check that a cut-off turn is continued before anything new, and only once."""
        is_cut_off = newest is not None and newest.status == "interrupted"
        if work.after is not None:
            if not is_cut_off or newest is None or newest.id != work.after:
                raise asyncio.CancelledError  # another process was quicker
        elif newest is not None and is_cut_off and work.inbound is not None:
            if newest.id in self._attempted:
                return  # it could not be continued, so the new message may begin
            first = await self._parts.find_cut_off(newest)
            if first is not None:
                self._attempted.add(newest.id)
                raise Later(work_of(first))

    async def find_early(self, first: Work | None = None) -> frozenset[str]:
        """Messages that wait here but can't join this turn.

        Another process has an earlier message, or has taken them back. If that may be true of the
        first one, none of them joins.
        """
        while works := self._queue.works:
            waiting = await self._look()
            if works == self._queue.works:
                ids = _ids(works)
                row = None if first is None else first.inbound
                is_gone = row is not None and row.id not in waiting.ids
                return ids if is_gone else ids - waiting.list_ready(ids)
        return frozenset()

    def _list_here(self) -> frozenset[str]:
        """The messages in the lane: those it has begun, and those that wait."""
        return _ids((*self._list_begun(), *self._queue.works))

    # --- what waits in this lane and in other processes -------------------------------------------

    async def _look(self) -> Waiting:
        """The messages that wait for the session, in order."""
        here = self._list_here()
        rows = [row for row in await self._list() if row.id in here or self._counts(row)]
        others = tuple(row for row in rows if row.id not in here)
        return Waiting(tuple(row.id for row in rows), others)

    async def _wait(self, inbound_id: str, tell: Callable[[], None]) -> Waiting:
        """Wait until no other process has an earlier message. Calls `tell` if it takes time."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        seen: tuple[str, ...] = ()
        while True:
            waiting = await self._look()
            earlier = waiting.find_elsewhere(inbound_id)
            if not earlier:
                return waiting
            if await self._take_over(earlier):
                continue
            names = tuple(each.id for each in earlier)
            if names != seen or await self._store.find_lease(self._session_id) is not None:
                since, seen = loop.time(), names
            own = [each for each in earlier if is_own(self._store, each)]
            limit = OWN if len(own) == len(earlier) else self._patience
            if loop.time() - since > limit:
                self._passed.update(names)
                continue
            tell()
            await asyncio.sleep(LOOK)

    async def _take_over(self, earlier: Collection[Inbound]) -> bool:
        """Adopt messages that no live process has, or pass them over; False if one has to wait."""
        is_other = False
        for row in earlier:
            if is_own(self._store, row) or not await self._is_left(row):
                continue
            adopted = None if row.channel in PERSONS else await self._parts.adopt(row)
            if adopted is False:
                continue  # another process was quicker
            is_other = True
            self._tries[row.id] += 1
            if adopted is None or self._tries[row.id] >= TRIES:
                self._passed.add(row.id)
        return is_other

    async def _is_left(self, row: Inbound) -> bool:
        return row.claimant is None or not await self._store.is_living(row.claimant)

    def _counts(self, row: Inbound) -> bool:
        is_persons = row.claimant is None and row.channel in PERSONS
        return row.id not in self._passed and not is_persons

    async def _list(self) -> tuple[Inbound, ...]:
        if self._session is None:
            try:
                self._session = await self._store.get_session(self._session_id)
            except SessionNotFound:
                return ()
        session = self._session
        if self._parts.clock() - session.created_at > YOUNG_MS:
            return await self._store.list_inbound(session.id, limit=MANY)
        rows = await self._store.list_inbound(session.id, key=session.key, limit=MANY)
        return tuple(
            row for row in rows if row.session_id == session.id or follows_key(row, session.key)
        )


def _ids(works: Sequence[Work]) -> frozenset[str]:
    return frozenset(each.inbound.id for each in works if each.inbound is not None)
