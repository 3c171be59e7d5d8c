"""The façade of the runtime: one door in (`accept`), one door out (`watch`).

Every surface, whatever it looks like, gives its messages to `accept` and reads from `watch`. Rules
live behind these doors. Which session a surface sits at is the `seat`'s business.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from clew.core.changes import Change
from clew.core.compaction import NOTHING, Compacted
from clew.core.delivery import Inbound, NewInbound
from clew.core.message import Draft
from clew.core.notes import Compaction
from clew.core.replies import ReplyTo
from clew.core.sending import SendRules
from clew.core.session import Session
from clew.core.signals import Event, Notice
from clew.core.turn import (
    HEARTBEAT_MS,
    LEASE_MS,
    Approval,
    ApprovalScope,
    Decision,
    Lease,
    Turn,
)
from clew.core.usage import Usage
from clew.errors import ClewError, Conflict, InvalidInput
from clew.ports import Agent, Clock, Store
from clew.runtime.bus import Bus
from clew.runtime.compacting import CompactingRules, Compactor, Flusher, Summariser
from clew.runtime.holding import hold
from clew.runtime.hooks import HookEvent, Hooks
from clew.runtime.intake import Intake, draft_of, reply_to_of
from clew.runtime.lanes import Lane, LaneSettings
from clew.runtime.questions import Questions
from clew.runtime.queueing import QueueMode, Work
from clew.runtime.replying import Replies
from clew.runtime.spawning import Spawner
from clew.runtime.spending import Tab
from clew.runtime.titles import Titler
from clew.runtime.turn import Asker, RunningTurn, Surroundings
from clew.runtime.watching import follow


def host_clock() -> int:
    """The host's time in milliseconds UTC."""
    return time.time_ns() // 1_000_000


