"""Questions to a person outside the full screen, answered by a line that they type.

To a tool's question only a whole line of a few words is an answer. "Always" shows the rule that it
writes and asks once more; "no" asks for a reason.
"""

from __future__ import annotations

import contextlib
from typing import Final, Literal

import msgspec

from clew.api.sessions import SessionView
from clew.core.keys import here_filter, home_of
from clew.core.names import counted, time_ago
from clew.core.text import is_yes, strip_controls
from clew.core.turn import MAX_REASON, Approval, ApprovalScope, Decision
from clew.terminal.lines import Lines
from clew.terminal.picker import Picked, PickerSetup, run_picker
from clew.terminal.plain_output import TextOutput
from clew.terminal.seat import Seat

CHOICES: Final = 10


class LineAsker:
    """Reads answers from `lines`, and writes to the output beside the conversation."""

    def __init__(self, seat: Seat, lines: Lines, aside: TextOutput) -> None:
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
        """A line from the person."""
        self._aside.write(question)
        typed = await self._lines.get()
        if typed is None:
            self._aside.fresh()  # Ctrl+D has left the cursor behind the question
        else:
            self._aside.moved()
        return (typed or "").strip()

    async def ask_text(self, question: str, *, hidden: bool = False) -> str:
        """A line from the person, perhaps without showing it."""
        with self._lines.hidden() if hidden else contextlib.nullcontext():
            return await self.ask(question)

    async def choose(self, sessions: tuple[SessionView, ...]) -> Picked | None:
        """Let the person choose one by its number; None for any other answer."""
        shown = sessions[:CHOICES] or await self._list_recent()
        if not shown:
            self.note("No sessions found")
            return None
        seat = self._seat
        for number, session in enumerate(shown, 1):
            ago = time_ago(session.updated_at, seat.now(), seat.zone(session.updated_at))
            where = home_of(session, seat.place.scope) or session.platform
            count = counted(session.message_count, "message")
            self._aside.line(f"{number:>3}  {session.name}  ({ago}, {count}, {where})")
        typed = await self.ask(f"Which one? [1-{len(shown)}, Enter for none] ")
        with contextlib.suppress(ValueError):
            if 1 <= int(typed) <= len(shown):
                return Picked(shown[int(typed) - 1])
        return None

    async def _list_recent(self) -> tuple[SessionView, ...]:
        """The newest sessions of this directory, or of all if it has none."""
        sessions = self._seat.client.sessions
        page = await sessions.list(limit=CHOICES, **here_filter(self._seat.place))
        if not page.sessions:
            page = await sessions.list(limit=CHOICES)
        return page.sessions


class StartAsker(LineAsker):
    """Asks before there is a full screen, with the picker for choices.

    Notes are not shown at once: the screen begins with `notes`.
    """

    def __init__(self, seat: Seat, lines: Lines, aside: TextOutput, *, dark: bool = True) -> None:
        super().__init__(seat, lines, aside)
        self._dark = dark
        self.notes: list[tuple[str, str | None]] = []

    def note(self, text: str, style: str | None = "dim") -> None:
        """Keep it for the screen."""
        self.notes.append((text, style))

    async def choose(self, sessions: tuple[SessionView, ...]) -> Picked | None:
        """The picker, before the chat."""
        return await run_picker(set_up_picker(self._seat, sessions), dark=self._dark)


def set_up_picker(seat: Seat, sessions: tuple[SessionView, ...]) -> PickerSetup:
    """A picker of these sessions, or of all if there are none, for the person at this seat."""
    current = None if seat.session is None else seat.session.id
    return PickerSetup(
        client=seat.client,
        place=seat.place,
        now=seat.now,
        zone=seat.zone,
        only=sessions,
        current=current,
    )


NO: Final = ("n", "no")


class Answer(msgspec.Struct, frozen=True):
    """What the person said to a question."""

    decision: Decision
    scope: ApprovalScope = "once"
    reason: str | None = None


Reading = Answer | Literal["asked", "message"]
"""An answer; or something else is asked now; or the line has nothing to do with the question."""


class LineQuestion:
    """One question, from the first prompt to the answer."""

    def __init__(self, approval: Approval) -> None:
        self.approval = approval
        rule = approval.request.get("rule")
        self._rule = strip_controls(str(rule)) if rule else None
        self._step: Literal["question", "rule", "reason"] = "question"

    @property
    def prompt(self) -> str:
        """What is asked now, with the words that answer it."""
        if self._step == "rule":
            return (
                f"  This rule is written to tools.allow, for every session:\n    {self._rule}\n"
                "  Write it? y or n: "
            )
        if self._step == "reason":
            return "  Why not? The model is told (Enter alone: no reason): "
        return f"  {self.words}: "

    @property
    def words(self) -> str:
        """The words that answer the question itself."""
        if self._rule is None:
            return "y (yes, once) or n (no)"
        return "y (yes, once), session, always or n (no)"

    def read(self, line: str) -> Reading:
        """Read one line that was typed after the prompt was shown."""
        word = line.strip().lower()
        if self._step == "reason":
            return Answer("no", reason=line.strip()[:MAX_REASON] or None)
        if self._step == "rule":
            self._step = "question"
            if is_yes(word):
                return Answer("yes", "always")
            return "asked" if word in ("", *NO) else "message"
        return self._read_answer(word)

    def _read_answer(self, word: str) -> Reading:
        if is_yes(word):
            return Answer("yes")
        if word in NO:
            self._step = "reason"
            return "asked"
        if word == "session" and self._rule is not None:
            return Answer("yes", "session")
        if word == "always" and self._rule is not None:
            self._step = "rule"
            return "asked"
        return "message" if word else "asked"
