"""What the picker says: its heading, its keys, and why a list is empty."""

from __future__ import annotations

from typing import Final

from clew.core.names import counted
from clew.core.text import columns, cut
from clew.terminal.picker.drawing import Piece, cut_front
from clew.terminal.picker.library import Scope

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


def word_keys(width: int, scope: Scope, *, limited: bool) -> list[Piece]:
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


def word_heading(
    width: int, scope: Scope, directory: str, count: str, *, limited: bool
) -> list[Piece]:
    """Which list it is, and how much there is in it."""
    if limited:
        left = "The sessions that fit"
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


def word_count(loaded: int, *, complete: bool) -> str:
    """How many sessions there are, as far as is known."""
    return counted(loaded, "session") if complete else f"{loaded:,}+ sessions"


def word_found(names: int, hits: int | None, *, cut_short: bool = False) -> str:
    """What was found; None for hits: still looking."""
    said = "looking …" if hits is None else f"{hits:,}{'+' if cut_short else ''} in messages"
    return f"{counted(names, 'name')}, {said}"


def word_empty(scope: Scope, query: str, *, limited: bool, searching: bool) -> str:
    """Why there is nothing to see, and which key helps."""
    if searching:
        return "Looking …"
    platform = f" {scope.platform}" if scope.platform is not None else ""
    if query:
        said = f'No{platform} session fits "{cut(query, 30)}".'
        if not scope.everywhere and not limited:
            return f"{said} Press Tab to look everywhere."
        return f"{said} Ctrl+P shows other platforms." if platform else said
    if not scope.everywhere and not limited:
        return f"No{platform} sessions in this directory. Press Tab to see all."
    if platform:
        return f"No{platform} sessions. Ctrl+P shows other platforms."
    return "No sessions yet."
