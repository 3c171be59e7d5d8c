"""The queue of a session: in which order messages are answered, and which of them together.

Every message is durable before it is queued. The lane decides when a turn runs, the turn what it
records, and the lease who may run turns.

Several processes may accept messages for one session. Messages are answered in the order of the
inbox, whichever process has them (`Order`): a lane waits for earlier messages of other processes,
and first adopts messages and cut-off turns that a dead process left. It does not wait forever: a
live process that does nothing is passed over, and answers its messages when it wakes up.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final

import msgspec

from clew.core.channels.replies import ReplyTo
from clew.core.decision import follows_key
from clew.core.delivery import Inbound
from clew.core.message import Draft
from clew.core.names import counted
from clew.core.session import Session
from clew.core.text import cut
from clew.core.tokens import Scopes
from clew.core.turn import Lease, QueueMode, Turn
from clew.errors import SessionNotFound
from clew.runtime.inbound.inbox import MANY, is_own
from clew.runtime.lane.parts import RuntimeParts
from clew.runtime.lane.turn import Asker

CAP: Final = 20
"""How many messages are answered together in full; older ones are shortened to a line."""
LINE: Final = 200
"""Columns of such a line."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """Another attempt at a turn; it is not a message and has no inbox row.

    Without drafts it continues at the end of the thread; with drafts it sends these again, in place
    of the turns that it undoes. `after` is the cut-off turn that it continues; if another process
    already did, nothing happens.
    """

    person: str
    scopes: Scopes
    drafts: tuple[Draft, ...] = ()
    undo: tuple[str, ...] = ()
    after: str | None = None
    attended: bool = True
    memory: bool = True
    model: str | None = None
    reply_to: ReplyTo | None = None


class Work(msgspec.Struct, kw_only=True):
    """One turn to run: a message of the inbox, or another `Attempt`.

    `settle_s`: if it comes while another turn runs and may be answered together with later
    messages, it waits until no message came for so many seconds. `from_person`: a person wrote it,
    and not a job or a webhook. `scopes`: what it was accepted with. They decide the turn's tools,
    and so does `memory`: whether it may write memory. Only messages that are equal in both share a
    turn.
    """

    done: asyncio.Future[Turn]
    drafts: tuple[Draft, ...] = ()
    inbound: Inbound | None = None
    undo: tuple[str, ...] = ()
    after: str | None = None
    person: str
    scopes: Scopes
    attended: bool = True
    from_person: bool = True
    memory: bool = True
    model: str | None = None
    asker: Asker | None = None
    queue: QueueMode = "followup"
    reply_to: ReplyTo | None = None
    settle_s: float = 0.0


def work_of(attempt: Attempt) -> Work:
    """An attempt as work for a lane."""
    done: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
    return Work(done=done, **msgspec.structs.asdict(attempt))


class Chore(msgspec.Struct, kw_only=True):
    """Other work that needs the session for itself, between turns. It gets the lease.

    A `quiet` one takes only a moment, and the lane counts as free during it.
    """

    done: asyncio.Future[Any]
    run: Callable[[Lease], Awaitable[Any]]
    quiet: bool = False


def is_quiet(work: Work | Chore | None) -> bool:
    """Whether the lane counts as free while it runs."""
    return work is None or (isinstance(work, Chore) and work.quiet)


class Queue:
    """The work that has not begun, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[Work | Chore] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def works(self) -> tuple[Work, ...]:
        """The turns in the queue."""
        return tuple(each for each in self._waiting if isinstance(each, Work))

    @property
    def is_quiet(self) -> bool:
        """Whether all work in the queue is quiet, so that the lane counts as free."""
        return all(map(is_quiet, self._waiting))

    @property
    def is_collecting(self) -> bool:
        """Whether the next message may be answered together with later ones."""
        first = next((each for each in self._waiting if not is_quiet(each)), None)
        return isinstance(first, Work) and first.queue == "collect"

    def put(self, work: Work | Chore) -> None:
        """Add work at the end."""
        self._waiting.append(work)

    def put_first(self, works: Iterable[Work]) -> None:
        """Put works back to the front, in their order."""
        self._waiting.extendleft(reversed(tuple(works)))

    def take(self) -> Work | Chore:
        """Take the next work."""
        return self._waiting.popleft()

    def sort(self, ids: Sequence[str]) -> None:
        """Sort messages into the order of these ids; all other work keeps its place."""
        order = {each: position for position, each in enumerate(ids)}
        sorted_works = iter(sorted(_known(self.works, order), key=lambda work: order[_id(work)]))
        known = set(map(_id, _known(self.works, order)))
        self._waiting = deque(
            next(sorted_works) if isinstance(each, Work) and _id(each) in known else each
            for each in self._waiting
        )

    def take_along(self, first: Work, *, but: Collection[str] = ()) -> tuple[Work, ...]:
        """Take the messages that share a turn with the first one, which is about to begin.

        These are messages that collect or steer like the first. A message that would interrupt it
        joins too, with all before it, since nothing has been done yet. Stops at the messages in
        `but`, which can't be answered yet.
        """
        together: list[Work] = []
        count, alike = 0, first.queue in ("collect", "steer")
        for each in (each for each in self._waiting if not is_quiet(each)):
            if not isinstance(each, Work) or not _may_join(first, each) or _id(each) in but:
                break
            together.append(each)
            alike = alike and each.queue == first.queue
            if alike or each.queue == "interrupt":
                count = len(together)
        return self._remove(together[:count])

    def take_steering(
        self,
        person: str,
        scopes: Scopes,
        reply_to: ReplyTo | None = None,
        *,
        memory: bool = True,
        but: Collection[str] = (),
    ) -> tuple[Work, ...]:
        """Take the messages that join a running turn of this person; others' never join it.

        Nor do messages that were accepted with other scopes. A message from another conversation
        is answered there, so it waits for a turn of its own.
        """
        return self._remove(
            [
                each
                for each in self.works
                if each.queue == "steer"
                and (each.person, each.scopes, each.memory) == (person, scopes, memory)
                and _is_message(each)
                and place_of(each.reply_to) == place_of(reply_to)
                and _id(each) not in but
            ]
        )

    def clear(self) -> tuple[Work, ...]:
        """Take back all work, and cancel its futures."""
        works = self.works
        for each in self._waiting:
            each.done.cancel()
        self._waiting.clear()
        return works

    def take_out(self, ids: Collection[str]) -> tuple[Work, ...]:
        """Take back only these messages, and cancel their futures."""
        named = [each for each in self.works if each.inbound is not None and each.inbound.id in ids]
        for each in named:
            each.done.cancel()
        return self._remove(named)

    def _remove(self, works: list[Work]) -> tuple[Work, ...]:
        for each in works:
            self._waiting.remove(each)
        return tuple(works)


