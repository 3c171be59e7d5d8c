"""What `clew chat` and `clew ask` share: their options, and a seat at nothing yet."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from clew.cli.app import App
from clew.cli.options import ALONE

if TYPE_CHECKING:
    from clew.api.seats import Located
    from clew.cli.connection import Address, Connection
    from clew.core.resume import Breadcrumb
    from clew.terminal.seat import Seat
    from clew.terminal.startup import Asker, Flags, Startup


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
        """The same, for the start-up."""
        from clew.terminal.startup import Flags

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
    """A conversation, ready to begin: a seat at nothing yet, and where its key leads."""

    connection: Connection
    seat: Seat
    located: Located
    breadcrumb: Breadcrumb | None

    def start_up(self, asker: Asker) -> Startup:
        """The way to a session."""
        from clew.terminal.startup import Startup

        return Startup(self.seat, asker, self.connection.transcripts)


@asynccontextmanager
async def conversation(
    app: App, choice: Choice, *, holds: bool, attended: bool, follows: bool = True
) -> AsyncIterator[Parts]:
    """A seat at nothing yet: at a gateway, if one is named or runs here, else in this process.

    `holds`: the session that it is at is this terminal's own. `follows`: its live events are read.
    """
    from clew.cli.connection import find_gateway
    from clew.errors import ClewError

    how = {"holds": holds, "attended": attended, "follows": follows}
    address = find_gateway(app, url=choice.url, token=choice.token, no_gateway=choice.no_gateway)
    async with AsyncExitStack() as open_things:
        parts = None
        if address is not None:
            try:
                parts = await _sit(app, choice, address, open_things, **how)
            except ClewError as error:
                if address.is_named:
                    raise
                await open_things.aclose()
                app.note(
                    f"The gateway that runs here can't be used, so this goes on without: {error}"
                )
        if parts is None:
            parts = await _sit(app, choice, None, open_things, **how)
        yield parts


async def _sit(
    app: App,
    choice: Choice,
    address: Address | None,
    open_things: AsyncExitStack,
    *,
    holds: bool,
    attended: bool,
    follows: bool,
) -> Parts:
    from clew import config as configuration
    from clew.cli.connection import connect
    from clew.client.place import locate
    from clew.terminal.breadcrumbs import find_terminal, leave_breadcrumb, read_breadcrumb
    from clew.terminal.live import LiveEvents, open_live
    from clew.terminal.seat import Seat

    place = locate(scope=app.config.session.scope)
    terminal = find_terminal(configuration.terminal_variables())
    made = connect(app, address, terminal=terminal, holds=holds)
    connection = await open_things.enter_async_context(made)
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
        zone=app.zone,
    )
    if holds:
        seat.write_crumb = partial(leave_breadcrumb, crumbs, terminal, place.cwd)
    located = await seat.locate(place, choice.key or app.config.session_key)
    seat.key = located.key
    open_things.push_async_callback(seat.leave)
    return Parts(connection, seat, located, read_breadcrumb(crumbs, terminal))


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
