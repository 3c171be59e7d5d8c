"""`clew`, `clew chat` and `clew pick`: a conversation in the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from clew.cli.app import App, client_command, pass_app
from clew.cli.conversation import (
    Choice,
    Parts,
    conversation,
    on_signals,
    run_talk,
    settle_directory,
    write_transcript,
)
from clew.cli.options import ALONE, session_options
from clew.clock import host_clock
from clew.core.names import counted

if TYPE_CHECKING:
    from clew.api.seats import Seated
    from clew.client.client import Client
    from clew.core.session import Session
    from clew.errors import Unauthorized
    from clew.terminal.picker import Picked
    from clew.terminal.plain_output import TextOutput
    from clew.terminal.screen.app import ChatApp
    from clew.terminal.startup import Flags, Opening, Startup

    Note = Callable[[str, str | None], None]

FAILED = 1
INTERRUPTED = 130


@click.command("chat")
@session_options()
@click.option("--plain", is_flag=True, help="Line by line, also for screen readers and pipes.")
@click.option("--no-resume-hint", is_flag=True, help="Don't say at the end how to come back.")
@pass_app
def chat_command(app: App, /, plain: bool, no_resume_hint: bool, **choice: Any) -> None:
    """Talk to the agent, in the session of this directory. `clew` alone does the same.

    Everything you say is stored before it is answered: close the terminal, and `clew` goes on where
    you were. /help in the chat shows its commands; Ctrl+C stops a turn, Ctrl+D leaves.

    \b
    Examples:
      clew                       this directory's session
      clew -c                    this terminal's last one
      clew -r "login bug"        one by its title, id or key
      clew -r 550e --fork        a branch of it
      clew chat --model openai/gpt-5
      clew chat --plain < questions.txt
      clew chat --url https://clew.example.org --token file:~/clew.token
    """
    run_chat(app, Choice(**choice), plain=plain, hint=not no_resume_hint)


def run_chat(app: App, choice: Choice, *, plain: bool, hint: bool) -> None:
    """Run a chat until the person leaves."""
    if app.json:
        raise click.UsageError(
            "A chat can't be JSON: use `clew ask --json`, or `clew list --json`."
        )
    chat = _chat if plain or not _can_draw() else _full_chat
    run_talk(app, chat(app, choice, hint=hint))


def _can_draw() -> bool:
    """Whether the terminal can show a full screen and read keys."""
    from clew.config import can_draw

    return sys.stdin.isatty() and sys.stdout.isatty() and can_draw()


async def _chat(app: App, choice: Choice, *, hint: bool) -> int:
    """A chat in lines."""
    from clew.terminal.asker import LineAsker
    from clew.terminal.lines import Lines
    from clew.terminal.plain import PlainChat
    from clew.terminal.plain_output import EventWriter, TextOutput

    flags, lines = choice.flags(), Lines()
    out = TextOutput(app.colour)
    aside = TextOutput(app.colour_aside, sys.stderr, beside=out)
    async with conversation(app, choice, holds=True, attended=lines.is_terminal) as parts:
        seat = parts.seat
        startup = parts.start_up(LineAsker(seat, lines, aside))
        await settle_directory(parts, startup.asker, choice)
        opening, chosen = await _begin(parts, startup, flags, choice)
        writer = EventWriter(out, aside, verbose=lambda: seat.is_verbose)
        chat = PlainChat(seat, lines, writer, startup)
        warming = asyncio.create_task(_warm(parts, lambda: asyncio.sleep(0.05)))
        try:
            code = await _talk(chat.run(opening), chat.interrupt, seat.live.refused)
        finally:
            with contextlib.suppress(OSError):  # the terminal may be gone
                out.fresh()
            await _wind_up(parts, warming)
        await _say_goodbye(app, parts, chosen, aside, hint=hint)
        return code


async def _full_chat(app: App, choice: Choice, *, hint: bool) -> int:
    """A chat on the full screen. Notes from before it opens are shown at its top."""
    from clew import config as configuration
    from clew.terminal.asker import StartAsker
    from clew.terminal.lines import SingleLines
    from clew.terminal.plain_output import TextOutput
    from clew.terminal.screen.app import ChatApp, Start
    from clew.terminal.screen.driver import TerminalDriver
    from clew.terminal.screen.history import History, history_file

    flags = choice.flags()
    aside = TextOutput(app.colour_aside, sys.stderr)
    async with conversation(app, choice, holds=True, attended=True) as parts:
        seat = parts.seat
        asker = StartAsker(seat, SingleLines(), aside, dark=app.is_dark)
        startup = parts.start_up(asker)
        await settle_directory(parts, startup.asker, choice)
        opening, chosen = await _begin(parts, startup, flags, choice)
        chat = ChatApp(
            seat,
            startup,
            Start(
                opening=opening,
                notes=tuple(asker.notes),
                dark=app.is_dark,
                editor=configuration.editor_variables(),
            ),
            History(history_file(app.config.state_dir, seat.person)),
            driver_class=TerminalDriver,
        )
        warming = asyncio.create_task(_warm(parts, chat.is_there.wait, chat.wait_for_quiet))
        try:
            seat.live.refused.add_done_callback(lambda _: chat.leave(FAILED))
            with on_signals(lambda number: _handle_signal(chat, number)):
                code = await chat.run_chat()
        finally:
            await _wind_up(parts, warming)
        await _say_goodbye(app, parts, chosen, aside, hint=hint)
        return code


def _handle_signal(chat: ChatApp, number: int) -> None:
    """Ctrl+C is a key on the full screen; SIGINT from another process means the same."""
    if number == signal.SIGINT:
        chat.interrupt()
    else:
        chat.leave(INTERRUPTED)


async def _begin(
    parts: Parts, startup: Startup, flags: Flags, choice: Choice
) -> tuple[Seated, Opening]:
    """Open the session that the flags choose, and show the notes of the start."""
    note, seat = startup.asker.note, parts.seat
    for line in await parts.connection.tidy():
        note(line, None)
    opening, chosen = await startup.open(flags, parts.located.session, parts.breadcrumb)
    await seat.choose(model=choice.model)
    moved_from = parts.located.moved_from
    if moved_from is not None:
        note(f"This directory was {moved_from}: its sessions moved with it.", None)
    if chosen.transcript is not None and chosen.transcript.is_new:
        seat.begin_at(chosen.transcript.path, remembers=parts.connection.keeps_files)
    await _greet(parts, note)
    return opening, chosen


async def _wind_up(parts: Parts, warming: asyncio.Task[None]) -> None:
    """Stop what this terminal still does after the chat."""
    warming.cancel()
    await asyncio.wait({warming})
    with contextlib.suppress(Exception):
        await parts.seat.leave()


async def _talk(talk: Any, interrupt: Any, refused: asyncio.Future[Any]) -> int:
    """Run the chat. It handles Ctrl+C; other signals, or a gateway's refusal, end it."""
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
        await asyncio.wait({chat, refused}, return_when=asyncio.FIRST_COMPLETED)
        while not chat.done():  # Python 3.11 can lose a cancellation
            chat.cancel()
            await asyncio.wait({chat}, timeout=1)
    if not chat.cancelled():
        chat.result()
    return code


