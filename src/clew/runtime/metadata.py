"""The metadata of a session, changed in a way that loses no change of another process.

Turns, commands and links keep things in it. Each reads, decides and writes; the store refuses a
write that was decided on something that has changed meanwhile, and then it is decided again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from clew.core.session import Session, SessionFacts
from clew.errors import Conflict
from clew.ports import Store

ATTEMPTS: Final = 100
"""More than ever needed: each time that one is refused, another process has made its change."""

Change = Callable[[dict[str, Any]], dict[str, Any]]
"""From the metadata to the new metadata. It may be called again; the last result counts."""


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