class Ticket(msgspec.Struct, frozen=True):
    """What became of an accepted message: the inbox row, and its turn when that has ended.

    `turn` is cancelled if the message was taken back before its turn began.
    """

    inbound: Inbound | None
    is_new: bool
    turn: asyncio.Future[Turn]


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
        self._tab = Tab(store)
        self.compactor = (
            None
            if summariser is None
            else Compactor(
                store, self.bus, summariser, flusher=flusher, rules=compacting, tab=self._tab
            )
        )
        self._intake = Intake(store)
        self._questions = Questions(store, clock)
        self._lanes: dict[str, Lane] = {}
        self._spawner = Spawner(store, clock, self)
        self._tasks: set[asyncio.Task[None]] = set()
        self._titler = Titler(store, agent, self._spend)
        self._closing = False
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
            on_start=self._turn_started,
            on_end=self._turn_ended,
            on_abandon=self._abandon,
            prepare=self._prepare,
            rescue=self._rescue,
        )

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
        self._refuse_if_closing()
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
        self._refuse_if_closing()
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
        self._refuse_if_closing()
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
        is_retry: bool = True,
    ) -> Ticket:
        """Another attempt at what the thread ends with; or, with drafts, in place of turns.

        What was cut off before it said anything is no retry: its answer is not said already.
        """
        self._refuse_if_closing()
        if reply_to is not None:
            reply_to = msgspec.structs.replace(reply_to, is_retry=is_retry)
        return self._put(
            session_id,
            drafts=drafts,
            undo=undo,
            person=person,
            attended=attended,
            model=model,
            reply_to=reply_to,
        )

    def _put(self, session_id: str, *, inbound: Inbound | None = None, **work: Any) -> Ticket:
        done: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._lane(session_id).put(Work(done=done, inbound=inbound, **work))
        return Ticket(inbound, True, done)

    def _lane(self, session_id: str) -> Lane:
        if session_id not in self._lanes:
            # Those that have nothing to do are forgotten here, where another one comes.
            self._lanes = {key: lane for key, lane in self._lanes.items() if not lane.is_idle}
            self._lanes[session_id] = Lane(session_id, self._settings)
        return self._lanes[session_id]

    def _refuse_if_closing(self) -> None:
        if self._closing:
            raise Conflict("clew is closing: nothing new begins here. Start it again.")

    # --- out ----------------------------------------------------------------------------------

    @contextmanager
    def watch(self, session_id: str, after: int) -> Iterator[AsyncIterator[Event]]:
        """Every message after that number, and live hints from now on; other processes' too.

        Messages come once each, in order. The events go on until the watcher stops.
        """
        with self.bus.subscribe(session_id) as mailbox:
            yield follow(self.store, session_id, after, mailbox, self._find_own)

    def _find_own(self, session_id: str) -> str | None:
        return self._lanes[session_id].turn_id if session_id in self._lanes else None

    # --- while it runs --------------------------------------------------------------------------

    def is_running(self, session_id: str) -> bool:
        """Whether this process has something to do in the session."""
        return session_id in self._lanes and self._lanes[session_id].busy

    def list_running(self) -> tuple[str, ...]:
        """The sessions in which this process has something to do."""
        return tuple(key for key, lane in self._lanes.items() if lane.busy)

    async def join(self, session_id: str) -> None:
        """Wait until this process has nothing to do in the session."""
        if session_id in self._lanes:
            await self._lanes[session_id].join()

    def list_queued(self, session_id: str) -> tuple[Inbound, ...]:
        """The messages that wait in this process, oldest first."""
        works = self._lanes[session_id].waiting if session_id in self._lanes else ()
        return tuple(each.inbound for each in works if each.inbound is not None)

    def count_queued(self, session_id: str) -> int:
        """How many turns wait behind the one that runs."""
        return len(self._lanes[session_id].waiting) if session_id in self._lanes else 0

    def count_spawned(self, session_id: str) -> int:
        """How many sub-agents are at work for the turn that runs in the session."""
        return self._spawner.count(session_id)

    async def stop(self, session_id: str) -> bool:
        """Abort the turn that this process runs in the session; False if there is none."""
        lane = self._lanes.get(session_id)
        return lane is not None and await lane.stop()

    async def take_back(self, session_id: str) -> tuple[Inbound, ...]:
        """Take queued messages of this process out of the lane and out of the inbox."""
        taken = self._clear(session_id)
        await self._intake.drop(taken)
        return taken

    async def put_back(self, session_id: str) -> None:
        """Take queued messages of this process out of the lane; they stay in the inbox."""
        await self._intake.put_back(self._clear(session_id))

    async def hold_back(self, session_id: str) -> None:
        """Begin nothing in the session until `let_go_on`; what waits is anybody's meanwhile."""
        if session_id in self._lanes:
            self._lanes[session_id].pause()
            await self._intake.put_back(self.list_queued(session_id))

    def let_go_on(self, session_id: str, *, without_queue: bool = False) -> None:
        """The end of `hold_back`; without what waited, which stays in the inbox, or with it."""
        if session_id in self._lanes:
            if without_queue:
                self._clear(session_id)
            self._lanes[session_id].resume()

    def _clear(self, session_id: str) -> tuple[Inbound, ...]:
        works = self._lanes[session_id].clear() if session_id in self._lanes else ()
        return tuple(each.inbound for each in works if each.inbound is not None)

    async def _abandon(self, work: Work, error: BaseException | None) -> None:
        """A turn did not begin. Its message is taken back, if a person stopped it; else it waits.

        One that had begun has its message already: then this changes nothing.
        """
        if work.inbound is None:
            return
        if self._closing or error is not None:
            await self._intake.put_back((work.inbound,))
        else:
            await self._intake.drop((work.inbound,))

    async def amend(self, session_id: str, *changes: Change) -> None:
        """A change beside the turns, such as an undo. `LeaseHeld` while one runs."""
        await self._let_settle(session_id)
        async with hold(self.store, session_id, "amend") as lease:
            await self.store.record(session_id, lease.epoch, *changes)

    async def _let_settle(self, session_id: str) -> None:
        """Wait for what the lane does without telling anybody; that takes a moment."""
        if session_id in self._lanes and not self._lanes[session_id].busy:
            await self._lanes[session_id].join()

    # --- compaction -----------------------------------------------------------------------------

    async def compact(self, session_id: str, *, instructions: str | None = None) -> Compacted:
        """Compact the session when it is free; `InvalidInput` if there is too little, or stopped.

        Whatever goes wrong, the session is as it was.
        """
        compactor = self._get_compactor()
        self._refuse_if_closing()
        run = partial(compactor.compact_under, instructions=instructions)
        done = self._lane(session_id).do(run)
        await asyncio.wait({done})
        if done.cancelled():
            raise InvalidInput("Compacting was stopped; the conversation is as it was.")
        made: Compacted | None = done.result()
        if made is None:
            raise InvalidInput(NOTHING)
        return made

    async def uncompact(self, session_id: str) -> Compaction:
        """Take the latest compaction back. `LeaseHeld` while a turn runs."""
        await self._let_settle(session_id)
        return await self._get_compactor().uncompact(session_id)

    def _get_compactor(self) -> Compactor:
        if self.compactor is None:
            raise InvalidInput("Nobody here can write summaries.")
        return self.compactor

    async def _prepare(self, lease: Lease, coming: int) -> None:
        """Before a turn: compact, if the thread has become too long."""
        if self.compactor is not None:
            await self.compactor.prepare(lease, coming=coming)

    async def _rescue(self, turn: RunningTurn) -> bool:
        return self.compactor is not None and await self.compactor.rescue(turn)

    async def _compact_if_due(self, session_id: str) -> None:
        """After a turn: the person reads the answer meanwhile."""
        if self.compactor is None or self.count_queued(session_id):
            return  # the next turn looks for itself
        due = await self.compactor.is_due(await self.store.get_session(session_id))
        if due and not self._closing:
            self._lane(session_id).do(self.compactor.prepare)

    # --- money ----------------------------------------------------------------------------------

    def _spend(self, session_id: str, usage: Usage) -> None:
        """Something beside the turns was paid for: book it as soon as the session is free."""
        self._tab.add(session_id, usage)
        if not self._closing:
            self._lane(session_id).do(self._tab.settle_under, quiet=True)

    # --- approvals ------------------------------------------------------------------------------

    async def decide(
        self, approval_id: str, decision: Decision, *, by: str, scope: ApprovalScope = "once"
    ) -> Approval:
        """Answer an approval; the first answer stays."""
        return await self._questions.decide(approval_id, decision, by=by, scope=scope)

    async def close(self) -> None:
        """Abort what runs, put back what has not begun, and finish what is being written."""
        self._closing = True
        for session_id, lane in tuple(self._lanes.items()):
            await self.put_back(session_id)
            lane.resume()  # somebody may be on the way to another session
            await lane.stop(closing=True)
            await lane.join()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._titler.close()
        await self._tab.settle_all()

    # --- around a turn --------------------------------------------------------------------------

    async def _turn_started(self, session: Session, turn_id: str) -> None:
        await self._tell("turn_start", session, turn_id=turn_id)

    async def _tell(self, event: HookEvent, session: Session, **about: str) -> None:
        """Tell the hooks; what goes wrong with them is told to whoever watches."""
        payload = {"session_id": session.id, "cwd": session.cwd, "at": self.clock(), **about}
        for notice in await self.hooks.tell(event, payload):
            self.bus.publish(session.id, Notice(notice))

    async def _turn_ended(self, session: Session, turn: Turn) -> None:
        task = asyncio.create_task(self._after_turn(session, turn))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _after_turn(self, session: Session, turn: Turn) -> None:
        """What closing waits for: the hooks, and a title in case the person is leaving."""
        if session.title is None and turn.status == "done":
            with contextlib.suppress(ClewError):
                await self._titler.give(session)
        await self._tell("turn_end", session, turn_id=turn.id, status=turn.status)
        with contextlib.suppress(ClewError):
            await self._compact_if_due(session.id)
