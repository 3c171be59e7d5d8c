"""`clew memory`: the two memory files of the agent, and their versions."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from clew.cli.app import App, client_command, gateway_options, pass_app, refuse_gateway
from clew.cli.tables import Column, table
from clew.core.memory import FILE_NAMES, MEMORY_NAMES, MemoryName
from clew.core.names import format_bytes
from clew.core.text import strip_controls
from clew.errors import ClewError, StaleMemory

if TYPE_CHECKING:
    from clew.api.memory import MemoryView
    from clew.client.client import Client

T = TypeVar("T")

DIFF_STYLES: Final = {"+": "good", "-": "error", "@": "dim"}


def _call(app: App, work: Callable[[Client], Awaitable[T]]) -> T:
    """Call a client without a store: the memory is in files."""
    return app.call(work, opens_store=False)


def _store_option(default: MemoryName | None) -> Callable[..., Any]:
    usual = "both" if default is None else default
    return click.option(
        "--store",
        "name",
        type=click.Choice(MEMORY_NAMES),
        default=default,
        help=f"Which file: user is USER.md, memory is MEMORY.md. [default: {usual}]",
    )


personality_option = click.option(
    "--personality",
    "personality_id",
    metavar="ID",
    help="The files of this personality, if it has its own.",
)


person_option = click.option(
    "--person",
    metavar="PERSON",
    help="The USER.md of this person, like telegram:456. [default: yours]",
)


@click.group("memory")
def memory_group() -> None:
    """What the agent remembers: USER.md (who you are) and MEMORY.md (what it learned).

    Both are yours. Edit them with any editor; the next turn reads them again.
    """


@memory_group.command("show")
@_store_option(None)
@personality_option
@person_option
@client_command
def memory_show(app: App, name: str | None, personality_id: str | None, person: str | None) -> None:
    """Print the memory files, with their sizes and where they are.

    \b
    Examples:
      clew memory show
      clew memory show --store user
      clew memory show --personality coach --json
    """
    names = MEMORY_NAMES if name is None else (cast("MemoryName", name),)

    async def read(client: Client) -> list[MemoryView]:
        return [
            await client.memory.get(each, personality=personality_id, person=person)
            for each in names
        ]

    files = _call(app, read)
    if app.json:
        app.emit({"files": [_value(each) for each in files]})
    else:
        app.say("\n\n".join("\n".join(_shown(app, each)) for each in files))


def _value(file: MemoryView) -> dict[str, object]:
    return {
        "name": file.store,
        "text": file.content,
        "etag": file.etag,
        "path": file.path,
        "size": _size(file),
    }


def _size(file: MemoryView) -> int:
    return len(file.content.encode())


def _shown(app: App, file: MemoryView) -> Iterator[str]:
    heading = app.colour(FILE_NAMES[file.store], "bold")
    yield f"{heading}  {app.colour(f'{format_bytes(_size(file))} · {file.path}', 'dim')}"
    yield strip_controls(file.content).rstrip() or app.colour("(empty)", "dim")


@memory_group.command("path")
@_store_option("memory")
@personality_option
@person_option
@client_command
def memory_path(app: App, name: MemoryName, personality_id: str | None, person: str | None) -> None:
    """Print where a memory file is, or would be, on this machine.

    \b
    Examples:
      clew memory path --store user
      wc -w "$(clew memory path)"
    """
    refuse_gateway(app, "`clew memory path`")
    file = _call(
        app, lambda client: client.memory.get(name, personality=personality_id, person=person)
    )
    app.answer({"name": name, "path": file.path}, file.path)


@memory_group.command("edit", short_help="Open a memory file in your editor.")
@_store_option("memory")
@personality_option
@person_option
@gateway_options
@pass_app
def memory_edit(app: App, name: MemoryName, personality_id: str | None, person: str | None) -> None:
    """Open a memory file in your editor, and save your changes.

    If another program changes the file meanwhile, that version stays, and your text is saved in
    another file.

    \b
    Examples:
      clew memory edit
      VISUAL=nano clew memory edit --store user
    """
    file = _call(
        app, lambda client: client.memory.get(name, personality=personality_id, person=person)
    )
    # As bytes: click would change the line ends of text.
    edited = click.edit(file.content.encode(), extension=".md")
    if edited is None or edited == file.content.encode():
        app.say("Nothing was changed.")
        return
    try:
        text = _decoded(edited)
        _call(
            app,
            lambda client: client.memory.write(
                name,
                content=text,
                personality=personality_id,
                person=person,
                if_match=file.etag,
            ),
        )
    except StaleMemory as error:
        raise StaleMemory(
            f"{FILE_NAMES[name]} was changed while you edited it, so it was left as it is now. "
            f"Your text is in {_save_aside(app, file, edited)}: put the two together."
        ) from error
    except ClewError as error:
        raise ClewError(f"{error} Your text is in {_save_aside(app, file, edited)}.") from error
    app.say(f"Saved {file.path}.")


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ClewError(
            "What you saved is not UTF-8 text, so the memory file was not changed."
        ) from error


def _save_aside(app: App, file: MemoryView, data: bytes) -> Path:
    """Save text beside the memory file if that is on this machine, else as a temporary file."""
    import tempfile

    name = FILE_NAMES[file.store]
    if app.gateway is None:
        try:
            return _write(*tempfile.mkstemp(f"-{name}", "yours-", Path(file.path).parent), data)
        except OSError:
            pass  # not possible there: use the directory for temporary files
    return _write(*tempfile.mkstemp(f"-{name}", "yours-"), data)


def _write(handle: int, path: str, data: bytes) -> Path:
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
    return Path(path)


@memory_group.command("log")
@_store_option("memory")
@personality_option
@person_option
@client_command
def memory_log(app: App, name: MemoryName, personality_id: str | None, person: str | None) -> None:
    """List the versions of a memory file, newest first. The last 50 are stored.

    \b
    Examples:
      clew memory log
      clew memory log --store user --json
    """
    history = _call(
        app, lambda client: client.memory.history(name, personality=personality_id, person=person)
    )
    versions = history.versions
    if app.json:
        app.emit({"path": history.path, "etag": history.etag, "versions": versions})
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
    if versions[0].etag != history.etag:
        app.note("The file was edited by hand since then. `clew memory diff 1` shows the changes.")


@memory_group.command("diff", short_help="Show what changed since a version, or between two.")
@click.argument("older", metavar="N", type=click.IntRange(1))
@click.argument("newer", metavar="[M]", type=click.IntRange(1), required=False)
@_store_option("memory")
@personality_option
@person_option
@client_command
def memory_diff(
    app: App,
    *,
    older: int,
    newer: int | None,
    name: MemoryName,
    personality_id: str | None,
    person: str | None,
) -> None:
    """Show what changed since version N of a memory file, or from version N to version M.

    `clew memory log` has the numbers; 1 is the newest.

    \b
    Examples:
      clew memory diff 2          since version 2
      clew memory diff 5 3        from version 5 to version 3
    """
    import difflib

    async def read(client: Client) -> tuple[str, str]:
        memory, whose = client.memory, personality_id
        before = (await memory.version(older, name, personality=whose, person=person)).content
        if newer is None:
            return before, (await memory.get(name, personality=whose, person=person)).content
        return before, (await memory.version(newer, name, personality=whose, person=person)).content

    before, after = _call(app, read)
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
        app.say(f"{labels[0].capitalize()} and {labels[1]} differ only in the newline at the end.")
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
@person_option
@client_command
def memory_restore(
    app: App, number: int, name: MemoryName, personality_id: str | None, person: str | None
) -> None:
    """Restore version N of a memory file.

    This makes a new version; the present text stays in the log.

    \b
    Examples:
      clew memory restore 2
      clew memory restore 7 --store user
    """
    restored = _call(
        app,
        lambda client: client.memory.restore(
            number, name, personality=personality_id, person=person
        ),
    )
    if restored.changed:
        done = f"Restored version {number} of {FILE_NAMES[name]}."
    else:
        done = f"{FILE_NAMES[name]} has the text of version {number} already. Nothing was changed."
    if restored.kept:
        done += " The text before is now version 2."
    value = {"restored": number, "changed": restored.changed, "etag": restored.file.etag}
    app.answer(value, done)


@memory_group.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("-k", "--limit", type=click.IntRange(1, 100), default=8, help="How many at most.")
@personality_option
@person_option
@client_command
def memory_search(
    app: App,
    words: tuple[str, ...],
    limit: int,
    personality_id: str | None,
    person: str | None,
) -> None:
    """Search the memory for a question or for words.

    With memory.mode = "vector" the meaning counts too, and a * marks what a turn with this question
    would get. The numbers say why: the rank by words, and by meaning.

    \b
    Examples:
      clew memory search who has the spare key
      clew memory search -k 3 ticket 48213 --json
    """
    question = " ".join(words)
    found = app.call(
        lambda client: client.memory.search(
            question, k=limit, personality=personality_id, person=person
        ),
        # Vectors are in the store; words alone need none.
        opens_store=app.config.memory.mode == "vector",
    )
    if app.json:
        app.emit(found)
        return
    if found.notice is not None:
        app.note(found.notice)
    if not found.hits:
        app.say("Nothing in the memory fits.")
        return
    for each in found.hits:
        ranks = (("words", each.keyword_rank), ("meaning", each.vector_rank))
        why = ", ".join(f"{name} {rank}" for name, rank in ranks if rank is not None)
        mark = "*" if each.given else " "
        place = strip_controls(each.place, keep_newlines=False)
        app.say(f"{mark} {app.colour(place, 'bold')}  {app.colour(why, 'dim')}")
        app.say(f"  {' '.join(strip_controls(each.text).split())}")
