"""A lane: one session does one thing at a time.

It takes its work in order (`lane.order` tells who is next where other processes wait too), gets the
lease for each, and makes the first commit of a turn, with what people said; from there on
`lane.turn_runner` has it. What a turn says and does is up to the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import msgspec

from clew.core.changes import AddMessage, Change, StartTurn, TakeInbound, UndoTurn
from clew.core.context.size import estimate_text
from clew.core.live_events import NotAnswered, Notice, TurnJoined
from clew.core.turn import Lease, Turn
from clew.errors import ClewError, Conflict
from clew.runtime.cancellation import heed_cancel, unbroken, whole
from clew.runtime.lane.lease import Leasing
from clew.runtime.lane.order import Later, Order
from clew.runtime.lane.parts import RuntimeParts
from clew.runtime.lane.queue import Chore, Queue, Work, drafts_of, is_quiet
from clew.runtime.lane.turn import RunningTurn, new_turn_id
from clew.runtime.lane.turn_runner import run_to_end

Abandon = Callable[[Work, BaseException | None], Awaitable[None]]
"""Called for a turn that did not begin, with the error that kept it from beginning."""


class Lane:
    """The work of one session, in order."""

    def __init__(self, session_id: str, parts: RuntimeParts, abandon: Abandon) -> None:
        self.session_id = session_id
        self.turn_id: str | None = None
        """The turn that runs."""
        self._parts = parts
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
        self._leasing = Leasing(parts, session_id)
        self._order = Order(parts, session_id, self._queue, lambda: self._together)

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
        """Add something that is no turn (`Chore`). Its result need not be awaited."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda each: each.cancelled() or each.exception())
        self.put(Chore(done=done, run=run, quiet=quiet))
        return done

    async def stop(self, *, closing: bool = False) -> bool:
        """Abort the turn that runs, or waits to, and wait until it has its end.

        `closing`: the process ends, and no person has stopped the turn. If its answer is to be
        delivered, the next gateway goes on with it.
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
            # Idle before the turn's future is done: a caller that awaits it may undo it at once.
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
            self._parts.bus.publish(self.session_id, told)

    async def _let_settle(self) -> None:
        """Wait while more may come that is to be answered together (`settle_s`)."""
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
        await self._order.let_pass(work, self._tell_once())
        lease, newest = await self._leasing.get(self._tell_once())
        try:
            heed_cancel()
            await self._order.check_place(work, newest)
            coming = sum(estimate_text(draft.content) for draft in work.drafts)
            await self._leasing.while_kept(lease, self._parts.around_turns.prepare(lease, coming))
            heed_cancel()
            session = await self._parts.store.get_session(self.session_id)
            if work.model is not None:
                session = msgspec.structs.replace(session, model=work.model)
            turn = RunningTurn(
                self._parts,
                session,
                lease,
                new_turn_id(),
                person=work.person,
                attended=work.attended,
                asker=work.asker,
                steer=self._steer,
            )
            early = await self._order.find_early(work)
            heed_cancel()
            # From here to the commit nothing may come in between (`_interrupt`).
            self._turn, self.turn_id, self._has_begun = turn, turn.id, True
            self._together += self._queue.take_along(work, but=early)
            await whole(turn.record(*opening(self._together, turn)))
            ended = await run_to_end(
                self._parts, turn, self._leasing, lease, is_closing=lambda: self._closing
            )
        finally:
            await self._leasing.give_back(lease)
        await self._parts.around_turns.turn_ended(session, ended)
        return ended

    def _tell_once(self) -> Callable[[], None]:
        """A function that tells watchers once that another process is busy with the session."""
        notices = [Notice("Another process is busy with this session; this waits for its turn.")]

        def tell() -> None:
            while notices:
                self._parts.bus.publish(self.session_id, notices.pop())

        return tell

    async def _steer(self, turn: RunningTurn) -> bool:
        """Put what was said meanwhile into the turn; what can't be put there keeps its place."""
        early = await self._order.find_early()
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
        done.exception()  # it need not be read
    else:
        done.set_result(running.result())


def opening(works: Sequence[Work], turn: RunningTurn) -> tuple[Change, ...]:
    """The turn's first commit: its row, and what the user said."""
    turn.reply_to = works[-1].reply_to
    if turn.reply_to is not None:
        # The process that goes on with it after a crash has to know this too.
        attended = works[-1].attended
        turn.reply_to = msgspec.structs.replace(turn.reply_to, attended=attended)
    start = StartTurn(
        turn_id=turn.id,
        model=turn.session.model,
        reply_to=None if turn.reply_to is None else msgspec.to_builtins(turn.reply_to),
        inbound=_rows(works),
    )
    turn.answers = start.inbound
    undone = tuple(UndoTurn(each) for work in works for each in work.undo)
    return (*undone, start, *_said(works, turn))


async def put_into(
    turn: RunningTurn, works: tuple[Work, ...], queue: Queue, wake: Callable[[], None]
) -> bool:
    """Record works that were taken from the queue; False, or an error, if they are back in it."""
    rows = _rows(works)
    try:
        await turn.record(TakeInbound(turn_id=turn.id, inbound=rows), *_said(works, turn))
    except BaseException as error:
        queue.put_first(works)
        wake()
        if isinstance(error, Conflict):
            return False  # another process has such a row: its own turn will tell
        raise
    turn.answers += rows
    turn.signal(TurnJoined(turn.id, rows))
    return True


def _rows(works: Sequence[Work]) -> tuple[str, ...]:
    return tuple(work.inbound.id for work in works if work.inbound is not None)


def _said(works: Sequence[Work], turn: RunningTurn) -> tuple[Change, ...]:
    return tuple(
        AddMessage(draft, turn.id, from_person=from_person)
        for draft, from_person in drafts_of(works)
    )
