"""The conversation: what a chat does with what a person types, for any display.

Line mode and the full screen are displays of it, and decide how events look. Commands that switch
the session, write to this disk or leave are in `terminal.commands`; all others run where the
session is.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from clew.api.seats import Seated
from clew.api.sessions import SessionView
from clew.core.commands import parse
from clew.core.live_events import (
    ApprovalAsked,
    ApprovalDecided,
    Event,
    NotAnswered,
    Notice,
    TurnEnded,
)
from clew.core.names import counted
from clew.core.session import Session
from clew.core.text import is_yes
from clew.core.turn import Approval, ApprovalScope, Decision, Turn
from clew.errors import ClewError, Forbidden, Unauthorized
from clew.terminal.commands import Reply, run_command
from clew.terminal.live import Sent
from clew.terminal.pictures import find_pictures
from clew.terminal.plain_output import one_line
from clew.terminal.seat import Seat
from clew.terminal.startup import Asker, Startup

ON_ITS_WAY: Final = 1.0
"""Seconds that Ctrl+C waits for a message that is being sent."""

AT_ITS_END: Final = 0.2
"""Seconds that Ctrl+C waits to see whether the turn had already ended by itself."""

LEAVES: Final = 2.0
"""Seconds within which a second Ctrl+C leaves."""


def read_command(text: str) -> tuple[str, str] | None:
    """The command that a line is, and what follows it; None for a message."""
    return parse(text, is_path=os.path.exists)


class Display(Asker, Protocol):
    """Where a conversation is shown. A display draws and asks, and decides nothing."""

    def tell(self, text: str) -> None:
        """Show the answer of a command."""
        ...

    def show(self, event: Event) -> None:
        """Show an event of the session."""
        ...

    def sent(self, text: str) -> None:
        """Show a message of the person whose turn begins at once."""
        ...

    def queued(self, text: str) -> None:
        """Show that a message of the person waits for the running turn."""
        ...

    def unsent(self, text: str) -> None:
        """A message could not be sent; give it back to the person."""
        ...

    def taken_back(self, texts: tuple[str, ...]) -> None:
        """Waiting messages were taken back; give them back to the person."""
        ...

    async def redraw(self, session: SessionView | None) -> None:
        """Show the messages of this session instead of the last one's."""
        ...

    def put_question(self, approval: Approval) -> None:
        """Ask for an approval; the answer goes to `Conversation.answer`."""
        ...

    def withdraw_question(self, approval: Approval) -> None:
        """A question needs no answer any more."""
        ...

    def ready(self) -> None:
        """Nothing runs: the person can type."""
        ...


