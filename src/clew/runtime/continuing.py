"""Finding the session that `--continue` goes on with: this terminal's, this directory's, or any.

Only what was said in a terminal counts. Where a breadcrumb is kept is `terminal.breadcrumbs`'s
business; here it is a value that may be out of date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from clew.core.breadcrumb import Breadcrumb
from clew.core.keys import Place, home_of
from clew.core.names import recent_name
from clew.core.session import OWNER, Session, may_see
from clew.core.text import strip_controls
from clew.errors import SessionNotFound
from clew.ports import Store
from clew.runtime.projects import here_filter, walk_sessions

Why = Literal["breadcrumb", "directory", "anywhere", "fresh", "none"]


class Continued(msgspec.Struct, frozen=True):
    """The session that `--continue` goes on with (None: a new one), why, and a line to say."""

    session: Session | None
    why: Why
    note: str | None = None


async def find_continue(
    store: Store, place: Place, breadcrumb: Breadcrumb | None, viewer: str = OWNER
) -> Continued:
    """This terminal's last session, else this directory's newest, else the newest, else none."""
    if breadcrumb is not None and _is_here(breadcrumb.cwd, place):
        if breadcrumb.fresh:
            return Continued(None, "fresh", "/new was the last thing here: a new session begins.")
        session = await _find_crumb(store, breadcrumb, viewer)
        if session is not None:
            return Continued(session, "breadcrumb")
    session = await _find_newest(store, here_filter(place), viewer)
    if session is not None:
        return Continued(session, "directory")
    session = await _find_newest(store, {}, viewer)
    if session is None:
        return Continued(None, "none", "There is no session to continue: a new one begins.")
    name = recent_name(session.title, session.short_summary, session.preview, session.id)
    home = strip_controls(home_of(session, place.scope) or "no directory", keep_newlines=False)
    note = f'There is no session in this directory: continuing "{name}" from {home}.'
    return Continued(session, "anywhere", note)


def _is_here(directory: str, place: Place) -> bool:
    try:
        return str(Path(directory).resolve()) == place.cwd
    except (OSError, ValueError, RuntimeError):
        return False


async def _find_crumb(store: Store, breadcrumb: Breadcrumb, viewer: str) -> Session | None:
    if breadcrumb.session_id is None:
        return None
    try:
        session = await store.get_session(breadcrumb.session_id)
    except SessionNotFound:
        return None
    usable = session.platform == "cli" and session.deleted_at is None
    return session if usable and may_see(viewer, session.person) else None


async def _find_newest(store: Store, where: dict[str, Any], viewer: str) -> Session | None:
    """The newest CLI session with a message in it; lists have the pinned ones first."""
    newest: Session | None = None
    where = where | {"platform": "cli", "archived": None}
    async for session in walk_sessions(store, where, viewer=viewer, first=20):
        # What a sub-agent did in a session of its own is nobody's conversation.
        if session.message_count and session.kind != "subagent":
            if newest is None or session.updated_at > newest.updated_at:
                newest = session
            if not session.pinned:
                break
    return newest
