"""`clew usage`: what was spent, by day, model, session or platform."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, get_args

import click
import msgspec

from clew.cli.app import App, json_option, pass_app
from clew.cli.tables import Column, session_name, table
from clew.cli.when import parse_moment
from clew.core.names import format_cost, format_count
from clew.core.usage import Usage, UsageBy, UsageRow

if TYPE_CHECKING:
    from clew.ports import Store


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
@json_option
@pass_app
def usage_command(app: App, by: UsageBy, since: str | None) -> None:
    """Show how many tokens were read and written, and what they cost.

    The cost is unknown, not zero, where a model's price is.

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

    async def read(store: Store) -> tuple[tuple[UsageRow, ...], dict[str, str], dict[str, str]]:
        rows = await store.list_usage(by, since=start)
        if by != "session":
            return rows, {}, {}
        titles = {row.name: session_name(await store.get_session(row.name)) for row in rows}
        return rows, titles, await store.shorten_ids(list(titles))

    rows, titles, short = app.run(read)
    if by == "day":
        rows = _by_day(app, rows)
    if by in ("session", "model"):
        rows = tuple(sorted(rows, key=lambda row: -(row.usage.input_tokens)))
    if app.json:
        app.emit([_value(row, by, titles) for row in rows])
    elif rows:
        titles = {short[name]: title for name, title in titles.items()}
        rows = tuple(
            msgspec.structs.replace(row, name=short.get(row.name, row.name)) for row in rows
        )
        app.say("\n".join(_table(app, rows, by, titles)))
    else:
        app.say("Nothing was spent yet.")


def _by_day(app: App, rows: tuple[UsageRow, ...]) -> tuple[UsageRow, ...]:
    """Quarters of an hour as the days of where the person is."""
    days: dict[str, UsageRow] = {}
    for row in rows:
        at = int(row.name)
        day = datetime.fromtimestamp(at / 1000, app.zone(at)).date().isoformat()
        before = days.get(day, UsageRow(day, Usage(), 0))
        days[day] = UsageRow(day, before.usage + row.usage, before.turns + row.turns)
    return tuple(days[day] for day in sorted(days))


def _value(row: UsageRow, by: UsageBy, titles: dict[str, str]) -> dict[str, object]:
    title = {"title": titles[row.name]} if row.name in titles else {}
    spent = {name: getattr(row.usage, name) for name in Usage.__struct_fields__}
    return {by: row.name or None, **title, "turns": row.turns, **spent}


def _table(app: App, rows: tuple[UsageRow, ...], by: UsageBy, titles: dict[str, str]) -> list[str]:
    columns = (
        Column(by.upper(), "id", least=8),
        Column("TURNS", align="right", optional=3),
        Column("IN", align="right"),
        Column("OUT", align="right"),
        Column("CACHED", align="right", optional=2),
        Column("COST", align="right"),
        Column("TITLE", least=12, optional=1),
    )
    total = UsageRow("total", sum((row.usage for row in rows), Usage()), sum(r.turns for r in rows))
    shown = [*rows, total] if len(rows) > 1 else rows
    cells = [
        (
            row.name or "unknown",
            format_count(row.turns),
            format_count(row.usage.input_tokens),
            format_count(row.usage.output_tokens),
            format_count(row.usage.cache_read_tokens),
            format_cost(row.usage.cost).removeprefix("cost "),
            titles.get(row.name, ""),
        )
        for row in shown
    ]
    return table(app, columns, cells)
