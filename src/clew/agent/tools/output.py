"""The output of tools: bounded, without control characters, in pages of numbered lines.

A result that is too long goes to the session's scratchpad; the model gets its beginning, its end
and the name of the entry.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from clew.agent.tool_interface import ToolOutcome
from clew.agent.tools.paths import open_regular
from clew.agent.tools.tool import Job, ToolFailure, shorten
from clew.core.changes import WriteScratch
from clew.core.text import strip_controls

KEPT_BYTES = 1_000_000
"""Most bytes of one output that are kept: the first half and the last."""

PAGED = frozenset({"read_file", "scratchpad_read"})
"""Tools that show a page and say how to get the next: their results never go to the scratchpad."""

MAX_LINE = 2_000
_COUNTED = 20_000_000
"""In a larger file the lines beyond the page are not counted."""


class Spool:
    """Takes any amount of bytes and keeps the first and the last ones."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self.size = 0
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Add bytes. Memory stays below about twice the limit."""
        self.size += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half :]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def text(self) -> str:
        """What was kept, with a note where something is missing."""
        tail = self._tail[-self._half :]
        missing = self.size - len(self._head) - len(tail)
        if not missing:
            return (self._head + tail).decode("utf-8", "replace")
        return (
            self._head.decode("utf-8", "replace")
            + f"\n[… {missing:,} bytes left out …]\n"
            + tail.decode("utf-8", "replace")
        )


async def finish(outcome: ToolOutcome, job: Job) -> ToolOutcome:
    """The outcome as it is recorded: clean, and no longer than the limit."""
    text = strip_controls(outcome.content)
    limit = job.policy.max_output
    if len(text) <= limit or job.call.name in PAGED:
        return msgspec.structs.replace(outcome, content=text)
    name = await _free_name(job)
    note = (
        f"[{len(text):,} characters. The beginning and the end are below; all of it is in the "
        f"scratchpad as {name}: scratchpad_read shows it.]\n"
    )
    return msgspec.structs.replace(
        outcome,
        content=note + shorten(text, max(limit - len(note) - 60, 200)),
        changes=(*outcome.changes, WriteScratch(name, text)),
    )


async def _free_name(job: Job) -> str:
    tool = job.call.name
    taken = {entry.name for entry in await job.store.list_scratch(job.turn.session.id)}
    # Results of tools that run side by side are not in the store yet.
    taken |= job.notes.scratch
    numbers = (re.fullmatch(rf"{re.escape(tool)}_([0-9]{{1,9}})", name) for name in taken)
    name = f"{tool}_{1 + max((int(match[1]) for match in numbers if match), default=0)}"
    job.notes.scratch.add(name)
    return name


def read_page(real: Path, offset: int, limit: int, room: int) -> str:
    """Lines of a file from number `offset` on, at most `limit` and `room` characters of them."""
    with os.fdopen(open_regular(real), "rb") as file:
        if b"\0" in file.read(8192):
            raise ToolFailure(f"{real.name} is a binary file of {_size(file):,} bytes.")
        size = _size(file)
        file.seek(0)
        return make_page(file, offset, limit, room, count=size <= _COUNTED)


def page_text(text: str, offset: int, limit: int, room: int) -> str:
    """The same as `read_page`, for a text."""
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
