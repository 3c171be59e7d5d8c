"""The queue of a session: in which order messages are answered, and which of them together.

Every message is durable before it is queued. The lane decides when a turn runs, the turn what it
records.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final

import msgspec

from clew.core.channels.replies import ReplyTo
from clew.core.delivery import Inbound
from clew.core.message import Draft
from clew.core.names import counted
from clew.core.text import cut
from clew.core.tokens import Scopes
from clew.core.turn import Lease, QueueMode, Turn
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
    model: str | None = None
    reply_to: ReplyTo | None = None


class Work(msgspec.Struct, kw_only=True):
    """One turn to run: a message of the inbox, or another `Attempt`.

    `settle_s`: if it comes while another turn runs and may be answered together with later
    messages, it waits until no message came for so many seconds. `from_person`: a person wrote it,
    and not a job or a webhook. `scopes`: what it was accepted with. They decide the turn's tools,
    so only messages with equal scopes share a turn.
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
                and (each.person, each.scopes) == (person, scopes)
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


def _rights(work: Work) -> tuple[str, Scopes, bool]:
    return (work.person, work.scopes, work.attended)


def place_of(reply_to: ReplyTo | None) -> tuple[str, str, str] | None:
    """The conversation where the answer is expected, besides the thread."""
    return None if reply_to is None else reply_to.place


def _is_message(work: Work) -> bool:
    """Whether it is an ordinary message: not another attempt, and not a sub-agent's task."""
    return work.inbound is not None and not work.undo and work.asker is None
