"""Where a chat works: at the gateway that was named, at the one that runs here, or in this process.

Which of them is decided here, and what is done if it can't be reached: a named one is an error, one
that only happens to run here is done without. Transcript files (`-r talk.jsonl`) are of the machine
that one types at: a chat in this process imports one into its own store, one at a gateway only
where that serves this data directory.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from clew.cli.app import App
from clew.core.names import counted

if TYPE_CHECKING:
    from clew.api.seats import Wanted
    from clew.client.client import Client
    from clew.terminal.startup import Transcripts
    from clew.transfer.resume_file import TranscriptOpening
    from clew.wiring import LocalTerminal


class Address(msgspec.Struct, frozen=True):
    """A gateway and a token of it. `is_named`: by somebody; `hint`: next time it must be again."""

    url: str
    token: str | None
    is_named: bool = False
    hint: bool = False


async def _do_nothing(*_given: object) -> None:
    """A gateway is warm."""


async def _tidy_nothing() -> tuple[str, ...]:
    """A gateway does that itself."""
    return ()


async def _is_there(*, tell: bool = True) -> bool:  # noqa: ARG001  # as in this process
    """Which model answers is the gateway's own affair."""
    return True


class Connection(NamedTuple):
    """A client, and what depends on where it works.

    `crumbs`: where this terminal's breadcrumbs are. `wanted`: what a new session is like.
    `shown_url` is named in the command to come back. `keeps_files`: the sessions are kept on this
    machine, by this process, so that one may know its transcript file. `tidy` says what it has put
    away; `have_model` is False if the model that answers could not be fetched. `load` and then
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
    have_model: Callable[..., Awaitable[bool]] = _is_there


def find_gateway(
    app: App, *, url: str | None, token: str | None, no_gateway: bool = False
) -> Address | None:
    """The gateway to talk at; None for this process."""
    from clew.config import reveal
    from clew.core.settings import Secret
    from clew.gateway.owner_token import find_own_token
    from clew.gateway.running_gateway import find_running

    if no_gateway:
        if url is not None:
            raise click.UsageError("Say --url or --no-gateway, not both.")
        return None
    config = app.config
    named = url or config.gateway_url
    given = Secret(token) if token else config.gateway_token
    if named is not None:
        shown = None if given is None else reveal(given)
        return Address(named, shown, is_named=True, hint=url is not None)
    if token is not None:
        raise click.UsageError("--token goes with --url: which gateway is it for?")
    running = find_running(config.state_dir, config.store.url)
    own = None if running is None else find_own_token(config.state_dir)
    if running is None or own is None:
        return None
    return Address(running.url, own)


def connect(
    app: App, address: Address | None, *, terminal: str | None, holds: bool
) -> AbstractAsyncContextManager[Connection]:
    """A client of that gateway, or in this process, and what goes with it."""
    if address is None:
        return _connect_here(app, terminal=terminal, holds=holds)
    return _connect_there(app, address)


# --- at a gateway -----------------------------------------------------------------------------
@asynccontextmanager
async def _connect_there(app: App, address: Address) -> AsyncIterator[Connection]:
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
    """Whether the gateway serves this data directory, named or not."""
    from clew.gateway.running_gateway import find_running

    if not address.is_named:
        return True
    running = find_running(app.config.state_dir, app.config.store.url)
    return running is not None and running.url.rstrip("/") == address.url.rstrip("/")


# --- in this process --------------------------------------------------------------------------
@asynccontextmanager
async def _connect_here(
    app: App, *, terminal: str | None, holds: bool
) -> AsyncIterator[Connection]:
    from clew.api.seats import Wanted
    from clew.wiring import open_terminal

    async with open_terminal(
        app.config, terminal=terminal, holds=holds, report=app.report_update
    ) as opened:

        async def have_model(*, tell: bool = True) -> bool:
            return await _have_model(app, opened, tell=tell)

        yield Connection(
            client=opened.client,
            crumbs=app.config.state_dir,
            transcripts=LocalTranscripts(opened),
            wanted=Wanted(personality=app.config.personality),
            keeps_files=True,
            tidy=lambda: _tidy(opened),
            load=opened.load,
            warm=opened.warm,
            have_model=have_model,
        )


async def _tidy(terminal: LocalTerminal) -> tuple[str, ...]:
    """Retention, once at start-up; lines that say what was done."""
    from clew.cli.prune import summary

    tidied, lines = await terminal.tidy(), []
    if tidied.retained.ids:
        lines.append(summary(len(tidied.retained.ids), tidied.retained.action))
    if tidied.purged:
        removed = counted(len(tidied.purged), "session")
        lines.append(f"Removed {removed} from the trash for good (session.trash_days).")
    return tuple(lines)


async def _have_model(app: App, terminal: LocalTerminal, *, tell: bool) -> bool:
    """Fetch the embedded model's weights if it is to answer and they are not here; says how far.

    Without them everything else works, so a failure (False) is only told.
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


# --- transcript files -------------------------------------------------------------------------


class LocalTranscripts:
    """Files and sessions of this process."""

    def __init__(self, terminal: LocalTerminal) -> None:
        self._terminal = terminal

    async def open(self, path: Path) -> TranscriptOpening:
        """Import it, or say that a new one begins."""
        return await self._terminal.open_transcript(path)


class GatewayTranscripts:
    """Files here, sessions at a gateway. `is_here`: both are this data directory's."""

    def __init__(self, app: App, *, is_here: bool) -> None:
        self._app = app
        self._is_here = is_here

    async def open(self, path: Path) -> TranscriptOpening:
        """Import it, or say that a new one begins."""
        from clew.errors import InvalidInput
        from clew.transfer.resume_file import find_new
        from clew.wiring import open_terminal

        if self._is_here:
            async with open_terminal(self._app.config, holds=False) as terminal:
                return await terminal.open_transcript(path)
        new = find_new(path)
        if new is None:
            raise InvalidInput(
                f"{path} is a file of this machine, and the gateway's sessions are elsewhere. "
                f"Import it there (clew import {path.name}), or go on with it here: "
                f"clew --no-gateway -r {path.name}"
            )
        return new


async def write_transcript(client: Client, session_id: str, path: str) -> None:
    """Write a session that began with a missing or empty file to that file."""
    from clew.transfer.resume_file import write_back

    exported = await client.sessions.export(session_id, format="jsonl")

    async def pieces() -> AsyncIterator[str]:
        yield exported.content

    await write_back(session_id, path, pieces())