def _id(work: Work) -> str:
    return "" if work.inbound is None else work.inbound.id


def _known(works: Iterable[Work], order: dict[str, int]) -> list[Work]:
    return [each for each in works if _id(each) in order]


def drafts_of(works: Sequence[Work]) -> list[tuple[Draft, bool]]:
    """The drafts of one turn, each with whether a person wrote it; shortens if too many."""
    over = max(0, len(works) - CAP) if all(each.queue == "collect" for each in works) else 0
    said = [(draft, work.from_person) for work in works[over:] for draft in work.drafts]
    if not over:
        return said
    shortened = [draft for work in works[:over] for draft in work.drafts]
    lines = [f"- {cut(' '.join(draft.content.split()), LINE)}" for draft in shortened]
    note = f"({counted(over, 'earlier message')}, shortened: too many were waiting.)"
    parts = tuple(part for draft in shortened for part in draft.parts)
    whole = Draft(role="user", content="\n".join([note, *lines]), parts=parts)
    return [(whole, any(each.from_person for each in works[:over])), *said]


def _may_join(first: Work, each: Work) -> bool:
    alike = _rights(first) == _rights(each) and first.model == each.model
    together = alike and place_of(first.reply_to) == place_of(each.reply_to)
    return together and _is_message(first) and _is_message(each)


