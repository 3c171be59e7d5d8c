"""Forks in SQLite: a new line that starts at a knot in an old one. No message is copied."""

from __future__ import annotations

import apsw

from clew.core.ids import new_id as make_id
from clew.core.session import MAX_TITLE, Session
from clew.errors import InvalidInput
from clew.store.sqlite.database import Database
from clew.store.sqlite.sessions import free_id, get, title_columns
from clew.store.sqlite.thread import hidden_messages, stretches

_FORK = """
INSERT INTO sessions (
  id, key, agent, person, platform, kind, title, title_key, title_by, cwd, project, model, provider,
  personality, thinking, service_tier, mode, parent_id, forked_at_seq, display_name, channel,
  subject, room, space, origin, last_route, short_summary, send_policy, message_count, preview,
  head, created_at, updated_at, metadata
)
SELECT :id, key || ':fork:' || :now, agent, person, platform, kind, :title, :title_key,
       iif(:title IS NULL, NULL, title_by), cwd, project, model, provider, personality, thinking,
       service_tier, mode, id, :at, display_name, channel, subject, room, space, origin, last_route,
       short_summary, send_policy, :message_count, iif(:has_preview, preview, NULL), :at, :now,
       :now, metadata
FROM sessions WHERE id = :parent
"""

_FORK_NOTES = """
INSERT INTO scratchpad (session_id, name, content, size, created_at)
  SELECT :id, name, content, size, created_at FROM scratchpad WHERE session_id = :parent;
INSERT INTO todos (session_id, position, text, status)
  SELECT :id, position, text, status FROM todos WHERE session_id = :parent;
INSERT INTO undone (session_id, turn_id, undone_at)
  SELECT :id, turn_id, undone_at FROM undone WHERE session_id = :parent;
INSERT INTO compactions (id, session_id, keep_from, made_at_seq, summary, short_summary,
                         tokens_before, tokens_after, created_at)
  SELECT :compaction, :id, keep_from, made_at_seq, summary, short_summary, tokens_before,
         tokens_after, created_at
  FROM compactions WHERE session_id = :parent AND made_at_seq <= :at AND undone_at IS NULL
  ORDER BY made_at_seq DESC, rowid DESC LIMIT 1;
UPDATE sessions SET content_bytes =
    (SELECT coalesce(sum(size), 0) FROM scratchpad WHERE session_id = :id) WHERE id = :id;
"""


class SqliteForks:
    """`ports.Sessions.fork_session`."""

    _db: Database

    async def fork_session(
        self, session_id: str, *, at: int | None = None, new_id: str | None = None
    ) -> Session:
        """See `ports.Sessions`."""

        def job(connection: apsw.Connection) -> Session:
            parent = get(connection, session_id)
            knot = parent.head if at is None else at
            if not 0 <= knot <= parent.head:
                raise InvalidInput(
                    f"Session {session_id} has messages 1 to {parent.head}; it can't be forked "
                    f"at {knot}."
                )
            return self._fork(connection, parent, knot, new_id)

        return await self._db.write(job)

    def _fork(
        self, connection: apsw.Connection, parent: Session, knot: int, fork_id: str | None
    ) -> Session:
        title = f"{parent.title[: MAX_TITLE - 7]} (fork)" if parent.title else None
        fork = {
            "id": free_id(connection, fork_id),
            "parent": parent.id,
            "at": knot,
            "now": self._db.clock(),
            "compaction": make_id(),
            "has_preview": _has_preview(connection, parent, knot),
            "message_count": _visible_up_to(connection, parent, knot),
            **title_columns(title, by=parent.title_by or "auto"),
        }
        fork.setdefault("title", None)
        connection.execute(_FORK, fork)
        connection.execute(_FORK_NOTES, fork)
        return get(connection, fork["id"])


def _has_preview(connection: apsw.Connection, parent: Session, knot: int) -> bool:
    """Whether the first thing that a user said is in the part that a fork inherits."""
    if parent.preview is None or knot == parent.head:
        return parent.preview is not None
    parts, _ = stretches(connection, parent.id)
    sql = """SELECT content FROM messages
        WHERE session_id = ? AND seq > ? AND seq <= ? AND role = 'user' ORDER BY seq"""
    return any(
        content.strip()
        for part in reversed(parts)
        for (content,) in connection.execute(sql, (part.session_id, part.low, min(part.high, knot)))
    )


def _visible_up_to(connection: apsw.Connection, parent: Session, knot: int) -> int:
    """How many messages a fork at the knot begins with: seqs are gapless, undone turns are out."""
    if knot == parent.head:
        return parent.message_count
    return knot - hidden_messages(connection, parent.id, knot)
