"""Prose: Markdown that is whole, or still comes. Draws each final piece once.

It holds one text and its strips; whose text it is, is the block's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.strip import Strip

from clew.core.text import strip_controls
from clew.terminal.paper import Cleaner
from clew.terminal.screen.ink import Ink

if TYPE_CHECKING:
    from clew.terminal.screen.markdown import Piece, Stream

LONGEST: Final = 200_000
"""Characters; a longer text is shown as it is, without its Markdown."""

STREAMED: Final = 80
"""Lines of a listing that are coloured again and again while it streams."""


class Prose:
    """A text in Markdown."""

    def __init__(self, text: str | None = None) -> None:
        self.text = "" if text is None else strip_controls(text)
        """What there is of it, clean."""
        self._cleaner = Cleaner()
        self._stream: Stream | None = _begin() if text is None else None
        self._pieces: list[Piece] | None = None
        self._drawn: dict[Piece, list[Strip]] = {}
        self._for: tuple[Ink, int] | None = None

    def feed(self, text: str) -> None:
        """More of a text that streams."""
        if self._stream is not None:
            shown = self._cleaner.feed(text)
            self.text += shown
            self._stream.feed(shown)

    def finish(self, text: str | None = None) -> None:
        """The text is whole: this one, or what has come."""
        if text is None and self._stream is None:
            return
        self.text = self.text + self._cleaner.end() if text is None else strip_controls(text)
        self._stream = self._pieces = None

    def draw(self, ink: Ink, width: int) -> list[Strip]:
        """Its lines."""
        if self._for != (ink, width):
            self._drawn = {}
            self._for = (ink, width)
        if len(self.text) > LONGEST:
            return ink.write(self.text, width)
        from clew.terminal.screen.markdown import (  # noqa: PLC0415  # a new chat has none
            chunk,
            close_marks,
            split,
        )

        if self._stream is not None:
            rest = self._stream.take_rest(patient=True)
            rest[-1:] = map(close_marks, rest[-1:])
            pieces = [part for piece in self._stream.final for part in chunk(piece)]
            pieces += [part for piece in rest for part in chunk(piece, STREAMED)]
            keep = len(pieces) - 1
        else:
            if self._pieces is None:
                self._pieces = [part for piece in split(self.text) for part in chunk(piece)]
            pieces, keep = self._pieces, len(self._pieces)
        return self._join(pieces, keep, ink, width)

    def _join(self, pieces: list[Piece], keep: int, ink: Ink, width: int) -> list[Strip]:
        from clew.terminal.screen.typeset import typeset  # noqa: PLC0415  # likewise

        lines: list[Strip] = []
        for index, piece in enumerate(pieces):
            drawn = self._drawn.get(piece)
            if drawn is None:
                drawn = typeset(piece, ink, width)
                if index < keep:
                    self._drawn[piece] = drawn
            if lines and drawn and not piece.joined:
                lines.append(ink.strip([], width))
            lines += drawn
        return lines


def _begin() -> Stream:
    from clew.terminal.screen.markdown import Stream  # noqa: PLC0415  # likewise

    return Stream()
