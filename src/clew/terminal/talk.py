"""The talk: what a chat does with what a person types, whatever the screen looks like.

Line mode and the full screen are surfaces of it. What a line means is decided by the runtime's
commands, what a turn does by the runtime itself, how events look by the surface.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Final, Protocol

from clew.core.commands import parse
from clew.core.names import counted
from clew.core.session import Session
from clew.core.signals import ApprovalAsked, ApprovalDecided, Event, Notice, TurnEnded
from clew.core.turn import Approval, ApprovalScope, Decision, Turn
from clew.errors import ClewError, Unauthorized
from clew.runtime.commands import run_command
from clew.runtime.commands.desk import Desk, Reply
from clew.runtime.runtime import Ticket
from clew.runtime.seat import Seat, Switched
from clew.terminal.drawing import one_line
from clew.terminal.entrance import Asker, Entrance
from clew.terminal.pictures import find_pictures

DRAWING: Final = 30
"""Seconds within which a turn that is over has been shown, even on a very busy machine."""

ON_ITS_WAY: Final = 1.0
"""Seconds that Ctrl+C waits for a message that is just being sent."""


def read_command(text: str) -> tuple[str, str] | None:
    """The command that a line is, and what follows it; None for a message."""
    return parse(text, is_path=os.path.exists)


class Surface(Asker, Protocol):
    """Where a talk is seen. Nothing here is a decision: a surface draws, and asks."""

    def tell(self, text: str) -> None:
        """What a command answers."""
        ...

    def show(self, event: Event) -> None:
        """Something happens in the session."""
        ...

    def sent(self, text: str) -> None:
        """The person's message is on its way, and its turn comes at once."""
        ...

    def queued(self, text: str) -> None:
        """The person's message waits until the turn that runs is done."""
        ...

    def unsent(self, text: str) -> None:
        """The person's message could not be sent, and should not be lost."""
        ...

    def taken_back(self, texts: tuple[str, ...]) -> None:
        """The person's messages that waited need no turn any more, and should not be lost."""
        ...

    async def redraw(self, session: Session | None) -> None:
        """Clear what was shown of the last session, and show what was said in this one."""
        ...

    def put_question(self, approval: Approval) -> None:
        """A tool wants something; the answer goes to `Talk.answer`."""
        ...

    def withdraw_question(self, approval: Approval) -> None:
        """Somebody else has answered, the time is over, or the turn has ended."""
        ...

    def ready(self) -> None:
        """Nothing runs: it is the person's turn."""
        ...


