"""A clock that stands still until a test moves it."""

from __future__ import annotations

from typing import Final

SECOND: Final = 1_000
DAY: Final = 86_400_000


class FakeClock:
    """A `clew.ports.Clock` in milliseconds UTC. Begins at noon of 1 May 2026."""

    def __init__(self, now: int = 1_777_636_800_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, milliseconds: int) -> int:
        """Let time pass; returns the new time."""
        self.now += milliseconds
        return self.now
