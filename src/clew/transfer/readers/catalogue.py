"""All readers: clew's own, and those of other packages by the entry point `clew.importers`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, cast

from clew.errors import InvalidInput
from clew.transfer.readers.files import read_first
from clew.transfer.readers.reader import Reader

GROUP: Final = "clew.importers"

OWN: Final = (
    "claude_code:ClaudeCode",
    "codex:Codex",
    "pi:Pi",
    "pi:OhMyPi",
    "pi:Clawdbot",
    "openclaw:OpenClaw",
    "hermes:Hermes",
    "agsh:Agsh",
    "agsh:Meka",
    "opencode:Opencode",
    "goose:Goose",
    "aider:Aider",
    "llm:Llm",
    "chat_exports:ChatGpt",
    "chat_exports:ClaudeAi",
    "chat_exports:OpenWebUi",
)
"""Modules and classes here, in the order in which files are guessed."""


def list_readers(tell: Callable[[str], None] = lambda _: None) -> tuple[Reader, ...]:
    """All readers. `tell` is called for one of another package that can't be loaded."""
    readers = [_load(each) for each in OWN]
    names = {each.name for each in readers}
    for reader in _list_foreign(tell):
        if reader.name not in names:  # nobody takes the place of clew's own
            names.add(reader.name)
            readers.append(reader)
    return tuple(readers)


def get_reader(name: str, readers: Sequence[Reader]) -> Reader:
    """The reader of an agent; `InvalidInput` with the names if there is none."""
    for reader in readers:
        if reader.name == name:
            return reader
    known = ", ".join(each.name for each in readers)
    raise InvalidInput(f'clew reads no histories of "{name}". It knows {known}.')


def guess_reader(path: Path, readers: Sequence[Reader]) -> Reader | None:
    """The reader of a file, by its first bytes or its tables; of a directory, by its files."""
    if path.is_dir():
        return next((each for each in readers if next(each.open(path), None) is not None), None)
    first = read_first(path)
    return next((each for each in readers if each.recognises(path, first)), None)


def _load(name: str) -> Reader:
    module, _, kind = name.partition(":")
    made = getattr(import_module(f"clew.transfer.readers.{module}"), kind)()
    return cast("Reader", made)


def _list_foreign(tell: Callable[[str], None]) -> list[Reader]:
    from importlib.metadata import entry_points  # noqa: PLC0415  # slow, and seldom needed

    readers: list[Reader] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        try:
            made = entry.load()
            reader = made() if isinstance(made, type) else made
            if not isinstance(reader.name, str) or not callable(reader.read):
                raise TypeError("it is no reader")  # noqa: TRY301  # told like every other fault
            readers.append(reader)
        except Exception as error:  # noqa: BLE001  # the border to a package of somebody else
            tell(f"The importer {entry.name} ({entry.value}) can't be used: {error}")
    return readers
