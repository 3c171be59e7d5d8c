"""`clew ask`: one turn, the answer on stdout; for scripts, and for quick questions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from clew.cli.app import App, json_option, pass_app
from clew.cli.options import session_options
from clew.cli.talking import (
    Choice,
    Parts,
    conversation,
    have_model,
    on_signals,
    run_talk,
    way_in,
)

if TYPE_CHECKING:
    from clew.core.arrivals import Attached
    from clew.core.signals import Event
    from clew.core.turn import Turn

FAILED = 1
INTERRUPTED = 130


@click.command("ask")
@click.argument("words", metavar="[QUESTION]...", nargs=-1)
@session_options(read_only=False)
@json_option
@pass_app
def ask_command(app: App, /, words: tuple[str, ...], **choice: Any) -> None:
    """Ask one question. What is piped in comes behind it, or is the question itself.

    It is a turn of the session that a chat here would open, also while that is open in a terminal.
    Tools that need your word are refused where nobody is asked; allow them with tools.allow.
    With --json every event is one line, the last of type "result".

    \b
    Examples:
      clew ask "what does this error mean?" < build.log
      git diff | clew ask "write a commit message"
      clew ask -c --json "and in French?"
    """
    run_talk(app, _ask(app, _question(words), Choice(**choice), typed=" ".join(words)))


def _question(words: tuple[str, ...]) -> str:
    parts = [" ".join(words).strip()]
    if not sys.stdin.isatty():
        parts.append(sys.stdin.buffer.read().decode(errors="replace").strip())
    text = "\n\n".join(part for part in parts if part)
    if not text:
        raise click.UsageError("What is the question? Give it as words, or pipe it in.")
    return text


async def _ask(app: App, text: str, choice: Choice, *, typed: str) -> int:
    """`typed` is the question without what was piped in, which names no pictures."""
    from clew.terminal.asking import LineAsker
    from clew.terminal.lines import Lines
    from clew.terminal.paper import Paper
    from clew.terminal.pictures import find_pictures
    from clew.terminal.talk import read_command

    if read_command(text) is not None:
        raise click.UsageError("Slash commands are for the chat: `clew chat`.")
    lines, aside = Lines(), Paper(app.colour_aside, sys.stderr)
    lines.is_terminal = lines.is_terminal and not app.json and sys.stderr.isatty()
    async with conversation(app, choice, holds=False, attended=lines.is_terminal) as parts:
        entrance = way_in(parts, LineAsker(parts.desk, lines, aside))
        await entrance.open(choice.flags(), parts.current, parts.breadcrumb)
        if parts.seat.model.embedded and parts.house is not None:
            await have_model(app, parts.house, tell=False)  # the turn tells
        pictures = await asyncio.to_thread(find_pictures, typed, parts.seat.place.cwd)
        return await _run(app, parts, text, lines, aside, pictures=pictures)


async def _run(
    app: App, parts: Parts, text: str, lines: Any, aside: Any, *, pictures: tuple[Attached, ...]
) -> int:
    seat = parts.seat
    ready = await seat.make_ready()
    session = ready.session
    if ready.is_new:
        if ready.notice is not None:
            aside.line(ready.notice, "dim")
        aside.line(f"Session {session.id}", "dim")
    with seat.watch_answer(session) as events:
        ticket = await seat.say(text, files=pictures)
        show = asyncio.create_task(_show(app, events, parts, lines, aside))

        def stop(_number: int) -> None:
            if tasks and parts.house is None:
                ticket.turn.cancel()  # a gateway that does not answer keeps nobody
            tasks.add(asyncio.ensure_future(seat.stop()))

        tasks: set[asyncio.Future[bool]] = set()
        with on_signals(stop):
            await asyncio.wait({ticket.turn})
        if ticket.turn.cancelled():
            show.cancel()
            return INTERRUPTED
        turn = ticket.turn.result()
        await asyncio.wait({show}, timeout=1)
        show.cancel()
    return await _finish(app, parts, turn)


async def _show(
    app: App, events: AsyncIterator[Event], parts: Parts, lines: Any, aside: Any
) -> None:
    """Write events as JSON lines, or the answer as it streams and the rest beside it."""
    from clew.cli.jsonout import encode
    from clew.core.signals import ApprovalAsked, TurnEnded
    from clew.terminal.paper import Paper
    from clew.terminal.scribe import Scribe

    scribe = Scribe(aside, aside, verbose=lambda: False)
    answer = Answer(Paper(app.colour, beside=aside))
    async for event in events:
        if app.json:
            click.echo(encode(event))
        elif not answer.take(event):
            scribe.write(event)
        if isinstance(event, ApprovalAsked) and lines.is_terminal:
            await _decide(parts, event.approval, lines, aside)
        if isinstance(event, TurnEnded):
            return


class Answer:
    """What the model says goes to stdout; everything else is not the answer."""

    def __init__(self, out: Any) -> None:
        from clew.terminal.paper import Cleaner

        self._out = out
        self._cleaner = Cleaner()
        self._streamed = False

    def take(self, event: Event) -> bool:
        """Write an event that belongs to the answer."""
        from clew.core.signals import Committed, TextDelta

        match event:
            case TextDelta(text):
                self._streamed = True
                self._out.write(self._cleaner.feed(text))
                return True
            case Committed(message) if message.role == "assistant":
                if not self._streamed:
                    self._out.write(self._cleaner.feed(message.content))
                self._out.write(self._cleaner.end())
                self._out.fresh()
                self._streamed = False
                return True
            case Committed(message):
                return message.role == "user"
            case _:
                return False


async def _decide(parts: Parts, approval: Any, lines: Any, aside: Any) -> None:
    from clew.terminal.drawing import question_lines
    from clew.terminal.plain import ANSWERS, ASKED

    for line, style in question_lines(approval):
        aside.line(line, style)
    aside.write(ASKED)
    decision, scope = ANSWERS.get((await lines.get() or "").strip().lower(), ("no", "once"))
    await parts.seat.runtime.decide(approval.id, decision, by=parts.seat.person, scope=scope)


async def _finish(app: App, parts: Parts, turn: Turn) -> int:
    if app.json:
        from clew.cli.jsonout import encode

        thread = await parts.store.get_messages(turn.session_id, 50)
        said = [
            each.content
            for each in thread
            if each.turn_id == turn.id and each.role == "assistant" and each.content
        ]
        click.echo(
            encode(
                {
                    "type": "result",
                    "session_id": turn.session_id,
                    "turn_id": turn.id,
                    "status": turn.status,
                    "answer": said[-1] if said else None,
                    "error": turn.error,
                    "usage": msgspec.to_builtins(turn.usage),
                }
            )
        )
    if turn.status == "done":
        return 0
    return INTERRUPTED if turn.status == "aborted" else FAILED
