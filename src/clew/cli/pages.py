"""Whole lists out of pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clew.core.session import SessionPage

if TYPE_CHECKING:
    from clew.core.session import Session, SessionFilter
    from clew.ports import Store

PAGE: Final = 500


async def list_up_to(
    store: Store, where: SessionFilter, limit: int | None, cursor: str | None = None
) -> SessionPage:
    """The first `limit` sessions (all if None), in as many pages as it takes."""
    found: list[Session] = []
    while True:
        missing = PAGE if limit is None else min(PAGE, limit - len(found))
        page = await store.list_sessions(where, limit=missing, cursor=cursor)
        found += page.sessions
        cursor = page.cursor
        if cursor is None or len(found) == limit:
            return SessionPage(tuple(found), cursor)
