"""`clew backup`, `clew restore` and `clew store copy`: the whole store, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from clew.cli.app import App, json_option, only_here, pass_app
from clew.core.names import counted
from clew.core.redaction import hide_password

if TYPE_CHECKING:
    from clew.cli.progress import Progress


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


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Write over an older file of that name.")
@only_here
@json_option
@pass_app
def backup_command(app: App, file: Path, force: bool) -> None:
    """Copy the whole store to FILE while others go on using it.

    The copy is checked, and FILE.manifest.json says what it must be: `clew restore` compares.

    \b
    Examples:
      clew backup ~/clew-monday.db
      clew backup --force /media/stick/clew.db
    """
    from clew.wiring import back_up_store

    with app.progress("Backing up") as bar:
        manifest = back_up_store(app.config, file, now=app.now, force=force, progress=_pages(bar))
    what = _contents(manifest.sessions, manifest.messages)
    app.answer({"file": str(file)} | msgspec.to_builtins(manifest), f"Backed up to {file}: {what}.")


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Take the place of a store that has sessions.")
@only_here
@json_option
@pass_app
def restore_command(app: App, file: Path, replace: bool) -> None:
    """Put a backup in the place of the store.

    Nobody else may have the store open. A store that has sessions is only replaced with --replace,
    and then kept beside the new one.

    \b
    Examples:
      clew restore ~/clew-monday.db
      clew restore --replace ~/clew-monday.db
    """
    from clew.wiring import restore_store

    with app.progress("Restoring") as bar:
        restored = restore_store(
            app.config, file, now=app.now, replace=replace, progress=_pages(bar)
        )
    if not restored.hashed:
        app.note(f"{file} has no manifest: only the database itself was checked.")
    what = f"Restored: {_contents(restored.sessions, restored.messages)}."
    if restored.kept:
        what += f"\nThe previous store is kept as {restored.kept}."
    app.answer(msgspec.to_builtins(restored, enc_hook=str), what)


def _pages(bar: Progress) -> Callable[[int, int], None]:
    def show(done: int, total: int) -> None:
        bar.total = total
        bar.advance(done - bar.done)

    return show


def _contents(sessions: int, messages: int) -> str:
    return f"{counted(sessions, 'session')}, {counted(messages, 'message')}"
