"""Feeds: one watch of a session, or of the list, for all clients that follow it.

However many clients follow a session, the store is read once and every frame is made once. Deltas
of a stream are joined, since each frame is sent to every client; and clients are served a few at a
time, so that a turn never waits for all of them. `Feeds` starts a feed with its first follower and
ends it with its last; what a person may see is checked before they follow. `client_queue` decides
how slow a client may be.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Final

from clew.api.frames import ErrorFrame, GapFrame, event_frame
from clew.api.handlers.live import compare, list_newest
from clew.api.handlers.parts import Caller, Parts
from clew.api.problems import problem_of
from clew.api.sessions import ListedSession
from clew.core.live_events import (
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
from clew.gateway.client_queue import ClientQueue, Item, item_of

BEAT: Final = 1 / 30
"""Seconds in which events are gathered to go out together; after a pause they go at once."""
SHARE: Final = 0.001
"""The same per follower, if that is more: many followers should not slow down a turn."""
SLICE: Final = 4
"""Followers that are served before the event loop does other work."""
MAX_DELTA: Final = 32_000
"""Characters up to which deltas are put together."""
PAGE: Final = 32
"""Messages that are read at once to catch up."""
AGAIN: Final = 1.0
"""Seconds until the next attempt, when the store does not answer."""
LIST_EVERY: Final = 0.25
"""Seconds between two looks at the list."""


class Feeds:
    """The feeds that are followed: one begins with its first follower and ends with its last."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._sessions: dict[str, SessionFeed] = {}
        self._lists: dict[str, ListFeed] = {}

    def follow(self, session_id: str, head: int, queue: ClientQueue, after: int) -> SessionFollower:
        """Follow a session whose newest message is `head`, from the one after `after` on."""
        feed = self._sessions.get(session_id)
        if feed is None or feed.error is not None:
            feed = self._sessions[session_id] = SessionFeed(self.parts, session_id, head)
        follower = SessionFollower(feed, queue, after)
        feed.followers.add(follower)
        return follower

    def follow_list(
        self, caller: Caller, queue: ClientQueue, shown: tuple[ListedSession, ...]
    ) -> ListFollower:
        """Follow the list; `shown` is what the client has got of it already."""
        feed = self._lists.get(caller.person)
        if feed is None:
            feed = self._lists[caller.person] = ListFeed(self.parts, caller)
        follower = ListFollower(feed, queue, shown)
        feed.followers.add(follower)
        return follower

    async def leave(self, follower: SessionFollower | ListFollower, queue: ClientQueue) -> None:
        """Stop following. A feed without followers ends."""
        queue.forget(follower)
        if isinstance(follower, SessionFollower):
            session = follower.feed
            session.followers.discard(follower)
            if not session.followers:
                if self._sessions.get(session.session_id) is session:
                    del self._sessions[session.session_id]
                await session.close()
        else:
            names = follower.feed
            names.followers.discard(follower)
            if not names.followers:
                self._lists.pop(names.caller.person, None)
                await names.close()


