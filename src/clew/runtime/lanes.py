"""The lanes of one process, by session: made when something comes, forgotten when nothing is left.

What waits in a lane is this process's in the inbox, and is let go there when it leaves its lane
without a turn. What a lane does with its work is its own affair (`lane`); who calls, the façade's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from clew.core.delivery import Inbound
from clew.core.turn import Lease
from clew.errors import Conflict
from clew.runtime.intake import Intake
from clew.runtime.lane import Abandon, Lane
from clew.runtime.queueing import Work


class Lanes:
    """Where this process has something to do."""

    def __init__(self, intake: Intake, make: Callable[[str, Abandon], Lane]) -> None:
        self.is_closing = False
        self._intake = intake
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
        """Wait a moment for a turn that is over, and for what a lane does without telling."""
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
        await self._intake.drop(taken)
        return taken

    async def put_back(self, session_id: str) -> None:
        """Take what waits out of the lane; it stays in the inbox."""
        await self._intake.put_back(self._clear(session_id))

    async def hold_back(self, session_id: str) -> None:
        """Begin nothing in the session until `let_go_on`; what waits is anybody's meanwhile."""
        lane = self._lanes.get(session_id)
        if lane is not None:
            lane.pause()
            await self._intake.put_back(_list_messages(lane.waiting))

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
            await self._intake.put_back((work.inbound,))
        else:
            await self._intake.drop((work.inbound,))

    async def close(self) -> None:
        """Abort what runs, and put back what has not begun; nothing comes any more."""
        self.is_closing = True
        for session_id, lane in tuple(self._lanes.items()):
            await self.put_back(session_id)
            lane.resume()  # somebody may be on the way to another session
            await lane.stop(closing=True)
            await lane.join()


def _list_messages(works: Collection[Work]) -> tuple[Inbound, ...]:
    return tuple(each.inbound for each in works if each.inbound is not None)
