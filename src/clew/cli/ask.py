"""`clew ask`: one question, its answer on stdout; for scripts and quick questions."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from clew.cli.app import App, encode, json_option, pass_app
from clew.cli.conversation import (
    Choice,
    Parts,
    conversation,
    on_signals,
    read_words,
    run_talk,
    settle_directory,
)
from clew.cli.options import session_options
from clew.errors import Forbidden

if TYPE_CHECKING:
    from clew.api.chat import Accepted
    from clew.client.chat import Sending
    from clew.core.live_events import Event
    from clew.core.message import Message
    from clew.core.turn import Approval, Turn

FAILED = 1
INTERRUPTED = 130
TIMED_OUT = 124

GOODBYE = 5.0
"""Seconds that a gateway has to stop an answer."""


@click.command("ask")
@click.argument("words", metavar="[QUESTION]...", nargs=-1)
@session_options(asks=True)
@click.option(
    "--personality", metavar="ID", help="The session's personality, as /personality sets it."
)
@click.option("--system", metavar="TEXT", help="Instructions for this answer only.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0, 10**6, min_open=True),
    help="Stop the answer after this time, with exit code 124.",
)
@json_option
@pass_app
def ask_command(
    app: App,
    /,
    words: tuple[str, ...],
    system: str | None,
    timeout: float | None,
    **choice: Any,
) -> None:
    """Ask one question. What is piped in comes after it, or is the question itself.

    It begins afresh, in a session of its own. -c, -r and --key go on with one, also while that is
    open in a terminal. A tool that needs your approval is refused if you can't be asked; allow it
    with tools.allow. With --json every event is one line; the last one has the type "result".

    \b
    Examples:
      clew ask "what does this error mean?" < build.log
      git diff | clew ask "write a commit message"
      clew ask -c "and in French?"
      clew ask --system "Answer with one word." --timeout 30 "is it red?" < build.log
      clew ask -r "login bug" --json "what is left to do?"
    """
    text = read_words(words, "What is the question? Give it as words, or pipe it in.")
    chosen = Choice(**choice)
    begins = chosen.continues is None and chosen.resume is None
    if chosen.fork and begins and chosen.key is None:
        raise click.UsageError("--fork needs a session to branch off: add -c, -r ID or --key NAME.")
    asking = _ask(app, text, chosen, typed=" ".join(words), system=system, seconds=timeout)
    run_talk(app, asking)


async def _ask(
    app: App, text: str, choice: Choice, *, typed: str, system: str | None, seconds: float | None
) -> int:
    """`typed` is the question without the piped text: only there `@name` means a picture."""
    from clew.terminal.asker import LineAsker
    from clew.terminal.conversation import read_command
    from clew.terminal.lines import Lines
    from clew.terminal.pictures import find_pictures
    from clew.terminal.plain_output import TextOutput

    if read_command(text) is not None:
        raise click.UsageError("Slash commands are for the chat: `clew chat`.")
    lines, aside = Lines(), TextOutput(app.colour_aside, sys.stderr)
    lines.is_terminal = lines.is_terminal and not app.json and sys.stderr.isatty()
    is_keyed = (choice.key or app.config.session_key) is not None
    how = {
        "holds": False,
        "attended": lines.is_terminal,
        "follows": False,
        "asks": not is_keyed,
    }
    async with conversation(app, choice, **how) as parts:
        seat = parts.seat
        startup = parts.start_up(LineAsker(seat, lines, aside))
        await settle_directory(parts, startup.asker, choice)
        current = parts.located.session if is_keyed else None
        seated, _ = await startup.open(choice.flags(), current, parts.breadcrumb)
        await seat.choose(model=choice.model, personality=choice.personality)
        for notice in seated.notices:
            aside.line(notice, "dim")
        if seat.model.embedded:
            await parts.connection.have_model(tell=False)  # the turn reports it
        pictures = await asyncio.to_thread(find_pictures, typed, seat.place.cwd)
        ready = await seat.make_ready()
        if ready.is_new:
            if ready.notice is not None:
                aside.line(ready.notice, "dim")
            aside.line(f"Session {ready.session.id}", "dim")
        if ready.beside is not None:
            aside.line(ready.beside, "warning")
        sending = seat.prepare(text, files=pictures, instructions=system)
        return await Question(app, parts, sending, lines, aside).ask(seconds)


class Question:
    """One question and its answer; other events of the session are not shown."""

    def __init__(self, app: App, parts: Parts, sending: Sending, lines: Any, aside: Any) -> None:
        self._app = app
        self._client = parts.connection.client
        self._seat = parts.seat
        self._sending = sending
        self._lines = lines
        self._aside = aside
        self._stops: set[asyncio.Future[None]] = set()

    async def ask(self, seconds: float | None = None) -> int:
        """Ask, and show the answer; stop after these seconds. Returns the exit code."""
        showing = asyncio.create_task(self._show())

        def stop(_number: int) -> None:
            if self._stops or self._sending.accepted is None:
                showing.cancel()  # a second Ctrl+C: don't wait for a gateway that doesn't answer
            else:
                self._stops.add(asyncio.ensure_future(self._stop(self._sending.accepted)))

        with on_signals(stop):
            done, _ = await asyncio.wait({showing}, timeout=seconds)
            if not done:
                stop(signal.SIGALRM)
                await self._give_up(showing, seconds)
                return TIMED_OUT
        if showing.cancelled() or (turn := showing.result()) is None:
            return INTERRUPTED
        return await self._finish(turn)

    async def _give_up(self, showing: asyncio.Task[Turn | None], seconds: float | None) -> None:
        """Say that the time is over, and wait until the turn is stopped."""
        self._aside.line(f"No answer after {seconds:g} s (--timeout).", "warning")
        await asyncio.wait({showing}, timeout=GOODBYE)
        showing.cancel()
        await asyncio.wait({showing})
        if not showing.cancelled() and (turn := showing.result()) is not None:
            await self._finish(turn)

    async def _stop(self, accepted: Accepted) -> None:
        """Take the question back, or abort the turn that answers it."""
        from clew.errors import ClewError

        with contextlib.suppress(ClewError):
            await self._client.sessions.stop(accepted.session, message=accepted.inbound)

    async def _show(self) -> Turn | None:
        """Write events as JSON lines; or the answer to stdout as it streams, the rest to stderr.

        Returns the turn that answered, None if the question was taken back.
        """
        from clew.core.live_events import ApprovalAsked, TurnEnded
        from clew.errors import Conflict
        from clew.terminal.plain_output import EventWriter, TextOutput

        writer = EventWriter(self._aside, self._aside, verbose=lambda: False)
        answer = Answer(TextOutput(self._app.colour, beside=self._aside), self._aside)
        turn: Turn | None = None
        try:
            async for frame in self._sending.follow():
                event = frame.event
                if isinstance(event, TurnEnded):
                    turn = event.turn
                if self._app.json:
                    click.echo(encode(event))
                elif isinstance(event, TurnEnded):
                    writer.make_room()
                    answer.end(event.turn)
                elif not answer.take(event):
                    writer.write(event)
                if isinstance(event, ApprovalAsked) and self._lines.is_terminal:
                    await self._decide(event.approval)
        except Conflict:
            if self._sending.accepted is None:
                raise
            return None
        return turn

    async def _decide(self, approval: Approval) -> None:
        """Ask the person about a tool call; only what is typed after the question answers it."""
        from clew.terminal.asker import Answer, LineQuestion
        from clew.terminal.plain_output import question_lines

        question = LineQuestion(approval)
        for line, style in question_lines(approval):
            self._aside.line(line, style)
        self._lines.drop_unread()
        read: Any = None
        while not isinstance(read, Answer):
            if read == "message":
                self._aside.line(f"Please answer {question.words}.")
            asked_at = self._lines.mark()  # first: an answer may be quicker than the next line
            self._aside.write(question.prompt)
            typed = await self._read_line(asked_at)
            read = Answer("no") if typed is None else question.read(typed)
        try:
            await self._seat.answer(approval, read.decision, read.scope, read.reason)
        except Forbidden as error:
            self._aside.line(str(error))
            if read.scope == "always":  # the token may allow a shorter time
                await self._decide(approval)

    async def _read_line(self, since: float) -> str | None:
        """The next line that was typed since then; None when there are no more."""
        while True:
            typed: str | None = await self._lines.get()
            self._aside.moved()
            if typed is None or self._lines.came_at >= since:
                return typed

    async def _finish(self, turn: Turn) -> int:
        if self._app.json:
            click.echo(encode(await self._describe(turn)))
        else:
            self._tell_end(turn)
        if turn.status == "done":
            return 0
        return INTERRUPTED if turn.status == "aborted" else FAILED

    def _tell_end(self, turn: Turn) -> None:
        """Say why there is no answer, and what can be done in a script: it has no commands."""
        from clew.terminal.plain_output import describe_end

        error = next(describe_end(turn), None)
        if error is None:
            return
        there = f"`clew -r {turn.session_id}`"
        if turn.status == "failed":
            self._aside.line(*error)
            kept = f"The question is kept: {there} opens its session, where /retry asks again."
        else:
            kept = f"Stopped. {there} opens the session, where /retry goes on."
        self._aside.line(kept, "dim")

    async def _describe(self, turn: Turn) -> dict[str, Any]:
        page = await self._client.sessions.messages(turn.session_id, limit=50)
        said = [
            each.content
            for each in page.messages
            if each.turn_id == turn.id and _is_answer(each) and each.content
        ]
        return {
            "type": "result",
            "session_id": turn.session_id,
            "turn_id": turn.id,
            "status": turn.status,
            "answer": said[-1] if said else None,
            "error": turn.error,
            "usage": msgspec.to_builtins(turn.usage),
        }


def _is_answer(message: Message) -> bool:
    """Whether the model said it as its answer, and not before it calls a tool."""
    return message.role == "assistant" and not message.tool_calls


class Answer:
    """Writes what the model says, and nothing else, to stdout.

    A terminal shows it as it streams. A file or a pipe gets the last answer of a turn that was
    done, as a whole: what the model says before it calls a tool goes to stderr, and what an attempt
    said that broke off, nowhere.
    """

    def __init__(self, out: Any, aside: Any) -> None:
        from clew.terminal.plain_output import ControlFilter

        self._out = out
        self._aside = aside
        self._filter = ControlFilter()
        self._streamed = False
        self._last: Message | None = None

    def end(self, turn: Turn) -> None:
        """The turn is over: a file or a pipe gets its answer now."""
        if self._last is not None and turn.status == "done":
            self._say(self._last)
            self._last = None
        self._put_aside()

    def take(self, event: Event) -> bool:
        """Write an event that is part of the answer. Returns False for other events."""
        from clew.core.live_events import Committed, Retrying, TextDelta

        match event:
            case TextDelta() if not self._out.is_terminal:
                return True
            case Retrying() if self._streamed:
                self._break_off()
                return False
            case TextDelta(text):
                self._streamed = True
                self._out.write(self._filter.feed(text))
                return True
            case Committed(message) if message.role == "assistant":
                self._take_message(message)
                return True
            case Committed(message):
                return message.role == "user"
            case _:
                return False

    def _take_message(self, message: Message) -> None:
        """A whole message: for a terminal at once, else it may be the last one."""
        if self._out.is_terminal:
            self._say(message)
            return
        self._put_aside()
        self._last = message
        if not _is_answer(message):
            self._put_aside()

    def _say(self, message: Message) -> None:
        """Write a whole message, or end the one that streamed."""
        if not self._streamed:
            self._out.write(self._filter.feed(message.content))
        self._out.write(self._filter.end())
        self._out.fresh()
        self._streamed = False

    def _put_aside(self) -> None:
        """The last message was no answer."""
        from clew.core.text import strip_controls

        said = "" if self._last is None else strip_controls(self._last.content).strip("\n")
        self._last = None
        for line in said.splitlines():
            self._aside.line(line, "dim")

    def _break_off(self) -> None:
        """Say that what was shown is not part of the answer."""
        from clew.terminal.plain_output import BROKEN_OFF

        self._out.write(self._filter.end())
        self._out.fresh()
        self._aside.line(BROKEN_OFF, "warning")
        self._streamed = False