def _rights(work: Work) -> tuple[str, Scopes, bool, bool]:
    return (work.person, work.scopes, work.attended, work.memory)


def place_of(reply_to: ReplyTo | None) -> tuple[str, str, str] | None:
    """The conversation where the answer is expected, besides the thread."""
    return None if reply_to is None else reply_to.place


def _is_message(work: Work) -> bool:
    """Whether it is an ordinary message: not another attempt, and not a sub-agent's task."""
    return work.inbound is not None and not work.undo and work.asker is None


PERSONS: Final = ("cli", "spawn")
"""Channels whose messages no other process takes over: messages of a dead terminal wait until the
person confirms them, those of a dead sub-agent are never run.
"""

YOUNG_MS: Final = 600_000
"""Two gateways may begin one session at the same time; then a message may have another session's id
in its row. This long after a session began, such rows no longer occur.
"""

LOOK: Final = 0.2
"""Seconds between two checks of what comes next."""

OWN: Final = 1.0
"""Seconds that a message of this process may take from the inbox to its lane."""

TRIES: Final = 3
"""How often a message is adopted; after that it is passed over, because it can't be started."""


class Waiting(msgspec.Struct, frozen=True):
    """The messages that wait for a session: all, and those not in this process's lane."""

    ids: tuple[str, ...]
    others: tuple[Inbound, ...]

    def list_before(self, inbound_id: str) -> tuple[str, ...]:
        """The messages before this one; none if it does not wait itself."""
        known = inbound_id in self.ids
        return self.ids[: self.ids.index(inbound_id)] if known else ()

    def find_elsewhere(self, inbound_id: str) -> tuple[Inbound, ...]:
        """The messages before this one that are not in the lane."""
        earlier = set(self.list_before(inbound_id)) if self.others else ()
        return tuple(each for each in self.others if each.id in earlier)

    def list_ready(self, here: Collection[str]) -> frozenset[str]:
        """Messages of the lane that have no other process's message before them."""
        bar = self.ids.index(self.others[0].id) if self.others else len(self.ids)
        return frozenset(here).intersection(self.ids[:bar])


class Later(Exception):  # no error
    """Raised if an earlier message is in this lane too: the work has to wait for it."""

    def __init__(self, *first: Work, order: Sequence[str] = ()) -> None:
        super().__init__("something comes first")
        self.first = first
        self.order = order


