"""`clew stats`, `status` and `usage`: numbers about the store, where it is, what was spent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, get_args

import click
import msgspec

from clew.cli.app import App, client_command
from clew.cli.options import parse_time_option
from clew.cli.sessions import NO_SESSIONS
from clew.cli.tables import Column, facts, session_table, table
from clew.core.names import counted, format_bytes, format_cost, format_count, format_tokens
from clew.core.text import strip_controls
from clew.core.usage import Usage, UsageBy, UsageRow

if TYPE_CHECKING:
    from clew.api.sessions import ListedSession
    from clew.api.status import ConfigView, StatusReport
    from clew.api.usage import UsageReport
    from clew.client.client import Client
    from clew.core.session import StoreStats
    from clew.gateway.running_gateway import Running

RECENT: Final = 5
ANSWER_S: Final = 3.0
"""Seconds that a gateway that runs here has to answer."""
TABLE_SESSIONS: Final = 100
"""Sessions in a table of usage without `--limit`."""
MAX_SESSIONS: Final = 100_000
"""Sessions that can be asked for."""


@click.command("stats")
@client_command
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
@client_command
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
    """The gateway that was named, or that runs here. `report` is None if it does not answer."""

    url: str
    pid: int | None
    started_at: int | None
    report: StatusReport | None


def _find_place(app: App, report: StatusReport) -> Place | None:
    if app.gateway is not None:
        process = report.gateway
        pid, started_at = (None, None) if process is None else (process.pid, process.started_at)
        return Place(app.gateway.url, pid, started_at, report)
    running = app.find_running()
    if running is None:
        return None
    return Place(running.url, running.pid, running.started_at, app.wait(_ask(app, running)))


def _status_value(report: StatusReport, place: Place | None) -> dict[str, object]:
    """The status for JSON; what only a gateway knows is null without one."""
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
    """The store and its configuration; a guest gets only the version."""
    yield "clew", report.version
    store, stats, config = report.store, report.stats, report.config
    if store is not None and stats is not None:
        yield "store", f"{store.path} ({format_bytes(stats.file_bytes)})"
        yield "engine", f"{store.engine}, schema {store.schema}"
        yield "durability", store.durability
    if config is not None:
        yield "config", f"{config.file}{'' if config.exists else ' (not there)'}"
        yield from (("", each) for each in _word_changes(config))
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
    """What waits for a turn, or for a decision of the owner."""
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
    """What does not work at a gateway now, apart from its channels."""
    for errand in told.errands:
        if errand.state == "down":
            yield f"{errand.name}: {errand.detail}; it is restarted automatically"
    for name, what in (told.cron.problems if told.cron is not None else {}).items():
        yield f"job {name}: {what}"
    if told.config is not None:
        yield from _word_changes(told.config)


def _word_changes(config: ConfigView) -> Iterator[str]:
    """Whether the file is otherwise than what a gateway uses."""
    if config.problem is not None:
        yield f"the config file has changed, and can't be used: {config.problem}"
    elif config.changed:
        keys = ", ".join(config.changed)
        yield (
            f"the configuration has changed since this gateway started ({keys}); "
            "`clew gateway reload` uses it"
        )


async def _ask(app: App, running: Running) -> StatusReport | None:
    """The status of a gateway; None if it does not answer."""
    import asyncio

    from clew.client import Client
    from clew.errors import ClewError
    from clew.gateway.owner_token import find_own_token

    try:
        async with (
            asyncio.timeout(ANSWER_S),
            Client(running.url, find_own_token(app.config.state_dir)) as client,
        ):
            return await client.status()
    except (ClewError, TimeoutError):
        return None


# --- clew usage ---------------------------------------------------------------------------------


@click.command("usage")
@click.option(
    "--by",
    type=click.Choice(get_args(UsageBy)),
    default="day",
    show_default=True,
    help="How to group it.",
)
@click.option(
    "--since", metavar="TIME", help="From when: a date, or a duration (7d). [default: always]"
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, MAX_SESSIONS),
    help="How many sessions. [default: 100 in a table, all with --json]",
)
@client_command
def usage_command(app: App, by: UsageBy, since: str | None, limit: int | None) -> None:
    """Show how many tokens were read and written, and what they cost.

    The cost is unknown, not zero, if a model's price is unknown. A ~ marks an estimate: the
    provider did not count it. The sessions and models that cost most come first.

    \b
    Examples:
      clew usage
      clew usage --by model --since 30d
      clew usage --by session --since 2026-01-01 --json
    """
    start = parse_time_option(app, "--since", since) or 0
    most = limit or (MAX_SESSIONS if app.json else TABLE_SESSIONS)
    report = app.call(
        lambda client: client.usage(by=by, since=start, limit=most, timezone=app.timezone)
    )
    if app.json:
        app.emit([_usage_value(row, report) for row in report.rows])
    elif report.rows:
        app.say("\n".join(_usage_table(app, report)))
        more = report.count - len(report.rows)
        if more:
            app.say(f"and {counted(more, 'session')} more; --limit shows more, --json all.")
    else:
        app.say("Nothing was spent yet.")


def _usage_value(row: UsageRow, report: UsageReport) -> dict[str, object]:
    session = report.sessions.get(row.name)
    title = {} if session is None else {"title": session.name}
    spent = {name: getattr(row.usage, name) for name in Usage.__struct_fields__}
    return {
        report.by: row.name or None,
        **title,
        "turns": row.turns,
        **spent,
        "estimated": row.estimated,
    }


def _usage_table(app: App, report: UsageReport) -> list[str]:
    columns = (
        Column(report.by.upper(), "id", least=8),
        Column("TURNS", align="right", optional=3),
        Column("IN", align="right"),
        Column("OUT", align="right"),
        Column("CACHED", align="right", optional=2),
        Column("COST", align="right"),
        Column("TITLE", least=12, optional=1),
    )
    shown = [*report.rows, report.total] if len(report.rows) > 1 else report.rows
    short_ids = {each: session.short_id for each, session in report.sessions.items()}
    names = {each: session.name for each, session in report.sessions.items()}
    cells = [
        (
            short_ids.get(row.name, row.name) or "unknown",
            format_count(row.turns),
            format_tokens(row.usage.input_tokens, estimated=row.estimated),
            format_tokens(row.usage.output_tokens, estimated=row.estimated),
            format_count(row.usage.cache_read_tokens),
            format_cost(row.usage.cost, estimated=row.estimated).removeprefix("cost "),
            names.get(row.name, ""),
        )
        for row in shown
    ]
    return table(app, columns, cells)
