"""`clew prune`: put old sessions away by hand, the way retention does at start-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from clew.api.sessions import view_session
from clew.cli.app import App, json_option, pass_app
from clew.cli.jsonout import session_value
from clew.cli.tables import session_table
from clew.cli.when import Duration
from clew.core.names import counted
from clew.core.overview import SessionState
from clew.core.retention import RetentionAction
from clew.core.session import Session

if TYPE_CHECKING:
    from clew.ports import Store


@click.command("prune")
@click.option(
    "--older-than",
    metavar="AGE",
    type=Duration(),
    help="Sessions not used for so long (90d, 2w); left out, what `clew config show` says.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be put away.")
@click.option(
    "--action",
    type=click.Choice(["archive", "delete"]),
    help="What to do with them; left out, what `clew config show` says.",
)
@json_option
@pass_app
def prune_command(
    app: App, older_than: int | None, dry_run: bool, action: RetentionAction | None
) -> None:
    """Archive sessions that were not used for long, or put them in the trash.

    Pinned sessions, those in use, and the newest one are spared.

    \b
    Examples:
      clew prune --older-than 90d --dry-run
      clew prune --older-than 2w --action delete
    """
    from clew.wiring import retention_policy

    policy = retention_policy(app.config)
    chosen = action or policy.action

    async def prune(store: Store) -> tuple[Sequence[Session], dict[str, str]]:
        if older_than is None:
            policed = msgspec.structs.replace(policy, action=chosen)
            ids = (await store.retain(policed, dry_run=dry_run)).ids
        else:
            before = app.now - older_than
            ids = await store.prune_old_sessions(before, action=chosen, dry_run=dry_run)
        sessions = [await store.get_session(session_id) for session_id in ids]
        return sessions, await store.shorten_ids(ids)

    sessions, short_ids = app.run(prune)
    if app.json:
        rows = [session_value(session, short_ids) for session in sessions]
        app.emit({"sessions": rows, "action": chosen, "dry_run": dry_run})
        return
    if dry_run and sessions:
        views = [view_session(each, short_ids[each.id], SessionState()) for each in sessions]
        app.say("\n".join(session_table(app, views)))
    app.say(summary(len(sessions), chosen, dry_run=dry_run))


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
