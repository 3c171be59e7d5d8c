"""`clew store`: the store as a whole, from one place to another."""

from __future__ import annotations

import click
import msgspec

from clew.cli.app import App, json_option, only_here, pass_app
from clew.core.names import counted
from clew.core.secrets import hide_password


@click.group("store")
def store_group() -> None:
    """Move everything to another store."""


@store_group.command("copy", short_help="Copy everything into a new store.")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@only_here
@json_option
@pass_app
def copy_command(app: App, source: str, target: str) -> None:
    """Copy everything of the store FROM into a new or empty store TO.

    Each is a file or a URL: SQLite to PostgreSQL, back, or to another file. Nobody may use either
    of them meanwhile. Interrupted, the same command goes on where it was; at the end everything is
    read back and compared. FROM stays as it is: say where the store is with `clew config set
    store.url` afterwards. A password is safer in ~/.pgpass than in a URL.

    \b
    Examples:
      clew store copy ~/.local/share/clew/sessions.db postgresql://clew@db.example/clew
      clew store copy postgresql://clew@db.example/clew ~/everything.db
    """
    from clew.wiring import copy_store

    with app.progress("Copying") as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.advance(done - bar.done)

        copied = app.wait(copy_store(source, target, now=app.now, progress=show, tell=bar.tell))
    sessions, messages = copied.count("sessions"), copied.count("messages")
    what = f"Copied {counted(sessions, 'session')} and {counted(messages, 'message')}, "
    what += f"{counted(copied.rows, 'row')} in all, to {copied.target}; read back and the same."
    if copied.passed_over:
        what += f"\n{counted(copied.passed_over, 'row')} of them were there from an earlier start."
    named = target if hide_password(target) == target else "URL (the one with the password)"
    what += f"\nTo use it: clew config set store.url {named}"
    app.answer(msgspec.to_builtins(copied), what)
