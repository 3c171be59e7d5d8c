"""`clew rename`, `pin`, `archive` and `fork`: what people change about a session."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from clew.cli.app import App, json_option, pass_app
from clew.cli.jsonout import session_value
from clew.cli.resolve import resolve, resolve_many, session_argument, sessions_argument
from clew.cli.tables import session_name
from clew.cli.trash import fail_with, name_all
from clew.core.session import Session, SessionEdit
from clew.core.text import strip_controls
from clew.errors import ClewError

if TYPE_CHECKING:
    from clew.ports import Store


@click.command("archive")
@sessions_argument()
@click.option("--undo", is_flag=True, help="Bring them back into the list.")
@json_option
@click.pass_context
def archive_command(ctx: click.Context, typed_ids: tuple[str, ...], undo: bool) -> None:
    """Take sessions out of the list; they stay searchable.

    \b
    Examples:
      clew archive 550e
      clew list --archived
      clew archive --undo 550e
    """
    words = ("Archived", "Unarchived")
    _mark(ctx, typed_ids, SessionEdit(archived=not undo), "archive", words, undo=undo)


@click.command("pin")
@sessions_argument()
@click.option("--undo", is_flag=True, help="Unpin them.")
@json_option
@click.pass_context
def pin_command(ctx: click.Context, typed_ids: tuple[str, ...], undo: bool) -> None:
    """Keep sessions on top of the list; retention never takes them.

    \b
    Examples:
      clew pin 550e
      clew pin --undo 550e
    """
    _mark(ctx, typed_ids, SessionEdit(pinned=not undo), "pin", ("Pinned", "Unpinned"), undo=undo)


def _mark(
    ctx: click.Context,
    typed_ids: tuple[str, ...],
    edit: SessionEdit,
    command: str,
    words: tuple[str, str],
    *,
    undo: bool,
) -> None:
    """Make one edit to many sessions, and say how to take it back."""
    app = ctx.ensure_object(App)

    async def change(
        store: Store,
    ) -> tuple[Sequence[Session], dict[str, str], Sequence[ClewError]]:
        sessions, failures = await resolve_many(store, typed_ids)
        edited = [await store.edit_session(session.id, edit) for session in sessions]
        return edited, await store.shorten_ids([session.id for session in edited]), failures

    sessions, short_ids, failures = app.run(change)
    if sessions:
        back = [f"clew {command}", *([] if undo else ["--undo"]), *short_ids.values()]
        done = f"{words[undo]} {name_all(sessions)}. To undo: {' '.join(back)}"
        app.answer({"sessions": [session_value(each, short_ids) for each in sessions]}, done)
    fail_with(ctx, failures)


@click.command("rename")
@session_argument
@click.argument("words", metavar="TITLE...", nargs=-1)
@click.option("--clear", is_flag=True, help="Take the title away.")
@json_option
@pass_app
def rename_command(app: App, typed: str, words: tuple[str, ...], clear: bool) -> None:
    """Give a session a title, or take it away.

    \b
    Examples:
      clew rename 550e Fix the login redirect
      clew rename 550e --clear
    """
    title = " ".join(words).strip()
    if clear == bool(title):
        raise click.UsageError("Give a title, or --clear.")

    async def rename(store: Store) -> tuple[Session, Session, dict[str, str]]:
        before = await resolve(store, typed)
        after = await store.edit_session(before.id, SessionEdit(title=title or None))
        return before, after, await store.shorten_ids([after.id])

    before, after, short_ids = app.run(rename)
    old = strip_controls(before.title, keep_newlines=False) if before.title else None
    back = "--clear" if old is None else f"-- {shlex.quote(old)}"
    done = f'Renamed to "{session_name(after)}".' if title else "Took the title away."
    undo = f"To undo: clew rename {short_ids[after.id]} {back}"
    app.answer({"session": session_value(after, short_ids)}, f"{done} {undo}")


@click.command("fork")
@session_argument
@click.option(
    "--at",
    metavar="SEQ",
    type=click.IntRange(0),
    help="The last message to take along (its # in `clew show`); all if left out.",
)
@json_option
@pass_app
def fork_command(app: App, typed: str, at: int | None) -> None:
    """Begin a new session that shares the beginning of an old one.

    \b
    Examples:
      clew fork 550e
      clew fork 550e --at 12
    """

    async def fork(store: Store) -> tuple[Session, dict[str, str]]:
        parent = await resolve(store, typed)
        made = await store.fork_session(parent.id, at=at)
        return made, await store.shorten_ids([made.id])

    made, short_ids = app.run(fork)
    short = short_ids[made.id]
    done = f'Forked at message {made.forked_at_seq} as {short}, "{session_name(made)}".'
    value = {"session": session_value(made, short_ids)}
    app.answer(value, f"{done} To undo: clew delete {short}")
