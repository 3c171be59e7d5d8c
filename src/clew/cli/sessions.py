"""`clew list` and `clew sessions`: one listing, of the newest sessions or of all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from clew.cli.app import App, client_command
from clew.cli.tables import fit, session_table
from clew.core.names import format_count
from clew.errors import InvalidInput

if TYPE_CHECKING:
    from clew.api.sessions import ListedSession
    from clew.client.client import Client
    from clew.gateway.running_gateway import Running

F = TypeVar("F", bound=Callable[..., Any])

PAGE: Final = 200
"""Sessions in one request."""
NO_SESSIONS: Final = "No sessions yet. `clew` begins one; `clew demo` makes some to look at."
NOTHING: Final = "No sessions like that."


class Listing(msgspec.Struct, frozen=True):
    """Sessions to show; `archived` counts those left out because they are archived."""

    sessions: tuple[ListedSession, ...]
    cursor: str | None
    archived: int


async def make_listing(
    client: Client, limit: int | None, cursor: str | None = None, **filters: Any
) -> Listing:
    """The first `limit` sessions (all if None), in as many pages as it takes."""
    found: list[ListedSession] = []
    archived: int | None = None
    while True:
        missing = PAGE if limit is None else min(PAGE, limit - len(found))
        page = await client.sessions.list(
            limit=missing, cursor=cursor, count_archived=archived is None, **filters
        )
        found += page.sessions
        cursor = page.cursor
        archived = page.archived if archived is None else archived
        if cursor is None or len(found) == limit:
            return Listing(tuple(found), cursor, archived or 0)


def _show(app: App, listing: Listing, *, empty: str) -> None:
    lines = session_table(app, listing.sessions) if listing.sessions else [empty]
    if listing.cursor is not None:
        lines.append(app.colour(fit(app, "… and more: `clew list --all` shows every one"), "dim"))
    if listing.archived:
        lines.append(app.colour(f"+ {format_count(listing.archived)} archived", "dim"))
    app.say("\n".join(lines))


def here() -> str:
    """The directory that `--here` means."""
    try:
        return str(Path.cwd())
    except OSError as error:
        raise InvalidInput("This directory is gone. Change to another one.") from error


def _filters(command: F) -> F:
    for option in reversed((
        click.option("--here", "only_here", is_flag=True, help="Only sessions of this directory."),
        click.option("--platform", metavar="NAME", help="Only sessions of this platform."),
        click.option(
            "--active",
            metavar="MIN",
            type=click.IntRange(1, 10**9),
            help="Only sessions updated in the last MIN minutes.",
        ),
        click.option("--archived", is_flag=True, help="The archived sessions instead."),
        client_command,
    )):  # fmt: skip
        command = option(command)
    return command


@click.command("list")
@click.option(
    "-n",
    "limit",
    metavar="N",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="How many sessions.",
)
@click.option("--all", "everything", is_flag=True, help="Every session, like `clew sessions`.")
@click.option("--cursor", metavar="CURSOR", help="Go on where the JSON of the list before ended.")
@_filters
def list_command(
    app: App, /, limit: int, everything: bool, cursor: str | None, **filters: Any
) -> None:
    """List the newest sessions, pinned ones (★) first.

    \b
    Examples:
      clew list -n 50
      clew list --here --active 60
      clew list --platform telegram --json
    """
    _list(app, None if everything else limit, cursor=cursor, **filters)


@click.command("sessions")
@_filters
def sessions_command(app: App, /, **filters: Any) -> None:
    """List every session, pinned ones (★) first.

    \b
    Examples:
      clew sessions
      clew sessions --active 1440 --json
    """
    _list(app, None, **filters)


def _list(
    app: App,
    limit: int | None,
    *,
    only_here: bool,
    platform: str | None,
    active: int | None,
    archived: bool,
    cursor: str | None = None,
) -> None:
    filters = {
        "platform": platform,
        "cwd": here() if only_here else None,
        "active": active,
        "archived": archived,
    }
    listing = app.call(lambda client: make_listing(client, limit, cursor, **filters))
    running = app.find_running() if active is not None and app.gateway is None else None
    if app.json:
        gateway = {"gateway": _gateway_value(app, running)} if active is not None else {}
        app.emit(msgspec.to_builtins(listing) | gateway)
        return
    narrowed = any(filters.values()) or limit == 0 or cursor is not None
    _show(app, listing, empty=NOTHING if narrowed or listing.archived else NO_SESSIONS)
    if running is not None:
        since = app.local_time(running.started_at)
        app.say(app.colour(f"A gateway runs at {running.url} since {since}.", "dim"))


def _gateway_value(app: App, running: Running | None) -> dict[str, Any] | None:
    """The gateway that was asked, or that runs here, for JSON."""
    if app.gateway is not None:
        return {"url": app.gateway.url}
    if running is None:
        return None
    return {"url": running.url, "pid": running.pid, "started_at": running.started_at}