async def _greet(parts: Parts, note: Note) -> None:
    """Say which model answers, and what to do if it can't."""
    from clew.core.models import introduction

    seat = parts.seat
    info = seat.model
    is_there = info.problem is not None or not info.embedded or await parts.connection.have_model()
    is_new = seat.session is None or not seat.session.message_count
    if info.problem is not None:
        note(f"{info.name} can't answer: {info.problem}", None)
    elif is_there and is_new and (line := introduction(info)):
        note(line, None)
    session = seat.session
    if session is not None:
        name = session.name if session.message_count else "this directory's session"
        count = counted(session.message_count, "message")
        note(f'"{name}", {count}, {info.name}. /help shows commands.', "dim")
    else:
        note(f"A new session, {info.name}. /help shows commands.", "dim")


async def _warm(
    parts: Parts,
    ready: Callable[[], Awaitable[Any]],
    pause: Callable[[], Awaitable[Any]] | None = None,
) -> None:
    """Load the agent's library and its model while the person types, after `ready`.

    Opening the embedded model blocks all threads, so keys too: that waits for a `pause`.
    """
    await ready()
    await parts.connection.load()
    if pause is not None:
        await pause()
    await parts.connection.warm(parts.seat.model.name)
    # What is loaded now stays. A garbage collection over it would take tens of milliseconds, in
    # which no key is answered.
    gc.freeze()


async def _write_transcript(parts: Parts, chosen: Opening, aside: TextOutput) -> None:
    """Write the transcript of a chat that began with a missing file."""
    from clew.errors import ClewError

    if chosen.transcript is None or not chosen.transcript.is_new:
        return
    path = chosen.transcript.path
    try:
        session = await parts.seat.refresh()
        if session is not None and parts.seat.has_begun_at(path):
            await write_transcript(parts.connection.client, session.id, path)
    except ClewError as error:
        aside.line(str(error), "error")


