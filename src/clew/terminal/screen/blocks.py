"""Blocks: the parts of a transcript, such as a message, an answer or a note.

A block holds its text and draws it as strips for a width. It does not know where it is on the
screen. `event_blocks` makes blocks of events; tool calls are in `tool_blocks`.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from rich.segment import Segment
from textual.strip import Strip

from clew.core.names import counted
from clew.core.text import cut, strip_controls
from clew.terminal.screen.markdown import MarkdownText
from clew.terminal.screen.styles import Palette

SHORT: Final = 15
"""Lines of the person's message that are shown of a longer one."""

_EMPHASIS: Final = re.compile(r"\*+|`+|__|~~")


class Block:
    """One part of the transcript."""

    mark: ClassVar[tuple[str, str | None]] = (" ", None)
    """What is drawn in the margin, and its style."""
    ground: ClassVar[str | None] = None
    """The style behind the whole block."""
    is_compact: ClassVar[bool] = False
    """Whether there is no empty line between it and a block of its kind."""
    folds: bool = False
    """Whether there is something that can be folded away."""

    def __init__(self, seq: int | None = None) -> None:
        self.seq = seq
        """The message's number, None if it is none."""
        self.folded: bool | None = None
        """What the person has chosen; None if they have not."""
        self._drawn: tuple[object, list[Strip]] | None = None

    @property
    def seqs(self) -> tuple[int, ...]:
        """The messages that it shows something of."""
        return () if self.seq is None else (self.seq,)

    @property
    def text(self) -> str:
        """The text to copy."""
        return ""

    @property
    def searched(self) -> str:
        """The text to search in."""
        return self.text

    def is_folded(self, *, verbose: bool) -> bool:
        """Whether only its head is shown."""
        return not verbose if self.folded is None else self.folded

    def lines(self, palette: Palette, width: int, *, verbose: bool) -> list[Strip]:
        """Its strips, drawn at most once."""
        folded = self.folds and self.is_folded(verbose=verbose)
        key = (palette, width, folded, self.folded)
        if self._drawn is None or self._drawn[0] != key:
            self._drawn = (key, self.draw(palette, max(1, width), folded=folded))
        return self._drawn[1]

    def draw(self, palette: Palette, width: int, *, folded: bool) -> list[Strip]:
        """Its strips."""
        raise NotImplementedError

    def changed(self) -> None:
        """Draw it again the next time."""
        self._drawn = None


class UserBlock(Block):
    """What the person said."""

    mark = ("▌", "mark")
    ground = "user"

    def __init__(self, content: str, seq: int | None = None, files: int = 0) -> None:
        super().__init__(seq)
        self.content = strip_controls(content).strip("\n")
        self._files = files
        self.folds = self.content.count("\n") > SHORT

    @property
    def text(self) -> str:
        """The message."""
        return self.content

    def is_folded(self, *, verbose: bool) -> bool:
        """A long one is, until it is unfolded."""
        del verbose  # that is about tools
        return self.folded is not False

    def draw(self, palette: Palette, width: int, *, folded: bool) -> list[Strip]:
        """The text as it is, not as Markdown: the person knows what they wrote."""
        lines = self.content.split("\n")
        shown = lines[: SHORT - 5] if folded else lines
        style, dim = palette["user"], palette.over("user", "dim")
        drawn = palette.write("\n".join(shown), width, style)
        if folded:
            drawn += palette.write(f"… {len(lines) - len(shown):,} more lines", width, dim)
        if self._files:
            drawn += palette.write(f"+ {counted(self._files, 'file')}", width, dim)
        return drawn


class AnswerBlock(Block):
    """What the model says."""

    def __init__(self, markdown: MarkdownText, seq: int | None = None) -> None:
        super().__init__(seq)
        self.markdown = markdown

    @property
    def text(self) -> str:
        """The Markdown."""
        return self.markdown.text

    @property
    def searched(self) -> str:
        """The Markdown, with and without its marks."""
        return f"{self.markdown.text}\n{_EMPHASIS.sub('', self.markdown.text)}"

    def draw(self, palette: Palette, width: int, *, folded: bool) -> list[Strip]:
        """The Markdown, drawn."""
        del folded
        return self.markdown.draw(palette, width)


class ThinkingBlock(Block):
    """What the model thinks; folded until the person unfolds it."""

    folds = True

    def __init__(
        self, markdown: MarkdownText, seq: int | None = None, *, running: bool = False
    ) -> None:
        super().__init__(seq)
        self.markdown = markdown
        self.running = running

    @property
    def text(self) -> str:
        """The thoughts."""
        return self.markdown.text

    def draw(self, palette: Palette, width: int, *, folded: bool) -> list[Strip]:
        """One line, or all of it."""
        head = "◌ thinking …" if self.running else "▸ thought for a moment"
        dim = palette["dim"]
        if folded:
            return [palette.strip([Segment(cut(head, width), dim)], width)]
        lines = palette.write(head.replace("▸", "▾"), width, dim)
        for line in self.markdown.draw(palette, width - 2):
            said = [Segment(each.text, dim) for each in line]
            lines.append(palette.strip([Segment("  "), *said], width))
        return lines


class UnfinishedBlock(AnswerBlock):
    """What the model had said when its turn was stopped. It is not a message."""

    def __init__(self, text: str, end: str) -> None:
        super().__init__(MarkdownText(text))
        self._end = end

    def draw(self, palette: Palette, width: int, *, folded: bool) -> list[Strip]:
        """The Markdown without its colours, and how it ended."""
        del folded
        dim = palette["dim"]
        drawn = [
            palette.strip([Segment(each.text, dim) for each in line], width)
            for line in self.markdown.draw(palette, width)
        ]
        return [*drawn, *palette.write(f"({self._end})", width, dim)]


class NoteBlock(Block):
    """A line beside the conversation."""

    is_compact = True

    def __init__(self, content: str, style: str | None = "dim") -> None:
        super().__init__()
        self.content = strip_controls(content).strip("\n")
        self._style = style

    @property
    def text(self) -> str:
        """The note."""
        return self.content

    def draw(self, palette: Palette, width: int, *, folded: bool) -> list[Strip]:
        """The note in its style."""
        del folded
        style = self._style if self._style in ("dim", "warning", "error") else None
        return palette.write(self.content, width, palette[style])


class ReplyBlock(NoteBlock):
    """The answer of a command, as it was formatted."""

    is_compact = False

    def __init__(self, content: str) -> None:
        super().__init__(content, None)

    def draw(self, palette: Palette, width: int, *, folded: bool) -> list[Strip]:
        """Its lines; the rest of a broken line is indented, so that columns stay visible."""
        del folded
        drawn: list[Strip] = []
        for line in self.content.split("\n"):
            indent = min(len(line) - len(line.lstrip()) + 2, width // 2)
            first, *more = palette.write(line, width)
            if more:
                first, *more = palette.write(line, width - indent)
            edge = Segment(" " * indent)
            drawn += [first, *(palette.strip([edge, *each], width) for each in more)]
        return drawn


class GapBlock(Block):
    """Says how many messages are above."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def draw(self, palette: Palette, width: int, *, folded: bool) -> list[Strip]:
        """How many messages there are."""
        del folded
        said = f"… {counted(self.count, 'earlier message')}"
        return palette.write(cut(said, width), width, palette["dim"])
