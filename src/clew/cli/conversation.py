"""What `clew chat` and `clew ask` share: where they work, and a seat that has no session yet.

A conversation uses the gateway that was named, else the one that runs here, else this process. A
named gateway that can't be reached is an error; without one that only happens to run here, the
conversation goes on in this process. Transcript files (`-r talk.jsonl`) are on the machine where
the person types: they are imported where the store of that machine is used, and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from clew.cli.app import App
from clew.cli.options import ALONE
from clew.core.names import counted
from clew.core.text import is_yes, strip_controls

if TYPE_CHECKING:
    from clew.api.seats import Located, Wanted
    from clew.client.client import Client
    from clew.core.resume import Breadcrumb
    from clew.core.turn import Turn
    from clew.terminal.seat import Seat
    from clew.terminal.startup import Asker, Flags, Startup, Transcripts
    from clew.transfer.resume_file import TranscriptOpening
    from clew.wiring import LocalTerminal


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The options that choose a session."""

    resume: str | None = None
    continues: str | None = None
    fork: bool = False
    read_only: bool = False
    key: str | None = None
    allow_directory: bool = False
    no_gateway: bool = False
    model: str | None = None
    personality: str | None = None

    def flags(self) -> Flags:
        """The same as `Startup` takes it."""
        from clew.terminal.startup import Flags

        if self.resume is not None and self.continues is not None:
            raise click.UsageError("Use --continue or --resume, not both.")
        given = self.continues if self.resume is None else self.resume
        return Flags(
            continues=self.continues == ALONE,
            picks=self.resume == ALONE,
            target=None if given == ALONE else given,
            fork=self.fork,
            read_only=self.read_only,
        )


class Parts(NamedTuple):
    """A conversation that is ready to begin: a seat without a session, and where its key leads."""

    connection: Connection
    seat: Seat
    located: Located
    breadcrumb: Breadcrumb | None

    def start_up(self, asker: Asker) -> Startup:
        """The steps that choose the session."""
        from clew.terminal.startup import Startup

        return Startup(self.seat, asker, self.connection.transcripts)


@asynccontextmanager
async def conversation(
    app: App,
    choice: Choice,
    *,
    holds: bool,
    attended: bool,
    follows: bool = True,
    asks: bool = False,
) -> AsyncIterator[Parts]:
    """Open a seat without a session: at a gateway if one is named or runs here, else in process.

    `holds`: no other terminal may have the seat's session. `follows`: its live events are read.
    `asks`: for a single question, so no key leads to its session.
    """
    from clew.errors import ClewError

    how = {"holds": holds, "attended": attended, "follows": follows, "asks": asks}
    address = _find_gateway(app, no_gateway=choice.no_gateway)
    async with AsyncExitStack() as open_things:
        parts = None
        if address is not None:
            try:
                parts = await _open_seat(app, choice, address, open_things, **how)
            except ClewError as error:
                if address.is_named:
                    raise
                await open_things.aclose()
                app.note(
                    f"The gateway that runs here can't be used, so clew goes on without it: {error}"
                )
        if parts is None:
            parts = await _open_seat(app, choice, None, open_things, **how)
        yield parts


async def _open_seat(
    app: App,
    choice: Choice,
    address: Address | None,
    open_things: AsyncExitStack,
    *,
    holds: bool,
    attended: bool,
    follows: bool,
    asks: bool,
) -> Parts:
    from clew import config as configuration
    from clew.client.seats import locate
    from clew.terminal.breadcrumbs import find_terminal, leave_breadcrumb, read_breadcrumb
    from clew.terminal.live import LiveEvents, open_live
    from clew.terminal.seat import Seat

    place = locate(scope=app.config.session.scope)
    terminal = find_terminal(configuration.terminal_variables())
    connection = await open_things.enter_async_context(
        _connect(app, address, terminal=terminal, holds=holds)
    )
    client, crumbs = connection.client, connection.crumbs
    live = LiveEvents(client)
    if follows:
        live = await open_things.enter_async_context(open_live(client))
    seat = Seat(
        client,
        live,
        place=place,
        wanted=connection.wanted,
        attended=attended,
        asks=asks,
        zone=app.zone,
    )
    if holds:
        seat.write_crumb = partial(leave_breadcrumb, crumbs, terminal, place.cwd)
    located = await seat.locate(place, choice.key or app.config.session_key)
    seat.key = located.key
    open_things.push_async_callback(seat.leave)
    return Parts(connection, seat, located, read_breadcrumb(crumbs, terminal))


