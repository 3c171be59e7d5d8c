"""The upkeep of sessions around their turns: what no turn does, and every turn leaves to do.

Hooks are told, a thread that has become too long is compacted, a session without a title is given
one, and what all this took is booked. When a session is free for it, its lane knows.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from clew.core.context.compaction import NOTHING, Compacted
from clew.core.live_events import Notice
from clew.core.notes import Compaction
from clew.core.session import Session
from clew.core.turn import Lease, Turn
from clew.core.usage import Usage
from clew.errors import ClewError, InvalidInput
from clew.ports import Agent, Clock, Store
from clew.runtime.hooks import HookEvent, Hooks
from clew.runtime.lane.lanes import Lanes
from clew.runtime.lane.turn import RunningTurn
from clew.runtime.upkeep.compaction import Compactor
from clew.runtime.upkeep.titles import Titler
from clew.runtime.upkeep.usage import UsageLedger
from clew.runtime.watch import Bus


class Upkeep:
    """What is done before and after the turns of a runtime."""

    def __init__(
        self,
        store: Store,
        agent: Agent,
        lanes: Lanes,
        *,
        bus: Bus,
        clock: Clock,
        hooks: Hooks,
        ledger: UsageLedger,
        compactor: Compactor | None,
    ) -> None:
        self._store = store
        self._lanes = lanes
        self._bus = bus
        self._clock = clock
        self._hooks = hooks
        self._ledger = ledger
        self._compactor = compactor
        self._titler = Titler(store, agent, self.spend)
        self._tasks: set[asyncio.Task[None]] = set()

    async def prepare(self, lease: Lease, coming: int) -> None:
        """Before a turn: compact, if the thread has become too long."""
        if self._compactor is not None:
            await self._compactor.prepare(lease, coming=coming)

    async def rescue(self, turn: RunningTurn) -> bool:
        """In a turn whose thread is too long for its model: compact; False if that can't be."""
        return self._compactor is not None and await self._compactor.rescue(turn)

    async def turn_started(self, session: Session, turn_id: str) -> None:
        """A turn has begun."""
        await self._tell("turn_start", session, turn_id=turn_id)

    async def turn_ended(self, session: Session, turn: Turn) -> None:
        """A turn has its end. What is to be done then runs beside what comes next."""
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

    async def _tell(self, event: HookEvent, session: Session, **about: str) -> None:
        """Tell the hooks; what goes wrong with them is told to the watchers."""
        payload = {"session_id": session.id, "cwd": session.cwd, "at": self._clock(), **about}
        for notice in await self._hooks.tell(event, payload):
            self._bus.publish(session.id, Notice(notice))

    async def _compact_if_due(self, session_id: str) -> None:
        """After a turn: the person reads the answer meanwhile."""
        if self._compactor is None or self._lanes.count_queued(session_id):
            return  # the next turn looks for itself
        if await self._compactor.is_due(await self._store.get_session(session_id)):
            self._lanes.do_between(session_id, self._compactor.prepare)

    async def compact(self, session_id: str, instructions: str | None) -> Compacted:
        """Compact at a person's wish. `InvalidInput` if there is too little, or it is stopped."""
        compactor = self._get_compactor()
        self._lanes.refuse_if_closing()
        run = partial(compactor.compact_under, instructions=instructions)
        done = self._lanes.get(session_id).do(run)
        await asyncio.wait({done})
        if done.cancelled():
            raise InvalidInput("Compacting was stopped; the conversation is as it was.")
        made: Compacted | None = done.result()
        if made is None:
            raise InvalidInput(NOTHING)
        return made

    async def uncompact(self, session_id: str) -> Compaction:
        """Take the latest compaction back. `LeaseHeld` while a turn runs."""
        await self._lanes.settle(session_id)
        return await self._get_compactor().uncompact(session_id)

    def _get_compactor(self) -> Compactor:
        if self._compactor is None:
            raise InvalidInput("Nobody here can write summaries.")
        return self._compactor

    def spend(self, session_id: str, usage: Usage) -> None:
        """Something beside the turns was paid for: book it as soon as the session is free."""
        self._ledger.add(session_id, usage)
        self._lanes.do_between(session_id, self._ledger.settle_under, quiet=True)

    async def close(self) -> None:
        """Finish what the last turns left to do, when no more of them come."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._titler.close()
        await self._ledger.settle_all()
