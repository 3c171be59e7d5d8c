"""A long reply in several messages: where to cut.

Pure, and lossless: the pieces put together are the text. Cuts are at paragraphs and around code
fences, else at lines, else at words, else anywhere. How long a message may be is the channel's
word.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final

from clew.errors import InvalidInput

SHARE: Final = 3
"""A cut is good enough if at least one part in so many of the message is filled."""

CLOSEST: Final = 32
"""How far to step back so that no letter is parted from its accents."""

_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_PARAGRAPH: Final = re.compile(r"\n[ \t\r]*\n\s*")
_LINE: Final = re.compile(r"\n")
_SPACE: Final = re.compile(r"\s+")
_JOINER: Final = "\u200d"


def split_text(text: str, limit: int, *, size: Callable[[str], int] = len) -> tuple[str, ...]:
    """The text in pieces of at most `limit`; none for an empty one.

    `size` is how the channel counts, never less than a character each. One character that is too
    big for any message is a piece of its own.
    """
    if limit < 1:
        raise InvalidInput("A message has room for at least one character.")
    if size(text) <= limit:
        return (text,) if text else ()
    fences = tuple(_list_fences(text))
    borders = _list_borders(text, fences)
    pieces = []
    start = 0
    while start < len(text):
        end = _reach(text, start, limit, size)
        if end < len(text):
            end = _choose_cut(text, start, end, fences, borders, _Fits(text, limit, size))
        pieces.append(text[start:end])
        start = end
    return tuple(pieces)


def utf16_size(text: str) -> int:
    """How long a text is for those who count in UTF-16 (Telegram)."""
    return len(text) + sum(each > "\uffff" for each in text)


class _Fits:
    """Whether a part of the text has room in one message."""

    def __init__(self, text: str, limit: int, size: Callable[[str], int]) -> None:
        self._text, self._limit, self._size = text, limit, size

    def __call__(self, start: int, end: int) -> bool:
        return end - start <= self._limit and self._size(self._text[start:end]) <= self._limit


def _reach(text: str, start: int, limit: int, size: Callable[[str], int]) -> int:
    """The farthest place that one message can go to."""
    low, high = start + 1, min(len(text), start + limit)
    while low < high:
        middle = (low + high + 1) // 2
        if size(text[start:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def _choose_cut(  # noqa: PLR0917  # the text and what is known of it
    text: str,
    start: int,
    end: int,
    fences: tuple[tuple[int, int], ...],
    borders: tuple[int, ...],
    fits: _Fits,
) -> int:
    inside = next((each for each in fences if each[0] < end < each[1]), None)
    if inside is not None and inside[0] > start and fits(*inside):
        return inside[0]  # it stays whole in the next message
    enough = start + (end - start) // SHARE
    index = bisect_right(borders, end) - 1
    if index >= 0 and borders[index] > max(start, enough):
        return borders[index]
    for kind in (_LINE, _SPACE):
        cut = _find_last(kind, text, start, end)
        if cut > enough:
            return cut
    return _step_back(text, start, end)


def _find_last(kind: re.Pattern[str], text: str, start: int, end: int) -> int:
    """Behind the last of its kind; the beginning if there is none."""
    found = start
    for match in kind.finditer(text, start, end):
        found = match.end()
    return found


def _step_back(text: str, start: int, end: int) -> int:
    """A place between two letters, if there is one near."""
    for cut in range(end, max(start, end - CLOSEST), -1):
        if not _belongs_together(text[cut - 1], text[cut]):
            return cut
    return end


def _belongs_together(before: str, after: str) -> bool:
    if (before, after) == ("\r", "\n") or _JOINER in (before, after):
        return True
    return unicodedata.category(after) in ("Mn", "Mc", "Me")


def _list_fences(text: str) -> Iterator[tuple[int, int]]:
    """Where code is, with its fences; one that is never closed goes to the end."""
    opened: tuple[int, str] | None = None
    position = 0
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line.rstrip("\r\n"))
        if match is not None and opened is None and not (match[1][0] == "`" and "`" in match[2]):
            opened = (position, match[1])
        elif match is not None and opened is not None and _closes(match, opened[1]):
            yield opened[0], position + len(line)
            opened = None
        position += len(line)
    if opened is not None:
        yield opened[0], len(text)


def _closes(match: re.Match[str], mark: str) -> bool:
    return match[1][0] == mark[0] and len(match[1]) >= len(mark) and not match[2].strip()


def _list_borders(text: str, fences: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """Behind paragraphs that are no code, and around code; sorted."""
    paragraphs = (match.end() for match in _PARAGRAPH.finditer(text))
    starts = [start for start, _ in fences]

    def is_outside(place: int) -> bool:
        index = bisect_right(starts, place - 1) - 1
        return index < 0 or place >= fences[index][1]

    around = (place for fence in fences for place in fence)
    return tuple(sorted({each for each in (*paragraphs, *around) if is_outside(each)}))
