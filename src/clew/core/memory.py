"""The two memory files as values, and the edits of their text.

`clew.memory` reads and writes the files.
"""

from __future__ import annotations

from typing import Final, Literal, assert_never

import msgspec

from clew.errors import InvalidInput

MemoryName = Literal["user", "memory"]
MEMORY_NAMES: tuple[MemoryName, ...] = ("user", "memory")
FILE_NAMES: dict[MemoryName, str] = {"user": "USER.md", "memory": "MEMORY.md"}
MEMORY_BYTES: Final = 512 * 1024
"""The longest a memory file can be; its oldest lines move to the archive."""
MEMORY_VERSIONS: Final = 50
"""How many versions of a file are kept."""


class MemoryFile(msgspec.Struct, frozen=True):
    """A memory file as it is now; a missing one is empty. `etag` identifies this content."""

    name: MemoryName
    text: str
    etag: str
    path: str


class MemoryVersion(msgspec.Struct, frozen=True):
    """A version that was written: 1 is the newest. `by` is who wrote it."""

    number: int
    at: int
    by: str
    size: int
    etag: str


# --- edits ------------------------------------------------------------------------------------


class AddLine(msgspec.Struct, frozen=True, tag=True):
    """Put a line at the end."""

    line: str


class ReplaceText(msgspec.Struct, frozen=True, tag=True):
    """Replace a text that occurs exactly once."""

    old: str
    new: str


class RemoveText(msgspec.Struct, frozen=True, tag=True):
    """Remove a text that occurs exactly once."""

    old: str


MemoryEdit = AddLine | ReplaceText | RemoveText


def apply_edit(text: str, edit: MemoryEdit) -> str:
    """The text after an edit; `InvalidInput` if the edit does not fit."""
    match edit:
        case AddLine(line=line):
            return add_line(text, line)
        case ReplaceText(old=old, new=new):
            return replace_text(text, old, new)
        case RemoveText(old=old):
            return remove_text(text, old)
        case _:
            assert_never(edit)


def add_line(text: str, line: str) -> str:
    """The text with a line (or several) at its end; what was there stays as it is."""
    line = line.strip("\r\n")
    if not line.strip():
        raise InvalidInput("The line to add is empty. Nothing was changed.")
    newline = _newline_of(text)
    gap = "" if not text or text.endswith("\n") else newline
    return text + gap + _with_newlines(line, newline) + newline


def replace_text(text: str, old: str, new: str) -> str:
    """The text with `new` where `old` was."""
    start, end = _find(text, old)
    return text[:start] + _with_newlines(new, _newline_of(text)) + text[end:]


def remove_text(text: str, old: str) -> str:
    """The text without `old`; its line goes too if nothing but a bullet is left."""
    start, end = _find(text, old)
    before, after = text[:start], text[end:]
    line = before.rpartition("\n")[2] + after.partition("\n")[0]
    if text[end - 1] == "\n" or line.strip(" \t\r-*+"):
        return before + after
    return before[: before.rfind("\n") + 1] + after.partition("\n")[2]


def _find(text: str, wanted: str) -> tuple[int, int]:
    """Where the text is; `InvalidInput` unless it occurs exactly once."""
    if not wanted:
        raise InvalidInput("The text to look for is empty. Nothing was changed.")
    # A quote from a file with Windows line ends may have plain ones.
    for spelled in dict.fromkeys((wanted, _with_newlines(wanted, _newline_of(text)))):
        start = text.find(spelled)
        if start >= 0:
            if text.find(spelled, start + 1) >= 0:
                raise InvalidInput(
                    f"{_quoted(wanted)} is in the file more than once. "
                    "Quote more of what is around it. Nothing was changed."
                )
            return start, start + len(spelled)
    raise InvalidInput(
        f"{_quoted(wanted)} is not in the file. Read it again and quote it exactly. "
        "Nothing was changed."
    )


def _quoted(text: str) -> str:
    shown = " ".join(text.split())
    return f'"{shown[:60]}…"' if len(shown) > 60 else f'"{shown}"'


def _newline_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _with_newlines(text: str, newline: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", newline)


# --- size -------------------------------------------------------------------------------------


def split_overflow(text: str, limit: int = MEMORY_BYTES) -> tuple[str, str]:
    """Split off the oldest whole lines, so that the rest fits. Returns both parts.

    `InvalidInput` if the last line alone is too long: it would push out everything else.
    """
    excess = len(text.encode()) - limit
    if excess <= 0:
        return "", text
    moved = 0
    end = 0
    while moved < excess:
        newline = text.find("\n", end)
        if newline in (-1, len(text) - 1):
            raise InvalidInput(
                f"The last line alone is longer than {limit // 1024} KB, which is all that fits. "
                "Write it in shorter lines. Nothing was changed."
            )
        moved += len(text[end : newline + 1].encode())
        end = newline + 1
    return text[:end], text[end:]
