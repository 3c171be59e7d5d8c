"""What a search asks and what it finds. The language of the query itself is `core.query`."""

from __future__ import annotations

import msgspec

from clew.core.message import Role
from clew.core.snippets import Snippet


class SearchFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look. A search always has a viewer. Times are milliseconds UTC, both inclusive.

    `session` means its whole thread, inherited messages too.
    """

    viewer: str
    session: str | None = None
    platform: str | None = None
    agent: str | None = None
    cwd: str | None = None
    project: str | None = None
    role: Role | None = None
    since: int | None = None
    until: int | None = None


class SearchHit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that matches. `score` is higher for better.

    `session_id` is the session to open for it: where it was said, or, if that one is deleted, a
    living fork that still has it.
    """

    session_id: str
    seq: int
    role: Role
    at: int
    snippet: Snippet
    score: float
    title: str | None
    preview: str | None
    platform: str
    cwd: str | None
    archived: bool = False


class SearchPage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Hits, best first. `cut` tells that there were more matches than were looked at."""

    hits: tuple[SearchHit, ...]
    cursor: str | None = None
    cut: bool = False
