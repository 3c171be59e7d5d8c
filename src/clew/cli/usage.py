"""`clew usage`: what was spent, by day, model, session or platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

import click

from clew.cli.app import App, gateway_options, json_option, pass_app
from clew.cli.options import parse_moment
from clew.cli.tables import Column, table
from clew.core.names import counted, format_cost, format_count, format_tokens
from clew.core.usage import Usage, UsageBy, UsageRow

if TYPE_CHECKING:
    from clew.api.usage import UsageReport

IN_A_TABLE: Final = 100
"""Sessions that people get to see, if they don't say how many."""
MOST: Final = 100_000
"""Sessions that can be asked for."""


@click.command("usage")
@click.option(
    "--by",
    type=click.Choice(get_args(UsageBy)),
    default="day",
    show_default=True,
    help="What to sum up by.",
)
@click.option(
    "--since", metavar="TIME", help="From when: a date, or a duration (7d); left out, always."
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, MOST),
    help="Show so many sessions; left out, a table has 100 and --json all of them.",
)
@gateway_options
@json_option
@pass_app
def usage_command(app: App, by: UsageBy, since: str | None, limit: int | None) -> None:
    """Show how many tokens were read and written, and what they cost.

    The cost is unknown, not zero, where a model's price is. A ~ stands before what was estimated:
    no provider has counted it. Sessions and models that cost most come first.

    \b
    Examples:
      clew usage
      clew usage --by model --since 30d
      clew usage --by session --since 2026-01-01 --json
    """
    try:
        start = 0 if since is None else parse_moment(since, now=app.now, zone=app.zone)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--since") from error

    most = limit or (MOST if app.json else IN_A_TABLE)
    report = app.call(
        lambda client: client.usage(by=by, since=max(0, start), limit=most, timezone=app.timezone)
    )
    if app.json:
        app.emit([_value(row, report) for row in report.rows])
    elif report.rows:
        app.say("\n".join(_table(app, report)))
        more = report.count - len(report.rows)
        if more:
            app.say(f"and {counted(more, 'session')} more; --limit shows more, --json all.")
    else:
        app.say("Nothing was spent yet.")


def _value(row: UsageRow, report: UsageReport) -> dict[str, object]:
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


def _table(app: App, report: UsageReport) -> list[str]:
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
