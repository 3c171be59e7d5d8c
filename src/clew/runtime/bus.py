"""The bus: events of a session, to whoever watches it in this process.

It remembers nothing. A watcher that is too slow loses signals, never messages: those it finds in
the store by their number (`Runtime.watch`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from clew.core.signals import Event

BACKLOG = 4096
"""Events that may wait for one watcher."""

Mailbox = asyncio.Queue[Event]


class Bus:
    """Who watches which session."""

    def __init__(self) -> None:
        self._mailboxes: defaultdict[str, set[Mailbox]] = defaultdict(set)

    def publish(self, session_id: str, event: Event) -> None:
        """Tell everybody who watches the session. Never waits."""
        for mailbox in self._mailboxes.get(session_id, ()):
            if not mailbox.full():
                mailbox.put_nowait(event)

    @contextmanager
    def subscribe(self, session_id: str) -> Iterator[Mailbox]:
        """What is published about the session from now on."""
        mailbox = Mailbox(BACKLOG)
        self._mailboxes[session_id].add(mailbox)
        try:
            yield mailbox
        finally:
            self._mailboxes[session_id].discard(mailbox)
            if not self._mailboxes[session_id]:
                del self._mailboxes[session_id]
