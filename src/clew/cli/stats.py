"""`clew stats` and `clew status`: the store in numbers, and where it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from clew.cli.app import App, json_option, pass_app
from clew.cli.listing import (
    NO_SESSIONS,
    Listing,
    find_gateway,
    gateway_value,
    listing_values,
    make_listing,
)
from clew.cli.tables import facts, session_table
from clew.core.names import counted, format_bytes, format_count
from clew.core.session import OWNER, SessionFilter
from clew.core.text import strip_controls
from clew.version import __version__

if TYPE_CHECKING:
    from clew.api.status import StatusReport
    from clew.core.stats import StoreStats
    from clew.gateway.presence import Running
    from clew.ports import Store
    from clew.wiring import StoreFacts

RECENT = 5
PATIENCE = 3.0
"""Seconds for a gateway to answer."""


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
    """Show where the store is, how big it is, whether a gateway runs, and what was used last.

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
    running = find_gateway(app)
    told = None if running is None else app.wait(_ask(app, running))
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
            "gateway": gateway_value(running),
            "channels": None if told is None else told.channels,
            "cron": None if told is None else told.cron,
            "errands": None if told is None else told.errands,
            "waiting": None if told is None else {
                "messages": told.queued,
                "tool_calls": told.waiting,
                "uncertain": told.uncertain,
                "strangers": told.asking,
            },
            "recent": listing_values(recent),
        })  # fmt: skip
        return
    lines = facts(app, [*_places(app, store, stats), *_gateway(app, running, told)])
    lines.append("")
    if recent.sessions:
        lines += session_table(app, recent.sessions, recent.short_ids, recent.statuses)
    else:
        lines.append(NO_SESSIONS)
    app.say("\n".join(lines))


def _places(app: App, store: StoreFacts, stats: StoreStats) -> Iterator[tuple[str, str]]:
    kept = f"{format_count(stats.sessions)} and {format_count(stats.archived)} archived"
    yield "clew", __version__
    yield "store", f"{store.path} ({format_bytes(stats.file_bytes)})"
    yield "engine", f"{store.engine}, schema {store.schema}"
    yield "durability", app.config.store.durability
    yield "config", f"{app.config.file}{'' if app.config.file.exists() else ' (not there)'}"
    yield "sessions", f"{kept}, {counted(stats.messages, 'message')}"


def _gateway(
    app: App, running: Running | None, told: StatusReport | None
) -> Iterator[tuple[str, str]]:
    if running is None:
        yield "gateway", "none runs; `clew serve` starts one"
        return
    since = f"{running.url} since {app.local_time(running.started_at)}"
    yield "gateway", since if told is not None else f"{since}; it does not answer"
    for channel in told.channels if told is not None else ():
        detail = f": {channel.detail}" if channel.detail else ""
        text = f"{channel.name} {channel.account} is {channel.state}{detail}"
        yield "channel", strip_controls(" ".join(text.split()), keep_newlines=False)
    for what in () if told is None else _waiting(told):
        yield "waiting", what
    for problem in () if told is None else _problems(told):
        yield "problem", strip_controls(" ".join(problem.split()), keep_newlines=False)


def _waiting(told: StatusReport) -> Iterator[str]:
    """What is to be done, or waits for somebody's word."""
    if told.queued:
        yield f"{counted(told.queued, 'message')} for a turn"
    if told.waiting:
        yield f"{counted(told.waiting, 'tool call')} for your yes or no"
    if told.uncertain:
        replies = "reply" if told.uncertain == 1 else "replies"
        yield f"{format_count(told.uncertain)} {replies} that may not have arrived"
    if told.asking:
        yield f"{counted(told.asking, 'stranger')} to be let in; see `clew pair list`"


def _problems(told: StatusReport) -> Iterator[str]:
    """What a gateway can't do at the moment, beside its channels."""
    for errand in told.errands:
        if errand.state == "down":
            yield f"{errand.name}: {errand.detail}; it is started again by itself"
    for name, what in (told.cron.problems if told.cron is not None else {}).items():
        yield f"job {name}: {what}"


async def _ask(app: App, running: Running) -> StatusReport | None:
    """What a gateway says of itself; None if it does not answer."""
    import asyncio

    from clew.client import Client
    from clew.errors import ClewError
    from clew.gateway.presence import find_own_token

    try:
        async with (
            asyncio.timeout(PATIENCE),
            Client(running.url, find_own_token(app.config.state_dir)) as client,
        ):
            return await client.status()
    except (ClewError, TimeoutError):
        return None
