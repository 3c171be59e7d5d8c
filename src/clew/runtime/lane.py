"""A lane: one session does one thing at a time.

It takes its work in order and gets the lease for each; who is next where others wait too is the
`turnstile`'s answer, and from its first commit on a turn is `performing`'s. What a turn says and
does is the agent's affair; who may come in is decided before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec

from clew.core.estimate import estimate_text
from clew.core.session import Session
from clew.core.signals import NotAnswered, Notice
from clew.core.turn import HEARTBEAT_MS, LEASE_MS, Lease, Turn
from clew.errors import ClewError
from clew.ports import Agent
from clew.runtime.commits import heed_cancel, unbroken, whole
from clew.runtime.leasing import Leasing
from clew.runtime.performing import OnStart, Performer, Rescue
from clew.runtime.precedence import Adopt, Precedence
from clew.runtime.queueing import Chore, Queue, Work, is_quiet
from clew.runtime.steering import opening, put_into
from clew.runtime.turn import RunningTurn, Surroundings, new_turn_id
from clew.runtime.turnstile import FindCutOff, Later, Turnstile

Abandon = Callable[[Work, BaseException | None], Awaitable[None]]
"""Hears of a turn that did not begin, and of what was in its way."""


class LaneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a lease is, how often it is renewed, and what surrounds every turn."""

    agent: Agent
    around: Surroundings
    lease_ms: int = LEASE_MS
    renew_ms: int = HEARTBEAT_MS
    on_start: OnStart
    on_end: Callable[[Session, Turn], Awaitable[None]]
    prepare: Callable[[Lease, int], Awaitable[None]]
    rescue: Rescue
    adopt: Adopt
    find_cut_off: FindCutOff


class Lane:
    """The work of one session, in order."""

    def __init__(self, session_id: str, settings: LaneSettings, abandon: Abandon) -> None:
        self.session_id = session_id
        self.turn_id: str | None = None
        """The turn that runs."""
        self._settings = settings
        self._abandon = abandon
        self._queue = Queue()
        self._worker: asyncio.Task[None] | None = None
        self._running: asyncio.Task[Any] | None = None
        self._doing: Work | Chore | None = None
        self._together: list[Work] = []
        self._has_begun = False
        self._turn: RunningTurn | None = None
        self._gate = asyncio.Event()
        self._gate.set()
        self._over = asyncio.Event()
        self._closing = False
        self._quiet_at = 0.0
        self._cleared = asyncio.Event()
        store = settings.around.store
        self._leasing = Leasing(
            store, session_id, lease_ms=settings.lease_ms, renew_ms=settings.renew_ms
        )
        precedence = Precedence(
            store,
            session_id,
            settings.adopt,
            clock=settings.around.clock,
            patience=settings.lease_ms / 1000,
        )
        self._turnstile = Turnstile(
            self._queue, precedence, settings.find_cut_off, lambda: self._together
        )
        self._performer = Performer(
            settings.agent,
            settings.around,
            self._leasing,
            on_start=settings.on_start,
            rescue=settings.rescue,
        )

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

    def clear(self, only: Collection[str] | None = None) -> tuple[Work, ...]:
        """Take back what has not begun; of it, only the messages with these ids."""
        self._cleared.set()
        return self._queue.clear() if only is None else self._queue.take_out(only)

    async def settle(self) -> None:
        """Wait until a turn that is over has let the session go: that takes a moment."""
        if self._turn is not None and not self._turn.is_open:
            await self._over.wait()

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
            if isinstance(error, Later):
                self._queue.put_first((*error.first, *together))
                self._queue.sort(error.order)
                together = []
            if running.cancelled() or error is not None:
                await self._give_up(together, error)
            # Idle before anybody hears of it: who waited for the turn may undo it at once.
            self._running = self._doing = self._turn = self.turn_id = None
            if not isinstance(error, Later):
                for done in dict.fromkeys((work.done, *(each.done for each in together))):
                    _settle(done, running)
            over.set()

    async def _give_up(self, works: list[Work], error: BaseException | None) -> None:
        """A turn did not begin, or could not write its end; who watches hears of the first."""
        for each in works:
            with contextlib.suppress(ClewError):
                await self._abandon(each, error)
        ids = tuple(each.inbound.id for each in works if each.inbound is not None)
        if ids and not self._has_begun and not self._closing:
            told = NotAnswered(ids, None if error is None else str(error))
            self._settings.around.bus.publish(self.session_id, told)

    async def _let_settle(self) -> None:
        """Wait while somebody is still saying what is to be answered together (`settle_s`)."""
        loop = asyncio.get_running_loop()
        self._cleared.clear()
        while self._queue.is_collecting and (left := self._quiet_at - loop.time()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._cleared.wait(), left)
                self._cleared.clear()

    async def _do(self, chore: Chore) -> Any:
        lease, _ = await self._leasing.get(self._tell_once(), quiet=chore.quiet)
        try:
            heed_cancel()
            return await self._leasing.while_kept(lease, chore.run(lease))
        finally:
            await self._leasing.give_back(lease)

    async def _run(self, work: Work) -> Turn:
        await self._turnstile.let_pass(work, self._tell_once())
        lease, newest = await self._leasing.get(self._tell_once())
        try:
            heed_cancel()
            await self._turnstile.check_place(work, newest)
            coming = sum(estimate_text(draft.content) for draft in work.drafts)
            await self._leasing.while_kept(lease, self._settings.prepare(lease, coming))
            heed_cancel()
            session = await self._settings.around.store.get_session(self.session_id)
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
            early = await self._turnstile.find_early(work)
            heed_cancel()
            # From here to the commit nothing may come in between (`_interrupt`).
            self._turn, self.turn_id, self._has_begun = turn, turn.id, True
            self._together += self._queue.take_along(work, but=early)
            await whole(turn.record(*opening(self._together, turn)))
            ended = await self._performer.perform(turn, lease, is_closing=lambda: self._closing)
        finally:
            await self._leasing.give_back(lease)
        await self._settings.on_end(session, ended)
        return ended

    def _tell_once(self) -> Callable[[], None]:
        """Who watches hears that somebody else is busy here, the first time that this is called."""
        notices = [Notice("Another process is busy with this session; this waits for its turn.")]

        def tell() -> None:
            while notices:
                self._settings.around.bus.publish(self.session_id, notices.pop())

        return tell

    async def _steer(self, turn: RunningTurn) -> bool:
        """Put what was said meanwhile into the turn; what can't be put there keeps its place."""
        early = await self._turnstile.find_early()
        together = self._together
        works = self._queue.take_steering(turn.person, turn.reply_to, but=early)

        async def put() -> bool:
            is_in = await put_into(turn, works, self._queue, self._wake)
            together.extend(works if is_in else ())
            return is_in

        return bool(works) and await unbroken(put())


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
