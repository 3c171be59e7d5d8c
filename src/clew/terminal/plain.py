"""The plain chat: lines in, text out. Works in any terminal, and without one.

What a line means is decided by the runtime's commands, what a turn does by the runtime itself, how
events look by the scribe.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Final

from clew.core.session import Session
from clew.core.signals import ApprovalAsked, ApprovalDecided, Event, TurnEnded
from clew.core.turn import Approval, ApprovalScope, Decision, Turn
from clew.errors import ClewError
from clew.runtime.commands import parse, run_command
from clew.runtime.commands.desk import Desk, Reply
from clew.runtime.runtime import Ticket
from clew.runtime.seat import Seat, Switched
from clew.terminal.drawing import one_line, question_lines
from clew.terminal.entrance import Entrance
from clew.terminal.lines import Lines
from clew.terminal.scribe import Scribe

RECALLED: Final = 6
"""Messages that are shown of a session that is resumed."""

DRAWING: Final = 30
"""Seconds within which a turn that is over has been written down, even on a very busy machine."""

ANSWERS: Final[dict[str, tuple[Decision, ApprovalScope]]] = {
    "y": ("yes", "once"), "yes": ("yes", "once"), "once": ("yes", "once"),
    "s": ("yes", "session"), "session": ("yes", "session"),
    "a": ("yes", "always"), "always": ("yes", "always"),
    "n": ("no", "once"), "no": ("no", "once"),
}  # fmt: skip
ASKED: Final = "  [y]es once, for this [s]ession, [a]lways, [n]o: "


class PlainChat:
    """One conversation in line mode."""

    def __init__(self, desk: Desk, lines: Lines, scribe: Scribe, entrance: Entrance) -> None:
        self._desk = desk
        self._seat: Seat = desk.seat
        self._lines = lines
        self._scribe = scribe
        self._entrance = entrance
        self._view = ExitStack()
        self._pump: asyncio.Task[None] | None = None
        self._prompting: asyncio.Task[None] | None = None
        self._questions: deque[Approval] = deque()
        self._drawn: dict[str, asyncio.Event] = {}
        self._leaving = False
        self._warned = False
        if lines.is_terminal:
            lines.heard = scribe.take_line

    async def run(self, opening: Switched) -> None:
        """Talk until the person leaves."""
        try:
            await self._sit_down(opening)
            while not self._leaving:
                self._prompt()
                text = await self._lines.get_message()
                self._warned = False
                if text is None:
                    break
                if self._questions:
                    await self._answer(text)
                elif text.strip():
                    await self._take(text)
        finally:
            await self._close_view()

    async def interrupt(self) -> bool:
        """Ctrl+C: stops what runs; where nothing does, the second one in a row leaves (True)."""
        self._scribe.break_off()
        if await self._seat.stop():
            self._warned = False
            return False
        if self._warned:
            return True
        self._warned = True
        self._scribe.note("Nothing is running. Ctrl+C again, or Ctrl+D, leaves.")
        self._prompt()
        return False

    # --- messages -------------------------------------------------------------------------------

    async def _take(self, text: str) -> None:
        command = parse(text)
        if command is None:
            await self._say(text)
        else:
            await self._show_reply(await run_command(self._desk, *command))

    async def _say(self, text: str) -> None:
        try:
            if self._seat.session is None:
                session = await self._seat.begin()
                self._scribe.note(f"Session {session.id}")
                self._open_view(session)
            busy = self._seat.is_busy
            if not busy:  # a queued one is shown again where its turn begins
                self._scribe.said.append(text)
            ticket = await self._seat.say(text)
        except ClewError as error:
            self._scribe.said.clear()
            self._scribe.note(f"{error} Your message was not sent.", "error")
            return
        if busy:
            self._scribe.note("Queued; it is next when this turn is done.")
        await self._follow(ticket)

    async def _follow(self, ticket: Ticket) -> None:
        """Where nobody types, one message is answered before the next is read."""
        ticket.turn.add_done_callback(self._ended_badly)
        if self._lines.is_terminal:
            return
        await asyncio.wait({ticket.turn})
        if not ticket.turn.cancelled() and ticket.turn.exception() is None:
            drawn = self._drawn.setdefault(ticket.turn.result().id, asyncio.Event())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(drawn.wait(), DRAWING)

    def _ended_badly(self, done: asyncio.Future[Turn]) -> None:
        """A turn that could not even write its end, as on a full disk."""
        if not done.cancelled() and (error := done.exception()) is not None:
            self._scribe.note(f"{error} What was committed is kept; /retry goes on.", "error")
            self._prompt()

    def _prompt(self) -> None:
        session = self._seat.session
        busy = session is not None and self._seat.runtime.is_running(session.id)
        if self._lines.is_terminal and not self._questions and not busy:
            self._scribe.prompt()

    # --- commands -------------------------------------------------------------------------------

    async def _show_reply(self, reply: Reply) -> None:
        if reply.text and reply.is_error:
            self._scribe.note(reply.text, "error")
        if reply.switched is not None:
            await self._sit_down(reply.switched)
        if reply.text and not reply.is_error:
            self._scribe.line(reply.text)
        if reply.pick is not None:
            session = await self._entrance.choose(reply.pick)
            if session is not None:
                await self._open(session)
        if reply.open is not None:
            await self._open(reply.open)
        if reply.ticket is not None:
            if reply.switched is not None and self._seat.session is not None:
                self._scribe.note(f"Session {self._seat.session.id}")
                self._open_view(self._seat.session)
            await self._follow(reply.ticket)
        self._leaving = reply.leave

    async def _open(self, session: Session) -> None:
        """Switch to a session, after the question that another project's one needs."""
        try:
            target = await self._entrance.settle_project(session)
            reason = "resume" if target.id == session.id else "fork"
            switched = await self._seat.switch(target, reason)  # type: ignore[arg-type]
        except ClewError as error:
            self._scribe.note(str(error), "error")
            return
        await self._sit_down(switched)
        self._scribe.note("Resumed session")

    async def _sit_down(self, switched: Switched) -> None:
        """Show the session that the seat is at now, and what is to be said about it."""
        self._scribe.said.clear()
        self._questions.clear()
        for notice in switched.notices:
            self._scribe.note(notice, "warning")
        if switched.taken_over is not None:
            dead = switched.taken_over
            self._scribe.note(f"Took over from a terminal that is gone (pid {dead.pid}).")
        self._view.close()
        if switched.session is not None:
            await self._recall(switched.session)
            self._open_view(switched.session)
        for turn in switched.recovered.interrupted:
            said = f' It had said: "{one_line(turn.partial, 60)}".' if turn.partial else ""
            self._scribe.note(f"The last turn was interrupted.{said} /retry goes on.", "warning")
        await self._offer_unanswered(switched)

    async def _recall(self, session: Session) -> None:
        """The last messages of a session that has some."""
        messages = await self._desk.store.get_messages(session.id, RECALLED)
        if session.message_count > len(messages):
            self._scribe.line(f"… {session.message_count - len(messages)} earlier messages", "dim")
        for message in messages:
            self._scribe.write_message(message)

    async def _offer_unanswered(self, switched: Switched) -> None:
        """Messages that a crash left without a turn: nothing runs without the person's word."""
        for inbound in switched.recovered.unanswered:
            text = str(inbound.payload.get("text", ""))
            if not self._lines.is_terminal:
                self._scribe.note(f'Not answered, and left waiting: "{one_line(text, 60)}".')
                continue
            self._scribe.prompt(f'Not answered yet: "{one_line(text, 60)}". Answer it now? [y/N] ')
            answer = await self._lines.get() or ""
            if answer.strip().lower() in ("y", "yes"):
                self._scribe.said.append(text)
                await self._follow(await self._seat.adopt(inbound))
            else:
                await self._desk.store.drop_inbound([inbound.id])

    # --- the view -------------------------------------------------------------------------------

    def _open_view(self, session: Session) -> None:
        """Watch this session from its head on, in place of the one before."""
        self._view.close()
        self._view = ExitStack()
        events = self._view.enter_context(self._seat.runtime.watch(session.id, session.head))
        self._pump = asyncio.create_task(self._draw(events), name="drawing")
        self._view.callback(self._pump.cancel)

    async def _close_view(self) -> None:
        self._view.close()
        if self._pump is not None:
            await asyncio.wait({self._pump})

    async def _draw(self, events: AsyncIterator[Event]) -> None:
        async for event in events:
            self._scribe.write(event)
            match event:
                case ApprovalAsked(approval):
                    self._ask(approval)
                case ApprovalDecided(approval):
                    self._forget(approval)
                case TurnEnded(turn):
                    self._drawn.setdefault(turn.id, asyncio.Event()).set()
                    self._questions.clear()
                    self._prompt_later(turn.session_id)
                case _:
                    pass

    def _prompt_later(self, session_id: str) -> None:
        """The lane is free a moment after the turn's end; then it is the person's turn."""

        async def wait() -> None:
            await self._seat.runtime.join(session_id)
            self._prompt()

        if self._prompting is not None:
            self._prompting.cancel()
        self._prompting = asyncio.create_task(wait(), name="prompt")
        self._view.callback(self._prompting.cancel)

    # --- questions ------------------------------------------------------------------------------

    def _ask(self, approval: Approval) -> None:
        self._questions.append(approval)
        for line, style in question_lines(approval):
            self._scribe.line(line, style)
        self._scribe.prompt(ASKED)

    async def _answer(self, text: str) -> None:
        answer = ANSWERS.get(text.strip().lower())
        if answer is None:
            self._scribe.note("Please answer y, s, a or n.", None)
            self._scribe.prompt(ASKED)
            return
        approval, (decision, scope) = self._questions.popleft(), answer
        by = self._seat.person
        decided = await self._seat.runtime.decide(approval.id, decision, by=by, scope=scope)
        if decided.decided_by != by:
            self._scribe.note(f"It was already answered: {decided.decision}.")

    def _forget(self, approval: Approval) -> None:
        """Somebody else has answered, or the time is over."""
        if any(each.id == approval.id for each in self._questions):
            self._questions = deque(each for each in self._questions if each.id != approval.id)
            self._scribe.note(f"Answered {approval.decision} by {approval.decided_by}.")