class Talk:
    """One conversation: from a line that was typed to what the surface shows."""

    def __init__(self, desk: Desk, surface: Surface, entrance: Entrance) -> None:
        self.desk = desk
        self.seat: Seat = desk.seat
        self.questions: deque[Approval] = deque()
        self.is_leaving = False
        self._surface = surface
        self._entrance = entrance
        self._view = ExitStack()
        self._pump: asyncio.Task[None] | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._drawn: dict[str, asyncio.Event] = {}
        self._warned = False
        self._saying = asyncio.Lock()
        """Held while a message is on its way to where it waits or runs."""
        self._last: asyncio.Future[Turn] | None = None
        """How the message that was sent last ends."""

    async def close(self) -> None:
        """Watch no longer."""
        self._view.close()
        # Python 3.11 can lose a cancellation that comes together with what was waited for.
        while self._pump is not None and not self._pump.done():
            self._pump.cancel()
            await asyncio.wait({self._pump}, timeout=1)

    @property
    def is_running(self) -> bool:
        """Whether this process has something to do in the session."""
        session = self.seat.session
        return session is not None and self.seat.runtime.is_running(session.id)

    async def interrupt(self, *, afresh: bool = False) -> bool:
        """Ctrl+C: stops what runs; where nothing does, the second one in a row leaves (True).

        What waits behind it would begin at once, and nobody wants that: it is taken back.
        `afresh`: something was typed since the last one, so it is a first one again.
        """
        await self._take_back()
        last = self._last if self._last is not None and not self._last.done() else None
        if await self.seat.stop() and not (last is not None and _is_done(last)):
            self._warned = False
            return False
        if self._warned and not afresh:
            return True
        self._warned = True
        self._surface.note("Nothing is running. Ctrl+C again, or Ctrl+D, leaves.")
        self._surface.ready()
        return False

    async def _take_back(self) -> None:
        session = self.seat.session
        if session is None or self.seat.read_only or not self.is_running:
            return
        with contextlib.suppress(TimeoutError):  # a gateway that does not answer keeps nobody
            async with asyncio.timeout(ON_ITS_WAY), self._saying:
                pass
        taken = await self.seat.runtime.take_back(session.id)
        if taken:
            self._surface.taken_back(tuple(str(each.payload.get("text", "")) for each in taken))

    # --- messages -------------------------------------------------------------------------------

    async def take(self, text: str) -> None:
        """What the person typed: a message, or a command."""
        self._warned = False
        command = read_command(text)
        if command is None:
            await self._say(text)
        else:
            run = self.desk.run or run_command
            await self._show_reply(await run(self.desk, *command))

    async def _say(self, text: str) -> None:
        try:
            ready = await self.seat.make_ready()
            if ready.is_new:
                if ready.notice is not None:
                    await self._surface.redraw(None)
                    self._surface.note(ready.notice)
                self._surface.note(f"Session {ready.session.id}")
                self._open_view(ready.session)
            cwd = self.seat.place.cwd
            pictures = await asyncio.to_thread(find_pictures, text, cwd) if "@" in text else ()
            busy = self.seat.is_busy
            if not busy:  # a queued one is shown where its turn begins
                self._surface.sent(text)
            async with self._saying:
                ticket = await self.seat.say(text, files=pictures)
        except ClewError as error:
            why = "" if isinstance(error, Unauthorized) else f"{error} "  # that ends the chat
            self._surface.note(f"{why}Your message was not sent.", "error")
            self._surface.unsent(text)
            return
        if pictures:
            self._surface.note(f"Sent along: {counted(len(pictures), 'picture')}.")
        if busy:
            self._surface.queued(text)
        await self._follow(ticket)

    async def _follow(self, ticket: Ticket) -> None:
        """Where nobody types, one message is answered before the next is read."""
        self._last = ticket.turn
        ticket.turn.add_done_callback(self._ended_badly)
        if self._surface.is_attended:
            return
        await asyncio.wait({ticket.turn})
        if not ticket.turn.cancelled() and ticket.turn.exception() is None:
            drawn = self._drawn.setdefault(ticket.turn.result().id, asyncio.Event())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAWING):
                    await drawn.wait()

    def _ended_badly(self, done: asyncio.Future[Turn]) -> None:
        """A turn that could not even write its end, as on a full disk."""
        error = None if done.cancelled() else done.exception()
        if error is not None and not isinstance(error, Unauthorized):
            self._surface.note(f"{error} What was committed is kept; /retry goes on.", "error")
            self._surface.ready()

    # --- commands -------------------------------------------------------------------------------

    async def _show_reply(self, reply: Reply) -> None:
        if reply.text and reply.is_error:
            self._surface.note(reply.text, "error")
        if reply.switched is not None:
            await self.sit_down(reply.switched)
        if reply.text and not reply.is_error:
            self._surface.tell(reply.text)
        if reply.pick is not None:
            await self.pick(reply.pick)
        if reply.open is not None:
            await self.open(reply.open)
        if reply.ticket is not None:
            if reply.switched is not None and self.seat.session is not None:
                self._surface.note(f"Session {self.seat.session.id}")
                self._open_view(self.seat.session)
            await self._follow(reply.ticket)
        self.is_leaving = reply.leave

    async def pick(self, sessions: tuple[Session, ...] = ()) -> None:
        """Let the person choose one of these, or any if there are none, and go there."""
        picked = await self._surface.choose(sessions)
        if picked is not None:
            await self.open(picked.session, forks=picked.forks)

    async def open(self, session: Session, *, forks: bool = False) -> None:
        """Switch to a session or a branch of it, after the question that another project needs."""
        try:
            switched = await self._entrance.sit_at(session, "resume", forks=forks)
        except ClewError as error:
            self._surface.note(str(error), "error")
            return
        await self.sit_down(switched)
        resumed = switched.reason != "fork"
        self._surface.note("Resumed session" if resumed else "Now in a branch")

    async def sit_down(self, switched: Switched) -> None:
        """Show the session that the seat is at now, and what is to be said about it."""
        self.questions.clear()
        self._view.close()
        await self._surface.redraw(switched.session)
        for notice in switched.notices:
            self._surface.note(notice, "warning")
        if switched.taken_over is not None:
            dead = switched.taken_over
            self._surface.note(f"Took over from a terminal that is gone (pid {dead.pid}).")
        if switched.session is not None:
            self._open_view(switched.session)
        for _turn in switched.recovered.interrupted:
            self._surface.note("The last turn was interrupted. /retry goes on.", "warning")
        await self._offer_unanswered(switched)

    async def _offer_unanswered(self, switched: Switched) -> None:
        """Messages that a crash left without a turn: nothing runs without the person's word."""
        for inbound in switched.recovered.unanswered:
            text = str(inbound.payload.get("text", ""))
            if not self._surface.is_attended:
                self._surface.note(f'Not answered, and left waiting: "{one_line(text, 60)}".')
                continue
            question = f'Not answered yet: "{one_line(text, 60)}". Answer it now? [y/N] '
            answer = await self._surface.ask(question)
            if answer.lower() in ("y", "yes"):
                self._surface.sent(text)
                await self._follow(await self.seat.adopt(inbound))
            else:
                await self.seat.drop(inbound)

    # --- the view -------------------------------------------------------------------------------

    def _open_view(self, session: Session) -> None:
        """Watch this session from its head on, in place of the one before."""
        self._view.close()
        self._view = ExitStack()
        events = self._view.enter_context(self.seat.runtime.watch(session.id, session.head))
        self._pump = asyncio.create_task(self._watch(events), name="watching")
        self._view.callback(self._pump.cancel)

    async def _watch(self, events: AsyncIterator[Event]) -> None:
        async for event in events:
            self._surface.show(event)
            match event:
                case ApprovalAsked(approval):
                    # It may be another process's: a pipe, or who only looks, has no word in it.
                    if self._surface.is_attended and not self.seat.read_only:
                        self.questions.append(approval)
                        self._surface.put_question(approval)
                case ApprovalDecided(approval):
                    self._forget(approval)
                case TurnEnded(turn):
                    self._drawn.setdefault(turn.id, asyncio.Event()).set()
                    while self.questions:
                        self._surface.withdraw_question(self.questions.popleft())
                    self._ready_later(turn.session_id)
                case Notice() if not self.is_running:
                    self._surface.ready()  # it was said in the middle of the person's line
                case _:
                    pass

    def _ready_later(self, session_id: str) -> None:
        """The lane is free a moment after the turn's end; then it is the person's turn."""

        async def wait() -> None:
            await self.seat.runtime.join(session_id)
            self._surface.ready()

        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = asyncio.create_task(wait(), name="ready")
        self._view.callback(self._waiting.cancel)

    # --- questions ------------------------------------------------------------------------------

    async def answer(self, decision: Decision, scope: ApprovalScope = "once") -> None:
        """The person's word about the oldest question."""
        if not self.questions:
            return
        approval, by = self.questions.popleft(), self.seat.person
        decided = await self.seat.runtime.decide(approval.id, decision, by=by, scope=scope)
        if decided.decided_by != by:
            self._surface.note(f"It was already answered: {decided.decision}.")

    def _forget(self, approval: Approval) -> None:
        """Somebody else has answered, or the time is over."""
        if any(each.id == approval.id for each in self.questions):
            self.questions = deque(each for each in self.questions if each.id != approval.id)
            self._surface.withdraw_question(approval)
            match approval.decided_by:
                case "stopped":  # the turn's end says it
                    pass
                case "expired":
                    self._surface.note("Nobody answered in time, so it was not done.", "warning")
                case by:
                    self._surface.note(f"Answered {approval.decision} by {by}.")


def _is_done(turn: asyncio.Future[Turn]) -> bool:
    """Whether the turn came to its own end, although it was to be stopped: that was too late."""
    if not turn.done() or turn.cancelled() or turn.exception() is not None:
        return False
    return turn.result().status == "done"
