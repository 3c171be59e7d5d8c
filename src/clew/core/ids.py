"""Session ids: UUIDs of which people type the shortest unique beginning, or the end.

This module decides what a typed id may look like; the store looks it up.
"""

from __future__ import annotations

import re
import uuid
from itertools import pairwise
from typing import Literal

Purpose = Literal["resume", "read", "change"]
"""What a session is looked for: it says how far to guess (`core.resume.PURPOSES`)."""

SHORTEST = 8
"""Ids are never shown shorter than this."""

SHORTEST_ENDING = 4
"""Fewer digits than this are not taken for an ending: in most stores they would fit many ids."""

_HEX = re.compile(r"[0-9a-f]{1,32}\Z")
_CUTS = (8, 12, 16, 20)


def new_id() -> str:
    """A fresh random id (UUIDv4: random from its first character, so short prefixes are unique)."""
    return str(uuid.uuid4())


def is_id(text: str) -> bool:
    """Whether this is a whole id in its one stored spelling."""
    return len(text) == 36 and id_prefix(text) == text


def id_prefix(typed: str) -> str | None:
    """The stored spelling of a typed beginning of an id, or None if it can't be one.

    Case and hyphens don't matter: `550E8400e29b` is `550e8400-e29b`.
    """
    digits = typed.strip().lower().replace("-", "")
    if not _HEX.match(digits):
        return None
    edges = [0, *(cut for cut in _CUTS if cut < len(digits)), len(digits)]
    return "-".join(digits[a:b] for a, b in pairwise(edges))


def id_ending(typed: str) -> str | None:
    """The stored spelling of a typed end of an id, or None if it can't be one.

    Case and hyphens don't matter, as in `id_prefix`: `E29B446655440000` is `e29b-446655440000`.
    """
    digits = typed.strip().lower().replace("-", "")
    if len(digits) < SHORTEST_ENDING or not _HEX.match(digits):
        return None
    # The positions of hyphens in a whole id are fixed, counted from its end.
    whole = id_prefix(digits.rjust(32, "0")) or ""
    missing = 32 - len(digits)
    return whole[missing + sum(cut <= missing for cut in _CUTS) :]


def shortest_prefix(session_id: str, *neighbours: str | None, at_least: int = SHORTEST) -> str:
    """The shortest beginning that tells an id from its neighbours in sorted order."""
    length = at_least
    for neighbour in neighbours:
        if neighbour is not None:
            length = max(length, _common(session_id, neighbour) + 1)
    return session_id[:length].rstrip("-")


def _common(one: str, other: str) -> int:
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))
