"""Changes a session's metadata without losing changes of other processes.

Turns, commands and links keep values there. A change is computed from what was read; if the
metadata changed in the meantime, the store refuses the write and the change is computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from clew.core.session import Session, SessionFacts
from clew.errors import Conflict
from clew.ports import Store

ATTEMPTS: Final = 100
"""More than ever needed: for each refused attempt another process has made its change."""

Change = Callable[[dict[str, Any]], dict[str, Any]]
"""Computes the new metadata from the old. May be called several times; the last result counts."""


async def note(store: Store, session_id: str, change: Change) -> Session:
    """Change the metadata of a session, in one step. A name whose value is None is removed."""
    for attempt in range(1, ATTEMPTS + 1):
        session = await store.get_session(session_id)
        news = {name: each for name, each in change(session.metadata).items() if each is not None}
        if news == session.metadata:
            return session
        facts = SessionFacts(metadata=news)
        try:
            return await store.describe_session(session_id, facts, noted=session.metadata)
        except Conflict:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")
