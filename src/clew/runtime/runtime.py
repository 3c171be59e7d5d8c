"""The façade of the runtime: messages go in by `accept`, events come out by `watch`.

Every surface gives its messages to `accept` and reads from `watch`; the rules are applied behind
them. `runtime.place` decides which session belongs to a directory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from clew.clock import host_clock
from clew.core.changes import Change
from clew.core.channels.incoming import Incoming
from clew.core.channels.send_policy import SendRules
from clew.core.delivery import Inbound
from clew.core.live_events import Event, NotAnswered
from clew.core.notes import Compacted, Compaction
from clew.core.turn import (
    HEARTBEAT_MS,
    LEASE_MS,
    Approval,
    ApprovalScope,
    Decision,
    QueueMode,
    Turn,
)
from clew.errors import ClewError, InvalidInput
from clew.ports import Agent, Clock, Store
from clew.runtime.event_log import EventLog
from clew.runtime.hooks import Hooks
from clew.runtime.inbound.inbox import Inbox
from clew.runtime.inbound.reception import Handling, Reception, Ticket
from clew.runtime.lane.lane import Abandon, Lane, Lanes, stop_elsewhere, take_back_elsewhere
from clew.runtime.lane.lease import hold
from clew.runtime.lane.parts import RuntimeParts
from clew.runtime.lane.questions import Questions
from clew.runtime.lane.queue import Attempt, work_of
from clew.runtime.lane.subagents import Spawner
from clew.runtime.lane.turn import Asker
from clew.runtime.outbound import Replies
from clew.runtime.upkeep.after_turn import Upkeep
from clew.runtime.upkeep.compaction import CompactingRules, Compactor, Flusher, Summariser
from clew.runtime.upkeep.usage import UsageLedger
from clew.runtime.watch import Bus, follow


class Takeover(Protocol):
    """Continues the work of dead processes (`recovery.GatewayTakeover`)."""

    async def adopt(self, inbound: Inbound) -> bool:
        """Put a message that no live process has into its lane; False if another was first."""
        ...

    async def find_attempt(self, turn: Turn) -> Attempt | None:
        """The attempt that continues a cut-off newest turn; None to leave it."""
        ...


class Runtime:
    """Runs the turns of sessions. Close it before the store."""

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
        self.events = EventLog(clock)
        self.replies = Replies(store, clock, sending or SendRules())
        self.draining = asyncio.Event()
        self.takeover: Takeover | None = None
        """Continues the work of dead processes; only a gateway has one."""
        ledger = UsageLedger(store)
        compactor = (
            None
            if summariser is None
            else Compactor(
                store, self.bus, summariser, flusher=flusher, rules=compacting, ledger=ledger
            )
        )
        inbox = self._inbox = Inbox(store)
        self.questions = Questions(store, clock)
        self._spawner = Spawner(store, clock, self)
        self._lanes = Lanes(inbox, self._make_lane)
        self.reception = Reception(
            store,
            inbox,
            self._lanes,
            replies=self.replies,
            questions=self.questions,
            clock=clock,
            events=self.events,
        )
        self._upkeep = Upkeep(
            store,
            agent,
            self._lanes,
            bus=self.bus,
            clock=clock,
            hooks=hooks,
            ledger=ledger,
            compactor=compactor,
        )
        self._parts = RuntimeParts(
            store=store,
            agent=agent,
            bus=self.bus,
            events=self.events,
            clock=clock,
            questions=self.questions,
            replies=self.replies,
            around_turns=self._upkeep,
            adopt=self._adopt_left,
            find_cut_off=self._find_cut_off,
            remember=remember_rule,
            spawn=self._spawner.spawn,
            is_held=self._lanes.is_held,
            lease_ms=lease_ms,
            renew_ms=renew_ms,
        )

    def _make_lane(self, session_id: str, abandon: Abandon) -> Lane:
        return Lane(session_id, self._parts, abandon)

    # --- in -----------------------------------------------------------------------------------

    async def accept(
        self,
        message: Incoming,
        *,
        queue: QueueMode | None = None,
        model: str | None = None,
        asker: Asker | None = None,
    ) -> Ticket:
        """Decide how to handle a message, store it with the decision, and carry that out.

        Returns once it is durable; its turn runs when the session is free. `queue` overrides the
        session's queue mode: the message may join the running turn or share the next one. `model`
        overrides the session's model, `asker` asks the owner about tool calls. A second delivery
        has no turn; a stranger's message is not stored.
        """
        if self.takeover is None and self._inbox.trouble.is_set():
            with contextlib.suppress(ClewError):
                await self.give_back()
        return await self.reception.accept(message, queue=queue, model=model, asker=asker)

    async def take_up(
        self, inbound: Inbound, *, attended: bool = True, model: str | None = None
    ) -> Ticket:
        """Carry out a message that waits in the inbox until the person confirms it.

        `InvalidInput` if a live process has it, it is answered, or an earlier one waits.
        """
        self._lanes.refuse_if_closing()
        handling = Handling(
            queue="followup", model=model, attended=attended, is_placed=False, is_recovered=True
        )
        ticket = await self.reception.take_up(inbound, handling, in_order=True)
        if ticket is None:
            raise InvalidInput("That message is not the next one that waits. Nothing was done.")
        return ticket

    def retry(self, session_id: str, attempt: Attempt) -> Ticket:
        """Make another attempt at a turn when the session is free. It is not a new message."""
        self._lanes.refuse_if_closing()
        if attempt.reply_to is not None and attempt.after is None:
            # The answer may have just been delivered; a turn that was cut off has delivered none.
            reply_to = msgspec.structs.replace(attempt.reply_to, is_retry=True)
            attempt = msgspec.structs.replace(attempt, reply_to=reply_to)
        work = work_of(attempt)
        self._lanes.get(session_id).put(work)
        return Ticket(None, True, work.done)

    @property
    def takes_up(self) -> bool:
        """Whether this process continues the work of dead ones: only a gateway does."""
        return self.takeover is not None

    async def wait_for_trouble(self) -> None:
        """Wait until the store has failed something that has to be given back."""
        await self._inbox.trouble.wait()

    def report_trouble(self) -> None:
        """Let who waits for trouble look again: the store has failed meanwhile."""
        self._inbox.trouble.set()

    async def give_back(self) -> int:
        """Give back what the store could not take when it failed; how many messages wait again.

        Those are the leases and the messages that this process holds and no lane works on.
        """
        self._inbox.trouble.clear()
        try:
            while self._parts.leases_left:
                await self.store.release_lease(self._parts.leases_left[-1])
                self._parts.leases_left.pop()
            return await self.reception.give_back()
        except ClewError:
            self.report_trouble()
            raise

    async def _adopt_left(self, inbound: Inbound) -> bool | None:
        if self.takeover is None or self._lanes.is_closing or self._lanes.is_draining:
            return None
        return await self.takeover.adopt(inbound)

    async def _find_cut_off(self, turn: Turn) -> Attempt | None:
        return None if self.takeover is None else await self.takeover.find_attempt(turn)

    def drain(self) -> None:
        """Accept nothing new from now on. `draining` is set; its owner waits for what runs."""
        self._lanes.is_draining = True
        self.draining.set()

    # --- out ----------------------------------------------------------------------------------

    @contextmanager
    def watch(self, session_id: str, after: int) -> Iterator[AsyncIterator[Event]]:
        """Every message after that number, and live hints from now on, of all processes.

        Each message comes once, in order. The events continue until the watcher stops.
        """
        with self.bus.subscribe(session_id) as mailbox:
            yield follow(self.store, session_id, after, mailbox, self._find_own)

    def _find_own(self, session_id: str) -> str | None:
        lane = self._lanes.find(session_id)
        return None if lane is None else lane.turn_id

    # --- while it runs --------------------------------------------------------------------------

    def is_running(self, session_id: str) -> bool:
        """Whether this process is at work in the session."""
        lane = self._lanes.find(session_id)
        return lane is not None and lane.busy

    def list_running(self) -> tuple[str, ...]:
        """The sessions in which this process is at work."""
        return self._lanes.list_running()

    async def settle(self, session_id: str) -> None:
        """Wait until a turn that has ended has released the session: then it can be undone."""
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

        `anywhere`: also the turn that another process runs there.
        """
        lane = self._lanes.find(session_id)
        is_here = lane is not None and lane.turn_id is not None
        stopped = lane is not None and await lane.stop()
        if anywhere and not is_here:  # the turn stopped here was only waiting for the other process
            stopped = await stop_elsewhere(self.store, session_id) or stopped
        return stopped

    async def take_back(
        self, session_id: str, only: Collection[str] | None = None, *, anywhere: bool = False
    ) -> tuple[Inbound, ...]:
        """Take queued messages of this process, or those with these ids, out of lane and inbox.

        `anywhere`: also those that other processes have, or no process has.
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
        """Begin nothing in the session until `let_go_on`; other processes may take what waits."""
        await self._lanes.hold_back(session_id)

    def let_go_on(self, session_id: str, *, without_queue: bool = False) -> None:
        """End `hold_back`. `without_queue`: messages that waited stay in the inbox."""
        self._lanes.let_go_on(session_id, without_queue=without_queue)

    async def amend(self, session_id: str, *changes: Change) -> None:
        """The lease for a change between turns, such as an undo. `LeaseHeld` during a turn."""
        await self._lanes.settle(session_id)
        async with hold(self.store, session_id, "amend") as lease:
            await self.store.record(session_id, lease.epoch, *changes)

    # --- compaction -----------------------------------------------------------------------------

    async def compact(self, session_id: str, *, instructions: str | None = None) -> Compacted:
        """Compact the session when it is free; `InvalidInput` if it is too short, or stopped.

        If anything fails, the session stays as it was.
        """
        return await self._upkeep.compact(session_id, instructions)

    async def uncompact(self, session_id: str) -> Compaction:
        """Undo the latest compaction. `LeaseHeld` while a turn runs."""
        return await self._upkeep.uncompact(session_id)

    # --- approvals ------------------------------------------------------------------------------

    async def decide(
        self,
        approval_id: str,
        decision: Decision,
        *,
        by: str,
        scope: ApprovalScope = "once",
        reason: str | None = None,
    ) -> Approval:
        """Answer an approval; the first answer stays. `reason` is for the model, of a no."""
        return await self.questions.decide(approval_id, decision, by=by, scope=scope, reason=reason)

    async def close(self) -> None:
        """Abort running turns, put back what has not begun, and finish writes in progress."""
        await self.reception.close()
        await self._lanes.close()
        await self._upkeep.close()