async def settle_directory(parts: Parts, asker: Asker, choice: Choice) -> None:
    """Ask whether the agent may work in a directory that is no workspace by itself, once.

    Without a yes it has no tools for files there, and the person is told so.
    """
    from clew.errors import Forbidden

    doubt, refused = parts.located.doubt, parts.located.refused
    if doubt is None:
        return
    allowed = choice.allow_directory
    asks = asker.is_attended and not allowed and not refused
    if asks:
        where = strip_controls(parts.seat.place.cwd, keep_newlines=False)
        asked = f"{where} is {doubt}. May the agent read all files in it, and change them if you "
        typed = await asker.ask(f"{asked}approve? [y/N] ")
        allowed = is_yes(typed)
    if asks or allowed:
        try:
            await parts.seat.allow_directory(allowed)
        except Forbidden as error:
            asker.note(str(error), None)
            allowed = False
    if not allowed:
        asker.note(
            f"This is {doubt}: the agent has no tools for files here. Change to a directory below "
            "it, or use --allow-directory.",
            None,
        )


def run_talk(app: App, talk: Coroutine[Any, Any, int]) -> None:
    """Run a conversation, and exit with its code. Choosing no session is not an error."""
    from clew.errors import ClewError

    try:
        code = asyncio.run(talk)
    except ClewError as error:
        if error.exit_code:
            raise
        app.note(str(error))
        return
    if code:
        raise click.exceptions.Exit(code)


@contextlib.contextmanager
def on_signals(handler: Callable[[int], None]) -> Iterator[None]:
    """Call the handler, in the event loop, for Ctrl+C, SIGTERM and a closed terminal."""
    loop = asyncio.get_running_loop()
    taken = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32":
        taken.append(signal.SIGHUP)
    for number in taken:
        loop.add_signal_handler(number, handler, number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)


def read_words(words: tuple[str, ...], missing: str) -> str:
    """The words of the command line, then what was piped in; `UsageError(missing)` if neither."""
    parts = [" ".join(words).strip()]
    if not sys.stdin.isatty():
        parts.append(sys.stdin.buffer.read().decode(errors="replace").strip())
    text = "\n\n".join(part for part in parts if part)
    if not text:
        raise click.UsageError(missing)
    return text


def answer_turn(app: App, turn: Turn, answer: str | None, **more: object) -> int:
    """Print the answer of a turn that ended, or how it ended. Returns the exit code."""
    value = {
        "session_id": turn.session_id,
        "turn_id": turn.id,
        "status": turn.status,
        "answer": answer,
        "error": turn.error,
    }
    if app.json:
        app.emit(value | more)
    elif turn.status == "done":
        app.say(strip_controls(answer or ""))
    else:
        app.note(f"The turn is {turn.status}: {turn.error or 'no reason is known'}.")
    return 0 if turn.status == "done" else 1


# --- where it works -----------------------------------------------------------------------------


class Address(msgspec.Struct, frozen=True):
    """A gateway and a token for it.

    `is_named`: it was given, not found running here. `hint`: the command to come back names it.
    """

    url: str
    token: str | None
    is_named: bool = False
    hint: bool = False


async def _do_nothing(*_given: object) -> None:
    """At a gateway: its models are loaded already."""


async def _tidy_nothing() -> tuple[str, ...]:
    """At a gateway, which applies retention itself."""
    return ()


async def _has_model(*, tell: bool = True) -> bool:  # noqa: ARG001  # the same as in process
    """At a gateway, which has a model of its own."""
    return True


class Connection(NamedTuple):
    """A client, and what depends on where it works.

    `crumbs` is the directory of this terminal's breadcrumbs, `wanted` what a new session is like.
    `shown_url` is part of the command to come back. `keeps_files`: this process stores the
    sessions, so a session may remember its transcript file. `tidy` applies retention and returns
    what it did; `have_model` is False if the model's weights could not be fetched. `load` and then
    `warm`, with the name of a model, make the first answer come sooner.
    """

    client: Client
    crumbs: Path
    transcripts: Transcripts
    wanted: Wanted
    shown_url: str | None = None
    keeps_files: bool = False
    tidy: Callable[[], Awaitable[tuple[str, ...]]] = _tidy_nothing
    load: Callable[[], Awaitable[None]] = _do_nothing
    warm: Callable[[str], Awaitable[None]] = _do_nothing
    have_model: Callable[..., Awaitable[bool]] = _has_model


def _find_gateway(app: App, *, no_gateway: bool) -> Address | None:
    """The gateway to use; None for this process."""
    if no_gateway:
        if app.url is not None:
            raise click.UsageError("Use --url or --no-gateway, not both.")
        return None
    named = app.gateway
    if named is not None:
        return Address(named.url, named.token, is_named=True, hint=app.url is not None)
    from clew.gateway.owner_token import find_own_token

    running = app.find_running()
    own = None if running is None else find_own_token(app.config.state_dir)
    return None if running is None or own is None else Address(running.url, own)


