"""The plain chat: lines in, text out. Works in any terminal, and without one.

A display of the conversation; `plain_output` decides how events look.
"""

from __future__ import annotations

import contextlib
from typing import Final

from clew.api.seats import Seated
from clew.api.sessions import SessionView
from clew.core.live_events import Event
from clew.core.names import counted
from clew.core.turn import QUEUED, Approval, place_unfinished
from clew.terminal.asker import Answer, LineAsker, LineQuestion
from clew.terminal.conversation import Conversation, read_command
from clew.terminal.lines import Lines
from clew.terminal.picker import Picked
from clew.terminal.plain_output import EventWriter, question_lines
from clew.terminal.seat import Seat
from clew.terminal.startup import Startup

RECALLED: Final = 6
"""Messages that are shown of a session that is resumed."""


class PlainChat:
    """One conversation in line mode."""

    def __init__(self, seat: Seat, lines: Lines, writer: EventWriter, startup: Startup) -> None:
        self._seat = seat
        self._lines = lines
        self._writer = writer
        self._asker = LineAsker(seat, lines, writer.aside)
        self._question: LineQuestion | None = None
        """What a tool asks; further questions are shown when this one is answered."""
        self._asked_at = 0.0
        startup.asker = self
        self.chat = Conversation(seat, self, startup)
        if lines.is_terminal:
            lines.heard = writer.take_line

    async def run(self, opening: Seated) -> None:
        """Talk until the person leaves."""
        try:
            self._lines.start()
            await self.chat.sit_down(opening)
            while not self.chat.is_leaving:
                self.ready()
                text = await self._lines.get_message()
                if text is None:
                    break
                if self._question is not None and self._lines.came_at >= self._asked_at:
                    await self._answer(self._question, text)
                elif text.strip():
                    await self.chat.take(text)
        finally:
            self.chat.close()

    async def interrupt(self) -> bool:
        """Ctrl+C: True if it leaves."""
        self._writer.break_off()
        return await self.chat.interrupt()

    async def _answer(self, question: LineQuestion, text: str) -> None:
        """Take a line that was typed while a question waits: an answer, a command or a message."""
        read = "message" if read_command(text) is not None else question.read(text)
        if isinstance(read, Answer):
            self._question = None
            approval = question.approval
            await self.chat.answer(approval, read.decision, read.scope, read.reason)
            self._ask_next()
            return
        if read == "message":
            await self.chat.take(text)
        if self._question is question:
            self._prompt(question)

    def _ask_next(self) -> None:
        """Show the oldest question that waits, if none is shown."""
        if self._question is None and self.chat.questions:
            self._question = LineQuestion(self.chat.questions[0])
            for line, style in question_lines(self._question.approval):
                self._writer.line(line, style)
            self._prompt(self._question)

    def _prompt(self, question: LineQuestion) -> None:
        self._asked_at = self._lines.mark()  # first: an answer may be quicker than the next line
        self._writer.prompt(question.prompt)

    # --- the display ----------------------------------------------------------------------------

    @property
    def is_attended(self) -> bool:
        """Whether a person types."""
        return self._lines.is_terminal

    def note(self, text: str, style: str | None = "dim") -> None:
        """A line beside the conversation."""
        if style == "error":
            self._writer.said.clear()  # it was not sent, or its turn did not end
        self._writer.note(text, style)

    def tell(self, text: str) -> None:
        """What a command answers."""
        self._writer.line(text)

    def show(self, event: Event) -> None:
        """Write it down."""
        self._writer.write(event)

    def sent(self, text: str) -> None:
        """The terminal has shown it while it was typed."""
        self._writer.said.append(text)

    def queued(self, text: str) -> None:
        """Say so; the message itself is shown where its turn begins."""
        del text
        self.note(QUEUED[self._seat.queue_mode])

    def unsent(self, text: str) -> None:
        """Nothing to do: it is visible above."""

    def taken_back(self, texts: tuple[str, ...]) -> None:
        """Show them whole, so that they can be copied: there is no editor to put them in."""
        self.note(f"Took back {counted(len(texts), 'message')} that waited:")
        for text in texts:
            for line in text.split("\n"):
                self.note(f"  {line}")

    async def ask(self, question: str) -> str:
        """A line from the person."""
        self._writer.prompt(question)
        return (await self._lines.get() or "").strip()

    async def ask_text(self, question: str, *, hidden: bool = False) -> str:
        """A line from the person, perhaps without showing it."""
        with self._lines.hidden() if hidden else contextlib.nullcontext():
            return await self.ask(question)

    async def choose(self, sessions: tuple[SessionView, ...]) -> Picked | None:
        """One of them, by its number."""
        self._writer.make_room()
        return await self._asker.choose(sessions)

    async def redraw(self, session: SessionView | None) -> None:
        """The last messages of a session that has some, below what is there."""
        self._writer.said.clear()
        if session is None:
            return
        page = await self._seat.client.sessions.messages(session.id, limit=RECALLED)
        messages, stopped = page.messages, place_unfinished(page.unfinished, page.messages)
        if session.message_count > len(messages):
            self._writer.line(f"… {session.message_count - len(messages)} earlier messages", "dim")
        for message in messages:
            self._writer.write_message(message)
            if message.seq in stopped:
                self._writer.write_unfinished(stopped[message.seq])

    def put_question(self, approval: Approval) -> None:
        """What a tool wants, and how to answer; one question after the other."""
        del approval  # it is among the conversation's questions
        self._ask_next()

    def withdraw_question(self, approval: Approval) -> None:
        """What was written stays; another question or a prompt follows."""
        if self._question is not None and self._question.approval.id == approval.id:
            self._question = None
        self._ask_next()

    def ready(self) -> None:
        """Show the prompt, if it is the person's turn."""
        if self.is_attended and not self.chat.questions and not self.chat.is_running:
            self._writer.prompt()
