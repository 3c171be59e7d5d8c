"""Asking a person outside the full screen: a question ends with a line that they type."""

from __future__ import annotations

import contextlib
from typing import Final

from clew.api.sessions import SessionView
from clew.core.keys import here_filter, home_of
from clew.core.names import counted, recent_name, time_ago
from clew.terminal.lines import Lines
from clew.terminal.picker import Picked, run_picker
from clew.terminal.plain_output import Paper
from clew.terminal.seat import Seat

CHOICES: Final = 10


class LineAsker:
    """Asks on the lines, tells on the paper beside the answer."""

    def __init__(self, seat: Seat, lines: Lines, aside: Paper) -> None:
        self._seat = seat
        self._lines = lines
        self._aside = aside

    @property
    def is_attended(self) -> bool:
        """Whether a person types."""
        return self._lines.is_terminal

    def note(self, text: str, style: str | None = "dim") -> None:
        """A line beside the conversation."""
        self._aside.line(text, style)

    async def ask(self, question: str) -> str:
        """A line from the person; the terminal has ended it then."""
        self._aside.write(question)
        typed = await self._lines.get()
        if typed is None:
            self._aside.fresh()  # Ctrl+D has left the cursor behind the question
        else:
            self._aside.moved()
        return (typed or "").strip()

    async def choose(self, sessions: tuple[SessionView, ...]) -> Picked | None:
        """Let the person choose one by its number; anything else is none."""
        shown = sessions[:CHOICES] or await self._list_recent()
        if not shown:
            self.note("No sessions found")
            return None
        seat = self._seat
        for number, session in enumerate(shown, 1):
            name = recent_name(session.title, session.short_summary, session.preview, session.id)
            ago = time_ago(session.updated_at, seat.now(), seat.zone(session.updated_at))
            where = home_of(session, seat.place.scope) or session.platform
            count = counted(session.message_count, "message")
            self._aside.line(f"{number:>3}  {name}  ({ago}, {count}, {where})")
        typed = await self.ask(f"Which one? [1-{len(shown)}, Enter for none] ")
        with contextlib.suppress(ValueError):
            if 1 <= int(typed) <= len(shown):
                return Picked(shown[int(typed) - 1])
        return None

    async def _list_recent(self) -> tuple[SessionView, ...]:
        """This directory's newest sessions, or everybody's if it has none."""
        sessions = self._seat.client.sessions
        page = await sessions.list(limit=CHOICES, **here_filter(self._seat.place))
        if not page.sessions:
            page = await sessions.list(limit=CHOICES)
        return page.sessions


class StartAsker(LineAsker):
    """Asks before there is a full screen: choices in the picker, notes kept for the screen.

    What it is told is not shown yet: `notes` is how the conversation begins.
    """

    def __init__(self, seat: Seat, lines: Lines, aside: Paper, *, dark: bool = True) -> None:
        super().__init__(seat, lines, aside)
        self._dark = dark
        self.notes: list[tuple[str, str | None]] = []

    def note(self, text: str, style: str | None = "dim") -> None:
        """Keep it for the screen."""
        self.notes.append((text, style))

    async def choose(self, sessions: tuple[SessionView, ...]) -> Picked | None:
        """The picker, before the chat."""
        seat = self._seat
        return await run_picker(
            seat.client,
            place=seat.place,
            now=seat.now,
            zone=seat.zone,
            only=sessions,
            dark=self._dark,
        )
