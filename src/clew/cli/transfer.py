"""`clew export` and `clew import`: one session as a file, and back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click
import msgspec

from clew.cli.app import App, client_command
from clew.cli.options import session_argument
from clew.core.names import counted, format_bytes
from clew.errors import ClewError, InvalidInput, NotFound

if TYPE_CHECKING:
    from clew.api.sessions import Exported, Imported, SessionView
    from clew.client.client import Client
    from clew.transfer import Format

INCOMPLETE = 1


@click.command("export")
@session_argument
@click.option(
    "-o", "--output", metavar="FILE", help="Where to: a file, a directory, or - (stdout)."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["md", "html", "jsonl"]),
    help="Markdown, one HTML page, or JSON lines for `clew import`. [default: by the ending]",
)
@click.option(
    "--redact/--no-redact",
    "masked",
    default=None,
    help="Mask what looks like a secret (by default in md and html).",
)
@click.option("--thinking", is_flag=True, help="Include the model's thinking (md and html).")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@client_command
def export_command(
    app: App,
    typed: str,
    *,
    output: str | None,
    kind: Format | None,
    masked: bool | None,
    thinking: bool,
    force: bool,
) -> None:
    """Write a session to a file: to read, to share, or to import on another machine.

    \b
    Examples:
      clew export 550e                      session-<id>.md in this directory
      clew export 550e -o talk.html
      clew export 550e --format jsonl -o - | ssh elsewhere clew import -
    """
    from clew.transfer import guess_format, write_file

    folder = _folder(output)
    chosen = kind or guess_format("" if folder is not None or output == "-" else output or "")

    async def read(client: Client) -> tuple[SessionView, Exported]:
        session = await client.sessions.resolve(typed, purpose="read")
        return session, await client.sessions.export(
            session.id, format=chosen, masked=masked, thinking=thinking
        )

    with app.progress("Exporting"):
        session, exported = app.call(read)
    if output == "-":
        sys.stdout.buffer.write(exported.content.encode())
        return
    path = Path(output or exported.name) if folder is None else folder / exported.name
    write_file(path, exported.content, force=force)
    value = {"session": session.id, "file": str(path), "format": chosen}
    app.answer(value, f"The session is now in {path}.")


def _folder(output: str | None) -> Path | None:
    """The directory, if one was given instead of a file."""
    if output is None or output == "-":
        return None
    folder = Path(output)
    if output.endswith("/") and not folder.is_dir():
        raise NotFound(f"There is no directory {output}: make it, or name a file.")
    return folder if folder.is_dir() else None


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option("--as-new", is_flag=True, help="Import as another session, with a new id.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@client_command
def import_command(app: App, file: str, as_new: bool, dry_run: bool) -> None:
    """Read a session from a transcript (`clew export --format jsonl`); - is standard input.

    If the session is already here and the transcript has more messages, they are added. Importing
    twice changes nothing. At a gateway (--url) nothing is added to a session that is there.

    \b
    Examples:
      clew import session.jsonl
      clew import --as-new --dry-run session.jsonl
    """
    stream, size = _open(file)
    with stream:
        if app.gateway is None:
            imported = _import_here(app, stream, size, as_new=as_new, dry_run=dry_run)
        else:
            content = _read_whole(stream, size, file)
            imported = app.call(
                lambda client: client.sessions.import_transcript(
                    content, as_new=as_new, dry_run=dry_run
                )
            )
    app.answer(msgspec.to_builtins(imported), _sentence(imported, dry_run=dry_run))
    for complaint in _complaints(imported, as_new=as_new, dry_run=dry_run):
        app.note(complaint)
    if imported.skipped or not imported.whole:
        raise click.exceptions.Exit(INCOMPLETE)


def _import_here(
    app: App, stream: BinaryIO, size: int | None, *, as_new: bool, dry_run: bool
) -> Imported:
    """Import line by line, so that the file may have any length."""
    from clew.wiring import import_file

    with app.progress("Importing", total=size) as bar:
        work = import_file(app.config, stream, as_new=as_new, dry_run=dry_run, advance=bar.advance)
        return app.wait(work)


def _read_whole(stream: BinaryIO, size: int | None, file: str) -> bytes:
    """The content to send to a gateway; `InvalidInput` if it is too long."""
    from clew.api.sessions import MAX_TRANSCRIPT

    too_long = size is not None and size > MAX_TRANSCRIPT
    content = b"" if too_long else stream.read(MAX_TRANSCRIPT + 1)
    if too_long or len(content) > MAX_TRANSCRIPT:
        name = "Standard input" if file == "-" else file
        raise InvalidInput(
            f"{name} is longer than the {format_bytes(MAX_TRANSCRIPT)} that a gateway takes. Run "
            "`clew import` where its store is. Nothing was changed."
        )
    return content


def _open(file: str) -> tuple[BinaryIO, int | None]:
    """A file or standard input, and its size in bytes if that is known."""
    if file == "-":
        return sys.stdin.buffer, None
    path = Path(file)
    try:
        return path.open("rb"), path.stat().st_size
    except OSError as error:
        raise ClewError(f"{file} can't be read: {error.strerror}.") from error


def _sentence(imported: Imported, *, dry_run: bool) -> str:
    messages = counted(imported.messages, "message")
    match imported.outcome:
        case "created":
            done = f"Session {imported.session_id} imported, {messages}."
        case "extended":
            done = f"Session {imported.session_id} continued with {messages}."
        case _:
            done = f"Session {imported.session_id} is already here. Nothing to do."
    return f"Dry run: {done}" if dry_run else done


def _complaints(imported: Imported, *, as_new: bool, dry_run: bool) -> list[str]:
    complaints = []
    if imported.skipped:
        some = ", ".join(map(str, imported.skipped[:10]))
        more = " …" if len(imported.skipped) > 10 else ""
        complaints.append(f"Lines that could not be read and were left out: {some}{more}.")
    if not imported.whole:
        what = "The file is incomplete: messages are missing at its end, or in between."
        complaints.append(what if dry_run else f"{what} {_remedy(imported, as_new=as_new)}")
    return complaints


def _remedy(imported: Imported, *, as_new: bool) -> str:
    """Say how to get the messages that the file did not have."""
    if as_new:
        return (
            f"Import a complete file, and `clew delete {imported.session_id}` removes this session."
        )
    if imported.outcome != "created":
        return "A complete file adds those at the end."
    return (
        "A complete file adds those at the end. If it is refused because messages differ, import "
        f"it after `clew delete --now {imported.session_id}`, or with --as-new."
    )