def _connect(
    app: App, address: Address | None, *, terminal: str | None, holds: bool
) -> AbstractAsyncContextManager[Connection]:
    if address is None:
        return _connect_here(app, terminal=terminal, holds=holds)
    return _connect_there(app, address)


@asynccontextmanager
async def _connect_there(app: App, address: Address) -> AsyncIterator[Connection]:
    """At a gateway."""
    from clew.api.seats import Wanted
    from clew.client.client import Client
    from clew.terminal.breadcrumbs import find_crumbs

    async with Client(address.url, address.token) as client:
        yield Connection(
            client=client,
            crumbs=find_crumbs(app.config.state_dir, address.url if address.is_named else None),
            transcripts=GatewayTranscripts(app, is_here=_is_here(app, address)),
            wanted=Wanted() if address.is_named else Wanted(personality=app.config.personality),
            shown_url=address.url if address.hint else None,
        )


def _is_here(app: App, address: Address) -> bool:
    """Whether the gateway serves the data directory of this machine, named or not."""
    if not address.is_named:
        return True
    running = app.find_running()
    return running is not None and running.url.rstrip("/") == address.url.rstrip("/")


@asynccontextmanager
async def _connect_here(
    app: App, *, terminal: str | None, holds: bool
) -> AsyncIterator[Connection]:
    """In this process."""
    from clew.api.seats import Wanted
    from clew.wiring import open_terminal

    opening = open_terminal(app.config, terminal=terminal, holds=holds, report=app.report_update)
    async with opening as opened:
        yield Connection(
            client=opened.client,
            crumbs=app.config.state_dir,
            transcripts=LocalTranscripts(opened),
            wanted=Wanted(personality=app.config.personality),
            keeps_files=True,
            tidy=partial(_tidy, app, opened),
            load=opened.load,
            warm=opened.warm,
            have_model=partial(_fetch_model, app, opened),
        )


async def _tidy(app: App, terminal: LocalTerminal) -> tuple[str, ...]:
    """Apply retention, once at start-up. Returns lines that say what was done, or can be done."""
    from clew.cli.trash import describe_pruned
    from clew.wiring.histories import find_untold

    tidied, lines = await terminal.tidy(), []
    if tidied.retained.ids:
        lines.append(describe_pruned(len(tidied.retained.ids), tidied.retained.action))
    if tidied.purged:
        removed = counted(len(tidied.purged), "session")
        lines.append(f"Removed {removed} from the trash for good (session.trash_days).")
    untold = await asyncio.to_thread(find_untold, app.config)
    return tuple(lines if untold is None else [*lines, untold])


async def _fetch_model(app: App, terminal: LocalTerminal, *, tell: bool = True) -> bool:
    """Fetch the weights of the embedded model if it will answer and they are missing.

    Everything else works without them, so a failure is not raised: it is told, and returns False.
    """
    from clew.cli.model import pull_weights
    from clew.errors import ClewError

    info = terminal.models.get_model()
    if not info.embedded or info.problem is not None or terminal.models.find_weights() is not None:
        return True
    app.note("Fetching the small model that answers without a key. This happens once.")
    stop = threading.Event()
    try:
        await asyncio.to_thread(pull_weights, app, terminal.models, stop)
    except ClewError as error:
        if tell:
            app.note(str(error))
        return False
    finally:
        stop.set()
    return True


# --- transcript files ---------------------------------------------------------------------------


class LocalTranscripts:
    """Transcript files of this machine, for sessions in this process."""

    def __init__(self, terminal: LocalTerminal) -> None:
        self._terminal = terminal

    async def open(self, path: Path) -> TranscriptOpening:
        """Import a transcript, or say that a new one begins."""
        return await self._terminal.open_transcript(path)


class GatewayTranscripts:
    """Transcript files of this machine, for sessions at a gateway.

    `is_here`: the gateway serves the data directory of this machine, so files can be imported.
    """

    def __init__(self, app: App, *, is_here: bool) -> None:
        self._app = app
        self._is_here = is_here

    async def open(self, path: Path) -> TranscriptOpening:
        """Import a transcript, or say that a new one begins."""
        from clew.errors import InvalidInput
        from clew.transfer.resume_file import find_new
        from clew.wiring import open_terminal

        if self._is_here:
            async with open_terminal(self._app.config, holds=False) as terminal:
                return await terminal.open_transcript(path)
        new = find_new(path)
        if new is None:
            raise InvalidInput(
                f"{path} is a file of this machine, and the gateway's sessions are on another. "
                f"Import it there (clew import {path.name}), or go on with it here: "
                f"clew --no-gateway -r {path.name}"
            )
        return new


async def write_transcript(client: Client, session_id: str, path: str) -> None:
    """Write a session that began with a missing or empty file to that file."""
    from clew.transfer.resume_file import write_back

    exported = await client.sessions.export(session_id, format="jsonl")
    write_back(session_id, path, exported.content)
