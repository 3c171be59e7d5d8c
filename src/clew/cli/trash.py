"""`clew delete`, `undo`, `trash` and `prune`: putting sessions away, and getting them back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import click

from clew.cli.app import App, client_command
from clew.cli.options import Duration, find_each, sessions_argument
from clew.cli.tables import session_table
from clew.core.names import counted, format_count
from clew.core.session import RetentionAction
from clew.errors import ClewError

if TYPE_CHECKING:
    from clew.api.sessions import Failed, ListedSession, SessionView
    from clew.api.trash import Restored
    from clew.client.client import Client
    from clew.core.session import Session

Outcome: TypeAlias = "tuple[Sequence[str], Sequence[SessionView], Sequence[ClewError]]"
"""The ids that were changed, the sessions as far as they are known, and what failed."""


@click.command("delete")
@sessions_argument(required=False)
@click.option("--all", "everything", is_flag=True, help="Every session, archived ones too; asks.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--now", "for_good", is_flag=True, help="Remove for good, past the trash.")
@client_command
def delete_command(
    app: App, typed_ids: tuple[str, ...], everything: bool, yes: bool, for_good: bool
) -> None:
    """Put sessions in the trash. `clew undo` brings them back.

    Ids that fit no session are reported, the others are still deleted; the exit code is then 1.

    \b
    Examples:
      clew delete 550e 6ba7
      clew delete --all --yes
      clew delete 550e --now      cannot be undone
    """
    if everything == bool(typed_ids):
        raise click.UsageError("Name the sessions to delete, or say --all.")
    if everything and not yes and not _agreed_to_all(app, for_good=for_good):
        app.note("Nothing was deleted.")
        return
    ids, named, failures = app.call(
        lambda client: (
            _delete_all(client, for_good=for_good)
            if everything
            else _delete(client, typed_ids, for_good=for_good)
        )
    )
    if ids or not failures:
        done = "Removed {} for good." if for_good else "Put {} in the trash. `clew undo` restores."
        app.answer({"deleted": ids, "purged": for_good}, done.format(name_all(ids, named)))
    fail_with(app, failures)


def _agreed_to_all(app: App, *, for_good: bool) -> bool:
    told = app.call(lambda client: client.trash.put(everything=True, dry_run=True))
    count = len(told.ids)
    which = "the only session" if count == 1 else f"all {format_count(count)} sessions"
    act = "Remove {} for good?" if for_good else "Put {} in the trash?"
    return app.confirm(act.format(which))


async def _delete_all(client: Client, *, for_good: bool) -> Outcome:
    told = await client.trash.put(everything=True, dry_run=True)
    named = await _find_only(client, told.ids)
    deleted = await client.trash.put(everything=True, for_good=for_good)
    return deleted.ids, named, read_failures(deleted.failed)


async def _delete(client: Client, typed_ids: Sequence[str], *, for_good: bool) -> Outcome:
    found, failures = await find_each(client, typed_ids)
    if not found:
        return (), (), failures
    deleted = await client.trash.put([each.id for each in found], for_good=for_good)
    return deleted.ids, found, [*failures, *read_failures(deleted.failed)]


@click.command("undo")
@client_command
def undo_command(app: App) -> None:
    """Take back the latest delete.

    \b
    Example:
      clew delete 550e && clew undo
    """

    async def undo(client: Client) -> tuple[Restored, Sequence[SessionView]]:
        restored = await client.trash.undo()
        return restored, await _find_only(client, restored.ids)

    restored, named = app.call(undo)
    value = {"restored": restored.ids}
    if restored.ids:
        further = " `clew undo` again goes further back." if restored.left else ""
        app.answer(value, f"Restored {name_all(restored.ids, named)}.{further}")
    else:
        app.answer(value, "Nothing to undo: the trash is empty.")
        raise click.exceptions.Exit(1)


@click.group("trash")
def trash_group() -> None:
    """Sessions that were deleted and can still be restored."""


@trash_group.command("list")
@client_command
def trash_list(app: App) -> None:
    """List what is in the trash, latest first.

    \b
    Example:
      clew trash list
    """

    async def read(client: Client) -> list[ListedSession]:
        return [each async for each in client.trash.iter_list()]

    sessions = app.call(read)
    if app.json:
        app.emit({"sessions": sessions})
    elif sessions:
        app.say("\n".join(session_table(app, sessions, time="deleted")))
    else:
        app.say("The trash is empty.")


@trash_group.command("restore")
@sessions_argument()
@client_command
def trash_restore(app: App, typed_ids: tuple[str, ...]) -> None:
    """Bring sessions back from the trash.

    \b
    Example:
      clew trash restore 550e
    """

    async def restore(client: Client) -> Outcome:
        found, failures = await find_each(client, typed_ids, trashed=True)
        if not found:
            return (), (), failures
        restored = await client.trash.restore([each.id for each in found])
        return restored.ids, found, [*failures, *read_failures(restored.failed)]

    ids, named, failures = app.call(restore)
    if ids:
        app.answer({"restored": ids}, f"Restored {name_all(ids, named)}.")
    fail_with(app, failures)


@trash_group.command("empty")
@click.option(
    "--older-than", metavar="AGE", type=Duration(), help="Only what was deleted longer ago."
)
@click.option("--yes", is_flag=True, help="Don't ask.")
@client_command
def trash_empty(app: App, older_than: int | None, yes: bool) -> None:
    """Remove what is in the trash for good.

    \b
    Examples:
      clew trash empty
      clew trash empty --older-than 30d --yes
    """
    which = "everything in the trash" if older_than is None else "what has been there that long"
    if not yes and not app.confirm(f"Remove {which} for good?"):
        app.note("Nothing was removed.")
        return
    removed = app.call(lambda client: client.trash.empty(older_than=older_than)).ids
    app.answer({"purged": removed}, f"Removed {counted(len(removed), 'session')} for good.")


@click.command("prune")
@click.option(
    "--older-than",
    metavar="AGE",
    type=Duration(),
    help="Sessions not used for so long: 90d, 2w. [default: as configured]",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be put away.")
@click.option(
    "--action",
    type=click.Choice(["archive", "delete"]),
    help="What to do with them. [default: as configured]",
)
@client_command
def prune_command(
    app: App, older_than: int | None, dry_run: bool, action: RetentionAction | None
) -> None:
    """Archive sessions that were not used for long, or put them in the trash.

    Pinned sessions, those in use, and the newest one stay. The defaults come from the [session]
    section of the configuration; with --url, from that of the gateway.

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
    app.say(describe_pruned(len(sessions), pruned.action, dry_run=dry_run))


def describe_pruned(count: int, action: RetentionAction, *, dry_run: bool = False) -> str:
    """Say what was done, and how to undo it."""
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


# --- failures and names, for the commands that change sessions ----------------------------------


async def _find_only(client: Client, ids: Sequence[str]) -> Sequence[SessionView]:
    """The session if it is only one: then the message says its name."""
    return ((await client.sessions.get(ids[0], messages=0)).session,) if len(ids) == 1 else ()


def name_all(ids: Sequence[str], named: Iterable[Session]) -> str:
    """Sessions in a message: the name if it is one, else how many they are."""
    names = [each.name for each in named if each.id in ids]
    return f'"{names[0]}"' if len(ids) == len(names) == 1 else counted(len(ids), "session")


def read_failures(failed: Iterable[Failed]) -> list[ClewError]:
    """The failures of some of many sessions, as errors again."""
    from clew.api.problems import error_of

    return [error_of(each.problem) for each in failed]


def fail_with(app: App, failures: Sequence[ClewError]) -> None:
    """Report the failures of some of many sessions; the exit code is the highest of theirs."""
    from clew.cli.report import report

    codes = [report(app, failure) for failure in failures]
    if codes:
        raise click.exceptions.Exit(max(codes))
