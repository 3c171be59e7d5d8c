"""The live events of a session, for its watchers in this process.

Events of this process are published on the bus, which remembers nothing; writes of other processes
are read from the store a few times a second. Each message comes once and in order, whichever
process wrote it; a watcher that is too slow loses hints, never messages.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager

from clew.core.live_events import (
    ApprovalAsked,
    ApprovalDecided,
    Committed,
    Event,
    TurnEnded,
    TurnJoined,
    TurnStarted,
)
from clew.core.message import Message
from clew.core.turn import Approval, Turn
from clew.errors import ClewError
from clew.ports import Store

BACKLOG = 4096
"""Events that may wait for one watcher."""

Mailbox = asyncio.Queue[Event]

LOOK = 0.25
"""Seconds between two checks for writes of other processes."""

FindOwn = Callable[[str], str | None]
"""The turn that this process runs in a session, if any."""


class Bus:
    """Passes events of this process to the watchers of each session."""

    def __init__(self) -> None:
        self._mailboxes: defaultdict[str, set[Mailbox]] = defaultdict(set)
        self._observers: list[Callable[[str, Event], None]] = []

    def publish(self, session_id: str, event: Event) -> None:
        """Give an event to all watchers of the session. Never waits."""
        for mailbox in self._mailboxes.get(session_id, ()):
            if not mailbox.full():
                mailbox.put_nowait(event)
        for observe in self._observers:
            observe(session_id, event)

    @contextmanager
    def observe(self, observer: Callable[[str, Event], None]) -> Iterator[None]:
        """Call a function with each event of every session. It must not wait, nor raise."""
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)

    @contextmanager
    def subscribe(self, session_id: str) -> Iterator[Mailbox]:
        """A mailbox for the session's events from now on."""
        mailbox = Mailbox(BACKLOG)
        self._mailboxes[session_id].add(mailbox)
        try:
            yield mailbox
        finally:
            self._mailboxes[session_id].discard(mailbox)
            if not self._mailboxes[session_id]:
                del self._mailboxes[session_id]


async def follow(
    store: Store, session_id: str, after: int, mailbox: Mailbox, find_own: FindOwn
) -> AsyncIterator[Event]:
    """Every message after that number, and the events of the mailbox; never ends."""
    watch = _Watch(store, session_id, after, find_own)
    for event in await watch.begin(mailbox):
        yield event
    while True:
        try:
            # Not `wait_for`, which loses a cancellation that comes together with an event.
            async with asyncio.timeout(LOOK):
                event = await mailbox.get()
        except TimeoutError:
            events = await watch.look()
        else:
            events = await watch.take(event)
        for event in events:
            yield event


async def find_newest(store: Store, session_id: str) -> TurnStarted | TurnEnded | None:
    """The event that describes the newest turn, of this or another process."""
    for turn in await store.list_turns(session_id, limit=1):
        return _describe(turn, await list_answers(store, turn.id))
    return None


async def list_answers(store: Store, turn_id: str) -> tuple[str, ...]:
    """The ids of the inbox messages that a turn answers."""
    return tuple(row.id for row in await store.list_taken_inbound(turn_id))


def _describe(turn: Turn, answers: tuple[str, ...]) -> TurnStarted | TurnEnded:
    if turn.ended_at is None:
        return TurnStarted(turn.id, turn.model, answers)
    return TurnEnded(turn, answers)


