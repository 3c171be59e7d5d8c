"""`clew stats` and `clew status`: the store in numbers, and where it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from clew.cli.app import App, gateway_options, json_option, pass_app
from clew.cli.sessions import NO_SESSIONS, find_gateway
from clew.cli.tables import facts, session_table
from clew.core.names import counted, format_bytes, format_count
from clew.core.text import strip_controls

if TYPE_CHECKING:
    from clew.api.sessions import ListedSession
    from clew.api.status import StatusReport
    from clew.client.client import Client
    from clew.core.session import StoreStats
    from clew.gateway.running_gateway import Running

RECENT = 5
PATIENCE = 3.0
"""Seconds for a gateway that runs here to answer."""


@click.command("stats")
@gateway_options
@json_option
@pass_app
def stats_command(app: App) -> None:
    """Count sessions, messages and bytes.

    \b
    Examples:
      clew stats
      clew stats --json
    """
    stats = app.call(lambda client: client.stats())
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
@gateway_options
@json_option
@pass_app
def status_command(app: App) -> None:
    """Show where the store is, how big it is, whether a gateway runs, and what was used last.

    \b
    Examples:
      clew status
      clew status --json
    """
    report, recent = app.call(_read)
    place = _find_place(app, report)
    if app.json:
        app.emit(_status_value(report, place) | {"recent": recent})
        return
    lines = facts(app, [*_describe(report), *_describe_gateway(app, place)])
    table = session_table(app, recent) if recent else [NO_SESSIONS]
    app.say("\n".join([*lines, "", *table]))


async def _read(client: Client) -> tuple[StatusReport, tuple[ListedSession, ...]]:
    return await client.status(), (await client.sessions.list(limit=RECENT)).sessions


class Place(msgspec.Struct, frozen=True):
    """The gateway that was asked, or that runs here: where, since when, and what it says of itself.

    `report` is None if it does not answer.
    """

    url: str
    pid: int | None
    started_at: int | None
    report: StatusReport | None


def _find_place(app: App, report: StatusReport) -> Place | None:
    if app.gateway is not None:
        process = report.gateway
        pid, started_at = (None, None) if process is None else (process.pid, process.started_at)
        return Place(app.gateway.url, pid, started_at, report)
    running = find_gateway(app)
    if running is None:
        return None
    return Place(running.url, running.pid, running.started_at, app.wait(_ask(app, running)))


def _status_value(report: StatusReport, place: Place | None) -> dict[str, object]:
    """The status for programs; what only a gateway knows is null without one."""
    told = None if place is None else place.report
    store, stats, config = report.store, report.stats, report.config
    gateway = None
    if place is not None:
        gateway = {"url": place.url, "pid": place.pid, "started_at": place.started_at}
    waiting = None
    if told is not None:
        waiting = {
            "messages": told.queued,
            "tool_calls": told.waiting,
            "uncertain": told.uncertain,
            "strangers": told.asking,
        }
    return {
        "version": report.version,
        "config": None if config is None else config.file,
        "store": None if store is None else msgspec.to_builtins(store) | msgspec.to_builtins(stats),
        "gateway": gateway,
        "channels": None if told is None else told.channels,
        "cron": None if told is None else told.cron,
        "errands": None if told is None else told.errands,
        "waiting": waiting,
    }


def _describe(report: StatusReport) -> Iterator[tuple[str, str]]:
    """The store and its configuration; a guest hears the version only."""
    yield "clew", report.version
    store, stats, config = report.store, report.stats, report.config
    if store is not None and stats is not None:
        yield "store", f"{store.path} ({format_bytes(stats.file_bytes)})"
        yield "engine", f"{store.engine}, schema {store.schema}"
        yield "durability", store.durability
    if config is not None:
        yield "config", f"{config.file}{'' if config.exists else ' (not there)'}"
    if stats is not None:
        kept = f"{format_count(stats.sessions)} and {format_count(stats.archived)} archived"
        yield "sessions", f"{kept}, {counted(stats.messages, 'message')}"


def _describe_gateway(app: App, place: Place | None) -> Iterator[tuple[str, str]]:
    if place is None:
        yield "gateway", "none runs; `clew serve` starts one"
        return
    started_at, told = place.started_at, place.report
    since = "" if started_at is None else f" since {app.local_time(started_at)}"
    yield "gateway", f"{place.url}{since}{'; it does not answer' if told is None else ''}"
    if told is None:
        return
    for channel in told.channels:
        detail = f": {channel.detail}" if channel.detail else ""
        text = f"{channel.name} {channel.account} is {channel.state}{detail}"
        yield "channel", strip_controls(" ".join(text.split()), keep_newlines=False)
    for what in _waiting(told):
        yield "waiting", what
    for problem in _problems(told):
        yield "problem", strip_controls(" ".join(problem.split()), keep_newlines=False)


def _waiting(told: StatusReport) -> Iterator[str]:
    """What waits for a turn, or for the owner."""
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
    from clew.gateway.owner_token import find_own_token

    try:
        async with (
            asyncio.timeout(PATIENCE),
            Client(running.url, find_own_token(app.config.state_dir)) as client,
        ):
            return await client.status()
    except (ClewError, TimeoutError):
        return None
