"""`clew usage`: what was spent, by day, model, session or platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

import click
import msgspec

from clew.cli.app import App, json_option, pass_app
from clew.cli.tables import Column, session_name, table
from clew.cli.when import parse_moment
from clew.core.names import counted, format_cost, format_count, format_tokens
from clew.core.usage import Usage, UsageBy, UsageRow, by_days, dearest_first, sum_up
from clew.errors import SessionNotFound

if TYPE_CHECKING:
    from clew.ports import Store

IN_A_TABLE: Final = 100
"""Sessions that people get to see, if they don't say how many."""


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
    type=click.IntRange(1),
    help="Show so many sessions; left out, a table has 100 and --json all of them.",
)
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

    most = limit or (None if app.json else IN_A_TABLE)

    async def read(store: Store) -> Spent:
        rows = await store.list_usage(by, since=start)
        if by == "day":
            return Spent(by_days(rows, app.zone), rows)
        if by in ("session", "model"):
            rows = dearest_first(rows)
        if by != "session":
            return Spent(rows, rows)
        shown = rows[:most]
        titles = {row.name: await _find_title(store, row.name) for row in shown}
        return Spent(shown, rows, titles, await store.shorten_ids(list(titles)))

    spent = app.run(read)
    if app.json:
        app.emit([_value(row, by, spent.titles) for row in spent.shown])
    elif spent.shown:
        app.say("\n".join(_table(app, spent, by)))
        more = len(spent.all) - len(spent.shown)
        if by == "session" and more:
            app.say(f"and {counted(more, 'session')} more; --limit shows more, --json all.")
    else:
        app.say("Nothing was spent yet.")


class Spent(msgspec.Struct, frozen=True):
    """The rows that are shown, all of them, and what sessions are called."""

    shown: tuple[UsageRow, ...]
    all: tuple[UsageRow, ...]
    titles: dict[str, str] = {}
    short: dict[str, str] = {}


async def _find_title(store: Store, session_id: str) -> str:
    try:
        return session_name(await store.get_session(session_id))
    except SessionNotFound:
        return ""  # it is gone for good; what it cost is not


def _value(row: UsageRow, by: UsageBy, titles: dict[str, str]) -> dict[str, object]:
    title = {"title": titles[row.name]} if row.name in titles else {}
    spent = {name: getattr(row.usage, name) for name in Usage.__struct_fields__}
    return {
        by: row.name or None, **title, "turns": row.turns, **spent, "estimated": row.estimated,
    }  # fmt: skip


def _table(app: App, spent: Spent, by: UsageBy) -> list[str]:
    columns = (
        Column(by.upper(), "id", least=8),
        Column("TURNS", align="right", optional=3),
        Column("IN", align="right"),
        Column("OUT", align="right"),
        Column("CACHED", align="right", optional=2),
        Column("COST", align="right"),
        Column("TITLE", least=12, optional=1),
    )
    total = sum_up(spent.all, "total")
    shown = [*spent.shown, total] if len(spent.shown) > 1 else spent.shown
    cells = [
        (
            spent.short.get(row.name, row.name) or "unknown",
            format_count(row.turns),
            format_tokens(row.usage.input_tokens, estimated=row.estimated),
            format_tokens(row.usage.output_tokens, estimated=row.estimated),
            format_count(row.usage.cache_read_tokens),
            format_cost(row.usage.cost, estimated=row.estimated).removeprefix("cost "),
            spent.titles.get(row.name, ""),
        )
        for row in shown
    ]
    return table(app, columns, cells)
