"""A lane: one session does one thing at a time.

It takes its work in order (`lane.order` says what comes next if other processes wait too), gets the
lease for each piece, and makes the first commit of a turn, with the user messages; then `lane.turn`
runs it to its end. What happens in a turn is up to the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final

import msgspec

from clew.core.changes import AddMessage, Change, EndTurn, StartTurn, TakeInbound, UndoTurn
from clew.core.channels.replies import NO_MEMORY
from clew.core.delivery import Inbound
from clew.core.live_events import NotAnswered, Notice, TurnJoined
from clew.core.turn import Lease, Turn
from clew.errors import ClewError, Conflict, Draining, LeaseHeld, RecordNotFound, StaleLease
from clew.ports import Store
from clew.runtime.commits import heed_cancel, unbroken, whole
from clew.runtime.inbound.inbox import MANY, STORE_TROUBLE, Inbox, is_own
from clew.runtime.lane.lease import Leasing
from clew.runtime.lane.parts import RuntimeParts
from clew.runtime.lane.queue import Chore, Later, Order, Queue, Work, drafts_of, is_quiet
from clew.runtime.lane.turn import RunningTurn, new_turn_id, run_to_end

Abandon = Callable[[Work, BaseException | None], Awaitable[None]]
"""Called for a turn that did not begin, with the error that prevented it."""

TTL_MS: Final = 5_000
"""How long the lease lasts if this process dies without releasing it."""
TRIES: Final = 5


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
        self._joining: tuple[Work, ...] = ()
        """What is being put into the turn that runs."""
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
        """Whether nothing runs or waits here."""
        return self._worker is None or self._worker.done()

    @property
    def waiting(self) -> tuple[Work, ...]:
        """The turns behind the one that runs."""
        return self._queue.works

    def list_held(self) -> list[str]:
        """The messages that wait here, or are in the turn that runs."""
        doing = () if self._doing is None else self._together
        works = (*doing, *self._joining, *self._queue.works)
        return [each.inbound.id for each in works if each.inbound is not None]

    def revise(self, inbound_id: str, text: str) -> bool:
        """Change what a message says; False if it is not here, or its turn has begun."""
        works = self._queue.works if self._has_begun else (*self._together, *self._queue.works)
        for work in works:
            if work.inbound is not None and work.inbound.id == inbound_id and len(work.drafts) == 1:
                work.drafts = (msgspec.structs.replace(work.drafts[0], content=text),)
                return True
        return False

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
        """Abort the running turn. A turn that is about to begin takes the new message along."""
        if self._running is not None and self._has_begun:
            self._running.cancel()

    def do(
        self, run: Callable[[Lease], Awaitable[Any]], *, quiet: bool = False
    ) -> asyncio.Future[Any]:
        """Add work that is not a turn (`Chore`). Its result need not be awaited."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda each: each.cancelled() or each.exception())
        self.put(Chore(done=done, run=run, quiet=quiet))
        return done

    async def stop(self, *, closing: bool = False) -> bool:
        """Abort the turn that runs or is about to, and wait until its end is stored.

        `closing`: the process ends, and no person stopped the turn. If the answer must be
        delivered, the next gateway continues the turn.
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
        """Take back work that has not begun, or only the messages with these ids."""
        self._cleared.set()
        return self._queue.clear() if only is None else self._queue.take_out(only)

    async def settle(self) -> None:
        """Wait until a turn that has ended has released the session: that takes a moment."""
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
            # The lane is idle before the turn's future is done: its caller may undo it at once.
            self._running = self._doing = self._turn = self.turn_id = None
            if not isinstance(error, Later):
                for done in dict.fromkeys((work.done, *(each.done for each in together))):
                    _settle(done, running)
            over.set()

    async def _give_up(self, works: list[Work], error: BaseException | None) -> None:
        """Abandon a turn that did not begin, or could not store its end.

        Watchers are told only of one that did not begin.
        """
        for each in works:
            with contextlib.suppress(ClewError):
                await self._abandon(each, error)
        ids = tuple(each.inbound.id for each in works if each.inbound is not None)
        if ids and not self._has_begun and not self._closing:
            told = NotAnswered(ids, None if error is None else str(error))
            self._parts.bus.publish(self.session_id, told)

    async def _let_settle(self) -> None:
        """Wait for more messages that should be answered together (`settle_s`)."""
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
            prepare = self._parts.around_turns.prepare(lease, work.drafts)
            await self._leasing.while_kept(lease, prepare)
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
                scopes=work.scopes,
                attended=work.attended,
                memory=work.memory,
                asker=work.asker,
                steer=self._steer,
            )
            early = await self._order.find_early(work)
            heed_cancel()
            # No await from here to the commit, except the commit itself (`_interrupt`).
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
        """A function that tells watchers, once, that another process is busy with the session."""
        notices = [Notice("Another process is busy with this session; this waits for its turn.")]

        def tell() -> None:
            while notices:
                self._parts.bus.publish(self.session_id, notices.pop())

        return tell

    async def _steer(self, turn: RunningTurn) -> bool:
        """Add new messages to the running turn; those that can't join keep their place."""
        early = await self._order.find_early()
        together = self._together
        works = self._joining = self._queue.take_steering(
            turn.person, turn.scopes, turn.reply_to, memory=turn.writes_memory, but=early
        )

        async def put() -> bool:
            try:
                is_in = await put_into(turn, works, self._queue, self._wake)
                together.extend(works if is_in else ())
            finally:
                self._joining = ()
            return is_in

        return bool(works) and await unbroken(put())


