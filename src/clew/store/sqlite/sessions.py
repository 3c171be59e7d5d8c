"""Sessions and routes in SQLite: making, editing, leading keys to them."""

from __future__ import annotations

from typing import Any

import apsw
from msgspec import UNSET, UnsetType

from clew.core.ids import is_id, new_id
from clew.core.jsontext import to_json
from clew.core.session import (
    MAX_TITLE,
    NewSession,
    Session,
    SessionEdit,
    SessionFacts,
)
from clew.core.text import fold
from clew.errors import Conflict, InvalidInput, SessionNotFound, StaleRevision
from clew.store.rows import (
    SESSION_COLUMNS,
    check_types,
    optional,
    plain,
    session_from,
    text,
)
from clew.store.sqlite.connection import fetch_one
from clew.store.sqlite.database import Database

_GET = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id = ? AND purged_at IS NULL"

_ROUTED = f"""
SELECT {SESSION_COLUMNS} FROM sessions
WHERE id = (SELECT session_id FROM routes WHERE key = ?) AND deleted_at IS NULL
"""

_INSERT = """
INSERT INTO sessions (
  id, key, agent, person, platform, kind, title, title_key, title_by, cwd, project, model, provider,
  personality, thinking, service_tier, mode, display_name, channel, subject, room, space, origin,
  send_policy, reset_reason, previous_id, transcript_path, metadata, created_at, updated_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def title_columns(title: str | None, *, by: str) -> dict[str, Any]:
    """The three columns of a title, ready to bind."""
    clean = None if title is None else title.strip()
    if not clean:
        return {"title": None, "title_key": None, "title_by": None}
    if len(clean) > MAX_TITLE:
        raise InvalidInput(f"A title can have {MAX_TITLE} characters; this one has {len(clean)}.")
    return {"title": text(clean), "title_key": text(fold(clean)), "title_by": by}


def get(connection: apsw.Connection, session_id: str) -> Session:
    """A session by its id; used by the other parts inside their transactions."""
    row = fetch_one(connection, _GET, (text(session_id),))
    if row is None:
        raise SessionNotFound(session_id)
    return session_from(row)


def free_id(connection: apsw.Connection, wanted: str | None) -> str:
    """The id for a new session: a fresh one, or the wanted one if nobody has it."""
    if wanted is None:
        return new_id()
    if not is_id(wanted):
        raise InvalidInput(f'"{wanted}" is not a session id (a lower-case UUID).')
    if fetch_one(connection, "SELECT 1 FROM sessions WHERE id = ?", (wanted,)):
        raise Conflict(f"There already is a session {wanted}.")
    return wanted


class SqliteSessions:
    """`ports.Sessions`."""

    _db: Database

    async def open_session(self, new: NewSession) -> tuple[Session, bool]:
        """See `ports.Sessions`."""
        found = await self.find_route(new.key)
        if found is not None:
            return found, False

        def job(connection: apsw.Connection) -> tuple[Session, bool]:
            row = fetch_one(connection, _ROUTED, (text(new.key),))
            if row is not None:
                return session_from(row), False
            return self._insert(connection, new, new.key), True

        return await self._db.write(job)

    async def create_session(
        self, new: NewSession, *, route: str | UnsetType | None = UNSET
    ) -> Session:
        """See `ports.Sessions`."""
        key = new.key if route is UNSET else route
        return await self._db.write(lambda connection: self._insert(connection, new, key))

    async def get_session(self, session_id: str) -> Session:
        """See `ports.Sessions`."""
        return await self._db.read(lambda connection: get(connection, session_id))

    async def edit_session(
        self, session_id: str, edit: SessionEdit, *, revision: int | None = None
    ) -> Session:
        """See `ports.Sessions`."""
        columns = _columns(edit)
        if edit.title is not UNSET:
            columns |= title_columns(edit.title, by="user")
        archived = columns.pop("archived", UNSET)

        def job(connection: apsw.Connection) -> Session:
            before = get(connection, session_id)
            if revision is not None and revision != before.revision:
                raise StaleRevision(session_id, revision, before.revision)
            changed = dict(columns)
            if archived is not UNSET and archived != (before.archived_at is not None):
                changed["archived_at"] = self._db.clock() if archived else None
            if not _update(connection, session_id, changed):
                return before
            connection.execute(
                "UPDATE sessions SET revision = revision + 1 WHERE id = ?", (session_id,)
            )
            return get(connection, session_id)

        return await self._db.write(job)

    async def describe_session(
        self, session_id: str, facts: SessionFacts, *, noted: dict[str, Any] | None = None
    ) -> Session:
        """See `ports.Sessions`."""
        columns = _columns(facts)
        origin = columns.pop("origin", UNSET)
        if facts.title is not UNSET:
            columns |= title_columns(facts.title, by="auto")

        def job(connection: apsw.Connection) -> Session:
            before = get(connection, session_id)
            if noted is not None and noted != before.metadata:
                raise Conflict(f"What is noted with session {session_id} has changed meanwhile.")
            changed = dict(columns)
            if before.title_by == "user":
                for column in ("title", "title_key", "title_by"):
                    changed.pop(column, None)
            if origin is not UNSET:
                news = {name: value for name, value in origin.items() if value not in (None, "")}
                changed["origin"] = to_json({**before.origin, **news})
            _update(connection, session_id, changed)
            return get(connection, session_id)

        return await self._db.write(job)

    async def find_route(self, key: str) -> Session | None:
        """See `ports.Sessions`."""

        def job(connection: apsw.Connection) -> Session | None:
            row = fetch_one(connection, _ROUTED, (text(key),))
            return None if row is None else session_from(row)

        return await self._db.read(job)

    async def set_route(self, key: str, session_id: str) -> None:
        """See `ports.Sessions`."""

        def job(connection: apsw.Connection) -> None:
            get(connection, session_id)
            self._route(connection, key, session_id)

        await self._db.write(job)

    async def clear_route(self, key: str) -> None:
        """See `ports.Sessions`."""

        def job(connection: apsw.Connection) -> None:
            connection.execute("DELETE FROM routes WHERE key = ?", (text(key),))

        await self._db.write(job)

    async def list_routes(self, session_id: str) -> tuple[str, ...]:
        """See `ports.Sessions`."""
        sql = "SELECT key FROM routes WHERE session_id = ? ORDER BY key"

        def job(connection: apsw.Connection) -> tuple[str, ...]:
            return tuple(
                plain(key) or "" for (key,) in connection.execute(sql, (text(session_id),))
            )

        return await self._db.read(job)

    def _insert(self, connection: apsw.Connection, new: NewSession, route: str | None) -> Session:
        check_types(new)
        if not new.key:
            raise InvalidInput("A session needs a key.")
        session_id = free_id(connection, new.id)
        now = self._db.clock()
        created = now if new.created_at is None else new.created_at
        titles = title_columns(new.title, by=new.title_by or "user")
        connection.execute(
            _INSERT,
            (
                session_id,
                text(new.key),
                text(new.agent),
                text(new.person),
                text(new.platform),
                new.kind,
                titles["title"],
                titles["title_key"],
                titles["title_by"],
                *(
                    optional(value)
                    for value in (
                        new.cwd,
                        new.project,
                        new.model,
                        new.provider,
                        new.personality,
                        new.thinking,
                        new.service_tier,
                        new.mode,
                        new.display_name,
                        new.channel,
                        new.subject,
                        new.room,
                        new.space,
                    )
                ),
                to_json(new.origin),
                new.send_policy,
                optional(new.reset_reason),
                optional(new.previous_id),
                optional(new.transcript_path),
                to_json(new.metadata),
                created,
                created,
            ),
        )
        if route is not None:
            self._route(connection, route, session_id)
        return get(connection, session_id)

    def _route(self, connection: apsw.Connection, key: str, session_id: str) -> None:
        connection.execute(
            """INSERT INTO routes (key, session_id, updated_at) VALUES (?, ?, ?)
               ON CONFLICT (key) DO UPDATE
               SET session_id = excluded.session_id, updated_at = excluded.updated_at""",
            (text(key), session_id, self._db.clock()),
        )


def _columns(change: SessionEdit | SessionFacts) -> dict[str, Any]:
    """The columns that a change names, ready to bind; `archived` and `origin` stay values."""
    check_types(change)
    columns: dict[str, Any] = {}
    for name in change.__struct_fields__:
        value = getattr(change, name)
        if value is UNSET or name == "title":
            continue
        if isinstance(value, str):
            value = text(value)
        elif name in ("metadata", "last_route") and value is not None:
            value = to_json(value)
        elif name == "pinned":
            value = int(value)
        columns[name] = value
    return columns


def _update(connection: apsw.Connection, session_id: str, columns: dict[str, Any]) -> bool:
    """Set columns that differ; whether any did."""
    if not columns:
        return False
    names = list(columns)
    differs = " OR ".join(f"{name} IS NOT ?{index}" for index, name in enumerate(names, 2))
    assignments = ", ".join(f"{name} = ?{index}" for index, name in enumerate(names, 2))
    sql = f"UPDATE sessions SET {assignments} WHERE id = ?1 AND ({differs})"
    connection.execute(sql, (session_id, *columns.values()))
    return connection.changes() > 0
