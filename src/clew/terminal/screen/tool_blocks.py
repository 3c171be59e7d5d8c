"""The block of a tool call: one line while it is folded; open, its arguments, result and diff."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from rich.segment import Segment
from textual.strip import Strip

from clew.core.text import cut, strip_controls
from clew.terminal.plain_output import RESULT_LINES, call_line, one_line
from clew.terminal.screen.blocks import Block
from clew.terminal.screen.styles import Palette

ToolState = Literal["running", "done", "failed", "stopped"]
MARKS: Final[dict[ToolState, tuple[str, str]]] = {
    "running": ("◌", "warning"),
    "done": ("✓", "ok"),
    "failed": ("✗", "error"),
    "stopped": ("·", "dim"),
}

UNFOLDED: Final = 400
"""Lines of a tool's result, or of a difference, that are shown when it is unfolded."""

MOST: Final = 2_000
"""Lines that are compared; longer texts are shown as removed and added."""


class ToolBlock(Block):
    """A tool call: one line that says what it does, and below it how."""

    is_compact = True
    folds = True

    def __init__(
        self,
        call_id: str,
        name: str,
        arguments: dict[str, Any],
        seq: int | None = None,
        state: ToolState = "running",
    ) -> None:
        super().__init__(seq)
        self.call_id = call_id
        self.name = name
        self.arguments = arguments
        self.state: ToolState = state
        self.progress = ""
        """The end of what it has printed so far."""
        self.is_waiting = False
        """Whether the person is asked about it."""
        self.result: str | None = None
        self.result_seq: int | None = None

    @property
    def seqs(self) -> tuple[int, ...]:
        """The message that asked for it, and that of its result."""
        return tuple(seq for seq in (self.seq, self.result_seq) if seq is not None)

    @property
    def text(self) -> str:
        """The result, or what was asked for while there is none."""
        return strip_controls(self.result) if self.result else self._request()

    @property
    def searched(self) -> str:
        """Call and result."""
        return f"{self.name} {self._request()}\n{strip_controls(self.result or '')}"

    def draw(self, palette: Palette, width: int, *, folded: bool) -> list[Strip]:
        """The head, and the details below it."""
        change = find_difference(self.name, self.arguments)
        lines = [self._head(palette, width, change, folded=folded)]
        if not folded:
            return lines + self._details(palette, width, change)
        if self.state == "running" and (now := self._now()):
            lines += self._below(palette, width, one_line(now, max(1, width - 4)), "dim")
        elif self.state == "failed" and self.result:
            lines += self._below(palette, width, one_line(self.result, max(1, width - 4)), "error")
        return lines

    def _head(
        self, palette: Palette, width: int, change: Difference | None, *, folded: bool
    ) -> Strip:
        mark, style = MARKS[self.state]
        name, _, rest = call_line(self.name, self.arguments).partition(" ")
        segments = [Segment(f"{mark} ", palette[style]), Segment(name, palette["tool"])]
        tail: list[Segment] = []
        if change is not None and self.state != "failed":
            tail = [
                Segment(f"  +{change.added}", palette["ok"]),
                Segment(f" −{change.removed}", palette["error"]),  # noqa: RUF001  # a minus, as wide as the plus
            ]
        elif folded and self.state == "done" and self.result:
            tail = [Segment(f"  {_size(self.result)}", palette["dim"])]
        room = width - sum(each.cell_length for each in (*segments, *tail)) - 1
        if room < 8:
            room, tail = room + sum(each.cell_length for each in tail), []
        if rest and room > 0:
            segments.append(
                Segment(" " + cut(rest, room), palette["dim"] if folded else palette.base)
            )
        return palette.strip([*segments, *tail], width)

    def _details(self, palette: Palette, width: int, change: Difference | None) -> list[Strip]:
        # A block that the person has unfolded shows more than one unfolded by /verbose.
        most = UNFOLDED if self.folded is False else RESULT_LINES
        if change is not None:
            lines = _draw_difference(change, palette, width, most)
        elif self._is_told_by_head(width):
            lines = []
        else:
            lines = self._below(palette, width, _head_of(self._request(), most), None)
        if self.result is None:
            printed = strip_controls(self.progress).strip("\n").split("\n")[-RESULT_LINES:]
            shown = "waits for your approval" if self.is_waiting else "\n".join(printed)
        else:
            shown = _head_of(strip_controls(self.result), most)
        if shown and not (change is not None and self.state == "done"):
            lines += self._below(
                palette, width, shown, "error" if self.state == "failed" else "dim"
            )
        return lines

    def _now(self) -> str:
        """What a running call does: its last line."""
        if self.is_waiting:
            return "waits for your approval"
        return strip_controls(self.progress).rstrip().rpartition("\n")[2]

    def _is_told_by_head(self, width: int) -> bool:
        head = call_line(self.name, self.arguments)
        values = [str(value) for value in self.arguments.values()]
        return len(head) + 2 < width and " ".join([self.name, *values]) == head

    def _below(self, palette: Palette, width: int, text: str, style: str | None) -> list[Strip]:
        edge = Segment("  │ ", palette["dim"])
        return [
            palette.strip([edge, *line], width)
            for line in palette.write(text, width - 4, palette[style])
        ]

    def _request(self) -> str:
        match self.arguments:
            case {"command": str(command)}:
                return strip_controls(f"$ {command}")
            case _:
                return strip_controls("\n".join(map(_pair, self.arguments.items())))


def _pair(item: tuple[str, Any]) -> str:
    name, value = item
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return f"{name}: {shown}"


def _size(result: str) -> str:
    lines = strip_controls(result).strip("\n").splitlines()
    return one_line(lines[0], 40) if len(lines) == 1 else f"{len(lines):,} lines"


def _head_of(text: str, most: int) -> str:
    lines = text.strip("\n").split("\n")
    more = len(lines) - most
    return "\n".join([*lines[:most], f"… {more:,} more lines"]) if more > 0 else "\n".join(lines)


def _draw_difference(change: Difference, palette: Palette, width: int, most: int) -> list[Strip]:
    edge = Segment("  │ ", palette["dim"])
    styles = {"+": "added", "-": "removed", "@": "dim"}
    drawn: list[Strip] = []
    for mark, text in change.lines[:most]:
        style = palette[styles.get(mark)]
        for line in palette.write(f"{mark} {text}", width - 4, style):
            filled = line if mark in " @" else line.extend_cell_length(width - 4, style)
            drawn.append(palette.strip([edge, *filled], width))
    if len(change.lines) > most:
        more = f"… {len(change.lines) - most:,} more lines"
        drawn += [
            palette.strip([edge, *line], width)
            for line in palette.write(more, width - 4, palette["dim"])
        ]
    return drawn


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
    """The difference of two texts, line by line."""
    before, after = strip_controls(old).splitlines(), strip_controls(new).splitlines()
    if len(before) + len(after) > MOST:
        lines = [("-", line) for line in before] + [("+", line) for line in after]
    else:
        diff = difflib.unified_diff(before, after, n=3, lineterm="")
        lines = [(line[0], line[1:]) for line in diff][2:]
    marks = [mark for mark, _ in lines]
    if marks.count("@") == 1:
        lines = lines[1:]  # its line numbers are those of the arguments, not of the file
    return Difference(tuple(lines), marks.count("+"), marks.count("-"))
