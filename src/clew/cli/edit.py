"""`clew rename`, `pin`, `archive`, `fork` and `link`: what people change about a session."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from msgspec import UNSET, UnsetType

from clew.cli.app import App, client_command
from clew.cli.options import complete_session, find_each, session_argument, sessions_argument
from clew.cli.trash import fail_with, name_all, read_failures
from clew.core.session import OWNER, word_reader
from clew.core.text import strip_controls
from clew.errors import ClewError

if TYPE_CHECKING:
    from clew.api.sessions import Linked, SessionView
    from clew.client.client import Client


@click.command("archive")
@sessions_argument()
@click.option("--undo", is_flag=True, help="Bring them back into the list.")
@client_command
def archive_command(app: App, typed_ids: tuple[str, ...], undo: bool) -> None:
    """Take sessions out of the list; they stay searchable.

    \b
    Examples:
      clew archive 550e
      clew list --archived
      clew archive --undo 550e
    """
    done, back = ("Unarchived", "archive") if undo else ("Archived", "archive --undo")
    _mark(app, typed_ids, done, back=back, archived=not undo)


@click.command("pin")
@sessions_argument()
@click.option("--undo", is_flag=True, help="Unpin them.")
@client_command
def pin_command(app: App, typed_ids: tuple[str, ...], undo: bool) -> None:
    """Keep sessions on top of the list; retention never takes them.

    \b
    Examples:
      clew pin 550e
      clew pin --undo 550e
    """
    done, back = ("Unpinned", "pin") if undo else ("Pinned", "pin --undo")
    _mark(app, typed_ids, done, back=back, pinned=not undo)


def _mark(
    app: App,
    typed_ids: tuple[str, ...],
    done: str,
    *,
    back: str,
    pinned: bool | UnsetType = UNSET,
    archived: bool | UnsetType = UNSET,
) -> None:
    """Make one change to several sessions, and say which command undoes it (`back`)."""

    async def change(client: Client) -> tuple[Sequence[SessionView], Sequence[ClewError]]:
        found, failures = await find_each(client, typed_ids)
        if not found:
            return (), failures
        ids = [each.id for each in found]
        changed = await client.sessions.mark(ids, pinned=pinned, archived=archived)
        return changed.sessions, [*failures, *read_failures(changed.failed)]

    sessions, failures = app.call(change)
    if sessions:
        short_ids = " ".join(each.short_id for each in sessions)
        named = name_all([each.id for each in sessions], sessions)
        app.answer({"sessions": sessions}, f"{done} {named}. To undo: clew {back} {short_ids}")
    fail_with(app, failures)


@click.command("rename")
@session_argument
@click.argument("words", metavar="TITLE...", nargs=-1)
@click.option("--clear", is_flag=True, help="Take the title away.")
@client_command
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

    async def rename(client: Client) -> tuple[SessionView, SessionView]:
        before = await client.sessions.resolve(typed, purpose="change")
        return before, await client.sessions.update(before.id, title=title or None)

    before, after = app.call(rename)
    old = strip_controls(before.title, keep_newlines=False) if before.title else None
    back = "--clear" if old is None else f"-- {shlex.quote(old)}"
    done = f'Renamed to "{after.name}".' if title else "Took the title away."
    undo = f"To undo: clew rename {after.short_id} {back}"
    app.answer({"session": after}, f"{done} {undo}")


@click.command("fork")
@session_argument
@click.option(
    "--at",
    metavar="SEQ",
    type=click.IntRange(0),
    help="The last message to keep (its # in `clew show`). [default: all of them]",
)
@client_command
def fork_command(app: App, typed: str, at: int | None) -> None:
    """Begin a new session that shares the beginning of an old one.

    \b
    Examples:
      clew fork 550e
      clew fork 550e --at 12
    """

    async def fork(client: Client) -> SessionView:
        parent = await client.sessions.resolve(typed, purpose="change")
        return await client.sessions.fork(parent.id, at=at)

    made = app.call(fork)
    done = f'Forked at message {made.forked_at_seq} as {made.short_id}, "{made.name}".'
    app.answer({"session": made}, f"{done} To undo: clew delete {made.short_id}")


@click.command("link")
@click.argument("key", metavar="KEY")
@click.argument("typed", metavar="[ID]", required=False, shell_complete=complete_session)
@click.option(
    "--undo", is_flag=True, help="Let the key lead to no session: its next message begins one."
)
@client_command
def link_command(app: App, key: str, typed: str | None, undo: bool) -> None:
    """Let a key lead to a session: the chat with this key then goes on with that session.

    KEY is telegram:CHAT, discord:CHANNEL, slack:CHANNEL, email:ADDRESS, or a key of the gateway
    such as agent:main:main. In a chat, /link does the same with a code.

    \b
    Examples:
      clew link telegram:123456 550e
      clew link --undo telegram:123456
    """
    if undo == (typed is not None):
        raise click.UsageError("Give a session, or --undo.")

    async def link(client: Client) -> Linked:
        if typed is None:
            return await client.sessions.link(key, None)
        session = await client.sessions.resolve(typed, purpose="change")
        return await client.sessions.link(key, session.id)

    linked = app.call(link)
    shown = strip_controls(linked.key, keep_newlines=False)
    value = {"key": linked.key, "session": linked.session}
    if linked.session is None:
        app.answer(value, f"{shown} leads to no session now: its next message begins a new one.")
        return
    back = f"--undo {shown}" if linked.before is None else f"{shown} {linked.before.short_id}"
    done = f'{shown} leads to "{linked.session.name}" now.'
    app.answer(value, f"{done} To undo: clew link {back}")
    reader = word_reader(linked.session, OWNER)
    if reader is not None:
        app.note(reader)
