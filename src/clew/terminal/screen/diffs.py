"""What a tool call would change in a file, as the lines of a difference."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from clew.core.text import strip_controls

MOST: Final = 2_000
"""Lines that are compared; more are counted only."""


class Difference(msgspec.Struct, frozen=True):
    """The lines, each with its mark (`+`, `-`, ` ` or `@`), and how many there are of each."""

    lines: tuple[tuple[str, str], ...]
    added: int
    removed: int


def find_difference(name: str, arguments: Mapping[str, Any]) -> Difference | None:
    """The change that `edit_file` or `write_file` was asked for, None for any other call."""
    match name, arguments:
        case "edit_file", {"old": str(old), "new": str(new)}:
            return compare(old, new)
        case "write_file", {"content": str(content)}:
            return compare("", content)
        case _:
            return None


def compare(old: str, new: str) -> Difference:
    """Old and new text, line by line."""
    before, after = strip_controls(old).splitlines(), strip_controls(new).splitlines()
    if len(before) + len(after) > MOST:
        lines = [("-", line) for line in before] + [("+", line) for line in after]
    else:
        diff = difflib.unified_diff(before, after, n=3, lineterm="")
        lines = [(line[0], line[1:]) for line in diff][2:]
    marks = [mark for mark, _ in lines]
    if marks.count("@") == 1:
        lines = lines[1:]  # where a piece of a file begins in the file is not known here
    return Difference(tuple(lines), marks.count("+"), marks.count("-"))
