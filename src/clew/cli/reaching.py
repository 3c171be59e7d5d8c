"""Reaching a gateway: the one that was named, or the one that runs for this data directory.

Which of both is decided here, and what is done if it can't be reached: a named one is an error, one
that only happens to run here is done without.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import click
import msgspec

from clew.api import sessions as sessions_rows
from clew.cli.app import App
from clew.cli.talking import Choice, Parts, expand

if TYPE_CHECKING:
    from pathlib import Path

    from clew.cli.transcripts import GatewayTranscripts
    from clew.client.client import Client
    from clew.client.remote import Line, RemoteSeat
    from clew.core.resume import Resolution
    from clew.core.session import Session


class Address(msgspec.Struct, frozen=True):
    """A gateway and a token of it. `is_named`: by somebody; `hint`: next time it must be again."""

    url: str
    token: str | None
    is_named: bool = False
    hint: bool = False


def find_gateway(app: App, choice: Choice) -> Address | None:
    """The gateway to talk at; None for this process."""
    from clew.config import reveal
    from clew.core.settings import Secret
    from clew.gateway.owner_token import find_own_token
    from clew.gateway.running_gateway import find_running

    if choice.no_gateway:
        if choice.url is not None:
            raise click.UsageError("Say --url or --no-gateway, not both.")
        return None
    config = app.config
    url = choice.url or config.gateway_url
    given = Secret(choice.token) if choice.token else config.gateway_token
    token = None if given is None else reveal(given)
    if url is not None:
        return Address(url, token, is_named=True, hint=choice.url is not None)
    if choice.token is not None:
        raise click.UsageError("--token goes with --url: which gateway is it for?")
    running = find_running(config.state_dir, config.store.url)
    own = None if running is None else find_own_token(config.state_dir)
    if running is None or own is None:
        return None
    return Address(running.url, own)


@asynccontextmanager
async def sit_there(
    app: App, choice: Choice, address: Address, *, holds: bool, attended: bool
) -> AsyncIterator[Parts | None]:
    """A seat at a gateway, at nothing yet; None for one that only runs here and does not answer."""
    from clew.client.client import Client
    from clew.client.remote import open_line
    from clew.errors import ClewError

    async with AsyncExitStack() as open_things:
        parts = None
        try:
            client = await open_things.enter_async_context(Client(address.url, address.token))
            line = await open_things.enter_async_context(open_line(client))
            parts = await _sit(app, choice, address, client, line, holds=holds, attended=attended)
            open_things.push_async_callback(parts.seat.leave)
        except ClewError as error:
            if address.is_named:
                raise
            await open_things.aclose()
            app.note(f"The gateway that runs here can't be used, so this goes on without: {error}")
        yield parts


async def _sit(  # the parts of a desk
    app: App,
    choice: Choice,
    address: Address,
    client: Client,
    line: Line,
    *,
    holds: bool,
    attended: bool,
) -> Parts:
    from clew import config as configuration
    from clew.cli.transcripts import GatewayTranscripts
    from clew.client.place import locate
    from clew.client.remote import RemoteRuntime, RemoteSeat, load_shelves, run_there
    from clew.core.breadcrumb import Breadcrumb
    from clew.runtime.commands.desk import Desk
    from clew.terminal.breadcrumbs import find_terminal, read_breadcrumb, write_breadcrumb

    config = app.config
    place = locate(scope=config.session.scope)
    terminal = find_terminal(configuration.terminal_variables())
    crumbs = _crumbs(config.state_dir, address)
    there, shelves = RemoteRuntime(client, line), await load_shelves(client)

    def leave_crumb(session_id: str | None, fresh: bool) -> None:
        write_breadcrumb(crumbs, terminal, Breadcrumb(place.cwd, session_id, fresh, app.clock()))

    seat = RemoteSeat(
        there,
        shelves.models,
        place=place,
        key="",
        terminal=terminal,
        attended=attended,
        defaults={} if address.is_named else {"personality": config.personality},
        leave_crumb=leave_crumb if holds else lambda _session, _fresh: None,
    )
    found = await seat.locate(place, choice.key or config.session_key)
    seat.key = found.key
    files = GatewayTranscripts(app, client, is_here=_is_here(app, address))
    desk = Desk(
        seat=seat,
        models=shelves.models,
        personalities=shelves.personalities,
        memory=there.store,  # commands that need it run at the gateway
        context=there.store,  # likewise
        resolve=lambda value: _resolve(client, seat, files, value),
        export=lambda session, file: _export(client, session, file),
        zone=app.zone,
        run=run_there,
    )
    crumb = read_breadcrumb(crumbs, terminal)
    shown = address.url if address.hint else None
    at_desk = (desk.store, None, seat, desk, found.session, crumb, found.moved_from)
    return Parts(*at_desk, there=shown, transcripts=files, refused=line.refused)


def _crumbs(state_dir: Path, address: Address) -> Path:
    """Where this terminal's breadcrumbs are: another gateway has other sessions."""
    from clew.terminal.breadcrumbs import find_crumbs

    return find_crumbs(state_dir, address.url if address.is_named else None)


def _is_here(app: App, address: Address) -> bool:
    """Whether the gateway serves this data directory, named or not."""
    from clew.gateway.running_gateway import find_running

    if not address.is_named:
        return True
    running = find_running(app.config.state_dir, app.config.store.url)
    return running is not None and running.url.rstrip("/") == address.url.rstrip("/")


async def _resolve(
    client: Client, seat: RemoteSeat, files: GatewayTranscripts, value: str
) -> Resolution:
    """What a person means, asked of the gateway. Transcripts are files here, not there."""
    from clew.api.sessions import FindSessions
    from clew.core.resume import Resolution, check_value
    from clew.errors import SessionNotFound

    value, place = check_value(value), seat.place
    path, is_meant = await files.find(value, place)
    if is_meant:
        return Resolution(value, step="path", path=str(path))
    params = FindSessions(value=value, cwd=place.cwd, project=place.project, scope=place.scope)
    try:
        found = await client.do(sessions_rows.FIND, params)
    except SessionNotFound:
        if path is None:
            raise
        return Resolution(value, step="path", path=str(path))
    return Resolution(value, matches=tuple(map(seat.keep, found.sessions)))


async def _export(client: Client, session: Session, file: str | None) -> str:
    """Write a session of the gateway to a file here."""
    from clew.transfer import guess_format, write_file

    path = expand(file or f"session-{session.id}.md")
    exported = await client.sessions.export(session.id, format=guess_format(path.name))

    async def pieces() -> AsyncIterator[str]:
        yield exported.content

    await write_file(path, pieces(), force=False)
    return str(path)
