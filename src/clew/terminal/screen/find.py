"""Finding words in the transcript: the line in which they are typed, and the matches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input, Static

from clew.core.text import fold
from clew.terminal.screen.blocks import Block

PAUSE: Final = 100
"""Blocks that are searched before keys are handled again."""


class FindBar(Horizontal):
    """Enter and Up go to the hit before, Down to the next one, Esc back to the editor."""

    DEFAULT_CSS = """
    FindBar { height: 1; display: none; background: $panel; padding: 0 1; }
    FindBar.-open { display: block; }
    FindBar > .label { width: auto; color: $text-muted; }
    FindBar > Input { width: 1fr; border: none; height: 1; background: $panel; padding: 0; }
    FindBar > Input:focus { border: none; }
    FindBar > .found { width: auto; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close"),
        Binding("down", "go(1)", "Next"),
        Binding("up,ctrl+f", "go(-1)", "Previous"),
    ]

    @dataclass
    class Find(Message):
        """Search for this, from the end."""

        text: str

    @dataclass
    class Go(Message):
        """Go to the next hit, or to the previous one."""

        by: int

    class Closed(Message):
        """The search has ended."""

    def __init__(self) -> None:
        super().__init__(id="find")
        self._sought = ""

    def compose(self) -> ComposeResult:
        """A label, the text, and what was found."""
        yield Static("Find: ", classes="label")
        yield Input(compact=True, select_on_focus=True, id="sought")
        yield Static("", classes="found", markup=False)

    @property
    def is_open(self) -> bool:
        """Whether words are being looked for."""
        return self.has_class("-open")

    def open(self) -> None:
        """Open the bar."""
        self._sought = ""
        self.add_class("-open")
        self.tell("Enter finds, Esc ends")
        self.screen.set_focus(self.query_one(Input))  # at once: the next key is already for it

    def tell(self, found: str) -> None:
        """Show how much was found."""
        self.query_one(".found", Static).update(found)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search for it; the second time, go to the previous hit."""
        event.stop()
        text = event.value.strip()
        if not text:
            return
        if text == self._sought:
            self.post_message(self.Go(-1))
        else:
            self._sought = text
            self.post_message(self.Find(text))

    def action_go(self, by: int) -> None:
        """To another hit."""
        if self._sought:
            self.post_message(self.Go(by))

    def action_close(self) -> None:
        """Back to the editor."""
        self.remove_class("-open")
        self.post_message(self.Closed())


class Search:
    """The searched words, the blocks that contain them (oldest first), and the current hit."""

    def __init__(self, words: str) -> None:
        self.needle = fold(words)
        self.hits: list[Block] = []
        self._at = -1

    async def look_through(self, blocks: Sequence[Block]) -> None:
        """Find the hits, with pauses in which keys are handled."""
        for index, block in enumerate(blocks):
            if self.needle in fold(block.searched):
                self.hits.append(block)
            if index % PAUSE == 0:
                await asyncio.sleep(0)

    @property
    def current(self) -> Block | None:
        """The current hit."""
        return self.hits[self._at] if 0 <= self._at < len(self.hits) else None

    @property
    def position(self) -> int:
        """The number of that hit, from 1; 0 before the first step."""
        return self._at + 1 if self.current is not None else 0

    def step(self, by: int) -> Block | None:
        """Go to another hit; after the last comes the first."""
        if not self.hits:
            return None
        start = 0 if self._at < 0 and by < 0 else self._at
        self._at = (start + by) % len(self.hits)
        return self.current


def find_spans(text: str, needle: str) -> Iterator[tuple[int, int]]:
    """Where the folded `needle` is in a line, as indices of characters."""
    if not needle:
        return
    folded, origins = _fold_line(text)
    start = folded.find(needle)
    while start >= 0:
        end = start + len(needle)
        yield origins[start], origins[end - 1] + 1
        start = folded.find(needle, end)


@lru_cache(maxsize=512)
def _fold_line(text: str) -> tuple[str, list[int]]:
    pieces: list[str] = []
    origins: list[int] = []
    for index, character in enumerate(text):
        piece = fold(character)
        pieces.append(piece)
        origins += [index] * len(piece)
    return "".join(pieces), origins


def paint(strip: Strip, spans: Iterable[tuple[int, int]], style: Style) -> Strip:
    """The line with some of its characters in another style."""
    wanted = [(start, end) for start, end in spans if start < end]
    if not wanted:
        return strip
    segments: list[Segment] = []
    at = 0
    for segment in strip:
        edges = {at, at + len(segment.text)}
        edges |= {edge for span in wanted for edge in span if at < edge < at + len(segment.text)}
        points = sorted(edges)
        for start, end in pairwise(points):
            inside = any(first <= start < last for first, last in wanted)
            own = segment.style or Style.null()
            text = segment.text[start - at : end - at]
            segments.append(Segment(text, own + style if inside else own))
        at += len(segment.text)
    return Strip(segments, strip.cell_length)
