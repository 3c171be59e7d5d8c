"""`clew delete`, `clew undo` and `clew trash`: putting sessions away, and getting them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from clew.api.sessions import view_session
from clew.cli.app import App, json_option, pass_app
from clew.cli.jsonout import session_value
from clew.cli.pages import list_up_to
from clew.cli.resolve import resolve_many, resolve_trashed, sessions_argument
from clew.cli.tables import session_name, session_table
from clew.cli.when import Duration
from clew.core.names import counted, format_count
from clew.core.overview import SessionState
from clew.core.session import OWNER, Session, SessionFilter
from clew.errors import AmbiguousId, ClewError, NotFound

if TYPE_CHECKING:
    from clew.ports import Store

EVERYTHING: Final = SessionFilter(viewer=OWNER, archived=None)
TRASHED: Final = SessionFilter(viewer=OWNER, trashed=True)
EVER: Final = 2**62
"""Later than anything was deleted, whatever the clock said then."""


@click.command("delete")
@sessions_argument(required=False)
@click.option("--all", "everything", is_flag=True, help="Every session, archived ones too; asks.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--now", "for_good", is_flag=True, help="Remove for good, past the trash.")
@json_option
@click.pass_context
def delete_command(
    ctx: click.Context, typed_ids: tuple[str, ...], everything: bool, yes: bool, for_good: bool
) -> None:
    """Put sessions in the trash. `clew undo` brings them back.

    Ids that fit nothing are reported and the others still deleted; the exit code is then 1.

    \b
    Examples:
      clew delete 550e 6ba7
      clew delete --all --yes
      clew delete 550e --now      cannot be undone
    """
    app = ctx.ensure_object(App)
    if everything == bool(typed_ids):
        raise click.UsageError("Name the sessions to delete, or say --all.")
    if everything and not yes and not _agreed_to_all(app, for_good=for_good):
        app.note("Nothing was deleted.")
        return

    async def delete(store: Store) -> tuple[Sequence[Session], Sequence[ClewError]]:
        sessions, failures = await resolve_many(store, typed_ids)
        if everything:
            sessions = (await list_up_to(store, EVERYTHING, None)).sessions
        deleted = await store.delete_sessions([session.id for session in sessions])
        if for_good:
            await store.purge_sessions(deleted)
        return [session for session in sessions if session.id in set(deleted)], failures

    sessions, failures = app.run(delete)
    if sessions or not failures:
        done = "Removed {} for good." if for_good else "Put {} in the trash. `clew undo` restores."
        value = {"deleted": [session.id for session in sessions], "purged": for_good}
        app.answer(value, done.format(name_all(sessions)))
    fail_with(ctx, failures)


def _agreed_to_all(app: App, *, for_good: bool) -> bool:
    count = app.run(lambda store: store.count_sessions(EVERYTHING))
    which = "the only session" if count == 1 else f"all {format_count(count)} sessions"
    act = "Remove {} for good?" if for_good else "Put {} in the trash?"
    return app.confirm(act.format(which))


@click.command("undo")
@json_option
@click.pass_context
def undo_command(ctx: click.Context) -> None:
    """Take back the latest delete.

    \b
    Example:
      clew delete 550e && clew undo
    """
    app = ctx.ensure_object(App)

    async def undo(store: Store) -> tuple[list[Session], int]:
        restored = [await store.get_session(each) for each in await store.restore_last()]
        return restored, await store.count_sessions(TRASHED)

    sessions, left = app.run(undo)
    value = {"restored": [session.id for session in sessions]}
    if sessions:
        further = " `clew undo` again goes further back." if left else ""
        app.answer(value, f"Restored {name_all(sessions)}.{further}")
    else:
        app.answer(value, "Nothing to undo: the trash is empty.")
        ctx.exit(1)


@click.group("trash")
def trash_group() -> None:
    """What was deleted, and can still be restored."""


@trash_group.command("list")
@json_option
@pass_app
def trash_list(app: App) -> None:
    """List what is in the trash, latest first.

    \b
    Example:
      clew trash list
    """

    async def read(store: Store) -> tuple[Sequence[Session], dict[str, str]]:
        sessions = (await list_up_to(store, TRASHED, None)).sessions
        return sessions, await store.shorten_ids([session.id for session in sessions])

    sessions, short_ids = app.run(read)
    if app.json:
        app.emit({"sessions": [session_value(each, short_ids) for each in sessions]})
    elif sessions:
        views = [view_session(each, short_ids[each.id], SessionState()) for each in sessions]
        app.say("\n".join(session_table(app, views, time="deleted")))
    else:
        app.say("The trash is empty.")


@trash_group.command("restore")
@sessions_argument()
@json_option
@click.pass_context
def trash_restore(ctx: click.Context, typed_ids: tuple[str, ...]) -> None:
    """Bring sessions back from the trash.

    \b
    Example:
      clew trash restore 550e
    """
    app = ctx.ensure_object(App)

    async def restore(store: Store) -> tuple[list[Session], list[ClewError]]:
        sessions: dict[str, Session] = {}
        failures: list[ClewError] = []
        for typed in typed_ids:
            try:
                session = await resolve_trashed(store, typed)
            except (NotFound, AmbiguousId) as error:
                failures.append(error)
            else:
                sessions[session.id] = session
        await store.restore_sessions(list(sessions))
        return list(sessions.values()), failures

    sessions, failures = app.run(restore)
    if sessions:
        app.answer({"restored": [each.id for each in sessions]}, f"Restored {name_all(sessions)}.")
    fail_with(ctx, failures)


@trash_group.command("empty")
@click.option("--older-than", metavar="AGE", type=Duration(), help="Only what was deleted before.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@json_option
@pass_app
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
    before = EVER if older_than is None else app.now - older_than
    removed = app.run(lambda store: store.purge_trash(before))
    app.answer({"purged": removed}, f"Removed {counted(len(removed), 'session')} for good.")


def name_all(sessions: Sequence[Session]) -> str:
    """Sessions in a sentence: by name if it is one, by number otherwise."""
    if len(sessions) == 1:
        return f'"{session_name(sessions[0])}"'
    return counted(len(sessions), "session")


def fail_with(ctx: click.Context, failures: Sequence[ClewError]) -> None:
    """Report what went wrong with some of many; the exit code is that of the worst."""
    from clew.cli.report import report

    codes = [report(ctx.ensure_object(App), failure) for failure in failures]
    if codes:
        ctx.exit(max(codes))
