"""The façade of the runtime: one door in (`accept`), one door out (`watch`).

Every surface, whatever it looks like, gives its messages to `accept` and reads from `watch`. Rules
live behind these doors. Which session a surface sits at is the `seat`'s business.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from clew.core.changes import Change
from clew.core.compaction import NOTHING, Compacted
from clew.core.delivery import Inbound, NewInbound
from clew.core.message import Draft, Message
from clew.core.notes import Compaction
from clew.core.session import NewSession, Session, SessionFacts
from clew.core.signals import Committed, Event, Notice, TurnEnded, TurnStarted
from clew.core.titles import title_from_prompt
from clew.core.turn import (
    HEARTBEAT_MS,
    LEASE_MS,
    Approval,
    ApprovalScope,
    Decision,
    Lease,
    Turn,
)
from clew.errors import ClewError, Conflict, InvalidInput
from clew.ports import Agent, Clock, Store
from clew.runtime.bus import Bus, Mailbox
from clew.runtime.compacting import CompactingRules, Compactor, Flusher, Summariser
from clew.runtime.hooks import HookEvent, Hooks
from clew.runtime.lanes import Chore, Lane, LaneSettings, Work
from clew.runtime.questions import Questions
from clew.runtime.turn import Asker, RunningTurn, Surroundings

LOOK = 0.25
"""Seconds between two looks for what other processes have written."""

SUBAGENT_ANSWER = 50
"""Messages of a sub-agent's thread among which its answer is looked for."""


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
    ) -> None:
        self.store = store
        self.agent = agent
        self.hooks = hooks
        self.clock = clock
        self.bus = Bus()
        self.compactor = (
            None
            if summariser is None
            else Compactor(store, self.bus, summariser, flusher=flusher, rules=compacting)
        )
        self._questions = Questions(store, clock)
        self._lanes: dict[str, Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._titling: set[asyncio.Task[None]] = set()
        self._closing = False
        self._settings = LaneSettings(
            agent=agent,
            around=Surroundings(
                store=store,
                bus=self.bus,
                clock=clock,
                questions=self._questions,
                remember=remember_rule,
                spawn=self._spawn,
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
    ) -> Ticket:
        """Keep a message, then run its turn when the session is free. Returns once it is durable.

        `attended`: somebody is there to answer approvals. `model` is used in place of the
        session's own. A second delivery of the same message has no turn of its own.
        """
        if new.session_id is None:
            raise InvalidInput("A message needs the session that it is for.")
        self._refuse_if_closing()
        inbound, is_new = await self.store.accept(new, claimant=self._claimant(new.id))
        if not is_new:
            nothing: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
            nothing.cancel()
            return Ticket(inbound, False, nothing)
        return self._put(
            new.session_id,
            inbound=inbound,
            draft=_draft(inbound),
            person=inbound.person,
            attended=attended,
            model=model,
            asker=asker,
        )

    async def adopt(
        self, inbound: Inbound, *, attended: bool = True, model: str | None = None
    ) -> Ticket:
        """Run a message that a dead process left in the inbox."""
        if inbound.session_id is None:
            raise InvalidInput("That message has no session.")
        self._refuse_if_closing()
        claimant = self._claimant(inbound.id)
        taken = await self.store.claim_inbound(claimant, session_id=inbound.session_id, limit=1)
        if [each.id for each in taken] != [inbound.id]:
            await self.store.release_inbound(claimant)
            raise InvalidInput("That message is no longer the next one in the inbox.")
        return self._put(
            inbound.session_id,
            inbound=taken[0],
            draft=_draft(taken[0]),
            person=inbound.person,
            attended=attended,
            model=model,
        )

    def go_on(
        self,
        session_id: str,
        *,
        person: str,
        draft: Draft | None = None,
        undo: tuple[str, ...] = (),
        attended: bool = True,
        model: str | None = None,
    ) -> Ticket:
        """Another attempt at what the thread ends with; or, with a draft, in place of turns."""
        self._refuse_if_closing()
        return self._put(
            session_id, draft=draft, undo=undo, person=person, attended=attended, model=model
        )

    def _put(self, session_id: str, *, inbound: Inbound | None = None, **work: Any) -> Ticket:
        done: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._lane(session_id).put(Work(done=done, inbound=inbound, **work))
        return Ticket(inbound, True, done)

    def _lane(self, session_id: str) -> Lane:
        return self._lanes.setdefault(session_id, Lane(session_id, self._settings))

    def _refuse_if_closing(self) -> None:
        if self._closing:
            raise Conflict("clew is closing: nothing new begins here. Start it again.")

    def _claimant(self, inbound_id: str) -> str:
        return f"{self.store.identity}#{inbound_id}"

    # --- out ----------------------------------------------------------------------------------

    @contextmanager
    def watch(self, session_id: str, after: int) -> Iterator[AsyncIterator[Event]]:
        """Every message after that number, and live hints from now on; other processes' too.

        Messages come once each, in order. The events go on until the watcher stops.
        """
        with self.bus.subscribe(session_id) as mailbox:
            yield self._events(session_id, after, mailbox)

    async def _events(self, session_id: str, after: int, mailbox: Mailbox) -> AsyncIterator[Event]:
        pulse = await self.store.pulse()
        turn = await self._newest_turn(session_id)
        missed = await self.store.get_messages(session_id, after=after)
        while True:
            for message in missed:
                after = message.seq
                yield Committed(message)
            missed = ()
            try:
                event = await asyncio.wait_for(mailbox.get(), LOOK)
            except TimeoutError:
                if pulse == (pulse := await self.store.pulse()):
                    continue
                missed = await self.store.get_messages(session_id, after=after)
                newest = await self._newest_turn(session_id)
                if (
                    newest is not None
                    and _state(newest) != _state(turn)
                    and not self.is_running(session_id)
                ):
                    for message in missed:
                        after = message.seq
                        yield Committed(message)
                    missed = ()
                    yield _news_of(newest)
                turn = newest
                continue
            if isinstance(event, TurnEnded):
                turn = event.turn
            if not isinstance(event, Committed):
                yield event
            elif event.message.seq == after + 1:
                after += 1
                yield event
            elif event.message.seq > after:
                missed = await self.store.get_messages(session_id, after=after)

    async def _newest_turn(self, session_id: str) -> Turn | None:
        turns = await self.store.list_turns(session_id, limit=1)
        return turns[0] if turns else None

    # --- while it runs --------------------------------------------------------------------------

    def is_running(self, session_id: str) -> bool:
        """Whether this process has something to do in the session."""
        return session_id in self._lanes and self._lanes[session_id].busy

    async def join(self, session_id: str) -> None:
        """Wait until this process has nothing to do in the session."""
        if session_id in self._lanes:
            await self._lanes[session_id].join()

    def count_queued(self, session_id: str) -> int:
        """How many messages wait behind the turn that runs."""
        return self._lanes[session_id].queued if session_id in self._lanes else 0

    async def stop(self, session_id: str) -> bool:
        """Abort the turn that this process runs in the session; False if there is none."""
        lane = self._lanes.get(session_id)
        return lane is not None and await lane.stop()

    async def take_back(self, session_id: str) -> tuple[Inbound, ...]:
        """Take queued messages of this process out of the lane and out of the inbox."""
        lane = self._lanes.get(session_id)
        works = () if lane is None else lane.clear()
        taken = tuple(each.inbound for each in works if each.inbound is not None)
        await self._drop(taken)
        return taken

    async def put_back(self, session_id: str) -> None:
        """Take queued messages of this process out of the lane; they stay in the inbox."""
        lane = self._lanes.get(session_id)
        for work in () if lane is None else lane.clear():
            if work.inbound is not None:
                await self.store.release_inbound(self._claimant(work.inbound.id))

    async def _abandon(self, work: Work, error: BaseException | None) -> None:
        """A turn did not begin. Its message is taken back, if a person stopped it; else it waits.

        One that had begun has its message already: then this changes nothing.
        """
        if work.inbound is not None and (self._closing or error is not None):
            await self.store.release_inbound(self._claimant(work.inbound.id))
        elif work.inbound is not None:
            await self._drop((work.inbound,))

    async def _drop(self, rows: tuple[Inbound, ...]) -> None:
        for inbound in rows:
            await self.store.release_inbound(self._claimant(inbound.id))
        await self.store.drop_inbound([each.id for each in rows])

    async def amend(self, session_id: str, *changes: Change) -> None:
        """A change beside the turns, such as an undo. `LeaseHeld` while one runs."""
        holder = f"{self.store.identity}#amend"
        lease = await self.store.acquire_lease(session_id, holder)
        try:
            await self.store.record(session_id, lease.epoch, *changes)
        finally:
            await self.store.release_lease(lease)

    # --- compaction -----------------------------------------------------------------------------

    async def compact(self, session_id: str, *, instructions: str | None = None) -> Compacted:
        """Compact the session when it is free; `InvalidInput` if there is too little, or stopped.

        Whatever goes wrong, the session is as it was.
        """
        compactor = self._get_compactor()
        self._refuse_if_closing()
        run = partial(compactor.compact_under, instructions=instructions)
        chore = Chore(done=asyncio.get_running_loop().create_future(), run=run)
        self._lane(session_id).put(chore)
        await asyncio.wait({chore.done})
        if chore.done.cancelled():
            raise InvalidInput("Compacting was stopped; the conversation is as it was.")
        made: Compacted | None = chore.done.result()
        if made is None:
            raise InvalidInput(NOTHING)
        return made

    async def uncompact(self, session_id: str) -> Compaction:
        """Take the latest compaction back. `LeaseHeld` while a turn runs."""
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
        if self.compactor is None or self.is_running(session_id):
            return  # the next turn looks for itself
        due = await self.compactor.is_due(await self.store.get_session(session_id))
        if due and not self._closing:
            done = asyncio.get_running_loop().create_future()
            done.add_done_callback(lambda each: each.cancelled() or each.exception())
            self._lane(session_id).put(Chore(done=done, run=self.compactor.prepare))

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
            await lane.stop()
            await lane.join()
        for task in self._titling:
            task.cancel()
        if tasks := self._tasks | self._titling:
            await asyncio.wait(tasks)

    # --- around a turn --------------------------------------------------------------------------

    async def _turn_started(self, session: Session, turn_id: str) -> None:
        await self._tell("turn_start", session, turn_id=turn_id)

    async def _tell(self, event: HookEvent, session: Session, **about: str) -> None:
        """Tell the hooks; what goes wrong with them is told to whoever watches."""
        payload = {"session_id": session.id, "cwd": session.cwd, "at": self.clock(), **about}
        for notice in await self.hooks.tell(event, payload):
            self.bus.publish(session.id, Notice(notice))

    async def _turn_ended(self, session: Session, turn: Turn) -> None:
        _start(self._after_turn(session, turn), self._tasks)

    async def _after_turn(self, session: Session, turn: Turn) -> None:
        """What closing waits for: the hooks, and a title in case the person is leaving."""
        if session.title is None and turn.status == "done":
            with contextlib.suppress(ClewError):
                await self._give_title(session)
        await self._tell("turn_end", session, turn_id=turn.id, status=turn.status)
        with contextlib.suppress(ClewError):
            await self._compact_if_due(session.id)

    async def _give_title(self, session: Session) -> None:
        thread = await self.store.get_messages(session.id, 20)
        prompt = next((each for each in thread if each.role == "user"), None)
        if prompt is None:
            return
        if plain := title_from_prompt(prompt.content):
            await self.store.describe_session(session.id, SessionFacts(title=plain))
        _start(self._give_better_title(session, thread), self._titling)

    async def _give_better_title(self, session: Session, thread: tuple[Message, ...]) -> None:
        """A model's title comes when it comes; closing does not wait for it."""
        # Whatever goes wrong with a model: there is a title already.
        with contextlib.suppress(Exception):
            if better := await self.agent.make_title(session.model, thread):
                await self.store.describe_session(session.id, SessionFacts(title=better))

    async def _spawn(self, turn: RunningTurn, task: str, personality: str | None) -> str:
        """A sub-agent: a session of its own, whose questions the spawning turn asks."""
        parent = turn.session
        if parent.kind == "subagent":
            raise InvalidInput("A sub-agent can't spawn another one.")
        child = await self.store.create_session(
            NewSession(
                key=f"{parent.key}:sub:{self.clock()}",
                platform=parent.platform,
                kind="subagent",
                agent=parent.agent,
                person=turn.person,
                title=title_from_prompt(task),
                title_by="auto",
                cwd=parent.cwd,
                project=parent.project,
                model=parent.model,
                provider=parent.provider,
                personality=personality or parent.personality,
                thinking=parent.thinking,
                mode=parent.mode,
                metadata={"spawned_by": {"session": parent.id, "turn": turn.id}}
                | ({"allow": parent.metadata["allow"]} if "allow" in parent.metadata else {}),
            ),
            route=None,
        )
        ticket = await self.accept(
            NewInbound(
                id=secrets.token_hex(8),
                channel="spawn",
                key=child.key,
                session_id=child.id,
                person=turn.person,
                payload={"text": task},
            ),
            asker=turn,
        )
        try:
            ended = await asyncio.shield(ticket.turn)
        except asyncio.CancelledError:
            if ticket.turn.cancelled():
                raise InvalidInput("The sub-agent was stopped before it began.") from None
            await self.stop(child.id)
            raise
        if ended.status != "done":
            raise InvalidInput(f"The sub-agent {ended.status}: {ended.error or 'no reason given'}")
        thread = await self.store.get_messages(child.id, SUBAGENT_ANSWER)
        return next((each.content for each in reversed(thread) if _is_answer(each)), "")


def _start(work: Coroutine[Any, Any, None], owner: set[asyncio.Task[None]]) -> None:
    """Let something happen that only closing waits for."""
    task = asyncio.create_task(work)
    owner.add(task)
    task.add_done_callback(owner.discard)


def _draft(inbound: Inbound) -> Draft:
    payload = inbound.payload
    return Draft(
        role="user", content=str(payload.get("text", "")), parts=tuple(payload.get("parts", ()))
    )


def _is_answer(message: Message) -> bool:
    return message.role == "assistant" and bool(message.content)


def _state(turn: Turn | None) -> tuple[str, bool] | None:
    return None if turn is None else (turn.id, turn.ended_at is None)


def _news_of(turn: Turn) -> Event:
    if turn.ended_at is None:
        return TurnStarted(turn.id, turn.model)
    return TurnEnded(turn)
