"""`clew list` and `clew sessions`: one listing, of the newest sessions or of all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from clew.cli.app import App, json_option, pass_app
from clew.cli.jsonout import session_value
from clew.cli.pages import PAGE, list_up_to
from clew.cli.tables import fit, session_table
from clew.core.names import format_count
from clew.core.overview import Status, status_of
from clew.core.session import OWNER, Session, SessionFilter
from clew.errors import InvalidInput

if TYPE_CHECKING:
    from clew.gateway.presence import Running
    from clew.ports import Store

F = TypeVar("F", bound=Callable[..., Any])

NO_SESSIONS = "No sessions yet. `clew demo` makes some to look at."


class Listing(msgspec.Struct, frozen=True):
    """What one listing shows; `archived` counts those that it leaves out for being archived."""

    sessions: tuple[Session, ...]
    short_ids: dict[str, str]
    statuses: dict[str, Status]
    cursor: str | None
    archived: int


async def make_listing(
    store: Store, where: SessionFilter, limit: int | None, cursor: str | None = None
) -> Listing:
    """Read a listing."""
    page = await list_up_to(store, where, limit, cursor)
    ids = [session.id for session in page.sessions]
    short_ids = await store.shorten_ids(ids)
    archived = 0
    if where.archived is False:
        archived = await store.count_sessions(msgspec.structs.replace(where, archived=True))
    return Listing(page.sessions, short_ids, await _statuses(store, ids), page.cursor, archived)


async def _statuses(store: Store, ids: list[str]) -> dict[str, Status]:
    """What goes on in those of the sessions where anything does."""
    found: dict[str, Status] = {}
    for start in range(0, len(ids), PAGE):
        for each, state in (await store.list_states(ids[start : start + PAGE])).items():
            status = status_of(state)
            if status is not None:
                found[each] = status
    return found


def listing_values(listing: Listing) -> list[dict[str, Any]]:
    """The sessions of a listing for JSON."""
    return [
        session_value(each, listing.short_ids) | {"status": listing.statuses.get(each.id)}
        for each in listing.sessions
    ]


def find_gateway(app: App) -> Running | None:
    """The gateway that runs for this store, if one does."""
    from clew.gateway.presence import find_running

    return find_running(app.config.state_dir, app.config.store.url)


def gateway_value(running: Running | None) -> dict[str, Any] | None:
    """A gateway for JSON."""
    if running is None:
        return None
    return {"url": running.url, "pid": running.pid, "started_at": running.started_at}


def show_listing(
    app: App, listing: Listing, *, empty: str = NO_SESSIONS, tells_gateway: bool = False
) -> None:
    """Print a listing; `tells_gateway`, with a word about the gateway that runs, if one does."""
    running = find_gateway(app) if tells_gateway else None
    if app.json:
        value = {
            "sessions": listing_values(listing),
            "cursor": listing.cursor,
            "archived": listing.archived,
        }
        app.emit(value | ({"gateway": gateway_value(running)} if tells_gateway else {}))
        return
    lines = [empty]
    if listing.sessions:
        lines = session_table(app, listing.sessions, listing.short_ids, listing.statuses)
    if listing.cursor is not None:
        lines.append(app.colour(fit(app, "… and more: `clew list --all` shows every one"), "dim"))
    if listing.archived:
        lines.append(app.colour(f"+ {format_count(listing.archived)} archived", "dim"))
    if running is not None:
        since = app.local_time(running.started_at)
        lines.append(app.colour(f"A gateway runs at {running.url} since {since}.", "dim"))
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
            help="Only sessions updated within so many minutes.",
        ),
        click.option("--archived", is_flag=True, help="The archived sessions instead."),
        json_option,
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
@click.option("--cursor", metavar="CURSOR", help="Go on where the JSON of another list ended.")
@_filters
@pass_app
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
@pass_app
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
    where = SessionFilter(
        viewer=OWNER,
        platform=platform,
        cwd=here() if only_here else None,
        active_since=None if active is None else app.now - active * 60_000,
        archived=archived,
    )
    listing = app.run(lambda store: make_listing(store, where, limit, cursor))
    narrowed = where != SessionFilter(viewer=OWNER) or limit == 0 or cursor is not None
    empty = "No sessions like that." if narrowed or listing.archived else NO_SESSIONS
    show_listing(app, listing, empty=empty, tells_gateway=active is not None)
