"""`clew` and `clew chat`: a conversation in the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.app import App, pass_app
from clew.cli.options import session_options
from clew.cli.talking import Choice, Parts, conversation, have_model, on_signals, run_talk
from clew.core.names import counted

if TYPE_CHECKING:
    from clew.terminal.entrance import Opening
    from clew.terminal.paper import Paper

INTERRUPTED = 130


@click.command("chat")
@session_options(read_only=True)
@click.option("--plain", is_flag=True, help="Line by line, also for screen readers and pipes.")
@click.option("--no-resume-hint", is_flag=True, help="Don't say at the end how to come back.")
@pass_app
def chat_command(app: App, /, plain: bool, no_resume_hint: bool, **choice: Any) -> None:
    """Talk to the agent, in the session of this directory. `clew` alone does the same.

    Everything you say is kept before it is answered: close the terminal, and `clew` goes on where
    you were. /help in the chat shows its commands; Ctrl+C stops a turn, Ctrl+D leaves.

    \b
    Examples:
      clew                       this directory's session
      clew -c                    this terminal's last one
      clew -r "login bug"        one by its title, id or key
      clew -r 550e --fork        a branch of it
      clew chat --plain < questions.txt
    """
    del plain  # the full-screen chat is not there yet: every chat is plain
    run_chat(app, Choice(**choice), hint=not no_resume_hint)


def run_chat(app: App, choice: Choice, *, hint: bool) -> None:
    """Talk until the person leaves."""
    if app.json:
        raise click.UsageError("A chat is not JSON: use `clew ask --json`, or `clew list --json`.")
    run_talk(app, _chat(app, choice, hint=hint))


async def _chat(app: App, choice: Choice, *, hint: bool) -> int:
    from clew.terminal.asking import LineAsker
    from clew.terminal.entrance import Entrance
    from clew.terminal.lines import Lines
    from clew.terminal.paper import Paper
    from clew.terminal.plain import PlainChat
    from clew.terminal.scribe import Scribe

    flags, lines = choice.flags(), Lines()
    out = Paper(app.colour)
    aside = Paper(app.colour_aside, sys.stderr, beside=out)
    async with conversation(app, choice, holds=True, attended=lines.is_terminal) as parts:
        await _tidy(app, parts)
        entrance = Entrance(parts.desk, LineAsker(parts.desk, lines, aside))
        opening, chosen = await entrance.open(flags, parts.current, parts.breadcrumb)
        if parts.moved_from is not None:
            aside.line(f"This directory was {parts.moved_from}: its sessions have come along.")
        if chosen.transcript is not None and chosen.transcript.is_new:
            parts.seat.begin_at(chosen.transcript.path)
        await _greet(app, parts, aside)
        scribe = Scribe(out, aside, verbose=lambda: _is_verbose(parts))
        chat = PlainChat(parts.desk, lines, scribe, entrance)
        warming = asyncio.create_task(_warm(parts))
        try:
            code = await _talk(chat.run(opening), chat.interrupt)
        finally:
            warming.cancel()
            await asyncio.wait({warming})
            with contextlib.suppress(OSError):  # the terminal may be gone
                out.fresh()
            with contextlib.suppress(Exception):
                await parts.seat.stop()
        await _write_transcript(parts, chosen, aside)
        with contextlib.suppress(OSError):  # likewise
            await _say_goodbye(app, parts, aside, hint=hint)
        return code


async def _talk(talk: Any, interrupt: Any) -> int:
    """Run the chat; Ctrl+C is the chat's, a stronger signal ends it."""
    chat = asyncio.create_task(talk)
    pending: set[asyncio.Task[Any]] = set()
    code = 0

    async def stop_or_leave() -> None:
        if await interrupt():
            chat.cancel()

    def handle(number: int) -> None:
        nonlocal code
        if number == signal.SIGINT:
            task = asyncio.ensure_future(stop_or_leave())
            pending.add(task)
            task.add_done_callback(pending.discard)
        else:
            code = INTERRUPTED
            chat.cancel()

    with on_signals(handle):
        await asyncio.wait({chat})
    if not chat.cancelled():
        chat.result()
    return code


async def _tidy(app: App, parts: Parts) -> None:
    """Retention, once at start-up; a line says what was done."""
    from clew.cli.prune import summary
    from clew.runtime.retention import tidy
    from clew.wiring import retention_policy

    tidied = await tidy(
        parts.store,
        retention_policy(app.config),
        trash_days=app.config.session.trash_days,
        now=app.now,
    )
    if tidied.retained.ids:
        app.note(summary(len(tidied.retained.ids), tidied.retained.action))
    if tidied.purged:
        removed = counted(len(tidied.purged), "session")
        app.note(f"Removed {removed} from the trash for good (session.trash_days).")


async def _greet(app: App, parts: Parts, aside: Paper) -> None:
    """Who answers, and what to do if nobody can."""
    from clew.agent.models.catalogue import introduction

    seat = parts.seat
    info = seat.model
    is_there = info.problem is not None or not info.embedded or await have_model(app, parts.house)
    is_new = seat.session is None or not seat.session.message_count
    if info.problem is not None:
        aside.line(f"{info.name} can't answer: {info.problem}")
    elif is_there and is_new and (line := introduction(info)):
        aside.line(line)
    session = seat.session
    if session is not None:
        name = session.title or "this directory's session"
        count = counted(session.message_count, "message")
        aside.line(f'"{name}", {count}, {info.name}. /help shows commands.', "dim")
    else:
        aside.line(f"A new session, {info.name}. /help shows commands.", "dim")


async def _warm(parts: Parts) -> None:
    """Load the agent's library and its model while the person types."""
    await asyncio.sleep(0.05)
    await parts.house.runtime.agent.warm(parts.seat.model.name)


def _is_verbose(parts: Parts) -> bool:
    session = parts.seat.session
    return session is not None and bool(session.metadata.get("verbose"))


async def _write_transcript(parts: Parts, chosen: Opening, aside: Paper) -> None:
    """A chat that began with a missing transcript ends by writing it."""
    from clew.errors import ClewError
    from clew.transfer.opening import export_back

    session = await parts.seat.refresh()
    if chosen.transcript is None or not chosen.transcript.is_new or session is None:
        return
    if session.transcript_path != chosen.transcript.path:
        return
    try:
        await export_back(parts.store, session, chosen.transcript.path)
    except ClewError as error:
        aside.line(str(error), "error")


async def _say_goodbye(app: App, parts: Parts, aside: Paper, *, hint: bool) -> None:
    """The session's id, and how to come back to it."""
    session = await parts.seat.refresh()
    if session is None or not session.message_count:
        return
    aside.line(f"Session {session.id}")
    if not hint or not parts.seat.messages_sent:
        return
    short = (await parts.store.shorten_ids([session.id]))[session.id]
    minutes = max(0, app.clock() - app.now) // 60_000
    lasted = counted(minutes, "minute") if minutes else "under a minute"
    title = f'"{session.title}", ' if session.title else ""
    counts = f"{counted(parts.seat.messages_sent, 'message')} sent, {session.message_count} in all"
    aside.line(f"{title}{lasted}, {counts}.")
    aside.line(f"Resume this session with: clew -r {short}")
