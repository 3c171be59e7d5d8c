"""The façade of the runtime: one door in (`accept`), one door out (`watch`).

Every surface, whatever it looks like, gives its messages to `accept` and reads from `watch`. Rules
live behind these doors. Which session a surface sits at is the `seat`'s business.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from clew.clock import host_clock
from clew.core.changes import Change
from clew.core.compaction import Compacted
from clew.core.delivery import Inbound, NewInbound
from clew.core.message import Draft
from clew.core.notes import Compaction
from clew.core.queue_modes import QueueMode
from clew.core.replies import ReplyTo
from clew.core.sending import SendRules
from clew.core.signals import Event, NotAnswered
from clew.core.turn import (
    HEARTBEAT_MS,
    LEASE_MS,
    Approval,
    ApprovalScope,
    Decision,
    Turn,
)
from clew.ports import Agent, Clock, Store
from clew.runtime.bus import Bus
from clew.runtime.compacting import CompactingRules, Compactor, Flusher, Summariser
from clew.runtime.holding import hold
from clew.runtime.hooks import Hooks
from clew.runtime.intake import Intake, draft_of, reply_to_of
from clew.runtime.lane import Abandon, Lane, LaneSettings
from clew.runtime.lanes import Lanes
from clew.runtime.questions import Questions
from clew.runtime.queueing import Work
from clew.runtime.replying import Replies
from clew.runtime.spawning import Spawner
from clew.runtime.spending import Tab
from clew.runtime.stopping import stop_elsewhere, take_back_elsewhere
from clew.runtime.turn import Asker, Surroundings
from clew.runtime.upkeep import Upkeep
from clew.runtime.watching import follow


class Ticket(msgspec.Struct, frozen=True):
    """What became of an accepted message: the inbox row, and its turn when that has ended.

    `turn` is cancelled if the message was taken back before its turn began.
    """

    inbound: Inbound | None
    is_new: bool
    turn: asyncio.Future[Turn]


class Heir(Protocol):
    """Who goes on with what dead processes left (`runtime.resumption`)."""

    async def adopt(self, inbound: Inbound) -> bool:
        """Put a message that nobody alive has into its lane; False if somebody was quicker."""
        ...

    async def find_attempt(self, turn: Turn) -> Work | None:
        """What goes on with the newest turn of a session, which was cut off; None to leave it."""
        ...


class Runtime:
    """Sessions in time. Close it before the store."""

    def __init__(
        self,
        store: Store,
        agent: Agent,
        *,
        hooks: Hooks,
        clock: Clock = host_clock,
        remember_rule: Callable[[str], Awaitable[None]],
        lease_ms: int = LEASE_MS,
        renew_ms: int = HEARTBEAT_MS,
        summariser: Summariser | None = None,
        flusher: Flusher | None = None,
        compacting: CompactingRules | None = None,
        sending: SendRules | None = None,
    ) -> None:
        self.store = store
        self.agent = agent
        self.hooks = hooks
        self.clock = clock
        self.bus = Bus()
        self.replies = Replies(store, clock, sending or SendRules())
        self.heir: Heir | None = None
        """Who goes on with what dead processes left; only in a gateway is there somebody."""
        tab = Tab(store)
        compactor = (
            None
            if summariser is None
            else Compactor(store, self.bus, summariser, flusher=flusher, rules=compacting, tab=tab)
        )
        self._intake = Intake(store)
        self._questions = Questions(store, clock)
        self._spawner = Spawner(store, clock, self)
        self._lanes = Lanes(self._intake, self._make_lane)
        self._upkeep = Upkeep(
            store,
            agent,
            self._lanes,
            bus=self.bus,
            clock=clock,
            hooks=hooks,
            tab=tab,
            compactor=compactor,
        )
        self._settings = LaneSettings(
            agent=agent,
            around=Surroundings(
                store=store,
                bus=self.bus,
                clock=clock,
                questions=self._questions,
                replies=self.replies,
                remember=remember_rule,
                spawn=self._spawner.spawn,
            ),
            lease_ms=lease_ms,
            renew_ms=renew_ms,
            on_start=self._upkeep.turn_started,
            on_end=self._upkeep.turn_ended,
            prepare=self._upkeep.prepare,
            rescue=self._upkeep.rescue,
            adopt=self._adopt_left,
            find_cut_off=self._find_cut_off,
        )

    def _make_lane(self, session_id: str, abandon: Abandon) -> Lane:
        return Lane(session_id, self._settings, abandon)

    # --- in -----------------------------------------------------------------------------------

    async def accept(
        self,
        new: NewInbound,
        *,
        attended: bool = True,
        model: str | None = None,
        asker: Asker | None = None,
        queue: QueueMode = "followup",
    ) -> Ticket:
        """Keep a message, then run its turn when the session is free. Returns once it is durable.

        `attended`: somebody is there to answer approvals. `model` is used in place of the
        session's own. `queue` is what becomes of it if a turn runs: it may go into that one, or
        share the next, and then has that turn. A second delivery of a message has none.
        """
        inbound, is_new = await self.keep(new)
        if not is_new:
            nothing: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
            nothing.cancel()
            return Ticket(inbound, False, nothing)
        return self._run(inbound, attended=attended, model=model, asker=asker, queue=queue)

    async def keep(self, new: NewInbound) -> tuple[Inbound, bool]:
        """Keep a message as this process's; False for a second delivery. `start` runs it."""
        self._lanes.refuse_if_closing()
        return await self._intake.accept(new)

    def start(
        self,
        inbound: Inbound,
        *,
        attended: bool = True,
        queue: QueueMode = "followup",
        settle_s: float = 0.0,
    ) -> Ticket:
        """Run a message that this process has kept. `settle_s`: see `Work`."""
        self._lanes.refuse_if_closing()
        return self._run(inbound, attended=attended, queue=queue, settle_s=settle_s)

    async def let_go(self, inbound: Inbound, *, drop: bool = False) -> None:
        """Leave a message that was kept to whoever comes; or to nobody, for it needs no turn."""
        if drop:
            await self._intake.drop((inbound,))
        else:
            await self._intake.put_back((inbound,))

    async def adopt(
        self, inbound: Inbound, *, attended: bool = True, model: str | None = None
    ) -> Ticket:
        """Run a message that a dead process left in the inbox."""
        self._lanes.refuse_if_closing()
        return self._run(await self._intake.adopt(inbound), attended=attended, model=model)

    def _run(self, inbound: Inbound, **how: Any) -> Ticket:
        drafts, person = (draft_of(inbound),), inbound.person
        how["reply_to"] = reply_to_of(inbound)
        session_id = inbound.session_id or ""  # the intake has seen to it that there is one
        return self._put(session_id, inbound=inbound, drafts=drafts, person=person, **how)

    def go_on(
        self,
        session_id: str,
        *,
        person: str,
        drafts: tuple[Draft, ...] = (),
        undo: tuple[str, ...] = (),
        attended: bool = True,
        model: str | None = None,
        reply_to: ReplyTo | None = None,
    ) -> Ticket:
        """Another attempt at what the thread ends with; or, with drafts, in place of turns."""
        self._lanes.refuse_if_closing()
        if reply_to is not None:
            reply_to = msgspec.structs.replace(reply_to, is_retry=True)
        return self._put(
            session_id,
            drafts=drafts,
            undo=undo,
            person=person,
            attended=attended,
            model=model,
            reply_to=reply_to,
        )

    def put(self, session_id: str, work: Work) -> None:
        """Another attempt that was made ready before (`Heir`)."""
        self._lanes.refuse_if_closing()
        self._lanes.get(session_id).put(work)

    async def _adopt_left(self, inbound: Inbound) -> bool | None:
        return (
            None if self.heir is None or self._lanes.is_closing else await self.heir.adopt(inbound)
        )

    async def _find_cut_off(self, turn: Turn) -> Work | None:
        return None if self.heir is None else await self.heir.find_attempt(turn)

    def _put(self, session_id: str, *, inbound: Inbound | None = None, **work: Any) -> Ticket:
        done: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._lanes.get(session_id).put(Work(done=done, inbound=inbound, **work))
        return Ticket(inbound, True, done)

    # --- out ----------------------------------------------------------------------------------

    @contextmanager
    def watch(self, session_id: str, after: int) -> Iterator[AsyncIterator[Event]]:
        """Every message after that number, and live hints from now on; other processes' too.

        Messages come once each, in order. The events go on until the watcher stops.
        """
        with self.bus.subscribe(session_id) as mailbox:
            yield follow(self.store, session_id, after, mailbox, self._find_own)

    def _find_own(self, session_id: str) -> str | None:
        lane = self._lanes.find(session_id)
        return None if lane is None else lane.turn_id

    # --- while it runs --------------------------------------------------------------------------

    def is_running(self, session_id: str) -> bool:
        """Whether this process has something to do in the session."""
        lane = self._lanes.find(session_id)
        return lane is not None and lane.busy

    def list_running(self) -> tuple[str, ...]:
        """The sessions in which this process has something to do."""
        return self._lanes.list_running()

    async def settle(self, session_id: str) -> None:
        """Wait until a turn that is over has let the session go: then it may be undone."""
        await self._lanes.settle(session_id)

    async def join(self, session_id: str) -> None:
        """Wait until this process has nothing to do in the session."""
        lane = self._lanes.find(session_id)
        if lane is not None:
            await lane.join()

    def list_queued(self, session_id: str) -> tuple[Inbound, ...]:
        """The messages that wait in this process, oldest first."""
        return self._lanes.list_queued(session_id)

    def count_queued(self, session_id: str) -> int:
        """How many turns wait behind the one that runs."""
        return self._lanes.count_queued(session_id)

    def count_spawned(self, session_id: str) -> int:
        """How many sub-agents are at work for the turn that runs in the session."""
        return self._spawner.count(session_id)

    async def stop(self, session_id: str, *, anywhere: bool = False) -> bool:
        """Abort the turn that this process runs in the session; False if there is none.

        `anywhere`: or the one that another process runs there.
        """
        lane = self._lanes.find(session_id)
        is_here = lane is not None and lane.turn_id is not None
        stopped = lane is not None and await lane.stop()
        if anywhere and not is_here:  # what was stopped here has only waited for the other one
            stopped = await stop_elsewhere(self.store, session_id) or stopped
        return stopped

    async def take_back(
        self, session_id: str, only: Collection[str] | None = None, *, anywhere: bool = False
    ) -> tuple[Inbound, ...]:
        """Take queued messages of this process, or those with these ids, out of lane and inbox.

        `anywhere`: and what others have, or nobody.
        """
        taken = await self._lanes.take_back(session_id, only)
        if anywhere:
            taken += await take_back_elsewhere(self.store, session_id, only)
        if taken:
            self.bus.publish(session_id, NotAnswered(tuple(each.id for each in taken)))
        return taken

    async def put_back(self, session_id: str) -> None:
        """Take queued messages of this process out of the lane; they stay in the inbox."""
        await self._lanes.put_back(session_id)

    async def hold_back(self, session_id: str) -> None:
        """Begin nothing in the session until `let_go_on`; what waits is anybody's meanwhile."""
        await self._lanes.hold_back(session_id)

    def let_go_on(self, session_id: str, *, without_queue: bool = False) -> None:
        """The end of `hold_back`; without what waited, which stays in the inbox, or with it."""
        self._lanes.let_go_on(session_id, without_queue=without_queue)

    async def amend(self, session_id: str, *changes: Change) -> None:
        """A change beside the turns, such as an undo. `LeaseHeld` while one runs."""
        await self._lanes.settle(session_id)
        async with hold(self.store, session_id, "amend") as lease:
            await self.store.record(session_id, lease.epoch, *changes)

    # --- compaction -----------------------------------------------------------------------------

    async def compact(self, session_id: str, *, instructions: str | None = None) -> Compacted:
        """Compact the session when it is free; `InvalidInput` if there is too little, or stopped.

        Whatever goes wrong, the session is as it was.
        """
        return await self._upkeep.compact(session_id, instructions)

    async def uncompact(self, session_id: str) -> Compaction:
        """Take the latest compaction back. `LeaseHeld` while a turn runs."""
        return await self._upkeep.uncompact(session_id)

    # --- approvals ------------------------------------------------------------------------------

    async def decide(
        self, approval_id: str, decision: Decision, *, by: str, scope: ApprovalScope = "once"
    ) -> Approval:
        """Answer an approval; the first answer stays."""
        return await self._questions.decide(approval_id, decision, by=by, scope=scope)

    def is_asking(self, approval_id: str) -> bool:
        """Whether a turn of this process waits for the answer to an approval."""
        return self._questions.is_asking(approval_id)

    async def close(self) -> None:
        """Abort what runs, put back what has not begun, and finish what is being written."""
        await self._lanes.close()
        await self._upkeep.close()
