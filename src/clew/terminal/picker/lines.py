"""The lines of the picker as styled text: a session, the heading, the keys, an empty list.

Pure: text and names of styles. Columns are cells of the terminal; the line of a session always
fills its width, whatever script a title has.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from clew.api.sessions import StateView
from clew.core.names import counted, format_count
from clew.core.search.hits import Snippet
from clew.core.text import columns, cut, fold, pad
from clew.terminal.picker.lists import Scope
from clew.terminal.picker.rows import Row

Piece = tuple[str, str]
"""Text, and the name of its style; empty for the ordinary one."""

PIN: Final = "★"
AGE: Final = 10
COUNT: Final = 6
PLATFORM: Final = 8
SNIPPET: Final = 24
"""Columns that must be left beside a title to show what was said."""
BADGES: Final = {
    "waiting": "? waiting for you",
    "running": "● running",
    "interrupted": "! interrupted",
    "elsewhere": "◦ open elsewhere",
    "current": "← you are here",
    "archived": "archived",
}

_KEYS: Final = (
    ("Enter", "resume"),
    ("^F", "fork"),
    ("^R", "rename"),
    ("^T", "pin"),
    ("Del", "trash"),
    ("Tab", "all"),
    ("Esc", "back"),
    ("^P", "platform"),
)


class RowDetails(NamedTuple):
    """What a line shows in addition to its row."""

    age: str
    badge: str = ""
    words: tuple[str, ...] = ()
    said: Snippet | None = None


def find_badge(row: Row, state: StateView | None, *, current: str | None) -> str:
    """The most important thing about a session: a key of `BADGES`, or empty.

    `current` is the session that the person is in.
    """
    if state is not None:
        if state.waiting:
            return "waiting"
        if state.running:
            return "running"
    if row.id == current:
        return "current"
    if state is not None:
        if state.interrupted:
            return "interrupted"
        if state.elsewhere:
            return "elsewhere"
    return "archived" if row.archived else ""


def draw_row(row: Row, look: RowDetails, width: int) -> list[Piece]:
    """The line of a session: pin, title and state, age, directory, platform, messages.

    On a narrow screen the last ones are left out.
    """
    cells: list[str] = []
    if width >= 28:
        cells.append(pad(cut(look.age, AGE), AGE))
    if directory := _directory_width(width):
        cells.append(pad(cut_front(row.directory, directory), directory))
    if width >= 60:
        cells.append(pad(cut(row.platform, PLATFORM), PLATFORM))
    if width >= 72:
        cells.append(pad(cut(format_count(row.message_count), COUNT), COUNT, "right"))
    facts = "".join(f" {cell}" for cell in cells)
    title = _draw_title(row, look, width - 2 - columns(facts))
    return [(f"{PIN} " if row.pinned else "  ", "pin"), *title, (facts, "dim")]


def _directory_width(width: int) -> int:
    if width < 48:
        return 0
    return max(12, min(32, (width - 40) // 3))


def _draw_title(row: Row, look: RowDetails, width: int) -> list[Piece]:
    """The title, the badge, and what was said if there is room."""
    badge = BADGES.get(look.badge, "")
    if badge:
        # On a narrow screen the title keeps two thirds.
        title_width = min(columns(row.title), width * 2 // 3)
        badge = cut(badge, max(2, width - title_width - 2))
    title = cut(row.title, width - columns(badge) - 2 if badge else width)
    pieces = mark_words(title, look.words)
    if badge:
        pieces += [("  ", ""), (badge, look.badge)]
    left = width - sum(columns(text) for text, _ in pieces)
    if look.said is not None and left >= SNIPPET:
        pieces += [("  ", ""), *_draw_said(look.said, left - 2)]
        left = width - sum(columns(text) for text, _ in pieces)
    pieces.append((" " * max(0, left), ""))
    return pieces


def _draw_said(said: Snippet, width: int) -> list[Piece]:
    """What was said, in so few columns that it is little more than the match."""
    first = max(0, min(said.start - width // 3, len(said.text) - width))
    front = "…" if first else ""
    before = front + said.text[first + len(front) : said.start]
    room = width - columns(before)
    match = cut(said.text[said.start : said.end], max(1, room))
    behind = cut(said.text[said.end :], max(0, room - columns(match)))
    return [(before, "dim"), (match, "match"), (behind, "dim")]


def mark_words(text: str, words: tuple[str, ...], style: str = "") -> list[Piece]:
    """The text in pieces, with the first place of each word marked as `match`."""
    folded = fold(text)
    if not words or len(folded) != len(text):  # folding has moved letters: nothing is marked
        return [(text, style)]
    spans = sorted(
        (at, at + len(word)) for word in set(words) if word and (at := folded.find(word)) >= 0
    )
    pieces: list[Piece] = []
    done = 0
    for start, end in spans:
        if end <= done:
            continue
        pieces += [(text[done:start], style), (text[max(start, done) : end], "match")]
        done = end
    pieces.append((text[done:], style))
    return [piece for piece in pieces if piece[0]]


def cut_front(path: str, width: int) -> str:
    """A path in at most `width` columns: its end says more than its beginning."""
    if columns(path) <= width:
        return path
    kept = path
    while kept and columns(kept) > width - 1:
        kept = kept[max(1, (len(kept) - width) // 2) :]
    # Whole names, if one of them is left.
    slash = kept.find("/")
    if 0 <= slash < len(kept) - 1:
        kept = kept[slash:]
    return f"…{kept}"


def draw_keys(width: int, scope: Scope, *, limited: bool) -> list[Piece]:
    """The keys, as many as there is room for."""
    pieces: list[Piece] = []
    used = 0
    for key, word in _KEYS:
        if key == "Tab" and limited:
            continue
        named = key.replace("^", "Ctrl+") if width >= 110 else key
        said = "here" if key == "Tab" and scope.everywhere else word
        needed = len(named) + 1 + len(said)
        if used + needed > width:
            break
        pieces += [(named, "current"), (f" {said}  ", "dim")]
        used += needed + 2
    return pieces


def draw_heading(
    width: int, scope: Scope, directory: str, count: str, *, limited: bool
) -> list[Piece]:
    """Which list it is, and how much there is in it."""
    if limited:
        left = "The sessions that match"
    elif scope.everywhere:
        left = "Sessions of all directories"
    else:
        left = "Sessions of this directory"
    more = f" · {scope.platform} only" if scope.platform is not None else ""
    room = width - columns(left) - columns(more) - columns(count) - 4
    if not limited and not scope.everywhere and room > 8:
        more = f" {cut_front(directory, room)}{more}"
    gap = max(1, width - columns(left) - columns(more) - columns(count))
    return [(left, ""), (more, "dim"), (" " * gap, ""), (count, "dim")]


def describe_count(loaded: int, *, complete: bool) -> str:
    """How many sessions there are, as far as is known."""
    return counted(loaded, "session") if complete else f"{loaded:,}+ sessions"


def describe_found(names: int, hits: int | None, *, cut_short: bool = False) -> str:
    """How much was found; `hits` is None while the search runs."""
    said = "searching …" if hits is None else f"{hits:,}{'+' if cut_short else ''} in messages"
    return f"{counted(names, 'name')}, {said}"


def describe_empty(scope: Scope, query: str, *, limited: bool, searching: bool) -> str:
    """Why there is nothing to see, and which key helps."""
    if searching:
        return "Searching …"
    platform = f" {scope.platform}" if scope.platform is not None else ""
    if query:
        said = f'No{platform} session matches "{cut(query, 30)}".'
        if not scope.everywhere and not limited:
            return f"{said} Press Tab to search everywhere."
        return f"{said} Ctrl+P shows other platforms." if platform else said
    if not scope.everywhere and not limited:
        return f"No{platform} sessions in this directory. Press Tab to see all."
    if platform:
        return f"No{platform} sessions. Ctrl+P shows other platforms."
    return "No sessions yet. `clew` begins one."
