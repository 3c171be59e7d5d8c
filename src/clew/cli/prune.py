"""`clew prune`: put old sessions away by hand, the way retention does at start-up."""

from __future__ import annotations

import click

from clew.cli.app import App, gateway_options, json_option, pass_app
from clew.cli.options import Duration
from clew.cli.tables import session_table
from clew.core.names import counted
from clew.core.session import RetentionAction


@click.command("prune")
@click.option(
    "--older-than",
    metavar="AGE",
    type=Duration(),
    help="Sessions not used for so long: 90d, 2w. Left out: as configured.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be put away.")
@click.option(
    "--action",
    type=click.Choice(["archive", "delete"]),
    help="What to do with them. Left out: as configured.",
)
@gateway_options
@json_option
@pass_app
def prune_command(
    app: App, older_than: int | None, dry_run: bool, action: RetentionAction | None
) -> None:
    """Archive sessions that were not used for long, or put them in the trash.

    Pinned sessions, those in use, and the newest one are spared. What is configured is the
    [session] section where the store is: that of the gateway, with --url.

    \b
    Examples:
      clew prune --older-than 90d --dry-run
      clew prune --older-than 2w --action delete
    """
    pruned = app.call(
        lambda client: client.sessions.prune(older_than=older_than, action=action, dry_run=dry_run)
    )
    sessions = pruned.sessions
    if app.json:
        app.emit(pruned)
        return
    if dry_run and sessions:
        app.say("\n".join(session_table(app, sessions)))
    app.say(summary(len(sessions), pruned.action, dry_run=dry_run))


def summary(count: int, action: RetentionAction, *, dry_run: bool = False) -> str:
    """What was done, and how to take it back."""
    if not count:
        return "Nothing to put away."
    which = counted(count, "old session")
    if dry_run:
        put = "archive" if action == "archive" else "put in the trash"
        return f"This would {put} {which}. Nothing was changed."
    if action == "archive":
        back = "`clew list --archived` shows them, `clew archive --undo ID` brings one back."
        return f"Archived {which}. {back}"
    return f"Put {which} in the trash. `clew undo` restores."
