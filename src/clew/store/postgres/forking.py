"""Forks in PostgreSQL: a new line that starts at a knot in an old one. No message is copied."""

from __future__ import annotations

import psycopg

from clew.core.ids import new_id as make_id
from clew.core.session import MAX_TITLE, Session
from clew.errors import Conflict, InvalidInput
from clew.store.postgres.connection import Connection, fetch
from clew.store.postgres.database import Database
from clew.store.postgres.sessions import free_id, get, lock, title_columns
from clew.store.postgres.thread import hidden_messages, stretches

_FORK = """
INSERT INTO sessions (
  id, key, agent, person, platform, kind, title, title_key, title_by, cwd, project, model, provider,
  personality, thinking, service_tier, mode, parent_id, forked_at_seq, display_name, channel,
  subject, room, space, origin, last_route, short_summary, send_policy, message_count, preview,
  preview_key, head, created_at, updated_at, metadata, content_bytes
)
SELECT $1, key || ':fork:' || $4::bigint, agent, person, platform, kind, $5, $6,
       CASE WHEN $5::text IS NOT NULL THEN title_by END, cwd, project, model, provider, personality,
       thinking, service_tier, mode, id, $3, display_name, channel, subject, room, space, origin,
       last_route, short_summary, send_policy, $7, CASE WHEN $8::boolean THEN preview END,
       CASE WHEN $8::boolean THEN preview_key END, $3, $4, $4, metadata,
       (SELECT coalesce(sum(size), 0) FROM scratchpad WHERE session_id = $2)
FROM sessions WHERE id = $2
"""

_NOTES = (
    """INSERT INTO scratchpad (session_id, name, content, size, created_at)
       SELECT $1, name, content, size, created_at FROM scratchpad WHERE session_id = $2""",
    """INSERT INTO todos (session_id, position, text, status)
       SELECT $1, position, text, status FROM todos WHERE session_id = $2""",
    """INSERT INTO undone (session_id, turn_id, undone_at)
       SELECT $1, turn_id, undone_at FROM undone WHERE session_id = $2""",
)

_COMPACTION = """
INSERT INTO compactions (id, session_id, keep_from, made_at_seq, summary, short_summary,
                         tokens_before, tokens_after, created_at)
  SELECT $4, $1, keep_from, made_at_seq, summary, short_summary, tokens_before, tokens_after,
         created_at
  FROM compactions WHERE session_id = $2 AND made_at_seq <= $3 AND undone_at IS NULL
  ORDER BY made_at_seq DESC, ordinal DESC LIMIT 1
"""

_SAID = """
SELECT content FROM messages
WHERE session_id = $1 AND seq > $2 AND seq <= $3 AND role = 'user' ORDER BY seq
"""


class PostgresForks:
    """`ports.Sessions.fork_session`."""

    _db: Database

    async def fork_session(
        self, session_id: str, *, at: int | None = None, new_id: str | None = None
    ) -> Session:
        """See `ports.Sessions`."""

        async def job(connection: Connection) -> Session:
            parent = await lock(connection, session_id)
            knot = parent.head if at is None else at
            if not 0 <= knot <= parent.head:
                raise InvalidInput(
                    f"Session {session_id} has messages 1 to {parent.head}; it can't be forked "
                    f"at {knot}."
                )
            return await self._fork(connection, parent, knot, free_id(new_id))

        return await self._db.write(job, about=session_id)

    async def _fork(
        self, connection: Connection, parent: Session, knot: int, fork_id: str
    ) -> Session:
        title = f"{parent.title[: MAX_TITLE - 7]} (fork)" if parent.title else None
        titles = title_columns(title, by=parent.title_by or "auto")
        fork = (
            fork_id,
            parent.id,
            knot,
            await self._db.now(connection),
            titles["title"],
            titles["title_key"],
            await _visible_up_to(connection, parent, knot),
            await _has_preview(connection, parent, knot),
        )
        try:
            await connection.execute(_FORK, fork)
        except psycopg.errors.UniqueViolation as error:
            raise Conflict(f"There already is a session {fork_id}.") from error
        for sql in _NOTES:
            await connection.execute(sql, (fork_id, parent.id))
        await connection.execute(_COMPACTION, (fork_id, parent.id, knot, make_id()))
        return await get(connection, fork_id)


async def _has_preview(connection: Connection, parent: Session, knot: int) -> bool:
    """Whether the first thing that a user said is in the part that a fork inherits."""
    if parent.preview is None or knot == parent.head:
        return parent.preview is not None
    parts, _ = await stretches(connection, parent.id)
    for part in reversed(parts):
        bindings = (part.session_id, part.low, min(part.high, knot))
        if any(content.strip() for (content,) in await fetch(connection, _SAID, bindings)):
            return True
    return False


async def _visible_up_to(connection: Connection, parent: Session, knot: int) -> int:
    """How many messages a fork at the knot begins with: seqs are gapless, undone turns are out."""
    if knot == parent.head:
        return parent.message_count
    return knot - await hidden_messages(connection, parent.id, knot)
