"""`clew` and `clew chat`: a conversation in the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from clew.cli.app import App, pass_app
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
from clew.core.names import counted

if TYPE_CHECKING:
    from clew.core.session import Session
    from clew.errors import Unauthorized
    from clew.runtime.seat import Switched
    from clew.terminal.entrance import Entrance, Flags, Opening
    from clew.terminal.paper import Paper
    from clew.terminal.screen.app import ChatApp

    Note = Callable[[str, str | None], None]

FAILED = 1
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
      clew chat --url https://clew.example.org --token file:~/clew.token
    """
    run_chat(app, Choice(**choice), plain=plain, hint=not no_resume_hint)


def run_chat(app: App, choice: Choice, *, plain: bool, hint: bool) -> None:
    """Talk until the person leaves."""
    if app.json:
        raise click.UsageError("A chat is not JSON: use `clew ask --json`, or `clew list --json`.")
    chat = _chat if plain or not _can_draw() else _full_chat
    run_talk(app, chat(app, choice, hint=hint))


def _can_draw() -> bool:
    """Whether there is a whole screen to draw on, and keys to read."""
    from clew.config import can_draw

    return sys.stdin.isatty() and sys.stdout.isatty() and can_draw()


async def _chat(app: App, choice: Choice, *, hint: bool) -> int:
    """Line by line."""
    from clew.terminal.asking import LineAsker
    from clew.terminal.lines import Lines
    from clew.terminal.paper import Paper
    from clew.terminal.plain import PlainChat
    from clew.terminal.scribe import Scribe

    flags, lines = choice.flags(), Lines()
    out = Paper(app.colour)
    aside = Paper(app.colour_aside, sys.stderr, beside=out)
    async with conversation(app, choice, holds=True, attended=lines.is_terminal) as parts:
        asker = LineAsker(parts.desk, lines, aside)
        entrance = way_in(parts, asker)
        opening, chosen = await _begin(app, parts, entrance, flags)
        scribe = Scribe(out, aside, verbose=lambda: _is_verbose(parts))
        chat = PlainChat(parts.desk, lines, scribe, entrance)
        warming = asyncio.create_task(_warm(parts, lambda: asyncio.sleep(0.05)))
        try:
            code = await _talk(chat.run(opening), chat.interrupt, parts.refused)
        finally:
            with contextlib.suppress(OSError):  # the terminal may be gone
                out.fresh()
            await _wind_up(parts, warming)
        await _say_goodbye(app, parts, chosen, aside, hint=hint)
        return code


async def _full_chat(app: App, choice: Choice, *, hint: bool) -> int:
    """On a whole screen. What is said before there is one is the beginning of what it shows."""
    from clew.terminal.lines import SingleLines
    from clew.terminal.paper import Paper
    from clew.terminal.screen.app import ChatApp, Start
    from clew.terminal.screen.driver import TerminalDriver
    from clew.terminal.screen.history import History, history_file
    from clew.terminal.screen.start import StartAsker

    flags = choice.flags()
    aside = Paper(app.colour_aside, sys.stderr)
    async with conversation(app, choice, holds=True, attended=True) as parts:
        asker = StartAsker(parts.desk, SingleLines(), aside, dark=app.is_dark)
        entrance = way_in(parts, asker)
        opening, chosen = await _begin(app, parts, entrance, flags)
        chat = ChatApp(
            parts.desk,
            entrance,
            Start(opening=opening, notes=tuple(asker.notes), dark=app.is_dark),
            History(history_file(app.config.state_dir, parts.seat.person)),
            driver_class=TerminalDriver,
        )
        warming = asyncio.create_task(_warm(parts, chat.is_there.wait, chat.wait_for_quiet))
        try:
            if parts.refused is not None:
                parts.refused.add_done_callback(lambda _: chat.leave(FAILED))
            with on_signals(lambda number: _heed_signal(chat, number)):
                code = await chat.run_chat()
        finally:
            await _wind_up(parts, warming)
        await _say_goodbye(app, parts, chosen, aside, hint=hint)
        return code


def _heed_signal(chat: ChatApp, number: int) -> None:
    """Ctrl+C is a key on a full screen; the signal comes from elsewhere, and means the same."""
    if number == signal.SIGINT:
        chat.interrupt()
    else:
        chat.leave(INTERRUPTED)


async def _begin(
    app: App, parts: Parts, entrance: Entrance, flags: Flags
) -> tuple[Switched, Opening]:
    """Sit down where the flags say, and tell what there is to tell about it."""
    note = entrance.asker.note
    if parts.house is not None:
        await _tidy(app, parts, note)
    opening, chosen = await entrance.open(flags, parts.current, parts.breadcrumb)
    if parts.moved_from is not None:
        note(f"This directory was {parts.moved_from}: its sessions have come along.", None)
    if chosen.transcript is not None and chosen.transcript.is_new:
        parts.seat.begin_at(chosen.transcript.path)
    await _greet(app, parts, note)
    return opening, chosen


