"""The upkeep of sessions before and after their turns: hooks, compaction, titles, usage.

Tells the hooks, compacts a thread that has become too long, gives a session its title, and records
what that cost. The session's lane decides when the session is free for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from clew.core.channels.session_choice import GREETING
from clew.core.context.compaction import NOTHING
from clew.core.live_events import Notice
from clew.core.message import Draft, Message
from clew.core.names import title_from_prompt
from clew.core.notes import Compacted, Compaction
from clew.core.session import DAY_MS, Retained, Retention, Session, SessionFacts
from clew.core.turn import Lease, Turn
from clew.core.usage import Usage
from clew.errors import ClewError, InvalidInput
from clew.ports import Agent, Clock, Store
from clew.runtime.hooks import HookEvent, Hooks
from clew.runtime.lane.lane import Lanes
from clew.runtime.lane.turn import RunningTurn
from clew.runtime.upkeep.compaction import Compactor
from clew.runtime.upkeep.usage import UsageLedger
from clew.runtime.watch import Bus

FIRST_MESSAGES = 20


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

    async def prepare(self, lease: Lease, coming: Sequence[Draft]) -> None:
        """Before a turn: compact, if the thread has become too long."""
        if self._compactor is not None:
            await self._compactor.prepare(lease, coming)

    async def rescue(self, turn: RunningTurn) -> bool:
        """Compact during a turn whose thread is too long for its model; False if impossible."""
        return self._compactor is not None and await self._compactor.rescue(turn)

    async def turn_started(self, session: Session, turn_id: str) -> None:
        """A turn has begun."""
        await self._tell("turn_start", session, turn_id=turn_id)

    async def turn_ended(self, session: Session, turn: Turn) -> None:
        """A turn has ended. Starts the work after it in the background."""
        task = asyncio.create_task(self._after_turn(session, turn))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _after_turn(self, session: Session, turn: Turn) -> None:
        """The work that closing waits for: the hooks, and a title."""
        if session.title is None and turn.status == "done":
            with contextlib.suppress(ClewError):
                await self._titler.give(session)
        await self._tell("turn_end", session, turn_id=turn.id, status=turn.status)
        with contextlib.suppress(ClewError):
            await self._compact_if_due(session.id)

    async def _tell(self, event: HookEvent, session: Session, **about: str) -> None:
        """Tell the hooks; watchers are told of their failures."""
        payload = {"session_id": session.id, "cwd": session.cwd, "at": self._clock(), **about}
        for notice in await self._hooks.tell(event, payload):
            self._bus.publish(session.id, Notice(notice))

    async def _compact_if_due(self, session_id: str) -> None:
        """Compact after a turn if it is due, while the person reads the answer."""
        if self._compactor is None or self._lanes.count_queued(session_id):
            return  # the next turn checks again
        if await self._compactor.is_due(await self._store.get_session(session_id)):
            self._lanes.do_between(session_id, self._compactor.prepare)

    async def compact(self, session_id: str, instructions: str | None) -> Compacted:
        """Compact for a person. `InvalidInput` if there is too little, or it is stopped."""
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
        """Undo the latest compaction. `LeaseHeld` while a turn runs."""
        await self._lanes.settle(session_id)
        return await self._get_compactor().uncompact(session_id)

    def _get_compactor(self) -> Compactor:
        if self._compactor is None:
            raise InvalidInput("Summaries can't be written here.")
        return self._compactor

    def spend(self, session_id: str, usage: Usage) -> None:
        """Record usage outside of turns, as soon as the session is free."""
        self._ledger.add(session_id, usage)
        self._lanes.do_between(session_id, self._ledger.settle_under, quiet=True)

    async def close(self) -> None:
        """Finish the work after the last turns, when no more turns can start."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._titler.close()
        await self._ledger.settle_all()


class Titler:
    """Gives sessions their titles. `spend` gets the usage of a model's title."""

    def __init__(self, store: Store, agent: Agent, spend: Callable[[str, Usage], None]) -> None:
        self._store = store
        self._agent = agent
        self._spend = spend
        self._giving: set[str] = set()
        self._asking: set[asyncio.Task[None]] = set()

    async def give(self, session: Session) -> None:
        """Set a title from the prompt now, and ask a model for a better one in the background.

        Does nothing if that is already under way: turns may be faster than models.
        """
        if session.id in self._giving:
            return
        self._giving.add(session.id)
        task: asyncio.Task[None] | None = None
        try:
            thread = await self._give_plain(session.id)
            if thread:
                task = asyncio.create_task(self._ask(session, thread))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
                task.add_done_callback(lambda _: self._giving.discard(session.id))
        finally:
            if task is None:
                self._giving.discard(session.id)

    async def _give_plain(self, session_id: str) -> Sequence[Message]:
        """Set the prompt's title. Returns the text for a model's title, None if not needed."""
        # Read again: the title may have been set since the turn began.
        if (await self._store.get_session(session_id)).title is not None:
            return ()
        thread = await self._store.get_messages(session_id, FIRST_MESSAGES)
        prompt = next((each for each in thread if _is_said(each)), None)
        if prompt is None:
            return ()
        if plain := title_from_prompt(prompt.content):
            await self._store.describe_session(session_id, SessionFacts(title=plain))
        return thread

    async def _ask(self, session: Session, thread: Sequence[Message]) -> None:
        # A failure of the model doesn't matter: there is a title already.
        with contextlib.suppress(Exception):
            better = await self._agent.make_title(session.model, thread)
            if better.usage.api_calls:
                # First, because it is paid for even if there is no time left to store the title.
                self._spend(session.id, better.usage)
            if better.text:
                await self._store.describe_session(session.id, SessionFacts(title=better.text))

    async def close(self) -> None:
        """Cancel titles that models have not written yet."""
        for task in self._asking:
            task.cancel()
        if self._asking:
            await asyncio.wait(self._asking)


def _is_said(message: Message) -> bool:
    """Whether a person wrote it, and not `/new`'s greeting, which makes no useful title."""
    return message.role == "user" and message.content != GREETING


class Tidied(msgspec.Struct, frozen=True):
    """What the start-up pass archived or trashed, and what it removed for good."""

    retained: Retained
    purged: tuple[str, ...]


async def tidy(store: Store, policy: Retention, *, trash_days: int, now: int) -> Tidied:
    """Retention, then trash that is older than `trash_days` (0: never)."""
    retained = await store.retain(policy)
    purged: tuple[str, ...] = ()
    if trash_days > 0:
        purged = await store.purge_trash(now - trash_days * DAY_MS)
    return Tidied(retained, purged)
