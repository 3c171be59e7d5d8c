"""What `clew chat` and `clew ask` share: their options, and the parts of a conversation, built."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from clew.cli.app import App
from clew.cli.options import ALONE

if TYPE_CHECKING:
    from clew.cli.transcripts import GatewayTranscripts
    from clew.core.breadcrumb import Breadcrumb
    from clew.core.session import Session
    from clew.errors import Unauthorized
    from clew.ports import Store
    from clew.runtime.commands.desk import Desk
    from clew.runtime.seat import Seat
    from clew.terminal.entrance import Asker, Entrance, Flags
    from clew.wiring import House


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What the person said about the session to talk in."""

    resume: str | None = None
    continues: str | None = None
    fork: bool = False
    read_only: bool = False
    key: str | None = None
    url: str | None = None
    token: str | None = None
    no_gateway: bool = False

    def flags(self) -> Flags:
        """The same, for the entrance."""
        from clew.terminal.entrance import Flags

        if self.resume is not None and self.continues is not None:
            raise click.UsageError("Say --continue or --resume, not both.")
        given = self.continues if self.resume is None else self.resume
        return Flags(
            continues=self.continues == ALONE,
            picks=self.resume == ALONE,
            target=None if given == ALONE else given,
            fork=self.fork,
            read_only=self.read_only,
        )


class Parts(NamedTuple):
    """A conversation, ready to begin. At a gateway there is no house; `there` is its address."""

    store: Store
    house: House | None
    seat: Seat
    desk: Desk
    current: Session | None
    breadcrumb: Breadcrumb | None
    moved_from: str | None
    there: str | None = None
    transcripts: GatewayTranscripts | None = None
    """Where files are opened if not by the store; None in this process."""
    refused: asyncio.Future[Unauthorized] | None = None
    """Done when the gateway accepts the token no longer."""


@asynccontextmanager
async def conversation(
    app: App, choice: Choice, *, holds: bool, attended: bool
) -> AsyncIterator[Parts]:
    """A seat at nothing yet: at a gateway, if one is named or runs here, else in this process."""
    from clew.cli.reaching import find_gateway, sit_there

    async with AsyncExitStack() as open_things:
        address = find_gateway(app, choice)
        parts = None
        if address is not None:
            how = sit_there(app, choice, address, holds=holds, attended=attended)
            parts = await open_things.enter_async_context(how)
        if parts is None:
            here = sit_here(app, choice, holds=holds, attended=attended)
            parts = await open_things.enter_async_context(here)
        yield parts


@asynccontextmanager
async def sit_here(
    app: App, choice: Choice, *, holds: bool, attended: bool
) -> AsyncIterator[Parts]:
    """Open the store, the agent and a seat at nothing yet; close them again, whatever happens."""
    from clew import config as configuration
    from clew.client.place import locate
    from clew.core.breadcrumb import Breadcrumb
    from clew.runtime.commands.desk import Desk
    from clew.runtime.projects import find_cli_key
    from clew.runtime.resuming import resolve_resume
    from clew.runtime.seat import Seat
    from clew.terminal.breadcrumbs import find_terminal, read_breadcrumb, write_breadcrumb
    from clew.wiring import House, open_configured_store, terminal_judge

    config = app.config
    place = locate(scope=config.session.scope)
    terminal = find_terminal(configuration.terminal_variables())
    store = await open_configured_store(config)
    try:
        house = House(config, store)
        try:
            found = await find_cli_key(store, place, choice.key or config.session_key)

            def leave_crumb(session_id: str | None, fresh: bool) -> None:
                crumb = Breadcrumb(place.cwd, session_id, fresh, house.runtime.clock())
                write_breadcrumb(config.state_dir, terminal, crumb)

            seat = Seat(
                house.runtime,
                house.models,
                place=place,
                key=found.key,
                terminal=terminal,
                holds=holds,
                attended=attended,
                defaults={"personality": config.personality},
                leave_crumb=leave_crumb if holds else lambda _session, _fresh: None,
                judge=terminal_judge(config),
            )
            desk = Desk(
                seat=seat,
                models=house.models,
                personalities=house.personalities,
                memory=house.memory,
                context=house.context,
                resolve=lambda value: resolve_resume(store, value, seat.place, viewer=seat.person),
                export=lambda session, file: export_to(store, session, file),
                zone=app.zone,
            )
            crumb = read_breadcrumb(config.state_dir, terminal)
            try:
                yield Parts(store, house, seat, desk, found.session, crumb, found.moved_from)
            finally:
                await seat.leave()
        finally:
            await house.close()
    finally:
        await store.close()


def run_talk(app: App, talk: Coroutine[Any, Any, int]) -> None:
    """Talk to the end, and exit with its code. Choosing nothing is an end too, and no error."""
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


async def export_to(store: Store, session: Session, file: str | None) -> str:
    """Write a session to a file; the name's ending says how, Markdown without one."""
    from clew.transfer import export_session, guess_format, write_file

    path = expand(file or f"session-{session.id}.md")
    fresh = await store.get_session(session.id)
    form = guess_format(path.name)
    pieces = export_session(store, fresh, form, masked=form != "jsonl")
    await write_file(path, pieces, force=False)
    return str(path)


def expand(path: str) -> Path:
    """A path that a person typed."""
    return Path(path).expanduser()


def way_in(parts: Parts, asker: Asker) -> Entrance:
    """The entrance of a conversation."""
    from clew.terminal.entrance import Entrance

    files = parts.transcripts
    return Entrance(parts.desk, asker, None if files is None else files.open)


async def have_model(app: App, house: House | None, *, tell: bool = True) -> bool:
    """Fetch the embedded model's weights if it is to answer and they are not here; says how far.

    Without them everything else works, so a failure (False) is only told.
    """
    from clew.cli.model import pull_weights
    from clew.errors import ClewError

    if house is None:
        return True  # that is the gateway's affair
    info = house.models.get_model()
    if not info.embedded or info.problem is not None or house.models.find_weights() is not None:
        return True
    app.note("Fetching the small model that answers without a key. This happens once.")
    stop = threading.Event()
    try:
        await asyncio.to_thread(pull_weights, app, house.models, stop)
    except ClewError as error:
        if tell:
            app.note(str(error))
        return False
    finally:
        stop.set()
    return True


@contextlib.contextmanager
def on_signals(handler: Callable[[int], None]) -> Any:
    """Let Ctrl+C, SIGTERM and a closed terminal come to the handler, in the loop."""
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