def _settle(done: asyncio.Future[Any], running: asyncio.Task[Any]) -> None:
    """Set the result for those who wait for the turn."""
    if done.done():
        return
    if running.cancelled():
        done.cancel()
    elif (error := running.exception()) is not None:
        done.set_exception(error)
        done.exception()  # nobody has to read the error
    else:
        done.set_result(running.result())


def _keep_reply_to(turn: RunningTurn) -> dict[str, Any] | None:
    """The reply address for the row of a turn; without one, whether it may write memory."""
    if turn.reply_to is not None:
        kept: dict[str, Any] = msgspec.to_builtins(turn.reply_to)
        return kept
    return None if turn.writes_memory else NO_MEMORY


def opening(works: Sequence[Work], turn: RunningTurn) -> tuple[Change, ...]:
    """The changes of the turn's first commit: its row, and the user messages."""
    turn.reply_to = works[-1].reply_to
    if turn.reply_to is not None:
        # Stored, because a process that continues the turn after a crash needs it.
        attended = works[-1].attended
        turn.reply_to = msgspec.structs.replace(
            turn.reply_to,
            attended=attended,
            scopes=turn.scopes,
            memory=turn.writes_memory,
        )
    start = StartTurn(
        turn_id=turn.id,
        model=turn.session.model,
        reply_to=_keep_reply_to(turn),
        inbound=_rows(works),
    )
    turn.answers = start.inbound
    undone = tuple(UndoTurn(each) for work in works for each in work.undo)
    return (*undone, start, *_said(works, turn))


async def put_into(
    turn: RunningTurn, works: tuple[Work, ...], queue: Queue, wake: Callable[[], None]
) -> bool:
    """Record works taken from the queue into a turn; otherwise they are put back."""
    rows = _rows(works)
    try:
        await turn.record(TakeInbound(turn_id=turn.id, inbound=rows), *_said(works, turn))
    except BaseException as error:
        queue.put_first(works)
        wake()
        if isinstance(error, Conflict):
            return False  # another process has one of these rows: they get a turn of their own
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


