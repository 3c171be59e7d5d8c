"""What a tool hands back: bounded, clean of what drives terminals, the rest kept aside.

A long result goes to the session's scratchpad and the model gets its ends and the name.
"""

from __future__ import annotations

import re

import msgspec

from clew.agent.tooling import ToolOutcome
from clew.agent.tools.kit import Job, shorten
from clew.core.changes import WriteScratch
from clew.core.text import strip_controls

KEPT_BYTES = 1_000_000
"""Most of one output that is kept at all: the first half and the last."""

PAGED = frozenset({"read_file", "scratchpad_read"})
"""Tools that show a page and say how to get the next: keeping their result aside gains nothing."""


class Spool:
    """Takes any amount of bytes and keeps the first and the last of them."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self.size = 0
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Take more. Memory stays below some two times the limit."""
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
