"""Feeds: one watch of a session for everybody here who follows it.

However many follow, the store is looked at once and every frame is made once. Deltas of a stream
are put together, since each of them goes out once for each who follows; and all is told to a few at
a time, so that a turn which has something to do in between never waits for all of them. Feeds come
and go with their followers in `hub`; how slow a client may be is `outlet`'s business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from clew.api.frames import ErrorFrame, GapFrame, event_frame
from clew.api.handlers.parts import Parts
from clew.api.problems import problem_of
from clew.core.signals import (
    ApprovalAsked,
    ApprovalDecided,
    Committed,
    Event,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
    TurnStarted,
)
from clew.errors import ClewError, NotFound
from clew.gateway.outlet import Item, Outlet, item_of

BEAT: Final = 1 / 30
"""Seconds in which what comes together goes out together; what comes after a pause goes at once."""
SHARE: Final = 0.001
"""Seconds of it for each who follows, if those are more: who looks on should not slow a turn."""
SLICE: Final = 4
"""Followers that are told something before the loop does what else is due."""
MAX_DELTA: Final = 32_000
"""Characters up to which deltas are put together."""
PAGE: Final = 32
"""Messages that are read in one go by who catches up."""
AGAIN: Final = 1.0
"""Seconds until the next attempt, when the store does not answer."""


def merge(events: Iterable[Event]) -> list[Event]:
    """The same events, with the short deltas that follow each other as one."""
    merged: list[Event] = []
    for event in events:
        last = merged[-1] if merged else None
        if (
            isinstance(event, TextDelta | ThinkingDelta)
            and isinstance(last, TextDelta | ThinkingDelta)
            and type(event) is type(last)
            and len(last.text) + len(event.text) <= MAX_DELTA
        ):
            merged[-1] = type(event)(last.text + event.text)
        else:
            merged.append(event)
    return merged


class SessionFeed:
    """What happens in a session, from a message on. `position` is the last that was published."""

    def __init__(self, parts: Parts, session_id: str, position: int) -> None:
        self.parts = parts
        self.session_id = session_id
        self.position = position
        self.followers: set[SessionFollower] = set()
        self.error: ClewError | None = None
        self._asked: dict[str, Item] = {}
        self._turn: Item | None = None
        self._pending: list[Event] = []
        self._items: list[Item] = []
        self._due: list[SessionFollower] = []
        """Who is still to be told of `_items`; what comes meanwhile is pending."""
        self._timer: asyncio.Handle | None = None
        self._last = 0.0
        self._task = asyncio.create_task(self._run(), name=f"feed {session_id}")
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        """A bug ends it too, and is told as one; nobody waits here for what can't come."""
        if not task.cancelled() and task.exception() is not None:
            self.error = ClewError("Something in clew went wrong; its log tells what.")
            for follower in tuple(self.followers):
                follower.end(self.error)
            context = {"message": "a feed ended", "exception": task.exception(), "task": task}
            task.get_loop().call_exception_handler(context)

    async def close(self) -> None:
        """Look no more."""
        self._task.cancel()
        await asyncio.wait({self._task})

    def list_open(self, *, with_turn: bool) -> list[Item]:
        """What still holds of the hints: questions without an answer, and how the turn stands."""
        turn = [self._turn] if with_turn and self._turn is not None else []
        return [*turn, *self._asked.values()]

    async def _run(self) -> None:
        try:
            while self.error is None:
                await self._watch()
        finally:
            if self._timer is not None:
                self._timer.cancel()

    async def _watch(self) -> None:
        try:
            with self.parts.runtime.watch(self.session_id, self.position) as events:
                async for event in events:
                    self._take(event)
        except NotFound as error:
            self._tell_all()
            self.error = error
            for follower in tuple(self.followers):
                follower.end(error)
        except ClewError:
            # It has a position, so nothing is lost by looking again.
            self._tell_all()
            await asyncio.sleep(AGAIN)

    def _take(self, event: Event) -> None:
        self._pending.append(event)
        if self._timer is None:
            self._tell_later()

    def _tell_later(self) -> None:
        """Begin to tell what is pending, now or as soon as the beat allows."""
        loop = asyncio.get_running_loop()
        when = self._last + max(BEAT, SHARE * len(self.followers))
        if when > loop.time():
            self._timer = loop.call_at(when, self._tell_later)
            return
        self._last = loop.time()
        self._publish()
        self._tell_some()

    def _tell_some(self) -> None:
        """Tell the next few, until everybody knows; then begin with what came meanwhile."""
        self._timer = None
        self._tell(SLICE)
        if self._due:
            # After whatever else is due, but without a pause: that would wake the loop while others
            # sleep, and what is left of their time is then rounded up to whole milliseconds.
            self._timer = asyncio.get_running_loop().call_soon(self._tell_some)
        elif self._pending:
            self._tell_later()

    def _tell_all(self) -> None:
        """Tell everything now, as it is the last for a while."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tell(len(self._due))
        self._publish()
        self._tell(len(self._due))

    def _tell(self, count: int) -> None:
        for follower in self._due[:count]:
            if follower in self.followers:
                follower.offer(self._items)
        del self._due[:count]
        if not self._due:
            self._items = []  # not kept for as long as nothing else happens

    def _publish(self) -> None:
        """Make frames of what is pending, for those who are not behind: the others find it."""
        events, self._pending = merge(self._pending), []
        self._items = [item for event in events if (item := self._note(event)) is not None]
        self._due = [each for each in self.followers if not each.is_behind]

    def _note(self, event: Event) -> Item | None:
        item = item_of(event_frame(self.session_id, event))
        match event:
            case Committed(message):
                if message.seq <= self.position:
                    return None  # seen before the store failed
                self.position = message.seq
            case ApprovalAsked(approval):
                self._asked[approval.id] = item
            case ApprovalDecided(approval):
                self._asked.pop(approval.id, None)
            case TurnStarted() | TurnEnded():
                self._turn = item
            case _:
                pass
        return item


class SessionFollower:
    """One client's place in a session. `cursor` is the last message that is on its way to it."""

    def __init__(self, feed: SessionFeed, outlet: Outlet, after: int) -> None:
        self.feed = feed
        self.cursor = after
        self._outlet = outlet
        self.is_behind = True
        self._has_gap = False
        self._had_gap = False
        outlet.fall_behind(self)

    def offer(self, items: Sequence[Item]) -> None:
        """Something new. Whoever is behind loses it, or finds it in the store."""
        if self.is_behind:
            return
        new = [each for each in items if each.seq is None or each.seq > self.cursor]
        count = self._outlet.offer(new)
        if count < len(new):
            self.is_behind = self._has_gap = True
            self._outlet.fall_behind(self)
        self.cursor = max((each.seq or 0 for each in new[:count]), default=0) or self.cursor

    def end(self, error: ClewError) -> None:
        """There is nothing to follow any more."""
        self.is_behind = True
        self._outlet.forget(self)
        self._outlet.put(item_of(ErrorFrame(problem_of(error), self.feed.session_id)))

    async def catch_up(self) -> Sequence[Item]:
        """See `Follower`: a gap if there was one, then messages by number, then what is open."""
        feed = self.feed
        if self._has_gap:
            self._has_gap, self._had_gap = False, True
            return [item_of(GapFrame(feed.session_id, self.cursor))]
        if self.cursor >= feed.position:
            self.is_behind = False
            self._outlet.forget(self)
            had_gap, self._had_gap = self._had_gap, False
            return feed.list_open(with_turn=had_gap)
        end = min(self.cursor + PAGE, feed.position)
        try:
            messages = await feed.parts.store.get_messages(
                feed.session_id, after=self.cursor, before=end + 1
            )
        except NotFound as error:
            self.end(error)
            return ()
        except ClewError:
            await asyncio.sleep(AGAIN)
            return ()
        self.cursor = end
        return [item_of(event_frame(feed.session_id, Committed(each))) for each in messages]