class Conversation:
    """One conversation: from a line that was typed to what the display shows."""

    def __init__(
        self,
        seat: Seat,
        display: Display,
        startup: Startup,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seat = seat
        self.startup = startup
        self.now = now
        self.questions: deque[Approval] = deque()
        self.is_leaving = False
        self._display = display
        self._context = contextvars.copy_context()
        self._warned_at: float | None = None
        """When Ctrl+C said that another one leaves."""
        self._saying = asyncio.Lock()
        """Held while a message is being sent."""
        self._last: asyncio.Future[Turn] | None = None
        """The turn of the message that was sent last."""
        self._waiting: dict[str | None, str] = {}
        """Messages that Ctrl+C is taking back."""
        seat.live.show = self._show

    def close(self) -> None:
        """Stop showing events."""
        self.seat.live.show = lambda _event: None
        self.seat.live.changed = lambda: None

    @property
    def is_running(self) -> bool:
        """Whether a turn runs in the session, or one of this terminal's is about to."""
        return self.seat.live.is_running

    async def interrupt(self, *, afresh: bool = False) -> bool:
        """Ctrl+C: stop the running turn. If none runs, a second one within `LEAVES` leaves (True).

        Waiting messages are taken back, since the next one would begin at once. `afresh`:
        something was typed since the last Ctrl+C, so this counts as a first one.
        """
        pressed_at = self.now()
        if await self.stop():
            return False
        if not afresh and self._warned_at is not None and pressed_at - self._warned_at <= LEAVES:
            return True
        self._warned_at = self.now()
        self._display.note("Nothing is running. Ctrl+C again, or Ctrl+D, leaves.")
        self._display.ready()
        return False

    async def stop(self) -> bool:
        """Stop the running turn and take back waiting messages. Whether there was a turn."""
        last = self._last if self._last is not None and not self._last.done() else None
        if await self._stop() and not await _is_done(last):
            self._warned_at = None
            return True
        return False

    async def _stop(self) -> bool:
        if self.seat.session is None:
            return False
        with contextlib.suppress(TimeoutError):  # do not wait for a gateway that does not answer
            async with asyncio.timeout(ON_ITS_WAY), self._saying:
                pass
        self._waiting = {each.id: each.text for each in self.seat.live.list_waiting()}
        stopped, taken = await self.seat.stop()
        self._take_back(each.id for each in taken)
        self._waiting = {}
        return stopped

    def _take_back(self, ids: Iterable[str | None]) -> None:
        """Give waiting messages back to the person: each once, and before the turn's end."""
        texts = tuple(self._waiting.pop(each) for each in ids if each in self._waiting)
        if texts:
            self._display.taken_back(texts)

    # --- messages -------------------------------------------------------------------------------

    async def take(self, text: str) -> None:
        """Handle what the person typed: a message, or a command."""
        self._warned_at = None
        command = read_command(text)
        if command is None:
            await self.say(text)
        else:
            await self._show_reply(await run_command(self, *command))

    async def say(self, text: str) -> None:
        """Send a message; the first one makes a session."""
        try:
            await self._make_ready()
            cwd = self.seat.place.cwd
            pictures = await asyncio.to_thread(find_pictures, text, cwd) if "@" in text else ()
            busy = self.seat.live.is_busy
            if not busy:  # a queued one is shown when its turn begins
                self._display.sent(text)
            async with self._saying:
                sent = await self.seat.say(text, files=pictures)
        except ClewError as error:
            why = (
                "" if isinstance(error, Unauthorized) else f"{error} "
            )  # then the chat ends, and says why
            self._display.note(f"{why}Your message was not sent.", "error")
            self._display.unsent(text)
            return
        if pictures:
            self._display.note(f"Sent along: {counted(len(pictures), 'picture')}.")
        if busy:
            self._display.queued(text)
        await self._follow(sent)

    async def _make_ready(self) -> None:
        ready = await self.seat.make_ready()
        if ready.notice is not None:
            await self._display.redraw(None)
            self._display.note(ready.notice)
        if ready.is_new:
            self._display.note(f"Session {ready.session.id}")
        if ready.beside is not None:
            self._display.note(ready.beside, "warning")

    async def _follow(self, sent: Sent) -> None:
        """Watch how a message ends; without a person, wait for it before the next is read."""
        self._last = sent.turn
        sent.turn.add_done_callback(self._ended_badly)
        if not self._display.is_attended:
            await asyncio.wait({sent.turn})

    def _ended_badly(self, done: asyncio.Future[Turn]) -> None:
        """Report a turn that could not begin, or could not record its end (a full disk)."""
        if done.cancelled():
            return
        error = done.exception() or done.result().error
        is_bad = done.exception() is not None or done.result().status == "interrupted"
        if is_bad and error is not None and not isinstance(error, Unauthorized):
            self._display.note(f"{error} What was committed is kept; /retry goes on.", "error")
            self._display.ready()

    # --- commands -------------------------------------------------------------------------------

    async def run_there(self, line: str) -> Reply:
        """Run a command where the session is."""
        answer, sent = await self.seat.run_command(line)
        return Reply(
            text=answer.text,
            is_error=answer.is_error,
            sent=sent,
            pick=answer.pick,
            open=answer.open,
        )

    async def _show_reply(self, reply: Reply) -> None:
        if reply.text and reply.is_error:
            self._display.note(reply.text, "error")
        if reply.seated is not None:
            await self.sit_down(reply.seated)
        if reply.text and not reply.is_error:
            self._display.tell(reply.text)
        if reply.pick is not None:
            await self.pick(reply.pick)
        if reply.open is not None:
            await self.open(reply.open)
        if reply.says:
            await self.say(reply.says)
        if reply.sent is not None:
            await self._follow(reply.sent)
        self.is_leaving = reply.leaves

    async def pick(self, sessions: tuple[SessionView, ...] = ()) -> None:
        """Let the person choose one of these, or of all if it is empty, and switch to it."""
        picked = await self._display.choose(sessions)
        if picked is not None:
            await self.open(picked.session, forks=picked.forks)

    async def open(self, session: Session, *, forks: bool = False) -> None:
        """Switch to a session or a fork of it; asks first if it is another project's."""
        try:
            seated = await self.startup.sit_at(session, "resume", forks=forks)
        except ClewError as error:
            self._display.note(str(error), "error")
            return
        await self.sit_down(seated)
        resumed = seated.reason != "fork"
        self._display.note("Resumed session" if resumed else "Now in a branch")

    async def sit_down(self, seated: Seated) -> None:
        """Show the session that the seat is at now, with its notices and unanswered messages."""
        # Events come from a task outside of Textual, which needs its own context to draw.
        self._context = contextvars.copy_context()
        self.questions.clear()
        await self._display.redraw(seated.session)
        for notice in seated.notices:
            self._display.note(notice, "warning")
        if seated.taken_over is not None:
            dead = seated.taken_over
            self._display.note(f"Took over from a terminal that is gone (pid {dead.pid}).")
        if seated.session is not None:
            await self.seat.live.follow(seated.session)
        for _turn in seated.interrupted:
            self._display.note("The last turn was interrupted. /retry goes on.", "warning")
        await self._offer_unanswered(seated)

    async def _offer_unanswered(self, seated: Seated) -> None:
        """Ask about messages that a crash left without a turn; none runs without a yes.

        Without one it is a draft again.
        """
        declined: list[str] = []
        for inbound in seated.unanswered:
            text = str(inbound.payload.get("text", ""))
            if not self._display.is_attended:
                self._display.note(f'Not answered, and left waiting: "{one_line(text, 60)}".')
                continue
            question = f'Not answered yet: "{one_line(text, 60)}". Answer it now? [y/N] '
            answer = await self._display.ask(question)
            if is_yes(answer):
                self._display.sent(text)
                await self._follow(await self.seat.run_waiting(inbound))
            else:
                await self.seat.drop_waiting(inbound)
                declined.append(text)
        if declined:
            self._display.taken_back(tuple(declined))

    # --- events ---------------------------------------------------------------------------------

    def _show(self, event: Event) -> None:
        self._context.run(self._show_event, event)

    def _show_event(self, event: Event) -> None:
        self._display.show(event)
        match event:
            case ApprovalAsked(approval):
                # A pipe, or a read-only session, does not answer the questions of other processes.
                if self._display.is_attended and not self.seat.read_only:
                    self.questions.append(approval)
                    self._display.put_question(approval)
            case ApprovalDecided(approval):
                self._forget(approval)
            case TurnEnded():
                gone, self.questions = self.questions, deque()
                for each in gone:
                    self._display.withdraw_question(each)
                self._tell_ready()
            case NotAnswered(ids):
                self._take_back(ids)
                self._tell_ready()
            case Notice():
                self._tell_ready()  # it may have interrupted the prompt
            case _:
                pass

    def _tell_ready(self) -> None:
        """Tell the display if nothing runs, after the current event is handled."""
        asyncio.get_running_loop().call_soon(self._ready_if_idle)

    def _ready_if_idle(self) -> None:
        if not self.is_running:
            self._display.ready()

    # --- questions ------------------------------------------------------------------------------

    async def answer(
        self,
        approval: Approval,
        decision: Decision,
        scope: ApprovalScope = "once",
        reason: str | None = None,
    ) -> None:
        """Answer this question, unless it needs no answer any more."""
        if all(each.id != approval.id for each in self.questions):
            return
        self.questions = deque(each for each in self.questions if each.id != approval.id)
        try:
            before = await self.seat.answer(approval, decision, scope, reason)
        except Forbidden as error:
            self._display.note(str(error))
            if scope == "always":  # the token may allow a shorter time
                self.questions.appendleft(approval)
                self._display.put_question(approval)
            return
        if before is not None:
            self._display.note(f"It was already answered: {before.decision}.")

    def _forget(self, approval: Approval) -> None:
        """Withdraw a question that another process has answered, or that has expired."""
        if any(each.id == approval.id for each in self.questions):
            self.questions = deque(each for each in self.questions if each.id != approval.id)
            match approval.decided_by:
                case "stopped":  # the turn's end says it
                    pass
                case "expired":
                    self._display.note("Nobody answered in time, so it was not done.", "warning")
                case by:
                    self._display.note(f"Answered {approval.decision} by {by}.")
            self._display.withdraw_question(approval)


async def _is_done(turn: asyncio.Future[Turn] | None) -> bool:
    """Whether the turn ended by itself before it could be stopped."""
    if turn is None:
        return False
    await asyncio.wait({turn}, timeout=AT_ITS_END)
    if not turn.done() or turn.cancelled() or turn.exception() is not None:
        return False
    return turn.result().status == "done"
