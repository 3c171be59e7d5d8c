"""The turns that began at one place, for as long as they are not over.

What they are for, and what is done about them when somebody leaves, is decided by who follows.
"""

from __future__ import annotations

from clew.runtime.runtime import Ticket


class Tickets:
    """What was said at one seat and is not answered yet."""

    def __init__(self) -> None:
        self._tickets: list[Ticket] = []

    def follow(self, ticket: Ticket) -> Ticket:
        """Count this one too, until its turn is over."""
        self._tickets = [*self.list_pending(), ticket]
        return ticket

    def list_pending(self) -> list[Ticket]:
        """Those whose turns are not over yet."""
        return [each for each in self._tickets if not each.turn.done()]

    @property
    def is_busy(self) -> bool:
        """Whether there are any."""
        return any(not each.turn.done() for each in self._tickets)