def merge(events: Iterable[Event]) -> list[Event]:
    """The same events, with consecutive short deltas joined."""
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
    """The events of a session. `position` is the number of the last published message."""

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
        """Followers that have not got `_items` yet; newer events are pending."""
        self._timer: asyncio.Handle | None = None
        self._last = 0.0
        self._task = asyncio.create_task(self._run(), name=f"feed {session_id}")
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        """Report a bug that ended the feed, and end its followers: nothing more would come."""
        if not task.cancelled() and task.exception() is not None:
            self.error = ClewError("Something in clew went wrong. Its log says what.")
            for follower in tuple(self.followers):
                follower.end(self.error)
            context = {"message": "a feed ended", "exception": task.exception(), "task": task}
            task.get_loop().call_exception_handler(context)

    async def close(self) -> None:
        """Stop watching."""
        self._task.cancel()
        await asyncio.wait({self._task})

    def list_open(self, *, with_turn: bool) -> list[Item]:
        """Hints that are still true: questions without an answer, and the state of the turn."""
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
            self._serve_all()
            self.error = error
            for follower in tuple(self.followers):
                follower.end(error)
        except ClewError:
            # Watching again from `position` loses nothing.
            self._serve_all()
            await asyncio.sleep(AGAIN)

    def _take(self, event: Event) -> None:
        self._pending.append(event)
        if self._timer is None:
            self._publish_later()

    def _publish_later(self) -> None:
        """Publish what is pending, now or when `BEAT` has passed since the last time."""
        loop = asyncio.get_running_loop()
        when = self._last + max(BEAT, SHARE * len(self.followers))
        if when > loop.time():
            self._timer = loop.call_at(when, self._publish_later)
            return
        self._last = loop.time()
        self._publish()
        self._serve_some()

    def _serve_some(self) -> None:
        """Serve the next followers, until all are served; then publish newer events."""
        self._timer = None
        self._serve(SLICE)
        if self._due:
            # Not by a timer: one that ends between others makes the loop round up the rest of
            # their time to whole milliseconds.
            self._timer = asyncio.get_running_loop().call_soon(self._serve_some)
        elif self._pending:
            self._publish_later()

    def _serve_all(self) -> None:
        """Serve all followers now, as nothing more comes for a while."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._serve(len(self._due))
        self._publish()
        self._serve(len(self._due))

    def _serve(self, count: int) -> None:
        for follower in self._due[:count]:
            if follower in self.followers:
                follower.offer(self._items)
        del self._due[:count]
        if not self._due:
            self._items = []  # frees the memory until the next event

    def _publish(self) -> None:
        """Make frames of what is pending, for followers that are not behind; those catch up."""
        events, self._pending = merge(self._pending), []
        self._items = [item for event in events if (item := self._make_item(event)) is not None]
        self._due = [each for each in self.followers if not each.is_behind]

    def _make_item(self, event: Event) -> Item | None:
        item = item_of(event_frame(self.session_id, event))
        match event:
            case Committed(message):
                if message.seq <= self.position:
                    return None  # published before the store failed
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
    """A client that follows a session. `cursor` is the last message in its queue."""

    def __init__(self, feed: SessionFeed, queue: ClientQueue, after: int) -> None:
        self.feed = feed
        self.cursor = after
        self._queue = queue
        self.is_behind = True
        self._has_gap = False
        self._had_gap = False
        queue.fall_behind(self)

    def offer(self, items: Sequence[Item]) -> None:
        """Queue new frames. A follower that is behind gets the messages from the store instead."""
        if self.is_behind:
            return
        new = [each for each in items if each.seq is None or each.seq > self.cursor]
        count = self._queue.offer(new)
        if count < len(new):
            self.is_behind = self._has_gap = True
            self._queue.fall_behind(self)
        self.cursor = max((each.seq or 0 for each in new[:count]), default=0) or self.cursor

    def end(self, error: ClewError) -> None:
        """Send the error: there is nothing to follow any more."""
        self.is_behind = True
        self._queue.forget(self)
        self._queue.put(item_of(ErrorFrame(problem_of(error), self.feed.session_id)))

    async def catch_up(self) -> Sequence[Item]:
        """See `Follower`: a gap frame if there was one, then messages, then hints still true."""
        feed = self.feed
        if self._has_gap:
            self._has_gap, self._had_gap = False, True
            return [item_of(GapFrame(feed.session_id, self.cursor))]
        if self.cursor >= feed.position:
            self.is_behind = False
            self._queue.forget(self)
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


class ListFeed:
    """The newest sessions of a person's list, read again whenever the store was written to."""

    def __init__(self, parts: Parts, caller: Caller) -> None:
        self.parts = parts
        self.caller = caller
        self.present: tuple[ListedSession, ...] | None = None
        self.followers: set[ListFollower] = set()
        self._task = asyncio.create_task(self._run(), name=f"list of {caller.person}")

    async def close(self) -> None:
        """Stop looking."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        pulse: int | None = None
        while True:
            # The store may not answer for a while; the next look finds what was missed.
            with contextlib.suppress(ClewError):
                if pulse != (now := await self.parts.store.pulse()):
                    self._tell(await list_newest(self.parts, self.caller))
                    pulse = now
            await asyncio.sleep(LIST_EVERY)

    def _tell(self, present: tuple[ListedSession, ...]) -> None:
        before, self.present = self.present, present
        items = [] if before is None else [item_of(each) for each in compare(before, present)]
        for follower in tuple(self.followers):
            follower.offer(items)


class ListFollower:
    """A client that follows the list; `shown` is the list as the client knows it."""

    def __init__(
        self, feed: ListFeed, queue: ClientQueue, shown: tuple[ListedSession, ...]
    ) -> None:
        self.feed = feed
        self._shown = shown
        self._queue = queue
        self._is_behind = True
        queue.fall_behind(self)

    def offer(self, items: Sequence[Item]) -> None:
        """Queue hints. A follower that is behind gets the whole difference later."""
        if self._is_behind:
            return
        if self._queue.offer(items) < len(items):
            self._is_behind = True
            self._queue.fall_behind(self)
        elif self.feed.present is not None:
            self._shown = self.feed.present

    async def catch_up(self) -> Sequence[Item]:
        """See `Follower`."""
        present = self.feed.present
        if present is None:
            await asyncio.sleep(LIST_EVERY / 10)
            return ()
        hints = compare(self._shown, present)
        self._shown, self._is_behind = present, False
        self._queue.forget(self)
        return [item_of(each) for each in hints]
