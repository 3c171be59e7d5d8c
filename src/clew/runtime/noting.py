"""What is noted with a session beside its settings, changed so that nobody's change is lost.

Several processes note things about one session: a turn, a command, a link. Each reads, decides and
writes; the store refuses who decided on something that has changed meanwhile, and they do it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from clew.core.session import Session, SessionFacts
from clew.errors import Conflict
from clew.ports import Store

ATTEMPTS: Final = 100
"""Far more often than anybody is overtaken: each time, somebody else has got something done."""

Change = Callable[[dict[str, Any]], dict[str, Any]]
"""From what is noted to what shall be. It may be asked more than once; the last answer counts."""


async def note(store: Store, session_id: str, change: Change) -> Session:
    """Change what is noted with a session, in one step. A name whose value is None is taken out."""
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
