"""Blocks: what a conversation looks like, one thing after the other.

Each block holds what was said and draws it as strips for a width. It knows neither the screen nor
where it stands on it; what an event means for the blocks is in `story`. Tool calls are in `calls`.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from rich.segment import Segment
from textual.strip import Strip

from clew.core.text import cut, strip_controls
from clew.terminal.screen.markdown import Prose
from clew.terminal.screen.styles import Ink

SHORT: Final = 15
"""Lines of the person's message that are shown of a longer one."""

_EMPHASIS: Final = re.compile(r"\*+|`+|__|~~")


class Block:
    """One thing in the transcript."""

    mark: ClassVar[tuple[str, str | None]] = (" ", None)
    """What is drawn in the margin, and its style."""
    ground: ClassVar[str | None] = None
    """The style behind the whole block."""
    is_compact: ClassVar[bool] = False
    """Stands close to its like."""
    folds: bool = False
    """Whether there is something that can be folded away."""

    def __init__(self, seq: int | None = None) -> None:
        self.seq = seq
        """The message's number, None if it is none."""
        self.folded: bool | None = None
        """What the person wants, None if they have not said."""
        self._drawn: tuple[object, list[Strip]] | None = None

    @property
    def seqs(self) -> tuple[int, ...]:
        """The messages that it shows something of."""
        return () if self.seq is None else (self.seq,)

    @property
    def text(self) -> str:
        """What is copied."""
        return ""

    @property
    def searched(self) -> str:
        """What is searched."""
        return self.text

    def is_folded(self, *, verbose: bool) -> bool:
        """Whether only its head is shown."""
        return not verbose if self.folded is None else self.folded

    def lines(self, ink: Ink, width: int, *, verbose: bool) -> list[Strip]:
        """Its strips, drawn at most once."""
        folded = self.folds and self.is_folded(verbose=verbose)
        key = (ink, width, folded, self.folded)
        if self._drawn is None or self._drawn[0] != key:
            self._drawn = (key, self.draw(ink, max(1, width), folded=folded))
        return self._drawn[1]

    def draw(self, ink: Ink, width: int, *, folded: bool) -> list[Strip]:
        """Its strips."""
        raise NotImplementedError

    def changed(self) -> None:
        """It must be drawn again."""
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

    def draw(self, ink: Ink, width: int, *, folded: bool) -> list[Strip]:
        """The text as it is, not as Markdown: the person knows what they wrote."""
        lines = self.content.split("\n")
        shown = lines[: SHORT - 5] if folded else lines
        style, dim = ink["user"], ink.over("user", "dim")
        drawn = ink.write("\n".join(shown), width, style)
        if folded:
            drawn += ink.write(f"… {len(lines) - len(shown):,} more lines", width, dim)
        if self._files:
            what = "1 file" if self._files == 1 else f"{self._files} files"
            drawn += ink.write(f"+ {what}", width, dim)
        return drawn


class AnswerBlock(Block):
    """What the model says."""

    def __init__(self, prose: Prose, seq: int | None = None) -> None:
        super().__init__(seq)
        self.prose = prose

    @property
    def text(self) -> str:
        """The Markdown."""
        return self.prose.text

    @property
    def searched(self) -> str:
        """The Markdown, and the words as they are read."""
        return f"{self.prose.text}\n{_EMPHASIS.sub('', self.prose.text)}"

    def draw(self, ink: Ink, width: int, *, folded: bool) -> list[Strip]:
        """The Markdown, set."""
        del folded
        return self.prose.draw(ink, width)


class ThinkingBlock(Block):
    """What the model thinks; folded away unless somebody wants to see it."""

    folds = True

    def __init__(self, prose: Prose, seq: int | None = None, *, running: bool = False) -> None:
        super().__init__(seq)
        self.prose = prose
        self.running = running

    @property
    def text(self) -> str:
        """The thoughts."""
        return self.prose.text

    def draw(self, ink: Ink, width: int, *, folded: bool) -> list[Strip]:
        """One line, or all of it."""
        head = "◌ thinking …" if self.running else "▸ thought for a moment"
        dim = ink["dim"]
        if folded:
            return [ink.strip([Segment(cut(head, width), dim)], width)]
        lines = ink.write(head.replace("▸", "▾"), width, dim)
        for line in self.prose.draw(ink, width - 2):
            said = [Segment(each.text, dim) for each in line]
            lines.append(ink.strip([Segment("  "), *said], width))
        return lines


class BrokenBlock(AnswerBlock):
    """What the model had said when its turn was stopped. It is no message."""

    def __init__(self, text: str, end: str) -> None:
        super().__init__(Prose(text))
        self._end = end

    def draw(self, ink: Ink, width: int, *, folded: bool) -> list[Strip]:
        """The Markdown without its colours, and how it ended."""
        del folded
        dim = ink["dim"]
        drawn = [
            ink.strip([Segment(each.text, dim) for each in line], width)
            for line in self.prose.draw(ink, width)
        ]
        return [*drawn, *ink.write(f"({self._end})", width, dim)]


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

    def draw(self, ink: Ink, width: int, *, folded: bool) -> list[Strip]:
        """The note in its style."""
        del folded
        style = self._style if self._style in ("dim", "warning", "error") else None
        return ink.write(self.content, width, ink[style])


class ReplyBlock(NoteBlock):
    """What a command answers: text that is laid out already."""

    is_compact = False

    def __init__(self, content: str) -> None:
        super().__init__(content, None)

    def draw(self, ink: Ink, width: int, *, folded: bool) -> list[Strip]:
        """Its lines; what goes on in a second one is set in, so that columns are seen."""
        del folded
        drawn: list[Strip] = []
        for line in self.content.split("\n"):
            indent = min(len(line) - len(line.lstrip()) + 2, width // 2)
            first, *more = ink.write(line, width)
            if more:
                first, *more = ink.write(line, width - indent)
            edge = Segment(" " * indent)
            drawn += [first, *(ink.strip([edge, *each], width) for each in more)]
        return drawn


class GapBlock(Block):
    """Stands for what is earlier."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def draw(self, ink: Ink, width: int, *, folded: bool) -> list[Strip]:
        """How many messages there are."""
        del folded
        word = "message" if self.count == 1 else "messages"
        return ink.write(cut(f"… {self.count:,} earlier {word}", width), width, ink["dim"])
