"""Asking before there is a screen: questions on lines, choices in the picker, notes kept for it."""

from __future__ import annotations

from clew.core.session import Session
from clew.runtime.commands.desk import Desk
from clew.terminal.asking import LineAsker
from clew.terminal.desk_client import client_of
from clew.terminal.lines import Lines
from clew.terminal.paper import Paper
from clew.terminal.picker import Picked, run_picker


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
        desk = self._desk
        return await run_picker(
            client_of(desk),
            place=desk.seat.place,
            now=desk.seat.runtime.clock,
            zone=desk.zone,
            only=sessions,
            dark=self._dark,
        )