async def _say_goodbye(
    app: App, parts: Parts, chosen: Opening, aside: TextOutput, *, hint: bool
) -> None:
    """Write the transcript that was asked for, and say how to come back."""
    await _write_transcript(parts, chosen, aside)
    with contextlib.suppress(OSError):  # the terminal may be gone
        await _tell_id(app, parts, aside, hint=hint)
    refused = parts.seat.live.refused
    if refused.done():
        raise _describe_refusal(refused.result())


def _describe_refusal(error: Unauthorized) -> Unauthorized:
    """Say what to do about a token that was accepted when the chat began."""
    from clew.errors import Unauthorized

    kept = "What you said is stored there. Come back with another token (--token, CLEW_TOKEN)."
    return Unauthorized(f"{error} {kept}")


async def _tell_id(app: App, parts: Parts, aside: TextOutput, *, hint: bool) -> None:
    """Say the session's id, and how to come back to it."""
    from clew.errors import GatewayUnavailable, Unauthorized

    seat, session = parts.seat, None
    try:
        session = await seat.refresh()
    except (GatewayUnavailable, Unauthorized):
        if seat.session is not None:
            aside.line(f"Session {seat.session.id}")
    if session is None or not session.message_count:
        return
    aside.line(f"Session {session.id}")
    if not hint or not seat.messages_sent:
        return
    minutes = max(0, host_clock() - app.now) // 60_000
    lasted = counted(minutes, "minute") if minutes else "under a minute"
    counts = f"{counted(seat.messages_sent, 'message')} sent, {session.message_count} in all"
    aside.line(f'"{session.name}", {lasted}, {counts}.')
    url = parts.connection.shown_url
    there = "" if url is None else f"--url {url} "
    aside.line(f"Resume this session with: clew {there}-r {session.short_id}")


# --- the picker ---------------------------------------------------------------------------------


@click.command("pick")
@click.option(
    "--print", "prints", is_flag=True, help="Print the id of the chosen session, open no chat."
)
@click.option("--all", "everywhere", is_flag=True, help="Begin with all directories (--print).")
@click.option("--no-resume-hint", is_flag=True, help="Don't say at the end how to come back.")
@client_command
def pick_command(app: App, prints: bool, everywhere: bool, no_resume_hint: bool) -> None:
    """Choose a session, by its name or by what was said in it, and go on with it.

    The same as `clew --resume` alone. Type to search; Tab shows all directories, Ctrl+F goes on in
    a branch, Esc leaves. With --print or --json nothing is opened: the chosen session is printed,
    and nothing (or null) if none was.

    \b
    Examples:
      clew pick
      clew show "$(clew pick --print)"
      clew pick --all --json
      clew pick --url https://clew.example.org --token file:~/clew.token
    """
    if prints or app.json:
        _print_choice(app, everywhere=everywhere)
        return
    if everywhere:
        raise click.UsageError("--all needs --print or --json; in the picker press Tab.")
    run_chat(app, Choice(resume=ALONE), plain=False, hint=not no_resume_hint)


def _print_choice(app: App, *, everywhere: bool) -> None:
    async def pick(client: Client) -> Picked | None:
        return await _pick(app, client, everywhere=everywhere)

    picked = app.call(pick)
    if app.json:
        session = None if picked is None else _to_value(picked.session)
        app.emit({"session": session, "forks": picked is not None and picked.forks})
    elif picked is not None:
        app.say(picked.session.id)


async def _pick(app: App, client: Client, *, everywhere: bool) -> Picked | None:
    from clew.client.seats import locate
    from clew.errors import InvalidInput
    from clew.terminal.picker import PickerSetup, run_picker

    if not (await client.sessions.names(limit=1)).names:
        app.note("No sessions found")
        return None
    # The answer may go to a program: then the picker is drawn on stderr.
    if not (sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())):
        raise InvalidInput("There is no terminal to choose at. `clew list` shows the sessions.")
    setup = PickerSetup(
        client=client,
        place=locate(scope=app.config.session.scope),
        now=host_clock,
        zone=app.zone,
        everywhere=everywhere,
    )
    picked = await run_picker(setup, dark=app.is_dark)
    if picked is None:
        app.note("No session selected")
    return picked


def _to_value(session: Session) -> dict[str, Any]:
    """The session with its short id, as every command prints it."""
    import msgspec

    from clew.core.session import Session

    value: dict[str, Any] = msgspec.to_builtins(session)
    shown = (*Session.__struct_fields__, "short_id")
    return {name: value[name] for name in shown if name in value}
