"""Forks: a new line that starts at a knot in an old one. No message is copied."""

from __future__ import annotations

from clew.core.keys import new_id as make_id
from clew.core.session import MAX_TITLE, Session
from clew.errors import Conflict, InvalidInput
from clew.store.rows import SESSION_COLUMNS, check_limit, session_from, text
from clew.store.work.sessions import check_id, get, lock, title_columns
from clew.store.work.thread import count_hidden, read_line
from clew.store.work.transaction import Dialect, Engine, Transaction

MOST = 1_000
"""How many forks are listed at most."""

_FORK = """
INSERT INTO sessions (
  id, key, agent, person, platform, kind, title, title_key, title_by, cwd, project, model, provider,
  personality, thinking, service_tier, mode, parent_id, forked_at_seq, display_name, channel,
  subject, room, space, origin, last_route, short_summary, send_policy, message_count, head,
  created_at, updated_at, metadata, forked_at_step, content_bytes, {columns}
)
SELECT $1, key || ':fork:' || CAST($4 AS bigint), agent, CAST($8 AS text), platform, kind, $5, $6,
  CASE WHEN CAST($5 AS text) IS NOT NULL THEN title_by END, cwd, project, model, provider,
  personality, thinking, service_tier, mode, id, $3, display_name, channel, subject, room, space,
  origin, CASE WHEN $8 = person THEN last_route END, short_summary,
  CASE WHEN $8 = person THEN send_policy END, $7, $3, $4, $4,
  metadata, undo_steps,
  (SELECT coalesce(sum(size), 0) FROM scratchpad WHERE session_id = $2), {values}
FROM sessions WHERE id = $2
ON CONFLICT (id) DO NOTHING
"""

_COPIES = (
    """INSERT INTO scratchpad (session_id, name, content, size, created_at)
       SELECT $1, name, content, size, created_at FROM scratchpad WHERE session_id = $2""",
    """INSERT INTO todos (session_id, position, text, status)
       SELECT $1, position, text, status FROM todos WHERE session_id = $2""",
)

_COPY_COMPACTION = """
INSERT INTO compactions (id, session_id, keep_from, made_at_seq, summary, short_summary,
                         tokens_before, tokens_after, created_at)
  SELECT $4, $1, keep_from, made_at_seq, summary, short_summary, tokens_before, tokens_after,
         created_at
  FROM compactions WHERE session_id = $2 AND made_at_seq <= $3 AND undone_at IS NULL
  ORDER BY made_at_seq DESC, ordinal DESC LIMIT 1
"""

_FORKS = f"""
SELECT {SESSION_COLUMNS} FROM sessions WHERE parent_id = $1 AND deleted_at IS NULL
ORDER BY forked_at_seq, created_at, id LIMIT $2
"""

_SAID = """
SELECT content FROM messages
WHERE session_id = $1 AND seq > $2 AND seq <= $3 AND role = 'user' ORDER BY seq
"""


class SharedForks:
    """`ports.Sessions.fork_session` and `list_forks`."""

    _engine: Engine

    async def fork_session(
        self,
        session_id: str,
        *,
        at: int | None = None,
        new_id: str | None = None,
        person: str | None = None,
    ) -> Session:
        """See `ports.Sessions`."""

        async def work(tx: Transaction) -> Session:
            parent = await lock(tx, session_id)
            knot = parent.head if at is None else at
            if not 0 <= knot <= parent.head:
                raise InvalidInput(
                    f"Session {session_id} has messages 1 to {parent.head}; it can't be forked "
                    f"at {knot}."
                )
            return await self._fork(tx, parent, knot, check_id(new_id), person)

        return await self._engine.write(work, about=session_id)

    async def list_forks(self, session_id: str, *, limit: int = 100) -> tuple[Session, ...]:
        """See `ports.Sessions`."""
        limit = min(check_limit(limit), MOST)
        rows = await self._engine.read(lambda tx: tx.fetch(_FORKS, (session_id, limit)))
        return tuple(map(session_from, rows))

    async def _fork(
        self, tx: Transaction, parent: Session, knot: int, fork_id: str, person: str | None
    ) -> Session:
        title = f"{parent.title[: MAX_TITLE - 7]} (fork)" if parent.title else None
        titles = title_columns(title, by=parent.title_by or "auto")
        has_preview = await _has_preview(tx, parent, knot)
        whose = parent.person if person is None else person
        bindings = (
            fork_id, parent.id, knot, await tx.now(), titles["title"], titles["title_key"],
            await _count_visible(tx, parent, knot), text(whose),
        )  # fmt: skip
        sql = _fork_statement(self._engine.dialect, has_preview=has_preview)
        if not await tx.run(sql, bindings):
            raise Conflict(f"There already is a session {fork_id}.")
        for sql in _COPIES:
            await tx.run(sql, (fork_id, parent.id))
        await tx.run(_COPY_COMPACTION, (fork_id, parent.id, knot, make_id()))
        return await get(tx, fork_id)


def _fork_statement(dialect: Dialect, *, has_preview: bool) -> str:
    columns = ", ".join(dialect.preview_columns)
    nothing = ", ".join("NULL" for _ in dialect.preview_columns)
    return _FORK.format(columns=columns, values=columns if has_preview else nothing)


async def _has_preview(tx: Transaction, parent: Session, knot: int) -> bool:
    """Whether the first thing that a user said is in the part that a fork inherits."""
    if parent.preview is None or knot == parent.head:
        return parent.preview is not None
    line = await read_line(tx, parent.id)
    for part in reversed(line.segments):
        bindings = (part.session_id, part.low, min(part.high, knot))
        if any(content.strip() for (content,) in await tx.fetch(_SAID, bindings)):
            return True
    return False


async def _count_visible(tx: Transaction, parent: Session, knot: int) -> int:
    """How many messages a fork at the knot begins with: undone turns and notes are left out."""
    if knot == parent.head:
        return parent.message_count
    if parent.message_count == parent.head:
        return knot
    return knot - await count_hidden(tx, parent.id, knot)
