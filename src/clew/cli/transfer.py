"""`clew export` and `clew import`: one session as a file, and back.

Other agents' histories are imported in `cli.histories`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from clew.cli.app import App, client_command
from clew.cli.options import session_argument
from clew.core.names import counted, format_bytes
from clew.core.rules import word_revoked
from clew.core.text import strip_controls
from clew.errors import ClewError, InvalidInput, NotFound

if TYPE_CHECKING:
    from clew.api.sessions import Exported, Imported, SessionView
    from clew.client.client import Client
    from clew.transfer import Format
    from clew.transfer.agent_files import AgentFormat

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
@click.option(
    "--to",
    "agent",
    type=click.Choice(["claude-code", "codex"]),
    help="Write it for another agent, where that looks for it: to be resumed there.",
)
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
    agent: AgentFormat | None,
    force: bool,
) -> None:
    """Write a session to a file: to read, to share, or to import on another machine.

    \b
    Examples:
      clew export 550e                      session-<id>.md in this directory
      clew export 550e -o talk.html
      clew export 550e --format jsonl -o - | ssh elsewhere clew import -
      clew export 550e --to claude-code
    """
    from clew.transfer import guess_format, write_file

    if agent is not None:
        if kind is not None or masked or thinking:
            raise click.UsageError("--to decides the format: leave out --format and the like.")
        _export_to(app, typed, agent, output=output, force=force)
        return

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
    else:
        path = Path(output or exported.name) if folder is None else folder / exported.name
        write_file(path, exported.content, force=force)
        value = {"session": session.id, "file": str(path), "format": chosen}
        app.answer(value, f"The session is now in {path}.")
    if exported.damaged:
        numbers = ", ".join(map(str, exported.damaged[:10]))
        app.note(
            f"{counted(len(exported.damaged), 'message')} damaged in the store, and so in the "
            f"file: {numbers}. A backup may have them whole; `clew doctor --full` checks all."
        )
        raise click.exceptions.Exit(INCOMPLETE)


def _export_to(
    app: App, typed: str, agent: AgentFormat, *, output: str | None, force: bool
) -> None:
    """Write a session in the format of another agent, and say how to resume it there."""
    from clew.transfer import write_file
    from clew.transfer.agent_files import directory_of, file_in, place_in
    from clew.wiring.histories import agent_root

    async def read(client: Client) -> tuple[SessionView, Exported]:
        session = await client.sessions.resolve(typed, purpose="read")
        return session, await client.sessions.export(session.id, format=agent)

    with app.progress("Exporting"):
        session, exported = app.call(read)
    directory = directory_of(session) or str(Path.cwd())
    content = place_in(exported.content, directory)
    if output == "-":
        sys.stdout.buffer.write(content.encode())
        return
    path = file_in(agent, agent_root(agent), session, directory)
    if output is not None:
        folder = _folder(output)
        path = Path(output) if folder is None else folder / path.name
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content, force=force)
    resume = f"{'claude --resume' if agent == 'claude-code' else 'codex resume'} {session.id}"
    value = {"session": session.id, "file": str(path), "format": agent, "directory": directory}
    shown = strip_controls(directory, keep_newlines=False)
    app.answer(value, f"The session is now in {path}.\nIn {shown}, `{resume}` goes on with it.")


def _folder(output: str | None) -> Path | None:
    """The directory, if one was given instead of a file."""
    if output is None or output == "-":
        return None
    folder = Path(output)
    if output.endswith("/") and not folder.is_dir():
        raise NotFound(f"There is no directory {output}: make it, or name a file.")
    return folder if folder.is_dir() else None


@click.command("import")
@click.argument("file", metavar="[PATH]", required=False)
@click.option("--from", "agent", metavar="AGENT", help="Whose history: claude-code, codex, …")
@click.option("--all", "everything", is_flag=True, help="The histories of every agent found here.")
@click.option("--scan", is_flag=True, help="Only say which histories are on this machine.")
@click.option("--watch", is_flag=True, help="Go on importing what is written, until stopped.")
@click.option("--since", metavar="WHEN", help="Sessions changed since: a date, or 30d.")
@click.option("--branches", is_flag=True, help="Also branches that were left, as forks.")
@click.option("--again", is_flag=True, help="Also sessions that were thrown away here.")
@click.option("--routes", is_flag=True, help="Let the keys of a Clawdbot or OpenClaw lead here.")
@click.option("--as-new", is_flag=True, help="Import as another session, with a new id.")
@click.option("--cwd", metavar="DIR", help="The directory that the session works in.")
@click.option(
    "--trust",
    is_flag=True,
    help="Keep the directory, personality and pins in the file: only for your own export.",
)
@click.option("--yes", is_flag=True, help="Don't ask about --trust.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@client_command
def import_command(
    app: App,
    file: str | None,
    *,
    agent: str | None,
    everything: bool,
    scan: bool,
    watch: bool,
    since: str | None,
    branches: bool,
    again: bool,
    routes: bool,
    as_new: bool,
    cwd: str | None,
    trust: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Read a session from a transcript (`clew export --format jsonl`; - is standard input), or the
    histories of other agents: Claude Code, Codex and others. A PATH alone is guessed.

    A file brings what was said, its notes, title, model and usage. It brings no rules for tools, no
    directory and no keys; turns that had not ended are interrupted.

    Importing a history again brings what was added since; what was continued on both sides becomes
    a fork. Nothing of another agent is ever changed.

    If the session is already here and the transcript has more messages, they are added. Importing
    twice changes nothing. At a gateway (--url) nothing is added to a session that is there.

    \b
    Examples:
      clew import session.jsonl
      clew import --cwd ~/work/api session.jsonl
      clew import --as-new --dry-run session.jsonl
      clew import --scan
      clew import --from claude-code --since 30d
      clew import ~/Downloads/conversations.json
    """
    from clew.cli import histories

    wanted = histories.Wanted(
        agent=agent, since=since, dry_run=dry_run, branches=branches, again=again, routes=routes
    )
    if scan or watch or everything or agent is not None or file is None:
        histories.check(app, file, wanted, as_new=as_new, cwd=cwd, trust=trust)
        histories.run(app, file, wanted, everything=everything, scan=scan, watch=watch)
        return
    if file != "-" and app.gateway is None and histories.is_foreign(file):
        histories.check(app, file, wanted, as_new=as_new, cwd=cwd, trust=trust)
        histories.run(app, file, wanted)
        return
    if trust and app.gateway is not None:
        raise click.UsageError(
            "--trust works where the store is: no gateway trusts a file. Leave it out, or --url."
        )
    directory = None if cwd is None else _directory(cwd)
    stream, size = _open(file)
    with stream:
        first = stream.readline()
        if trust and not yes and not dry_run and not _agreed(app, first, directory):
            app.note("Nothing was imported.")
            return
        lines = itertools.chain([first], stream)
        if app.gateway is None:
            imported = _import_here(
                app, lines, size, as_new=as_new, dry_run=dry_run, cwd=directory, trusts=trust
            )
        else:
            content = _read_whole(first, stream, size, file)
            imported = app.call(
                lambda client: client.sessions.import_transcript(
                    content, as_new=as_new, dry_run=dry_run, cwd=directory
                )
            )
    app.answer(msgspec.to_builtins(imported), _sentence(imported, dry_run=dry_run))
    for complaint in _complaints(imported, as_new=as_new, dry_run=dry_run):
        app.note(complaint)
    if imported.skipped or not imported.whole:
        raise click.exceptions.Exit(INCOMPLETE)


