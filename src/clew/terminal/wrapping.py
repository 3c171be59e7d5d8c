"""Text broken between words, as it streams. Code and tables stay as they are.

It knows columns and lines; what is written where is the paper's business.
"""

from __future__ import annotations

import re
from typing import Final

from clew.core.text import columns

HELD: Final = 30
"""Columns of a word that is waited for; a longer one, or a language without spaces, is not."""

DEEPEST: Final = 20
"""Columns of indentation that the lines of a broken line keep."""

_PIECES: Final = re.compile(r"\n|[ \t]+|[^ \t\n]+")
_FENCES: Final = ("```", "~~~")


class Wrapper:
    """One stream of text. The word that is being said is held until it is whole."""

    def __init__(self) -> None:
        self._fenced = False
        self.restart()

    def restart(self) -> None:
        """The cursor is at the beginning of a line."""
        self._column = 0
        self._indent = ""
        self._space = ""
        self._word = ""
        self._verbatim = self._fenced
        self._overlong = False

    def moved(self) -> None:
        """Somebody else has ended the line, in the middle of what was being said."""
        self._column = 0
        self._space = ""

    def feed(self, text: str, width: int) -> str:
        """What can be shown by now, in lines of that many columns."""
        shown = []
        for piece in _PIECES.findall(text):
            if piece == "\n":
                shown += [self._flush(width), "\n"]
                self.restart()
            elif piece[0] in " \t":
                shown.append(self._flush(width))
                self._space += piece
                self._overlong = False
            else:
                self._word += piece
                if self._is_due():
                    shown.append(self._flush(width))
                    self._overlong = True
        return "".join(shown)

    def _is_due(self) -> bool:
        """Whether what is there of a word need not wait for its rest."""
        if self._verbatim and self._column == 0:
            return not any(fence.startswith(self._word) for fence in _FENCES)
        return self._verbatim or self._overlong or columns(self._word) > HELD

    def end(self, width: int) -> str:
        """What was held back; the text is over."""
        shown = self._flush(width)
        self._fenced = False
        self.restart()
        return shown

    def _flush(self, width: int) -> str:
        word, space = self._word, self._space
        if not word:
            return ""
        self._word = self._space = ""
        if self._column == 0:
            self._begin(word, space)
        needed = columns(space.expandtabs()) + columns(word)
        whole = self._verbatim or self._overlong or columns(word) > width
        if self._column and not whole and self._column + needed > width:
            self._column = len(self._indent) + columns(word)
            return f"\n{self._indent}{word}"
        self._column += needed
        if self._column > width:  # the terminal has broken it
            self._column %= width
        return space + word

    def _begin(self, word: str, space: str) -> None:
        """The first word of a line says whether it is code."""
        indent = space.expandtabs()
        self._indent = indent[:DEEPEST]
        if word.startswith(_FENCES):
            self._fenced = not self._fenced
            self._verbatim = True
        elif word.startswith("|") or len(indent) >= 4:
            self._verbatim = True
