"""The lanes of one process, by session: made when something comes, forgotten when nothing is left.

What waits in a lane is this process's in the inbox, and is let go there when it leaves its lane
without a turn. What other processes do in a session is stopped from here without asking them:
taking the lease fences the other process off, which then can't write, and what it has not begun is
taken out of the inbox, and then can't begin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from clew.core.changes import EndTurn
from clew.core.delivery import Inbound
from clew.core.turn import Lease, Turn
from clew.errors import Conflict, LeaseHeld, RecordNotFound, StaleLease
from clew.ports import Store
from clew.runtime.cancellation import unbroken
from clew.runtime.inbound.inbox import MANY, Inbox, is_own
from clew.runtime.lane.lane import Abandon, Lane
from clew.runtime.lane.queue import Work

TTL_MS: Final = 5_000
"""How long the lease lasts if this process dies before it has given it back."""
TRIES: Final = 5


class Lanes:
    """Where this process has something to do."""

    def __init__(self, inbox: Inbox, make: Callable[[str, Abandon], Lane]) -> None:
        self.is_closing = False
        self._inbox = inbox
        self._make = make
        self._lanes: dict[str, Lane] = {}

    def get(self, session_id: str) -> Lane:
        """The lane of a session, for something that comes."""
        if session_id not in self._lanes:
            # Those that have nothing to do are forgotten here, where another one comes.
            self._lanes = {key: lane for key, lane in self._lanes.items() if not lane.is_idle}
            self._lanes[session_id] = self._make(session_id, self._abandon)
        return self._lanes[session_id]

    def find(self, session_id: str) -> Lane | None:
        """The lane of a session, if there is one."""
        return self._lanes.get(session_id)

    def refuse_if_closing(self) -> None:
        """`Conflict`, when nothing new may come."""
        if self.is_closing:
            raise Conflict("clew is closing: nothing new begins here. Start it again.")

    def do_between(
        self, session_id: str, run: Callable[[Lease], Awaitable[Any]], *, quiet: bool = False
    ) -> None:
        """Do something as soon as the session is free; not while closing."""
        if not self.is_closing:
            self.get(session_id).do(run, quiet=quiet)

    def list_running(self) -> tuple[str, ...]:
        """The sessions in which there is something to do."""
        return tuple(key for key, lane in self._lanes.items() if lane.busy)

    def list_queued(self, session_id: str) -> tuple[Inbound, ...]:
        """The messages that wait, oldest first."""
        lane = self._lanes.get(session_id)
        return () if lane is None else _list_messages(lane.waiting)

    def count_queued(self, session_id: str) -> int:
        """How many turns wait behind the one that runs."""
        lane = self._lanes.get(session_id)
        return 0 if lane is None else len(lane.waiting)

    async def settle(self, session_id: str) -> None:
        """Wait a moment for a turn that is over, and for a quiet chore of the lane."""
        lane = self._lanes.get(session_id)
        if lane is not None:
            await lane.settle()
            if not lane.busy:
                await lane.join()

    # --- what leaves without a turn -------------------------------------------------------------

    async def take_back(
        self, session_id: str, only: Collection[str] | None = None
    ) -> tuple[Inbound, ...]:
        """Take what waits, or the messages with these ids, out of lane and inbox."""
        taken = self._clear(session_id, only)
        await self._inbox.drop(*taken)
        return taken

    async def put_back(self, session_id: str) -> None:
        """Take what waits out of the lane; it stays in the inbox."""
        await self._inbox.put_back(*self._clear(session_id))

    async def hold_back(self, session_id: str) -> None:
        """Begin nothing in the session until `let_go_on`; other processes may take what waits."""
        lane = self._lanes.get(session_id)
        if lane is not None:
            lane.pause()
            await self._inbox.put_back(*_list_messages(lane.waiting))

    def let_go_on(self, session_id: str, *, without_queue: bool = False) -> None:
        """The end of `hold_back`; without what waited, which stays in the inbox, or with it."""
        lane = self._lanes.get(session_id)
        if lane is not None:
            if without_queue:
                lane.clear()
            lane.resume()

    def _clear(self, session_id: str, only: Collection[str] | None = None) -> tuple[Inbound, ...]:
        lane = self._lanes.get(session_id)
        return () if lane is None else _list_messages(lane.clear(only))

    async def _abandon(self, work: Work, error: BaseException | None) -> None:
        """A turn did not begin. Its message is taken back, if a person stopped it; else it waits.

        One that had begun has its message already: then this changes nothing.
        """
        if work.inbound is None:
            return
        if self.is_closing or error is not None:
            await self._inbox.put_back(work.inbound)
        else:
            await self._inbox.drop(work.inbound)

    async def close(self) -> None:
        """Abort what runs, and put back what has not begun; nothing comes any more."""
        self.is_closing = True
        for session_id, lane in tuple(self._lanes.items()):
            await self.put_back(session_id)
            lane.resume()  # a switch to another session may hold it back
            await lane.stop(closing=True)
            await lane.join()


def _list_messages(works: Collection[Work]) -> tuple[Inbound, ...]:
    return tuple(each.inbound for each in works if each.inbound is not None)


async def stop_elsewhere(store: Store, session_id: str) -> bool:
    """Abort the turn that another process runs in the session; False if there is none."""
    for _ in range(TRIES):
        turn = await _find_open(store, session_id)
        if turn is None:
            return False
        if await unbroken(_abort(store, turn)):
            return True
    return False


async def _find_open(store: Store, session_id: str) -> Turn | None:
    """The turn that a living process runs."""
    turns = await store.list_turns(session_id, limit=1)
    return next((each for each in turns if each.ended_at is None), None)


async def _abort(store: Store, turn: Turn) -> bool:
    """Give a turn its end under a lease that is taken from who runs it; False to look again."""
    lease = await store.find_lease(turn.session_id)
    if lease is None:
        await store.interrupt_turns(turn.session_id)  # no process runs it any more
        return False
    try:
        # In the holder's name it is never free in between, so no third process can get it.
        taken = await store.acquire_lease(turn.session_id, lease.holder, ttl=TTL_MS)
    except LeaseHeld:
        return False
    try:
        end = EndTurn(turn_id=turn.id, status="aborted")
        await store.record(turn.session_id, taken.epoch, end)
    except (StaleLease, RecordNotFound):
        return False  # it has come to its end, or another process has taken over
    finally:
        await store.release_lease(taken)
    return True


async def take_back_elsewhere(
    store: Store, session_id: str, only: Collection[str] | None = None
) -> tuple[Inbound, ...]:
    """Take what other processes have not begun out of the inbox, or of it those with these ids."""
    rows = [
        row
        for row in await store.list_inbound(session_id, limit=MANY)
        if (only is None or row.id in only) and not is_own(store, row)
    ]
    for row in rows:
        if row.claimant is not None:
            await store.release_inbound(row.claimant)
    dropped = await store.drop_inbound([row.id for row in rows])
    return tuple(row for row in rows if row.id in dropped)
