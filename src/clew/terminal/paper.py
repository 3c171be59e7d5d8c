"""Plain output: text that streams down a screen or into a file, and can be read without colours.

Nothing that a model or a tool said reaches the screen with its escape sequences in it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Final, TextIO

from clew.core.text import columns, cut, strip_controls
from clew.terminal.wrapping import Wrapper

WIDTH: Final = 80

Paint = Callable[[str, str], str]
"""Text in a style, if there are colours."""

_UNFINISHED: Final = re.compile(
    r"""
    (?: (?: \x1b\[ | \x9b ) [0-?]* [\ -/]*                        # CSI
      | \x1b[\]PX^_] [^\x07\x1b\x9c\r\n]{0,4096} \x1b?            # OSC, DCS, SOS, PM, APC
      | [\x90\x98\x9d-\x9f] [^\x07\x1b\x90-\x9f\r\n]{0,4096} \x1b?
      | \x1b [\ -/]*
      | \r
      # what a joiner may follow, so that an emoji of several parts stays one
      | (?: [^\0-\x9f] [\u200c\u200d] )* [^\0-\x9f] [\u200c\u200d]?
    ) \Z
    """,
    re.VERBOSE,
)


class Cleaner:
    """Takes the escape sequences out of a stream, also those that come in two pieces."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """What can be shown by now."""
        text = self._held + text
        unfinished = _UNFINISHED.search(text)
        cut = unfinished.start() if unfinished else len(text)
        self._held = text[cut:]
        return strip_controls(text[:cut])

    def end(self) -> str:
        """What was held back."""
        held, self._held = self._held, ""
        return strip_controls(held)


class Cursor:
    """Where a screen's cursor stands; two streams to the same screen share it."""

    def __init__(self) -> None:
        self.at_start = True
        self.passing = 0


class Paper:
    """A stream that knows whether its cursor stands at the beginning of a line.

    `beside` is another one, whose screen may be the same.
    """

    def __init__(
        self, paint: Paint, stream: TextIO | None = None, *, beside: Paper | None = None
    ) -> None:
        self.paint = paint
        self._stream = stream or sys.stdout
        self.is_terminal = self._stream.isatty()
        shared = beside is not None and beside.is_terminal and self.is_terminal
        self._cursor: Cursor = beside._cursor if beside is not None and shared else Cursor()
        self._wrapper = Wrapper()

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or WIDTH
        except (OSError, ValueError):
            return WIDTH

    def write(self, text: str) -> None:
        """Text as it is, at once."""
        if not text:
            return
        self._wipe()
        self._stream.write(text)
        self._stream.flush()
        self._cursor.at_start = text.endswith("\n")

    def flow(self, text: str) -> None:
        """Text that streams; on a terminal it is broken between words."""
        self.write(self._wrapper.feed(text, self.width) if self.is_terminal else text)

    def end_flow(self) -> None:
        """The text is over: show what was held back, and go to a new line."""
        self.write(self._wrapper.end(self.width))
        self.fresh()

    def break_flow(self) -> None:
        """The text is broken off, by a ^C on the screen: what was held back is not wanted."""
        self._wrapper = Wrapper()
        self.write("\n" if self.is_terminal else "")
        self.fresh()

    def line(self, text: str = "", style: str | None = None) -> None:
        """A whole line, on a line of its own, without anything that drives a terminal."""
        self.fresh()
        text = strip_controls(text)
        if self.is_terminal:
            wrapper, width = Wrapper(), self.width
            text = wrapper.feed(text, width) + wrapper.end(width)
        self.write((self.paint(text, style) if style else text) + "\n")

    def fresh(self) -> None:
        """Go to the beginning of a line."""
        if not self._cursor.at_start:
            self.write("\n")

    def moved(self) -> None:
        """Somebody else has gone to the next line: the terminal, when Enter was pressed."""
        self._cursor.at_start = True
        self._cursor.passing = 0
        self._wrapper.moved()

    def passing(self, text: str) -> None:
        """A line that the next one overwrites; where nothing can be overwritten, not at all."""
        if self.is_terminal:
            self.fresh()
            self._wipe()
            text = cut(strip_controls(text, keep_newlines=False), self.width - 1)
            self._stream.write(text)
            self._stream.flush()
            self._cursor.passing = columns(text)

    def _wipe(self) -> None:
        if self._cursor.passing:
            self._stream.write("\r" + " " * self._cursor.passing + "\r")
            self._cursor.passing = 0
