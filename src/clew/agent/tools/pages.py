"""Pages of text: numbered lines of a file or of a scratchpad entry, however large that is."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from clew.agent.tools.kit import ToolFailure
from clew.agent.tools.paths import open_regular

MAX_LINE = 2_000
_COUNTED = 20_000_000
"""In a larger file the lines beyond the page are not counted."""


def read_page(real: Path, offset: int, limit: int, room: int) -> str:
    """Lines of a file from number `offset` on, at most `limit` and `room` characters of them."""
    with os.fdopen(open_regular(real), "rb") as file:
        if b"\0" in file.read(8192):
            raise ToolFailure(f"{real.name} is a binary file of {_size(file):,} bytes.")
        size = _size(file)
        file.seek(0)
        return make_page(file, offset, limit, room, count=size <= _COUNTED)


def page_text(text: str, offset: int, limit: int, room: int) -> str:
    """The same for a text."""
    return make_page(io.BytesIO(text.encode("utf-8", "replace")), offset, limit, room, count=True)


def make_page(file: IO[bytes], offset: int, limit: int, room: int, *, count: bool) -> str:
    """The page, and a last line that says how to go on if there is more."""
    shown: list[str] = []
    number = 0
    used = 0
    for number, line in enumerate(_lines(file), 1):
        if number < offset:
            continue
        used += len(line) + 8
        if len(shown) == limit or (used > room - 200 and shown):
            break
        shown.append(f"{number:>6}\t{line}")
    else:
        if not shown:
            return "(empty)" if not number else f"(there are only {number} lines)"
        return "\n".join(shown)
    total = f" of {number + sum(1 for _ in _lines(file))}" if count else ""
    last = offset + len(shown) - 1
    shown.append(f"[Lines {offset} to {last}{total}. Read on with offset={last + 1}.]")
    return "\n".join(shown)


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Lines without their ends; of a very long one only the beginning is kept in memory."""
    while piece := file.readline(4 * MAX_LINE):
        whole = piece
        rest = 0
        while not piece.endswith(b"\n") and (piece := file.readline(65536)):
            rest += len(piece)
        text = whole.decode("utf-8", "replace").rstrip("\r\n")
        if rest or len(text) > MAX_LINE:
            text = f"{text[:MAX_LINE]} [… line cut …]"
        yield text


def _size(file: IO[bytes]) -> int:
    return file.seek(0, io.SEEK_END)