class Order:
    """What comes next in one session, as one lane sees it."""

    def __init__(
        self,
        parts: RuntimeParts,
        session_id: str,
        queue: Queue,
        list_begun: Callable[[], Sequence[Work]],
    ) -> None:
        """`list_begun`: the work that the lane has taken out of the queue and runs."""
        self._parts = parts
        self._store = parts.store
        self._session_id = session_id
        self._queue = queue
        self._list_begun = list_begun
        self._patience = parts.lease_ms / 1000
        """Seconds in which another process has to begin its message."""
        self._passed: set[str] = set()
        """Messages that are passed over."""
        self._tries: Counter[str] = Counter()
        self._attempted: set[str] = set()
        """Turns that were cut off and are continued here."""
        self._session: Session | None = None
        """Read once, for what never changes: its key, and when it began."""

    # --- what of this lane may begin --------------------------------------------------------------

    async def let_pass(self, work: Work, tell: Callable[[], None]) -> None:
        """Wait for earlier messages of other processes; `Later` if one is in this lane."""
        if work.inbound is None:
            return
        await self._wait(work.inbound.id, tell)

    async def check_place(self, work: Work, newest: Turn | None) -> None:
        """Check that a cut-off turn is continued before anything new, and only once."""
        is_cut_off = newest is not None and newest.status == "interrupted"
        if work.after is not None:
            if not is_cut_off or newest is None or newest.id != work.after:
                raise asyncio.CancelledError  # another process was quicker
        elif newest is not None and is_cut_off and work.inbound is not None:
            if newest.id in self._attempted:
                return  # it could not be continued, so the new message may begin
            first = await self._parts.find_cut_off(newest)
            if first is not None:
                self._attempted.add(newest.id)
                raise Later(work_of(first))

    async def find_early(self, first: Work | None = None) -> frozenset[str]:
        """Messages that wait here but can't join this turn.

        Another process has an earlier message, or has taken them back. If that may be true of the
        first one, none of them joins.
        """
        while works := self._queue.works:
            waiting = await self._look()
            if works == self._queue.works:
                self._queue.sort(waiting.ids)  # what was adopted is at its end
                ids = _ids(works)
                row = None if first is None else first.inbound
                is_gone = row is not None and row.id not in waiting.ids
                return ids if is_gone else ids - waiting.list_ready(ids)
        return frozenset()

    def _list_here(self) -> frozenset[str]:
        """The messages in the lane: those it has begun, and those that wait."""
        return _ids((*self._list_begun(), *self._queue.works))

    # --- what waits in this lane and in other processes -------------------------------------------

    async def _look(self) -> Waiting:
        """The messages that wait for the session, in order."""
        here = self._list_here()
        rows = [row for row in await self._list() if row.id in here or self._counts(row)]
        others = tuple(row for row in rows if row.id not in here)
        return Waiting(tuple(row.id for row in rows), others)

    async def _wait(self, inbound_id: str, tell: Callable[[], None]) -> None:
        """Wait until no other process has an earlier message. Calls `tell` if it takes time.

        `Later` as soon as an earlier one is in this lane: another process may wait for that one.
        """
        loop = asyncio.get_running_loop()
        since = loop.time()
        seen: tuple[str, ...] = ()
        while True:
            waiting = await self._look()
            if not _ids(self._queue.works).isdisjoint(waiting.list_before(inbound_id)):
                raise Later(order=waiting.ids)
            earlier = waiting.find_elsewhere(inbound_id)
            if not earlier:
                return
            if await self._take_over(earlier):
                continue
            names = tuple(each.id for each in earlier)
            if names != seen or await self._store.find_lease(self._session_id) is not None:
                since, seen = loop.time(), names
            own = [each for each in earlier if is_own(self._store, each)]
            limit = OWN if len(own) == len(earlier) else self._patience
            if loop.time() - since > limit:
                self._passed.update(names)
                continue
            tell()
            await asyncio.sleep(LOOK)

    async def _take_over(self, earlier: Collection[Inbound]) -> bool:
        """Adopt messages that no live process has, or pass them over; False if one has to wait."""
        is_other = False
        for row in earlier:
            if not await self._is_left(row):
                continue
            adopted = None if row.channel in PERSONS else await self._parts.adopt(row)
            if adopted is False:
                continue  # another process was quicker
            is_other = True
            self._tries[row.id] += 1
            if adopted is None or self._tries[row.id] >= TRIES:
                self._passed.add(row.id)
        return is_other

    async def _is_left(self, row: Inbound) -> bool:
        if is_own(self._store, row):
            return not self._parts.is_held(row.id)  # the store failed between claim and turn
        return row.claimant is None or not await self._store.is_living(row.claimant)

    def _counts(self, row: Inbound) -> bool:
        is_persons = row.claimant is None and row.channel in PERSONS
        return row.id not in self._passed and not is_persons

    async def _list(self) -> tuple[Inbound, ...]:
        if self._session is None:
            try:
                self._session = await self._store.get_session(self._session_id)
            except SessionNotFound:
                return ()
        session = self._session
        if self._parts.clock() - session.created_at > YOUNG_MS:
            return await self._store.list_inbound(session.id, limit=MANY)
        rows = await self._store.list_inbound(session.id, key=session.key, limit=MANY)
        return tuple(
            row for row in rows if row.session_id == session.id or follows_key(row, session.key)
        )


def _ids(works: Sequence[Work]) -> frozenset[str]:
    return frozenset(each.inbound.id for each in works if each.inbound is not None)
