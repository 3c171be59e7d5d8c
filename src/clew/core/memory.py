"""The two memory files as values: whose they are, and the edits of their text.

`clew.memory` reads and writes the files; `core.chunks` cuts them into pieces that can be found.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, Literal, assert_never

import msgspec

from clew.core.models import AgentPersonality, Personality
from clew.core.session import OWNER
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


# --- whose file it is -------------------------------------------------------------------------

PERSON_CHARACTERS: Final = 300
"""The longest name of a person."""
_PLAIN: Final = re.compile(r"[^./\\\0][^/\\\0]{0,99}")
_READABLE: Final = re.compile(r"[^a-z0-9]+")


def find_directory(
    name: MemoryName, personality: Personality | None = None, person: str = OWNER
) -> tuple[str, ...]:
    """The directory of a memory file, as names below the data directory. Decided only here.

    The widest holder comes first: an agent, then a personality with files of its own has both
    there; in each place USER.md is the person's who speaks, and MEMORY.md is shared.
    """
    held: tuple[str, ...] = ()
    if isinstance(personality, AgentPersonality) and personality.has_own_memory:
        held = ("agents", personality.agent)
    if personality is not None and personality.memory_scope == "per-personality":
        if not _PLAIN.fullmatch(personality.id):
            raise InvalidInput(f"{personality.id!r} can't be the name of a directory.")
        held = (*held, "personalities", personality.id)
    if name == "user" and person != OWNER:
        held = (*held, "people", name_directory(person))
    return held


def name_directory(person: str) -> str:
    """The name of a person's directory: what can be read of their id, and a hash of all of it.

    So no id leads elsewhere, and no two share a directory, also where case does not count.
    """
    if not person.strip() or len(person) > PERSON_CHARACTERS:
        raise InvalidInput(
            f"A person's name has 1 to {PERSON_CHARACTERS} characters, like telegram:456. "
            "`clew pair list` shows the people."
        )
    digest = hashlib.sha256(person.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    readable = _READABLE.sub("-", person.lower()).strip("-")[:40].strip("-")
    return f"{readable}-{digest}" if readable else digest


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
