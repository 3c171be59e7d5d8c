"""The hub: which feeds there are. One begins with its first follower and ends with its last.

What a person may see is settled before they follow.
"""

from __future__ import annotations

from clew.api.handlers.parts import Caller, Parts
from clew.api.sessions import ListedSession
from clew.gateway.feeds import SessionFeed, SessionFollower
from clew.gateway.listfeeds import ListFeed, ListFollower
from clew.gateway.outlet import Outlet


class Hub:
    """The feeds that somebody follows."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._sessions: dict[str, SessionFeed] = {}
        self._lists: dict[str, ListFeed] = {}

    def follow(self, session_id: str, head: int, outlet: Outlet, after: int) -> SessionFollower:
        """Follow a session whose newest message is `head`, from the one after `after` on."""
        feed = self._sessions.get(session_id)
        if feed is None or feed.error is not None:
            feed = self._sessions[session_id] = SessionFeed(self.parts, session_id, head)
        follower = SessionFollower(feed, outlet, after)
        feed.followers.add(follower)
        return follower

    def follow_list(
        self, caller: Caller, outlet: Outlet, shown: tuple[ListedSession, ...]
    ) -> ListFollower:
        """Follow the list, of which this much was shown."""
        feed = self._lists.get(caller.person)
        if feed is None:
            feed = self._lists[caller.person] = ListFeed(self.parts, caller)
        follower = ListFollower(feed, outlet, shown)
        feed.followers.add(follower)
        return follower

    async def leave(self, follower: SessionFollower | ListFollower, outlet: Outlet) -> None:
        """Follow it no longer. A feed that nobody follows ends."""
        outlet.forget(follower)
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
