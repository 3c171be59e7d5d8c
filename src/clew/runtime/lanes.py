"""Lanes: one session does one thing at a time.

A lane takes its work in order, gets the lease for each turn, keeps it while the turn runs, and
leaves the turn with an end whatever happens: done, failed, aborted. What a turn says and does is
the agent's affair; who may come in is decided before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from clew.core.changes import AddMessage, Change, EndTurn, StartTurn, UndoTurn
from clew.core.delivery import Inbound
from clew.core.estimate import estimate_text
from clew.core.message import Draft
from clew.core.session import Session
from clew.core.signals import Notice, TurnEnded, TurnStarted
from clew.core.turn import HEARTBEAT_MS, LEASE_MS, Lease, Turn, TurnEnd
from clew.errors import ClewError, ContextTooLong, LeaseHeld, RecordNotFound, StaleLease
from clew.ports import Agent, Store
from clew.runtime.turn import Asker, RunningTurn, Surroundings, new_turn_id

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds that a cancelled turn has to stop before the lane goes on without it."""

BUSY = 0.2
"""Seconds between two attempts to get a lease that another process holds."""


class Work(msgspec.Struct, kw_only=True):
    """One turn to run. Without a draft it goes on where the thread ends."""

    done: asyncio.Future[Turn]
    draft: Draft | None = None
    inbound: Inbound | None = None
    undo: tuple[str, ...] = ()
    person: str
    attended: bool = True
    model: str | None = None
    asker: Asker | None = None


class Chore(msgspec.Struct, kw_only=True):
    """Something else that needs the session for itself, between turns. It is given the lease."""

    done: asyncio.Future[Any]
    run: Callable[[Lease], Awaitable[Any]]


class LaneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a lease is, how often it is renewed, and what surrounds every turn."""

    agent: Agent
    around: Surroundings
    lease_ms: int = LEASE_MS
    renew_ms: int = HEARTBEAT_MS
    on_start: Callable[[Session, str], Awaitable[None]]
    on_end: Callable[[Session, Turn], Awaitable[None]]
    on_abandon: Callable[[Work, BaseException | None], Awaitable[None]]
    prepare: Callable[[Lease, int], Awaitable[None]]
    rescue: Callable[[RunningTurn], Awaitable[bool]]


class Lane:
    """The work of one session, in order."""

    def __init__(self, session_id: str, settings: LaneSettings) -> None:
        self.session_id = session_id
        self._settings = settings
        self._store: Store = settings.around.store
        self._waiting: deque[Work | Chore] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._running: asyncio.Task[Any] | None = None
        self._over = asyncio.Event()

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return self._running is not None or bool(self._waiting)

    @property
    def queued(self) -> int:
        """How many wait behind the one that runs."""
        return sum(isinstance(each, Work) for each in self._waiting)

    def put(self, work: Work | Chore) -> None:
        """Add work; it begins when everything before it is done."""
        self._waiting.append(work)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work(), name=f"lane {self.session_id}")

    async def stop(self) -> bool:
        """Abort the turn that runs, or waits to, and wait until it has its end."""
        if self._running is None:
            return False
        over = self._over
        self._running.cancel()
        await over.wait()
        return True

    def clear(self) -> tuple[Work, ...]:
        """Take back what has not begun."""
        taken = tuple(self._waiting)
        self._waiting.clear()
        for work in taken:
            work.done.cancel()
        return tuple(work for work in taken if isinstance(work, Work))

    async def join(self) -> None:
        """Wait until there is nothing to do."""
        if self._worker is not None:
            await asyncio.wait({self._worker})

    async def _work(self) -> None:
        while self._waiting:
            work = self._waiting.popleft()
            over = self._over = asyncio.Event()
            doing = self._run(work) if isinstance(work, Work) else self._do(work)
            running = self._running = asyncio.create_task(doing)
            await asyncio.wait({running})
            error = None if running.cancelled() else running.exception()
            if isinstance(work, Work) and (running.cancelled() or error is not None):
                with contextlib.suppress(ClewError):
                    await self._settings.on_abandon(work, error)
            # Idle before anybody hears of it: who waited for the turn may undo it at once.
            self._running = None
            _settle(work.done, running)
            over.set()

    async def _do(self, chore: Chore) -> Any:
        lease = await self._get_lease()
        try:
            _heed_cancel()
            return await self._while_kept(lease, chore.run(lease))
        finally:
            with contextlib.suppress(ClewError):
                await _whole(self._store.release_lease(lease))

    async def _while_kept(self, lease: Lease, work: Awaitable[T]) -> T:
        """Do something that may take longer than a lease lasts."""
        keeper = asyncio.create_task(self._keep(lease))
        try:
            return await work
        finally:
            keeper.cancel()

    async def _run(self, work: Work) -> Turn:
        lease = await self._get_lease()
        try:
            _heed_cancel()
            coming = 0 if work.draft is None else estimate_text(work.draft.content)
            await self._while_kept(lease, self._settings.prepare(lease, coming))
            session = await self._store.get_session(self.session_id)
            if work.model is not None:
                session = msgspec.structs.replace(session, model=work.model)
            turn = RunningTurn(
                self._settings.around,
                session,
                lease,
                new_turn_id(),
                person=work.person,
                attended=work.attended,
                asker=work.asker,
            )
            await _whole(turn.record(*_opening(work, turn)))
            ended = await self._perform(turn, lease)
        finally:
            with contextlib.suppress(ClewError):
                await _whole(self._store.release_lease(lease))
        await self._settings.on_end(session, ended)
        return ended

    async def _get_lease(self) -> Lease:
        """The right to run; waits while somebody else is busy with this session."""
        holder = self._store.identity
        told = False
        while True:
            await self._store.interrupt_turns(self.session_id)
            try:
                return await _whole(
                    self._store.acquire_lease(self.session_id, holder, ttl=self._settings.lease_ms)
                )
            except LeaseHeld:
                _heed_cancel()
                if not told:
                    text = "Another process is busy with this session; this waits for its turn."
                    self._settings.around.bus.publish(self.session_id, Notice(text))
                    told = True
                await asyncio.sleep(BUSY)

    async def _perform(self, turn: RunningTurn, lease: Lease) -> Turn:
        """Let the agent work, and give the turn its end."""
        bus = self._settings.around.bus
        bus.publish(self.session_id, TurnStarted(turn.id, turn.session.model))
        agent = asyncio.create_task(self._answer(turn), name=f"turn {turn.id}")
        keeper = asyncio.create_task(self._keep(lease))
        # A person's stop cancels this task: what follows gives the turn its end all the same.
        with contextlib.suppress(asyncio.CancelledError):
            if not _is_cancelled():
                await asyncio.wait({agent, keeper}, return_when=asyncio.FIRST_COMPLETED)
        lost = keeper.done()
        keeper.cancel()
        agent.cancel()
        await _whole(asyncio.wait({agent, keeper}, timeout=PATIENCE))
        status, error = _verdict(agent, lost=lost)
        try:
            if status is not None and turn.is_open:
                partial = turn.partial or None
                end = EndTurn(turn_id=turn.id, status=status, error=error, partial=partial)
                await _whole(turn.end(end))
        except (StaleLease, RecordNotFound):
            status = None  # somebody else has given the turn its end
        finally:
            turn.close()
        if status is None:
            text = "Another process has taken this session over; what this one was at is not kept."
            bus.publish(self.session_id, Notice(text))
        ended = await _whole(self._store.get_turn(turn.id))
        bus.publish(self.session_id, TurnEnded(ended))
        return ended

    async def _answer(self, turn: RunningTurn) -> None:
        await self._settings.on_start(turn.session, turn.id)
        try:
            await self._settings.agent.run(turn)
        except ContextTooLong:
            if not await self._settings.rescue(turn):
                raise
            await self._settings.agent.run(turn)

    async def _keep(self, lease: Lease) -> None:
        """Renew the lease until the turn is over; returns when somebody else has taken it."""
        while True:
            await asyncio.sleep(self._settings.renew_ms / 1000)
            try:
                lease = await self._store.renew_lease(lease, ttl=self._settings.lease_ms)
            except StaleLease:
                return
            except ClewError:
                # A store that is busy or full: the lease outlasts a renewal that was missed, and
                # even one that ran out is still ours until somebody takes it.
                continue


def _opening(work: Work, turn: RunningTurn) -> tuple[Change, ...]:
    """The turn's first commit: its row, and what the user said."""
    inbound = () if work.inbound is None else (work.inbound.id,)
    start = StartTurn(turn_id=turn.id, model=turn.session.model, inbound=inbound)
    undone = tuple(UndoTurn(each) for each in work.undo)
    said = () if work.draft is None else (AddMessage(work.draft, turn.id),)
    return (*undone, start, *said)


def _verdict(agent: asyncio.Task[None], *, lost: bool) -> tuple[TurnEnd | None, str | None]:
    """How the turn ended, and why; no end where this process may not write one."""
    if not agent.done():
        return "aborted", "It did not stop when it was told to."
    if agent.cancelled():
        return (None, None) if lost else ("aborted", None)
    match agent.exception():
        case None:
            return "done", None
        case StaleLease():
            return None, None
        case ClewError() as error:
            return "failed", str(error)
        case error:
            return "failed", f"{type(error).__name__}: {error} (this is a bug in clew)"


def _settle(done: asyncio.Future[Any], running: asyncio.Task[Any]) -> None:
    """Tell who waits for the turn, if they still do."""
    if done.done():
        return
    if running.cancelled():
        done.cancel()
    elif (error := running.exception()) is not None:
        done.set_exception(error)
        done.exception()  # if nobody reads it, that is no accident
    else:
        done.set_result(running.result())


def _heed_cancel() -> None:
    """Stop here if that was asked for while something could not be left half done."""
    if _is_cancelled():
        raise asyncio.CancelledError


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _whole(work: Awaitable[T]) -> T:
    """Finish something that must not be left half done; a cancel is noted (`_is_cancelled`)."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()