class _Watch:
    """What one watcher was already told."""

    def __init__(self, store: Store, session_id: str, after: int, find_own: FindOwn) -> None:
        self._store = store
        self._session_id = session_id
        self._after = after
        self._find_own = find_own
        self._pulse = 0
        self._turn: Turn | None = None
        self._answers: tuple[str, ...] = ()
        """The inbox ids that another process's turn answers, as far as known."""
        self._ended: str | None = None
        self._asked: dict[str, Approval] = {}

    async def begin(self, mailbox: Mailbox) -> list[Event]:
        """The events so far, with this process's open questions: late watchers may answer."""
        self._pulse = await self._store.pulse()
        self._turn = await self._find_newest()
        if self._turn is not None and self._turn.ended_at is None:
            self._answers = await list_answers(self._store, self._turn.id)
        before = self._after
        messages = await self._catch_up()
        messages = self._leave(messages, _find_first(mailbox, before))
        waiting = await self._store.list_approvals(self._session_id)
        return [*messages, *self._ask(await self._running(waiting))]

    def _leave(self, caught_up: list[Event], first: int | None) -> list[Event]:
        """The events read from the store, without messages that are also in the mailbox.

        In the mailbox such a message comes in its place, after its deltas.

        `first` is the number of the first message in the mailbox.
        """
        if first is None or first > self._after:
            return caught_up
        self._after = first - 1
        self._pulse = -1  # others may have written after it: look again once the mailbox is empty
        return [e for e in caught_up if not isinstance(e, Committed) or e.message.seq < first]

    async def take(self, event: Event) -> list[Event]:
        """Handle an event that this process has published."""
        match event:
            case Committed(message):
                return await self._place(message)
            case TurnStarted(turn_id) if turn_id == self._ended:
                return []  # `look` already reported its end
            case TurnEnded(turn):
                if turn.id == self._ended:
                    return []
                self._turn = turn
            case ApprovalAsked(approval):
                return self._ask([approval])
            case ApprovalDecided(approval):
                self._asked.pop(approval.id, None)
            case _:
                pass
        return [event]

    async def look(self) -> list[Event]:
        """The events of other processes since the last time."""
        if self._pulse == (pulse := await self._store.pulse()):
            return []
        self._pulse = pulse
        waiting = await self._store.list_approvals(self._session_id)
        events = await self._withdraw(waiting)
        newest = await self._find_newest()
        events += await self._catch_up()
        if newest is not None and self._find_own(self._session_id) is None:
            events += await self._tell(newest, events)
        others = [each for each in waiting if not self._is_ours(each.turn_id)]
        return [*events, *self._ask(await self._running(others))]

    async def _tell(self, newest: Turn, caught_up: Sequence[Event]) -> list[Event]:
        """The news about another process's turn."""
        known, is_open = self._turn, newest.ended_at is None
        is_same = known is not None and known.id == newest.id
        if is_same and known is not None and known.ended_at is not None:
            return []  # an end that was reported stays, even if it could not be stored
        if is_same and is_open:
            return await self._join(newest) if _has_said(caught_up, newest) else []
        self._turn = newest
        self._answers = await list_answers(self._store, newest.id)
        self._ended = self._ended if is_open else newest.id
        return [_describe(newest, self._answers)]

    async def _join(self, turn: Turn) -> list[Event]:
        known, self._answers = self._answers, await list_answers(self._store, turn.id)
        joined = tuple(each for each in self._answers if each not in known)
        return [TurnJoined(turn.id, joined)] if joined else []

    def _is_ours(self, turn_id: str) -> bool:
        return self._find_own(self._session_id) == turn_id

    async def _find_newest(self) -> Turn | None:
        turns = await self._store.list_turns(self._session_id, limit=1)
        return turns[0] if turns else None

    async def _catch_up(self) -> list[Event]:
        missed = await self._store.get_messages(self._session_id, after=self._after)
        if missed:
            self._after = missed[-1].seq
        return [Committed(message) for message in missed]

    async def _place(self, message: Message) -> list[Event]:
        if message.seq == self._after + 1:
            self._after += 1
            return [Committed(message)]
        return await self._catch_up() if message.seq > self._after else []

    # --- questions ------------------------------------------------------------------------------

    async def _running(self, waiting: Sequence[Approval]) -> Sequence[Approval]:
        """The questions, if a process runs the session; without one no turn waits for an answer."""
        alive = waiting and await self._store.find_lease(self._session_id) is not None
        return waiting if alive else ()

    def _ask(self, approvals: Sequence[Approval]) -> list[Event]:
        new = [each for each in approvals if each.id not in self._asked]
        self._asked |= {each.id: each for each in new}
        return [ApprovalAsked(each) for each in new]

    async def _withdraw(self, waiting: Sequence[Approval]) -> list[Event]:
        """Report questions that no longer wait: they were answered or have expired."""
        there = {each.id for each in waiting}
        events: list[Event] = []
        for each in tuple(self._asked.values()):
            if each.id in there or self._is_ours(each.turn_id):
                continue
            del self._asked[each.id]
            with contextlib.suppress(ClewError):
                # The first answer stays: if there is one, this only reads it.
                decided = await self._store.decide_approval(each.id, "no", by="expired")
                events.append(ApprovalDecided(decided))
        return events


def _has_said(events: Sequence[Event], turn: Turn) -> bool:
    """Whether the events have a user message of that turn."""
    messages = [each.message for each in events if isinstance(each, Committed)]
    return any(each.role == "user" and each.turn_id == turn.id for each in messages)


def _find_first(mailbox: Mailbox, after: int) -> int | None:
    """The number of the first new message in a mailbox; takes nothing out of it."""
    waiting = [mailbox.get_nowait() for _ in range(mailbox.qsize())]
    for event in waiting:
        mailbox.put_nowait(event)
    found = (each.message.seq for each in waiting if isinstance(each, Committed))
    return next((seq for seq in found if seq > after), None)
