"""Bare `clew`: tidies up, then shows what is there and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from clew.cli.app import App
from clew.cli.listing import Listing, make_listing, show_listing
from clew.cli.prune import summary
from clew.cli.tables import fit
from clew.core.names import counted
from clew.core.retention import DAY_MS, Retained
from clew.core.session import OWNER, SessionFilter
from clew.wiring import retention_policy

if TYPE_CHECKING:
    from clew.config import Config
    from clew.ports import Store

SHOWN = 10
HINTS = (
    ("clew show ID", "read a session; the first letters of an id are enough"),
    ("clew search WORDS", "find where something was said"),
    ("clew list --here", "only this directory's sessions"),
    ("clew --help", "everything else"),
)
FIRST_HINTS = (
    ("clew demo", "make some sessions to look at"),
    ("clew import FILE", "bring sessions from a transcript"),
    ("clew --help", "everything else"),
)


class Tidied(msgspec.Struct, frozen=True):
    """What the start-up pass put away, and what it removed for good."""

    retained: Retained
    purged: tuple[str, ...]


async def tidy(store: Store, config: Config, now: int) -> Tidied:
    """The start-up pass: retention, then trash that is older than `trash_days` (0: never)."""
    retained = await store.retain(retention_policy(config))
    purged: tuple[str, ...] = ()
    if config.session.trash_days > 0:
        purged = await store.purge_trash(now - config.session.trash_days * DAY_MS)
    return Tidied(retained, purged)


def show_home(app: App) -> None:
    """The screen of bare `clew`."""

    async def start(store: Store) -> tuple[Tidied, Listing]:
        tidied = await tidy(store, app.config, app.now)
        return tidied, await make_listing(store, SessionFilter(viewer=OWNER), SHOWN)

    tidied, listing = app.run(start)
    if tidied.retained.ids:
        app.note(summary(len(tidied.retained.ids), tidied.retained.action))
    if tidied.purged:
        removed = counted(len(tidied.purged), "session")
        app.note(f"Removed {removed} from the trash for good (session.trash_days).")
    if app.json:
        show_listing(app, listing)
        return
    some = bool(listing.sessions)
    app.say(app.colour("Your sessions" if some else "Welcome to clew.", "bold"))
    app.say()
    show_listing(app, listing, empty="There are no sessions here yet.")
    app.say()
    hints = HINTS if some or listing.archived else FIRST_HINTS
    width = max(len(command) for command, _ in hints)
    for command, purpose in hints:
        line = fit(app, f"  {command:<{width}}  {purpose}")
        app.say(line[: width + 4] + app.colour(line[width + 4 :], "dim"))
