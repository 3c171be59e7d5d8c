"""`clew stats` and `clew status`: the store in numbers, and where it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from clew.cli.app import App, json_option, pass_app
from clew.cli.jsonout import session_value
from clew.cli.listing import NO_SESSIONS, Listing, make_listing
from clew.cli.tables import facts, session_table
from clew.core.names import counted, format_bytes, format_count
from clew.core.session import OWNER, SessionFilter
from clew.core.text import strip_controls
from clew.version import __version__

if TYPE_CHECKING:
    from clew.core.stats import StoreStats
    from clew.ports import Store

RECENT = 5


@click.command("stats")
@json_option
@pass_app
def stats_command(app: App) -> None:
    """Count sessions, messages and bytes.

    \b
    Examples:
      clew stats
      clew stats --json
    """
    stats = app.run(lambda store: store.stats())
    if app.json:
        app.emit(stats)
    else:
        app.say("\n".join(facts(app, _numbers(app, stats))))


def _numbers(app: App, stats: StoreStats) -> Iterator[tuple[str, str]]:
    yield "sessions", format_count(stats.sessions)
    yield "archived", format_count(stats.archived)
    yield "in the trash", format_count(stats.trashed)
    yield "messages", format_count(stats.messages)
    yield "content", format_bytes(stats.content_bytes)
    yield "on disk", format_bytes(stats.file_bytes)
    if stats.oldest_at is not None and stats.newest_at is not None:
        yield "oldest", app.local_time(stats.oldest_at)
        yield "newest", app.local_time(stats.newest_at)
    for platform, count in stats.platforms.items():
        name = strip_controls(platform, keep_newlines=False)
        yield f"on {name}", format_count(count)


@click.command("status")
@json_option
@pass_app
def status_command(app: App) -> None:
    """Show where the store is, how big it is, and what was used last.

    \b
    Examples:
      clew status
      clew status --json
    """
    from clew.core.secrets import hide_password
    from clew.wiring import describe_store

    async def read(store: Store) -> tuple[StoreStats, Listing]:
        recent = await make_listing(store, SessionFilter(viewer=OWNER), RECENT)
        return await store.stats(), recent

    stats, recent = app.run(read)
    store = app.wait(describe_store(app.config))
    if app.json:
        app.emit({
            "version": __version__,
            "config": str(app.config.file),
            "store": {
                "url": hide_password(app.config.store.url),
                "durability": app.config.store.durability,
                "path": store.path,
                "engine": store.engine,
                "schema": store.schema,
                **msgspec.to_builtins(stats),
            },
            "recent": [session_value(each, recent.short_ids) for each in recent.sessions],
        })  # fmt: skip
        return
    kept = f"{format_count(stats.sessions)} and {format_count(stats.archived)} archived"
    lines = facts(
        app,
        [
            ("clew", __version__),
            ("store", f"{store.path} ({format_bytes(stats.file_bytes)})"),
            ("engine", f"{store.engine}, schema {store.schema}"),
            ("durability", app.config.store.durability),
            ("config", f"{app.config.file}{'' if app.config.file.exists() else ' (not there)'}"),
            ("sessions", f"{kept}, {counted(stats.messages, 'message')}"),
        ],
    )
    lines.append("")
    if recent.sessions:
        lines += session_table(app, recent.sessions, recent.short_ids)
    else:
        lines.append(NO_SESSIONS)
    app.say("\n".join(lines))
