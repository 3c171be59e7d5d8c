"""Sessions and routes: makes and edits sessions, and sets which keys lead to them."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from clew.core.keys import is_id, new_id
from clew.core.session import MAX_TITLE, NewSession, Session, SessionEdit, SessionFacts
from clew.core.text import fold, to_json
from clew.errors import Conflict, InvalidInput, SessionNotFound, StaleRevision
from clew.store.rows import SESSION_COLUMNS, Row, check_types, optional, plain, session_from, text
from clew.store.work.transaction import Engine, Transaction

_GET = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id = $1 AND purged_at IS NULL"
_LOCK = f"{_GET} FOR NO KEY UPDATE"

_ROUTED = f"""
SELECT {SESSION_COLUMNS} FROM sessions
WHERE id = (SELECT session_id FROM routes WHERE key = $1) AND deleted_at IS NULL
"""

_COLUMNS = (
    "id", "key", "agent", "person", "platform", "kind", "title", "title_key", "title_by", "cwd",
    "project", "model", "provider", "personality", "thinking", "service_tier", "mode",
    "display_name", "channel", "subject", "room", "space", "origin", "send_policy", "reset_reason",
    "previous_id", "parent_id", "transcript_path", "metadata", "created_at", "updated_at",
)  # fmt: skip

_INSERT = f"""
INSERT INTO sessions ({", ".join(_COLUMNS)})
VALUES ({", ".join(f"${number}" for number in range(1, len(_COLUMNS) + 1))})
ON CONFLICT (id) DO NOTHING RETURNING {SESSION_COLUMNS}
"""

_SET_ROUTE = """
INSERT INTO routes (key, session_id, updated_at) VALUES ($1, $2, $3)
ON CONFLICT (key) DO UPDATE
SET session_id = excluded.session_id, updated_at = excluded.updated_at
"""

_CLEAR_ROUTE = "DELETE FROM routes WHERE key = $1"
_LIST_ROUTES = "SELECT key FROM routes WHERE session_id = $1 ORDER BY key"


async def get(tx: Transaction, session_id: str) -> Session:
    """A session by its id; `SessionNotFound` if there is none."""
    return _found(await tx.one(_GET, (text(session_id),)), session_id)


async def lock(tx: Transaction, session_id: str) -> Session:
    """Get a session and lock it against other transactions until this one ends."""
    return _found(await tx.one(_LOCK, (text(session_id),)), session_id)


def _found(row: tuple[Any, ...] | None, session_id: str) -> Session:
    if row is None:
        raise SessionNotFound(session_id)
    return session_from(row)


def title_columns(title: str | None, *, by: str) -> dict[str, Any]:
    """The three columns of a title, ready to bind."""
    clean = None if title is None else title.strip()
    if not clean:
        return {"title": None, "title_key": None, "title_by": None}
    if len(clean) > MAX_TITLE:
        raise InvalidInput(f"A title can have {MAX_TITLE} characters; this one has {len(clean)}.")
    return {"title": text(clean), "title_key": text(fold(clean)), "title_by": by}


def check_id(wanted: str | None) -> str:
    """The id for a new session: the wanted one, or a fresh one. The INSERT fails if it is taken."""
    if wanted is None:
        return new_id()
    if not is_id(wanted):
        raise InvalidInput(f'"{wanted}" is not a session id (a lower-case UUID).')
    return wanted


async def describe(
    tx: Transaction, session_id: str, facts: SessionFacts, noted: dict[str, Any] | None
) -> Session:
    """See `ports.Sessions.describe_session`."""
    changed = _columns(facts)
    origin = changed.pop("origin", UNSET)
    if facts.title is not UNSET:
        changed |= title_columns(facts.title, by="auto")
    before = await lock(tx, session_id)
    if noted is not None and noted != before.metadata:
        raise Conflict(f"The metadata of session {session_id} has changed meanwhile.")
    if before.title_by == "user":
        for column in ("title", "title_key", "title_by"):
            changed.pop(column, None)
    if origin is not UNSET:
        news = {name: value for name, value in origin.items() if value not in (None, "")}
        changed["origin"] = to_json({**before.origin, **news})
    return await _update(tx, session_id, changed, edited=False) or before


class SharedSessions:
    """The part of `ports.Sessions` that makes and changes sessions and routes."""

    _engine: Engine

    async def open_session(self, new: NewSession) -> tuple[Session, bool]:
        """See `ports.Sessions`."""
        found = await self.find_route(new.key)
        if found is not None:
            return found, False

        async def work(tx: Transaction) -> tuple[Session, bool]:
            row = await _find_taken(tx, new.key)
            if row is not None:
                return session_from(row), False
            return await _insert(tx, new, new.key), True

        return await self._engine.write(work)

    async def create_session(
        self, new: NewSession, *, route: str | UnsetType | None = UNSET, yields: bool = False
    ) -> Session:
        """See `ports.Sessions`."""
        key = new.key if route is UNSET else route

        async def work(tx: Transaction) -> Session:
            is_taken = yields and key is not None and await _find_taken(tx, key) is not None
            return await _insert(tx, new, None if is_taken else key)

        return await self._engine.write(work)

    async def get_session(self, session_id: str) -> Session:
        """See `ports.Sessions`."""
        return await self._engine.read(lambda tx: get(tx, session_id))

    async def edit_session(
        self, session_id: str, edit: SessionEdit, *, revision: int | None = None
    ) -> Session:
        """See `ports.Sessions`."""
        columns = _columns(edit)
        if edit.title is not UNSET:
            columns |= title_columns(edit.title, by="user")
        archived = columns.pop("archived", UNSET)

        async def work(tx: Transaction) -> Session:
            before = await lock(tx, session_id)
            if revision is not None and revision != before.revision:
                raise StaleRevision(session_id, revision, before.revision)
            changed = dict(columns)
            if archived is not UNSET and archived != (before.archived_at is not None):
                changed["archived_at"] = await tx.now() if archived else None
            return await _update(tx, session_id, changed, edited=True) or before

        return await self._engine.write(work, about=session_id)

    async def describe_session(
        self, session_id: str, facts: SessionFacts, *, noted: dict[str, Any] | None = None
    ) -> Session:
        """See `ports.Sessions`."""

        async def work(tx: Transaction) -> Session:
            return await describe(tx, session_id, facts, noted)

        return await self._engine.write(work, about=session_id)

    async def find_route(self, key: str) -> Session | None:
        """See `ports.Sessions`."""
        row = await self._engine.read(lambda tx: tx.one(_ROUTED, (text(key),)))
        return None if row is None else session_from(row)

    async def set_route(self, key: str, session_id: str) -> None:
        """See `ports.Sessions`."""

        async def work(tx: Transaction) -> None:
            await get(tx, session_id)
            await _set_route(tx, key, session_id)

        await self._engine.write(work, about=session_id)

    async def clear_route(self, key: str) -> None:
        """See `ports.Sessions`."""
        await self._engine.write(lambda tx: tx.run(_CLEAR_ROUTE, (text(key),)))

    async def list_routes(self, session_id: str) -> tuple[str, ...]:
        """See `ports.Sessions`."""
        rows = await self._engine.read(lambda tx: tx.fetch(_LIST_ROUTES, (text(session_id),)))
        return tuple(plain(key) or "" for (key,) in rows)


async def _find_taken(tx: Transaction, key: str) -> Row | None:
    """The session of a route. Of two that look at the same time, the second waits for the first."""
    await tx.serialize(f"route {text(key)}")
    return await tx.one(_ROUTED, (text(key),))


async def _insert(tx: Transaction, new: NewSession, route: str | None) -> Session:
    check_types(new)
    if not new.key:
        raise InvalidInput("A session needs a key.")
    session_id = check_id(new.id)
    if new.parent_id is not None:
        await get(tx, new.parent_id)
    created = await tx.now() if new.created_at is None else new.created_at
    values: dict[str, Any] = {
        name: optional(getattr(new, name))
        for name in _COLUMNS
        if isinstance(getattr(new, name, None), str)
    }
    values |= title_columns(new.title, by=new.title_by or "user")
    values |= {
        "id": session_id,
        "origin": to_json(new.origin),
        "metadata": to_json(new.metadata),
        "created_at": created,
        "updated_at": created,
    }
    row = await tx.one(_INSERT, tuple(map(values.get, _COLUMNS)))
    if row is None:
        raise Conflict(f"There already is a session {session_id}.")
    if route is not None:
        await _set_route(tx, route, session_id)
    return session_from(row)


async def _set_route(tx: Transaction, key: str, session_id: str) -> None:
    await tx.run(_SET_ROUTE, (text(key), session_id, await tx.now()))


def _columns(change: SessionEdit | SessionFacts) -> dict[str, Any]:
    """The columns of a change, ready to bind; `archived` and `origin` stay values."""
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
        columns[name] = value
    return columns


async def _update(
    tx: Transaction, session_id: str, columns: dict[str, Any], *, edited: bool
) -> Session | None:
    """Set columns that differ; returns the changed session, None if no column differs."""
    if not columns:
        return None
    names = list(columns)
    differs = " OR ".join(f"{name} IS DISTINCT FROM ${at}" for at, name in enumerate(names, 2))
    assignments = [f"{name} = ${at}" for at, name in enumerate(names, 2)]
    if edited:
        assignments.append("revision = revision + 1")
    sql = f"""UPDATE sessions SET {", ".join(assignments)} WHERE id = $1 AND ({differs})
        RETURNING {SESSION_COLUMNS}"""
    row = await tx.one(sql, (session_id, *columns.values()))
    return None if row is None else session_from(row)
