"""Lanes: one session does one thing at a time.

A lane takes its work in order, gets the lease for each turn, keeps it while the turn runs, and
leaves the turn with an end whatever happens: done, failed, aborted. What a turn says and does is
the agent's affair; who may come in is decided before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from clew.core.changes import EndTurn
from clew.core.estimate import estimate_text
from clew.core.session import Session
from clew.core.signals import Notice, TurnEnded, TurnStarted
from clew.core.turn import HEARTBEAT_MS, LEASE_MS, Lease, Turn, TurnEnd
from clew.errors import ClewError, ContextTooLong, LeaseHeld, RecordNotFound, StaleLease
from clew.ports import Agent, Store
from clew.runtime.commits import heed_cancel, is_cancelled, unbroken, whole
from clew.runtime.queueing import Chore, Queue, Work, is_quiet
from clew.runtime.steering import opening, put_into
from clew.runtime.turn import RunningTurn, Surroundings, new_turn_id

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds that a cancelled turn has to stop before the lane goes on without it."""

BUSY = 0.2
"""Seconds between two attempts to get a lease that another process holds."""


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
        self.turn_id: str | None = None
        """The turn that runs."""
        self._settings = settings
        self._store: Store = settings.around.store
        self._queue = Queue()
        self._worker: asyncio.Task[None] | None = None
        self._running: asyncio.Task[Any] | None = None
        self._doing: Work | Chore | None = None
        self._together: list[Work] = []
        self._has_begun = False
        self._gate = asyncio.Event()
        self._gate.set()
        self._over = asyncio.Event()
        self._closing = False
        self._quiet_at = 0.0
        self._cleared = asyncio.Event()

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return not (is_quiet(self._doing) and self._queue.is_quiet)

    @property
    def is_idle(self) -> bool:
        """Whether nothing at all happens here, or will."""
        return self._worker is None or self._worker.done()

    @property
    def waiting(self) -> tuple[Work, ...]:
        """The turns behind the one that runs."""
        return self._queue.works

    def put(self, work: Work | Chore) -> None:
        """Add work; it begins when everything before it is done."""
        if isinstance(work, Work) and self.busy:
            self._quiet_at = asyncio.get_running_loop().time() + work.settle_s
        self._queue.put(work)
        self._wake()
        if isinstance(work, Work) and work.queue == "interrupt":
            self._interrupt()

    def _wake(self) -> None:
        if self.is_idle:
            self._worker = asyncio.create_task(self._work(), name=f"lane {self.session_id}")

    def _interrupt(self) -> None:
        """Abort the turn that runs. One that is only about to begin takes along what comes."""
        if self._running is not None and self._has_begun:
            self._running.cancel()

    def do(
        self, run: Callable[[Lease], Awaitable[Any]], *, quiet: bool = False
    ) -> asyncio.Future[Any]:
        """Add something that is no turn (`Chore`). Nobody has to look at what becomes of it."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda each: each.cancelled() or each.exception())
        self.put(Chore(done=done, run=run, quiet=quiet))
        return done

    async def stop(self, *, closing: bool = False) -> bool:
        """Abort the turn that runs, or waits to, and wait until it has its end.

        `closing`: nobody wants it stopped. Somebody far away waits for the answer, so the next
        gateway goes on with it.
        """
        if self._running is None:
            return False
        self._closing = closing
        over, quiet = self._over, is_quiet(self._doing)
        self._running.cancel()
        await over.wait()
        return not quiet

    def pause(self) -> None:
        """Begin nothing more until `resume`."""
        self._gate.clear()

    def resume(self) -> None:
        """Go on."""
        self._gate.set()

    def clear(self) -> tuple[Work, ...]:
        """Take back what has not begun."""
        self._cleared.set()
        return self._queue.clear()

    async def join(self) -> None:
        """Wait until there is nothing to do."""
        if self._worker is not None:
            await asyncio.wait({self._worker})

    async def _work(self) -> None:
        while self._queue:
            await self._let_settle()
            await self._gate.wait()
            if not self._queue:
                break
            work = self._queue.take()
            over = self._over = asyncio.Event()
            doing = self._run(work) if isinstance(work, Work) else self._do(work)
            self._doing, self._has_begun = work, False
            together = self._together = [work] if isinstance(work, Work) else []
            running = self._running = asyncio.create_task(doing)
            await asyncio.wait({running})
            error = None if running.cancelled() else running.exception()
            for each in together if running.cancelled() or error is not None else ():
                with contextlib.suppress(ClewError):
                    await self._settings.on_abandon(each, error)
            # Idle before anybody hears of it: who waited for the turn may undo it at once.
            self._running = self._doing = self.turn_id = None
            for done in dict.fromkeys((work.done, *(each.done for each in together))):
                _settle(done, running)
            over.set()

    async def _let_settle(self) -> None:
        """Wait while somebody is still saying what is to be answered together (`settle_s`)."""
        loop = asyncio.get_running_loop()
        self._cleared.clear()
        while self._queue.is_collecting and (left := self._quiet_at - loop.time()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._cleared.wait(), left)
                self._cleared.clear()

    async def _do(self, chore: Chore) -> Any:
        lease = await self._get_lease(quiet=chore.quiet)
        try:
            heed_cancel()
            return await self._while_kept(lease, chore.run(lease))
        finally:
            with contextlib.suppress(ClewError):
                await whole(self._store.release_lease(lease))

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
            heed_cancel()
            coming = sum(estimate_text(draft.content) for draft in work.drafts)
            await self._while_kept(lease, self._settings.prepare(lease, coming))
            heed_cancel()
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
                steer=self._steer,
            )
            # From here to the commit nothing may come in between (`_interrupt`).
            self.turn_id, self._has_begun = turn.id, True
            self._together += self._queue.take_along(work)
            await whole(turn.record(*opening(self._together, turn)))
            ended = await self._perform(turn, lease)
        finally:
            with contextlib.suppress(ClewError):
                await whole(self._store.release_lease(lease))
        await self._settings.on_end(session, ended)
        return ended

    async def _get_lease(self, *, quiet: bool = False) -> Lease:
        """The right to run; waits while somebody else is busy with this session, unless `quiet`."""
        holder = self._store.identity
        told = False
        while True:
            await self._store.interrupt_turns(self.session_id)
            try:
                return await whole(
                    self._store.acquire_lease(self.session_id, holder, ttl=self._settings.lease_ms)
                )
            except LeaseHeld:
                if quiet:
                    raise
                heed_cancel()
                if not told:
                    text = "Another process is busy with this session; this waits for its turn."
                    self._settings.around.bus.publish(self.session_id, Notice(text))
                    told = True
                await asyncio.sleep(BUSY)

    async def _perform(self, turn: RunningTurn, lease: Lease) -> Turn:
        """Let the agent work, and give the turn its end; who watches hears of it in any case."""
        bus = self._settings.around.bus
        bus.publish(self.session_id, TurnStarted(turn.id, turn.session.model))
        status, error = await self._let_work(turn, lease)
        if status == "aborted" and self._closing and turn.reply_to is not None:
            status = "interrupted"
        try:
            ended = await self._end(turn, status, error)
        except Exception as problem:
            bus.publish(self.session_id, TurnEnded(turn.as_cut_off(str(problem))))
            raise
        finally:
            turn.close()
        bus.publish(self.session_id, TurnEnded(ended))
        return ended

    async def _let_work(self, turn: RunningTurn, lease: Lease) -> tuple[TurnEnd | None, str | None]:
        agent = asyncio.create_task(self._answer(turn), name=f"turn {turn.id}")
        keeper = asyncio.create_task(self._keep(lease))
        # A person's stop cancels this task: what follows gives the turn its end all the same.
        with contextlib.suppress(asyncio.CancelledError):
            if not is_cancelled():
                await asyncio.wait({agent, keeper}, return_when=asyncio.FIRST_COMPLETED)
        lost = keeper.done()
        keeper.cancel()
        agent.cancel()
        await whole(asyncio.wait({agent, keeper}, timeout=PATIENCE))
        return _verdict(agent, lost=lost)

    async def _end(self, turn: RunningTurn, status: TurnEnd | None, error: str | None) -> Turn:
        try:
            if status is not None and turn.is_open:
                partial = turn.partial or None
                end = EndTurn(turn_id=turn.id, status=status, error=error, partial=partial)
                await whole(turn.end(end))
        except (StaleLease, RecordNotFound):
            status = None  # somebody else has given the turn its end
        if status is None:
            text = "Another process has taken this session over; what this one was at is not kept."
            self._settings.around.bus.publish(self.session_id, Notice(text))
        return await whole(self._store.get_turn(turn.id))

    async def _steer(self, turn: RunningTurn) -> bool:
        """Put what was said meanwhile into the turn; what can't be put there keeps its place."""
        together, works = self._together, self._queue.take_steering(turn.person, turn.reply_to)

        async def put() -> bool:
            is_in = await put_into(turn, works, self._queue, self._wake)
            together.extend(works if is_in else ())
            return is_in

        return bool(works) and await unbroken(put())

    async def _answer(self, turn: RunningTurn) -> None:
        await self._settings.on_start(turn.session, turn.id)
        try:
            await self._settings.agent.run(turn)
        except ContextTooLong:
            if not await self._settings.rescue(turn):
                raise
            heed_cancel()
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
