"""`clew export` and `clew import`: one session as a file, and back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click
import msgspec

from clew.cli.app import App, json_option, pass_app
from clew.cli.resolve import resolve, session_argument
from clew.core.names import format_count
from clew.errors import ClewError

if TYPE_CHECKING:
    from clew.ports import Store
    from clew.transfer import Format, Imported

INCOMPLETE = 1


@click.command("export")
@session_argument
@click.option("-o", "--output", metavar="FILE", help="Where to; - is standard output.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["md", "html", "jsonl"]),
    help="Markdown, one HTML page, or JSON lines for `clew import`. Else the file's ending tells.",
)
@click.option(
    "--redact/--no-redact",
    "masked",
    default=None,
    help="Mask what looks like a secret (by default in md and html).",
)
@click.option("--thinking", is_flag=True, help="With what the model thought (md and html).")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@json_option
@pass_app
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
    """Write a session to a file: to read, to show, or to import elsewhere.

    \b
    Examples:
      clew export 550e                      session-<id>.md in this directory
      clew export 550e -o talk.html
      clew export 550e --format jsonl -o - | ssh elsewhere clew import -
    """
    from clew.transfer import export_session, guess_format, write_file

    chosen = kind or guess_format("" if output in (None, "-") else output or "")

    async def work(store: Store) -> tuple[str, Path]:
        session = await resolve(store, typed)
        path = Path(output or f"session-{session.id}.{chosen}")
        with app.progress("Exporting", total=session.message_count) as bar:
            pieces = export_session(
                store, session, chosen, masked=masked, thinking=thinking, advance=bar.advance
            )
            if output == "-":
                async for piece in pieces:
                    sys.stdout.buffer.write(piece.encode())
            else:
                await write_file(path, pieces, force=force)
        return session.id, path

    session_id, path = app.run(work)
    if output != "-":
        value = {"session": session_id, "file": str(path), "format": chosen}
        app.answer(value, f"The session is now in {path}.")


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option("--as-new", is_flag=True, help="As a session of its own, with a new id.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
@pass_app
@click.pass_context
def import_command(ctx: click.Context, app: App, file: str, as_new: bool, dry_run: bool) -> None:
    """Read a session from a transcript (`clew export --format jsonl`); - is standard input.

    A session that is already here is continued if the transcript goes on where it ends, and left
    alone otherwise. Importing twice changes nothing.

    \b
    Examples:
      clew import session.jsonl
      clew import --as-new --dry-run session.jsonl
    """
    from clew.transfer import import_transcript

    stream, size = _open(file)
    with stream, app.progress("Importing", total=size) as bar:
        imported = app.run(
            lambda store: import_transcript(
                store, stream, as_new=as_new, dry_run=dry_run, advance=bar.advance
            )
        )
    app.answer(msgspec.to_builtins(imported), _sentence(imported, dry_run=dry_run))
    for complaint in _complaints(imported):
        app.note(complaint)
    if imported.skipped or not imported.whole:
        ctx.exit(INCOMPLETE)


def _open(file: str) -> tuple[BinaryIO, int | None]:
    """The lines of a file or of standard input, and how many bytes they are, if that is known."""
    if file == "-":
        return sys.stdin.buffer, None
    path = Path(file)
    try:
        return path.open("rb"), path.stat().st_size
    except OSError as error:
        raise ClewError(f"{file} can't be read: {error.strerror}.") from error


def _sentence(imported: Imported, *, dry_run: bool) -> str:
    count = imported.messages
    messages = f"{format_count(count)} message{'' if count == 1 else 's'}"
    match imported.outcome:
        case "created":
            done = f"Session {imported.session_id} imported, {messages}."
        case "extended":
            done = f"Session {imported.session_id} continued with {messages}."
        case _:
            done = f"Session {imported.session_id} is already here. Nothing to do."
    return f"Would be done: {done}" if dry_run else done


def _complaints(imported: Imported) -> list[str]:
    complaints = []
    if imported.skipped:
        some = ", ".join(map(str, imported.skipped[:10]))
        more = " …" if len(imported.skipped) > 10 else ""
        complaints.append(f"Lines that could not be read and were left out: {some}{more}.")
    if not imported.whole:
        complaints.append(
            "The file is not whole: lines are missing, or its end is. Of a file that was cut off "
            "the last message is left out; import the whole file to add the rest."
        )
    return complaints
