"""Asking in line mode: a question ends with a line from the person.

It knows lines and paper, not what the answers mean.
"""

from __future__ import annotations

import contextlib
from typing import Final

from clew.core.keys import home_of
from clew.core.names import counted, recent_name, time_ago
from clew.core.session import Session, SessionFilter
from clew.runtime.commands.desk import Desk
from clew.runtime.projects import here_filter
from clew.terminal.lines import Lines
from clew.terminal.paper import Paper
from clew.terminal.picker import Picked

CHOICES: Final = 10


class LineAsker:
    """Asks on the lines, tells on the paper beside the answer."""

    def __init__(self, desk: Desk, lines: Lines, aside: Paper) -> None:
        self._desk = desk
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

    async def choose(self, sessions: tuple[Session, ...]) -> Picked | None:
        """Let the person choose one by its number; anything else is none."""
        shown = sessions[:CHOICES] or await self._list_recent()
        if not shown:
            self.note("No sessions found")
            return None
        desk, place = self._desk, self._desk.seat.place
        for number, session in enumerate(shown, 1):
            name = recent_name(session.title, session.short_summary, session.preview, session.id)
            ago = time_ago(session.updated_at, desk.now, desk.zone(session.updated_at))
            where = home_of(session, place.scope) or session.platform
            count = counted(session.message_count, "message")
            self._aside.line(f"{number:>3}  {name}  ({ago}, {count}, {where})")
        typed = await self.ask(f"Which one? [1-{len(shown)}, Enter for none] ")
        with contextlib.suppress(ValueError):
            if 1 <= int(typed) <= len(shown):
                return Picked(shown[int(typed) - 1])
        return None

    async def _list_recent(self) -> tuple[Session, ...]:
        """This directory's newest sessions, or everybody's if it has none."""
        store, person = self._desk.store, self._desk.seat.person
        here = SessionFilter(viewer=person, **here_filter(self._desk.seat.place))
        page = await store.list_sessions(here, limit=CHOICES)
        if not page.sessions:
            page = await store.list_sessions(SessionFilter(viewer=person), limit=CHOICES)
        return page.sessions