def _directory(typed: str) -> str:
    """The absolute path of `--cwd`."""
    return str(Path(typed).expanduser().absolute())


def _agreed(app: App, first: bytes, directory: str | None) -> bool:
    """Whether the person trusts what the first line says; nothing is asked if it says nothing."""
    from clew.transfer.importer import describe_trust

    said = describe_trust(first, has_place=directory is not None)
    if not said:
        return True
    return app.confirm(
        f"The file says: {', '.join(said)}. Is it your own export, and do you want to keep that?"
    )


def _import_here(app: App, lines: Iterable[bytes], size: int | None, **options: Any) -> Imported:
    """Import line by line, so that the file may have any length."""
    from clew.wiring import import_file

    with app.progress("Importing", total=size, unit="bytes") as bar:
        work = import_file(
            app.config, lines, advance=bar.advance, report=app.report_update, **options
        )
        return app.wait(work)


def _read_whole(first: bytes, stream: BinaryIO, size: int | None, file: str) -> bytes:
    """The content to send to a gateway; `InvalidInput` if it is too long."""
    from clew.api.sessions import MAX_TRANSCRIPT

    too_long = size is not None and size > MAX_TRANSCRIPT
    content = b"" if too_long else first + stream.read(MAX_TRANSCRIPT + 1)
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
    if imported.revoked:
        complaints.append(word_revoked(imported.revoked))
    if imported.skipped:
        some = ", ".join(map(str, imported.skipped[:10]))
        more = " …" if len(imported.skipped) > 10 else ""
        one = len(imported.skipped) == 1
        which = f"line {some}" if one else f"lines {some}{more}"
        complaints.append(f"Could not be read and {'was' if one else 'were'} left out: {which}.")
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
