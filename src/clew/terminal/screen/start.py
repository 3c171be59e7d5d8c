"""Asking before there is a screen: questions on lines, choices in the picker, notes kept for it."""

from __future__ import annotations

from clew.core.session import Session
from clew.runtime.commands.desk import Desk
from clew.terminal.asking import LineAsker
from clew.terminal.entrance import Picked
from clew.terminal.lines import Lines
from clew.terminal.paper import Paper
from clew.terminal.picker import run_picker


class StartAsker(LineAsker):
    """What it is told is not shown yet: `notes` is how the conversation begins."""

    def __init__(self, desk: Desk, lines: Lines, aside: Paper, *, dark: bool = True) -> None:
        super().__init__(desk, lines, aside)
        self._dark = dark
        self.notes: list[tuple[str, str | None]] = []

    def note(self, text: str, style: str | None = "dim") -> None:
        """Keep it for the screen."""
        self.notes.append((text, style))

    async def choose(self, sessions: tuple[Session, ...]) -> Picked | None:
        """The picker, before the chat."""
        return await run_picker(self._desk, sessions, dark=self._dark)