async def _wind_up(parts: Parts, warming: asyncio.Task[None]) -> None:
    """Nothing goes on after the chat."""
    warming.cancel()
    await asyncio.wait({warming})
    if parts.house is None:
        return  # what others have begun at the gateway goes on; the seat stops what is ours
    with contextlib.suppress(Exception):
        await parts.seat.stop()


async def _talk(talk: Any, interrupt: Any, refused: asyncio.Future[Any] | None) -> int:
    """Run the chat; Ctrl+C is the chat's, a stronger signal ends it, or a gateway's refusal."""
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
        ends = {chat} if refused is None else {chat, refused}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        while not chat.done():  # Python 3.11 can lose a cancellation
            chat.cancel()
            await asyncio.wait({chat}, timeout=1)
    if not chat.cancelled():
        chat.result()
    return code


async def _tidy(app: App, parts: Parts, note: Note) -> None:
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
        note(summary(len(tidied.retained.ids), tidied.retained.action), None)
    if tidied.purged:
        removed = counted(len(tidied.purged), "session")
        note(f"Removed {removed} from the trash for good (session.trash_days).", None)


async def _greet(app: App, parts: Parts, note: Note) -> None:
    """Who answers, and what to do if nobody can."""
    from clew.agent.models.catalogue import introduction

    seat = parts.seat
    info = seat.model
    is_there = info.problem is not None or not info.embedded or await have_model(app, parts.house)
    is_new = seat.session is None or not seat.session.message_count
    if info.problem is not None:
        note(f"{info.name} can't answer: {info.problem}", None)
    elif is_there and is_new and (line := introduction(info)):
        note(line, None)
    session = seat.session
    if session is not None:
        name = session.title or "this directory's session"
        count = counted(session.message_count, "message")
        note(f'"{name}", {count}, {info.name}. /help shows commands.', "dim")
    else:
        note(f"A new session, {info.name}. /help shows commands.", "dim")


async def _warm(
    parts: Parts,
    first: Callable[[], Awaitable[Any]],
    pause: Callable[[], Awaitable[Any]] | None = None,
) -> None:
    """Load the agent's library and its model while the person types, but `first` things first.

    The embedded model holds up all threads while it is opened, keys too: that waits for a `pause`.
    """
    await first()
    if parts.house is None:
        return  # the gateway is warm
    await asyncio.to_thread(importlib.import_module, "clew.agent.loop")
    if pause is not None:
        await pause()
    await parts.house.runtime.agent.warm(parts.seat.model.name)
    # What is loaded now stays. Looking through it for garbage takes tens of milliseconds, in which
    # no key is answered.
    gc.freeze()


def _is_verbose(parts: Parts) -> bool:
    session = parts.seat.session
    return session is not None and bool(session.metadata.get("verbose"))


async def _write_transcript(parts: Parts, chosen: Opening, aside: Paper) -> None:
    """A chat that began with a missing transcript ends by writing it."""
    from clew.errors import ClewError

    if chosen.transcript is None or not chosen.transcript.is_new:
        return
    path = chosen.transcript.path
    try:
        session = await parts.seat.refresh()
        if session is None or not parts.seat.has_begun_at(path):
            return
        await _write_back(parts, session, path)
    except ClewError as error:
        aside.line(str(error), "error")


async def _write_back(parts: Parts, session: Session, path: str) -> None:
    from clew.transfer.resume_file import export_back

    if parts.transcripts is None:
        await export_back(parts.store, session, path)
    else:
        await parts.transcripts.write_back(session, path)


async def _say_goodbye(
    app: App, parts: Parts, chosen: Opening, aside: Paper, *, hint: bool
) -> None:
    """Write the transcript that was asked for, and say how to come back."""
    await _write_transcript(parts, chosen, aside)
    with contextlib.suppress(OSError):  # the terminal may be gone
        await _tell_id(app, parts, aside, hint=hint)
    if parts.refused is not None and parts.refused.done():
        raise _describe_refusal(parts.refused.result())


def _describe_refusal(error: Unauthorized) -> Unauthorized:
    """What there is to do about a token that was accepted when the chat began."""
    from clew.errors import Unauthorized

    kept = "What you said is kept there. Come back with another token (--token, CLEW_TOKEN)."
    return Unauthorized(f"{error} {kept}")


async def _tell_id(app: App, parts: Parts, aside: Paper, *, hint: bool) -> None:
    """The session's id, and how to come back to it."""
    from clew.errors import ClewError

    try:
        session = await parts.seat.refresh()
    except ClewError:
        if parts.house is not None:
            raise
        session = None  # the gateway is gone
        if parts.seat.session is not None:
            aside.line(f"Session {parts.seat.session.id}")
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
    there = "" if parts.there is None else f"--url {parts.there} "
    aside.line(f"Resume this session with: clew {there}-r {short}")
