"""What waits for a session: in which order it is done, and what of it is done together.

Every message is durable before it is here. When a turn runs is decided by the lane, what it records
by the turn.
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
from clew.core.turn import Lease, QueueMode, Turn
from clew.runtime.lane.turn import Asker

CAP: Final = 20
"""Messages that are answered together in full; of more, the oldest are shortened to a line."""
LINE: Final = 200
"""Columns of such a line."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """Another attempt at a turn; it is no message, and nothing of it is in the inbox.

    Without drafts it goes on where the thread ends; with them it says them again, in place of the
    turns that it undoes. `after` is the turn that was cut off and that it goes on with; if another
    process has, there is nothing left to do.
    """

    person: str
    drafts: tuple[Draft, ...] = ()
    undo: tuple[str, ...] = ()
    after: str | None = None
    attended: bool = True
    model: str | None = None
    reply_to: ReplyTo | None = None


class Work(msgspec.Struct, kw_only=True):
    """One turn to run: a message of the inbox, or another `Attempt`.

    `settle_s`: if it comes while another one runs, and is answered together with what comes after
    it, it waits until nothing was said for so many seconds. `from_person`: a person said it, and
    not a job or a webhook.
    """

    done: asyncio.Future[Turn]
    drafts: tuple[Draft, ...] = ()
    inbound: Inbound | None = None
    undo: tuple[str, ...] = ()
    after: str | None = None
    person: str
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
    """Something else that needs the session for itself, between turns. It is given the lease.

    One that is `quiet` takes a moment, and the lane counts as free meanwhile.
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
        """The turns among it."""
        return tuple(each for each in self._waiting if isinstance(each, Work))

    @property
    def is_quiet(self) -> bool:
        """Whether the lane counts as free with all of it."""
        return all(map(is_quiet, self._waiting))

    @property
    def is_collecting(self) -> bool:
        """Whether what is next may be answered together with what is still to come."""
        first = next((each for each in self._waiting if not is_quiet(each)), None)
        return isinstance(first, Work) and first.queue == "collect"

    def put(self, work: Work | Chore) -> None:
        """At the end."""
        self._waiting.append(work)

    def put_first(self, works: Iterable[Work]) -> None:
        """Back to the front, in their order."""
        self._waiting.extendleft(reversed(tuple(works)))

    def take(self) -> Work | Chore:
        """What is next."""
        return self._waiting.popleft()

    def sort(self, ids: Sequence[str]) -> None:
        """Let messages that came in in this order be in this order; all else keeps its place."""
        order = {each: position for position, each in enumerate(ids)}
        sorted_works = iter(sorted(_known(self.works, order), key=lambda work: order[_id(work)]))
        known = set(map(_id, _known(self.works, order)))
        self._waiting = deque(
            next(sorted_works) if isinstance(each, Work) and _id(each) in known else each
            for each in self._waiting
        )

    def take_along(self, first: Work, *, but: Collection[str] = ()) -> tuple[Work, ...]:
        """What is said in the same turn as the first, which is about to begin.

        That is what collects or steers likewise; and what has to interrupt the first would find it
        with nothing done yet, so it comes along with all that waits before it. Nothing behind
        what is in `but`, for which the time has not come.
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
        self, person: str, reply_to: ReplyTo | None = None, *, but: Collection[str] = ()
    ) -> tuple[Work, ...]:
        """What goes into a turn of this person that runs. Other people's have no rights there.

        What came from another conversation is answered there, so it waits for a turn of its own.
        """
        return self._remove(
            [
                each
                for each in self.works
                if each.queue == "steer"
                and each.person == person
                and _is_message(each)
                and place_of(each.reply_to) == place_of(reply_to)
                and _id(each) not in but
            ]
        )

    def clear(self) -> tuple[Work, ...]:
        """Take back everything, and cancel its futures."""
        works = self.works
        for each in self._waiting:
            each.done.cancel()
        self._waiting.clear()
        return works

    def take_out(self, ids: Collection[str]) -> tuple[Work, ...]:
        """The same with these messages, and no others."""
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
    """What is said in one turn, and whether a person says it; too many messages are shortened."""
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
    alike = (first.person, first.attended, first.model) == (each.person, each.attended, each.model)
    together = alike and place_of(first.reply_to) == place_of(each.reply_to)
    return together and _is_message(first) and _is_message(each)


def place_of(reply_to: ReplyTo | None) -> tuple[str, str, str] | None:
    """Where the answer is expected, beside the thread."""
    return None if reply_to is None else reply_to.place


def _is_message(work: Work) -> bool:
    """Whether it is just something that a person said."""
    return work.inbound is not None and not work.undo and work.asker is None