class Lanes:
    """The lanes of all sessions in which this process is at work."""

    def __init__(self, inbox: Inbox, make: Callable[[str, Abandon], Lane]) -> None:
        self.is_closing = False
        self.is_draining = False
        """Nothing new is accepted, and what runs is finished."""
        self._inbox = inbox
        self._make = make
        self._lanes: dict[str, Lane] = {}

    def get(self, session_id: str) -> Lane:
        """The lane of a session; made if there is none."""
        if session_id not in self._lanes:
            # Idle lanes are dropped when a new one is made.
            self._lanes = {key: lane for key, lane in self._lanes.items() if not lane.is_idle}
            self._lanes[session_id] = self._make(session_id, self._abandon)
        return self._lanes[session_id]

    def find(self, session_id: str) -> Lane | None:
        """The lane of a session, if there is one."""
        return self._lanes.get(session_id)

    def is_held(self, inbound_id: str) -> bool:
        """Whether this process works on a message: it is in a lane, or on its way there."""
        return self._inbox.is_arriving(inbound_id) or inbound_id in self.list_held()

    def list_held(self) -> frozenset[str]:
        """The messages that are in a lane."""
        return frozenset(each for lane in self._lanes.values() for each in lane.list_held())

    def refuse_if_closing(self) -> None:
        """Raise `Conflict` while closing, and `Draining` before that."""
        if self.is_draining:
            raise Draining
        if self.is_closing:
            raise Conflict("clew is closing: nothing new begins here. Start it again.")

    def do_between(
        self, session_id: str, run: Callable[[Lease], Awaitable[Any]], *, quiet: bool = False
    ) -> None:
        """Run a chore as soon as the session is free; refused while closing."""
        if not self.is_closing:
            self.get(session_id).do(run, quiet=quiet)

    def list_running(self) -> tuple[str, ...]:
        """The sessions that are not idle."""
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
        """Wait for a turn that has ended to release the session, and for quiet chores."""
        lane = self._lanes.get(session_id)
        if lane is not None:
            await lane.settle()
            if not lane.busy:
                await lane.join()

    # --- what leaves without a turn -------------------------------------------------------------

    async def take_back(
        self, session_id: str, only: Collection[str] | None = None
    ) -> tuple[Inbound, ...]:
        """Take queued messages, or those with these ids, out of lane and inbox."""
        taken = self._clear(session_id, only)
        await self._inbox.take_back(*taken)
        return taken

    async def put_back(self, session_id: str) -> None:
        """Take queued messages out of the lane; they stay in the inbox."""
        await self._inbox.put_back(*self._clear(session_id))

    async def hold_back(self, session_id: str) -> None:
        """Begin nothing in the session until `let_go_on`; other processes may take what waits."""
        lane = self._lanes.get(session_id)
        if lane is not None:
            lane.pause()
            await self._inbox.put_back(*_list_messages(lane.waiting))

    def let_go_on(self, session_id: str, *, without_queue: bool = False) -> None:
        """End `hold_back`. `without_queue`: messages that waited stay in the inbox."""
        lane = self._lanes.get(session_id)
        if lane is not None:
            if without_queue:
                lane.clear()
            lane.resume()

    def _clear(self, session_id: str, only: Collection[str] | None = None) -> tuple[Inbound, ...]:
        lane = self._lanes.get(session_id)
        return () if lane is None else _list_messages(lane.clear(only))

    async def _abandon(self, work: Work, error: BaseException | None) -> None:
        """Handle a turn that did not begin: drop its message if a person stopped it, else keep it.

        Changes nothing for a turn that had begun: its message is no longer in the inbox.
        """
        if work.inbound is None:
            return
        if self.is_closing or error is not None:
            await self._inbox.put_back(work.inbound)
        else:
            await self._inbox.take_back(work.inbound)
        if isinstance(error, STORE_TROUBLE):
            self._inbox.trouble.set()

    async def close(self) -> None:
        """Abort running turns and put back what has not begun; accepts nothing more."""
        self.is_closing = True
        for session_id, lane in tuple(self._lanes.items()):
            await self.put_back(session_id)
            lane.resume()  # a switch to another session may have paused it
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
    """The turn that a live process runs."""
    turns = await store.list_turns(session_id, limit=1)
    return next((each for each in turns if each.ended_at is None), None)


async def _abort(store: Store, turn: Turn) -> bool:
    """End a turn under a lease taken from the process that runs it; False to try again."""
    lease = await store.find_lease(turn.session_id)
    if lease is None:
        await store.interrupt_turns(turn.session_id)  # no process runs it any more
        return False
    try:
        # Taken over in the holder's name, so that no third process can get it in between.
        taken = await store.acquire_lease(turn.session_id, lease.holder, ttl=TTL_MS)
    except LeaseHeld:
        return False
    try:
        end = EndTurn(turn_id=turn.id, status="aborted")
        await store.record(turn.session_id, taken.epoch, end)
    except (StaleLease, RecordNotFound):
        return False  # it has ended, or another process has taken over
    finally:
        await store.release_lease(taken)
    return True


async def take_back_elsewhere(
    store: Store, session_id: str, only: Collection[str] | None = None
) -> tuple[Inbound, ...]:
    """Remove messages from the inbox that other processes have not begun, or only these ids."""
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
