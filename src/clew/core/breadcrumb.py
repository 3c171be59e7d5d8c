"""What a terminal remembers between two starts. Where it is kept is `terminal.breadcrumbs`."""

from __future__ import annotations

import msgspec


class Breadcrumb(msgspec.Struct, frozen=True):
    """The last session of a terminal, and the directory it was opened in.

    `fresh` says that `/new` was the last act: no session has begun since. `at` is when this was
    written, in milliseconds UTC.
    """

    cwd: str
    session_id: str | None
    fresh: bool = False
    at: int = 0
