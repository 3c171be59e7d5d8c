"""`clew plugins`: what installed packages bring to clew, and what is wrong with it."""

from __future__ import annotations

import click

from clew.cli.app import App, local_command
from clew.cli.tables import Column, answer_table


@click.command("plugins")
@local_command
def plugins_command(app: App) -> None:
    """List plugins: tools, channels, stores, importers, models and hooks of other packages.

    A plugin that can't be used is left out everywhere, and listed here with the reason.

    \b
    Examples:
      clew plugins
      clew plugins --json
    """
    from clew.wiring.plugins import list_installed

    found = list_installed()
    columns = (
        Column("KIND", "id"),
        Column("NAME"),
        Column("PACKAGE", optional=2),
        Column("VERSION", optional=3),
        Column("PROBLEM", "warning", least=16, optional=1),
    )
    rows = [
        (
            each.group.removeprefix("clew."),
            each.name,
            each.package,
            each.version,
            each.problem or "",
        )
        for each in found
    ]
    answer_table(
        app,
        [each._asdict() for each in found],
        columns,
        rows,
        empty="No plugins are installed.",
    )
