"""`clew memory`: what the agent remembers, in two files that belong to the person."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import click
import msgspec

from clew.cli.app import App, json_option, pass_app
from clew.cli.tables import Column, table
from clew.core.memory import FILE_NAMES, MEMORY_NAMES, MemoryFile, MemoryName
from clew.core.names import format_bytes
from clew.core.session import OWNER
from clew.core.text import strip_controls
from clew.errors import ClewError, NotFound, RecordNotFound, StaleMemory

if TYPE_CHECKING:
    from clew.core.memory import MemoryVersion
    from clew.core.personality import Personality
    from clew.ports import Memory

DIFF_STYLES: Final = {"+": "good", "-": "error", "@": "dim"}


class Shelf(NamedTuple):
    """The memory that a command line means."""

    memory: Memory
    personality: Personality | None


def _open(app: App, personality_id: str | None) -> Shelf:
    from clew.wiring import open_memory

    personality = None
    if personality_id is not None:
        from clew.wiring import open_personalities

        personality = open_personalities(app.config).get_personality(personality_id)
    return Shelf(open_memory(app.config), personality)


def _store_option(default: MemoryName | None) -> Callable[..., Any]:
    usual = "Both without it." if default is None else f"Without it: {default}."
    return click.option(
        "--store",
        "name",
        type=click.Choice(MEMORY_NAMES),
        default=default,
        help=f"Which file: user is USER.md, memory is MEMORY.md. {usual}",
    )


personality_option = click.option(
    "--personality",
    "personality_id",
    metavar="ID",
    help="As this personality has it, which may have files of its own.",
)


@click.group("memory")
def memory_group() -> None:
    """What the agent remembers: USER.md (who you are) and MEMORY.md (what it learned).

    Both are yours. Edit them with any editor; the next turn reads what they say then.
    """


@memory_group.command("show")
@_store_option(None)
@personality_option
@json_option
@pass_app
def memory_show(app: App, name: str | None, personality_id: str | None) -> None:
    """Print the memory files, with their sizes and where they are.

    \b
    Examples:
      clew memory show
      clew memory show --store user
      clew memory show --personality coach --json
    """
    shelf = _open(app, personality_id)
    names = MEMORY_NAMES if name is None else (cast("MemoryName", name),)

    async def read() -> list[MemoryFile]:
        return [await shelf.memory.read(each, shelf.personality) for each in names]

    files = app.wait(read())
    if app.json:
        app.emit({"files": [msgspec.to_builtins(each) | {"size": _size(each)} for each in files]})
    else:
        app.say("\n\n".join("\n".join(_shown(app, each)) for each in files))


def _size(file: MemoryFile) -> int:
    return len(file.text.encode())


def _shown(app: App, file: MemoryFile) -> Iterator[str]:
    heading = app.colour(FILE_NAMES[file.name], "bold")
    yield f"{heading}  {app.colour(f'{format_bytes(_size(file))} · {file.path}', 'dim')}"
    yield strip_controls(file.text).rstrip() or app.colour("(empty)", "dim")


@memory_group.command("path")
@_store_option("memory")
@personality_option
@json_option
@pass_app
def memory_path(app: App, name: MemoryName, personality_id: str | None) -> None:
    """Print where a memory file is, or would be.

    \b
    Examples:
      clew memory path --store user
      wc -w "$(clew memory path)"
    """
    shelf = _open(app, personality_id)
    file = app.wait(shelf.memory.read(name, shelf.personality))
    app.answer({"name": name, "path": file.path}, file.path)


@memory_group.command("edit", short_help="Open a memory file in your editor.")
@_store_option("memory")
@personality_option
@pass_app
def memory_edit(app: App, name: MemoryName, personality_id: str | None) -> None:
    """Open a memory file in your editor, and save what you made of it.

    If somebody else changes the file meanwhile, theirs stays, and your text is kept in a file of
    its own.

    \b
    Examples:
      clew memory edit
      VISUAL=nano clew memory edit --store user
    """
    shelf = _open(app, personality_id)
    file = app.wait(shelf.memory.read(name, shelf.personality))
    # As bytes, or click would change the line ends.
    edited = click.edit(file.text.encode(), extension=".md")
    if edited is None or edited == file.text.encode():
        app.say("Nothing was changed.")
        return
    try:
        text = _decoded(edited)
        app.wait(shelf.memory.write(name, text, shelf.personality, by=OWNER, etag=file.etag))
    except StaleMemory as error:
        raise StaleMemory(
            f"{FILE_NAMES[name]} was changed while you edited it, so it was left as it is now. "
            f"Your text is in {_keep_apart(file, edited)}: put the two together."
        ) from error
    except ClewError as error:
        raise ClewError(f"{error} Your text is in {_keep_apart(file, edited)}.") from error
    app.say(f"Saved {file.path}.")


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ClewError("What you saved is not UTF-8 text, so it was not put in place.") from error


def _keep_apart(file: MemoryFile, data: bytes) -> Path:
    """A file beside the memory file, or where there is room, with what was typed."""
    import tempfile

    beside = Path(file.path).parent
    for directory in (beside, None):
        try:
            handle, path = tempfile.mkstemp(f"-{FILE_NAMES[file.name]}", "yours-", directory)
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
        except OSError:
            if directory is None:
                raise
        else:
            return Path(path)
    raise AssertionError  # the loop returns or raises


@memory_group.command("log")
@_store_option("memory")
@personality_option
@json_option
@pass_app
def memory_log(app: App, name: MemoryName, personality_id: str | None) -> None:
    """List the versions of a memory file, newest first. The last 50 are kept.

    \b
    Examples:
      clew memory log
      clew memory log --store user --json
    """
    shelf = _open(app, personality_id)

    async def read() -> tuple[MemoryFile, tuple[MemoryVersion, ...]]:
        versions = await shelf.memory.list_versions(name, shelf.personality)
        return await shelf.memory.read(name, shelf.personality), versions

    file, versions = app.wait(read())
    if app.json:
        app.emit({"path": file.path, "etag": file.etag, "versions": versions})
        return
    if not versions:
        app.say(f"Nothing was written to {FILE_NAMES[name]} by clew yet.")
        return
    columns = (
        Column("N", "id", "right"),
        Column("WRITTEN"),
        Column("SIZE", align="right"),
        Column("BY", least=10),
    )
    rows = [
        (str(each.number), app.local_time(each.at), format_bytes(each.size), each.by)
        for each in versions
    ]
    app.say("\n".join(table(app, columns, rows)))
    if versions[0].etag != file.etag:
        app.note("The file was edited by hand since. `clew memory diff 1` shows how.")


async def _get_version(shelf: Shelf, name: MemoryName, number: int) -> str:
    try:
        return await shelf.memory.get_version(name, number, shelf.personality)
    except RecordNotFound as error:
        raise NotFound(
            f"{FILE_NAMES[name]} has no version {number}. `clew memory log` lists them."
        ) from error


@memory_group.command("diff", short_help="Show what changed since a version, or between two.")
@click.argument("older", metavar="N", type=click.IntRange(1))
@click.argument("newer", metavar="[M]", type=click.IntRange(1), required=False)
@_store_option("memory")
@personality_option
@json_option
@pass_app
def memory_diff(
    app: App, older: int, newer: int | None, name: MemoryName, personality_id: str | None
) -> None:
    """Show what changed since version N of a memory file, or from version N to version M.

    `clew memory log` has the numbers; 1 is the newest.

    \b
    Examples:
      clew memory diff 2          since version 2
      clew memory diff 5 3        from version 5 to version 3
    """
    import difflib

    shelf = _open(app, personality_id)

    async def read() -> tuple[str, str]:
        before = await _get_version(shelf, name, older)
        if newer is None:
            return before, (await shelf.memory.read(name, shelf.personality)).text
        return before, await _get_version(shelf, name, newer)

    before, after = app.wait(read())
    labels = (f"version {older}", "now" if newer is None else f"version {newer}")
    lines = [
        strip_controls(line, keep_newlines=False).rstrip()
        for line in difflib.unified_diff(_lines(before), _lines(after), *labels, lineterm="")
    ]
    if app.json:
        app.emit({"from": older, "to": newer, "diff": "\n".join(lines)})
    elif lines:
        app.say("\n".join(_coloured(app, line) for line in lines))
    elif before != after:
        app.say(f"{labels[0].capitalize()} and {labels[1]} differ in the newline at the end only.")
    else:
        app.say(f"There is no difference between {labels[0]} and {labels[1]}.")


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _coloured(app: App, line: str) -> str:
    style = DIFF_STYLES.get(line[:1])
    return line if style is None else app.colour(line, style)


@memory_group.command("restore")
@click.argument("number", metavar="N", type=click.IntRange(1))
@_store_option("memory")
@personality_option
@json_option
@pass_app
def memory_restore(app: App, number: int, name: MemoryName, personality_id: str | None) -> None:
    """Make a memory file again what it was in version N.

    That is a new version; what the file said until now stays in the log.

    \b
    Examples:
      clew memory restore 2
      clew memory restore 7 --store user
    """
    shelf = _open(app, personality_id)

    async def restore() -> tuple[MemoryFile, MemoryFile]:
        before = await shelf.memory.read(name, shelf.personality)
        text = await _get_version(shelf, name, number)
        by = f"{OWNER}, restored version {number}"
        after = await shelf.memory.write(name, text, shelf.personality, by=by, etag=before.etag)
        return before, after

    before, after = app.wait(restore())
    changed = before.etag != after.etag
    done = f"{FILE_NAMES[name]} is what it was in version {number}"
    done += " again." if changed else " already. Nothing was changed."
    if changed and before.text:
        done += " What it said until now is version 2."
    app.answer({"restored": number, "changed": changed, "etag": after.etag}, done)
