"""The marks of sessions: titles, pins, archive and trash of many in one commit, and its undoing.

What a change returns is enough to take it back, however much later: nothing is kept for that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from clew.core.session import DAY_MS, SessionChange, SessionMarks
from clew.errors import InvalidInput
from clew.store.rows import check_types, plain, text
from clew.store.work.sessions import title_columns
from clew.store.work.transaction import Engine, Transaction
from clew.store.work.trash import new_deletion_time

_LOCK = """
SELECT id, title, title_by, pinned, archived_at, deleted_at FROM sessions
WHERE id = ANY ($1) AND purged_at IS NULL ORDER BY id FOR NO KEY UPDATE
"""

_EDITED = ("title", "pinned", "archived_at")
"""Marks that raise the revision: a person edits them."""


class SharedMarks:
    """The part of `ports.Sessions` that changes many sessions at once."""

    _engine: Engine

    async def mark_sessions(
        self,
        ids: Sequence[str],
        *,
        title: str | UnsetType | None = UNSET,
        pinned: bool | UnsetType = UNSET,
        archived: bool | UnsetType = UNSET,
        trashed: bool | UnsetType = UNSET,
    ) -> tuple[SessionChange, ...]:
        """See `ports.Sessions`."""
        for each in (pinned, archived, trashed):
            if each is not UNSET and type(each) is not bool:
                raise InvalidInput(f"True or False was expected, not {each!r}.")
        clean = UNSET if title is UNSET else _clean(title)

        async def work(tx: Transaction) -> tuple[SessionChange, ...]:
            now = await tx.now()
            deleted_at = await new_deletion_time(tx) if trashed is True else None
            changes = []
            for session_id, marks in (await _read(tx, ids)).items():
                wanted = SessionMarks(title=clean, pinned=pinned)
                if clean is not UNSET:
                    wanted = _with(wanted, title_by=None if clean is None else "user")
                if archived is not UNSET and archived != (marks.archived_at is not None):
                    wanted = _with(wanted, archived_at=now if archived else None)
                if trashed is not UNSET and trashed != (marks.deleted_at is not None):
                    wanted = _with(wanted, deleted_at=deleted_at)
                changes += _difference(session_id, marks, wanted)
            await _write(tx, ((each.id, each.after) for each in changes))
            return tuple(changes)

        return await self._engine.write(work)

    async def undo_marks(self, changes: Sequence[SessionChange]) -> tuple[str, ...]:
        """See `ports.Sessions`."""
        for each in changes:
            check_types(each)
        given = {each.id: each for each in changes}
        if len(given) < len(changes):
            raise InvalidInput("A session is named twice. Nothing was changed.")

        async def work(tx: Transaction) -> tuple[str, ...]:
            now = await tx.now()
            undone: dict[str, SessionMarks] = {}
            for session_id, marks in (await _read(tx, list(given))).items():
                change = given[session_id]
                _check_past(change.before, now)
                if _agree(marks, change.after) or _agree(marks, change.before):
                    undone[session_id] = change.before
            await _write(tx, undone.items())
            return tuple(undone)

        return await self._engine.write(work)


async def _read(tx: Transaction, ids: Sequence[str]) -> dict[str, SessionMarks]:
    """Lock sessions, and read their marks, in the order of the ids."""
    stored = {text(each): each for each in ids}
    rows = {row[0]: row[1:] for row in await tx.fetch(_LOCK, (list(stored),))}
    return {
        given: SessionMarks(
            title=plain(rows[each][0]),
            title_by=rows[each][1],
            pinned=rows[each][2] == 1,
            archived_at=rows[each][3],
            deleted_at=rows[each][4],
        )
        for each, given in stored.items()
        if each in rows
    }


async def _write(tx: Transaction, marked: Iterable[tuple[str, SessionMarks]]) -> None:
    """Set marks, with one statement for all sessions that get the same ones."""
    groups: defaultdict[SessionMarks, list[str]] = defaultdict(list)
    for session_id, marks in marked:
        groups[marks].append(text(session_id))
    for marks, ids in groups.items():
        columns: dict[str, Any] = {}
        for name in ("pinned", "archived_at", "deleted_at"):
            if getattr(marks, name) is not UNSET:
                columns[name] = getattr(marks, name)
        if marks.title is not UNSET:
            by = "user" if marks.title_by is UNSET else marks.title_by
            columns |= title_columns(marks.title, by=by or "user")
        sets = [f"{name} = ${at}" for at, name in enumerate(columns, 2)]
        if any(getattr(marks, name) is not UNSET for name in _EDITED):
            sets.append("revision = revision + 1")
        if sets:
            sql = f"UPDATE sessions SET {', '.join(sets)} WHERE id = ANY ($1)"
            await tx.run(sql, (ids, *columns.values()))


def _difference(session_id: str, marks: SessionMarks, wanted: SessionMarks) -> list[SessionChange]:
    """The change from marks to others: only what differs is in it; none if nothing does."""
    names = [
        name
        for name in SessionMarks.__struct_fields__
        if getattr(wanted, name) not in (UNSET, getattr(marks, name))
    ]
    if "title_by" in names and "title" not in names:
        names.append("title")  # the two are written together
    if not names:
        return []
    before = SessionMarks(**{name: getattr(marks, name) for name in names})
    after = SessionMarks(**{name: getattr(wanted, name) for name in names})
    return [SessionChange(session_id, before, after)]


def _agree(marks: SessionMarks, others: SessionMarks) -> bool:
    """Whether marks are the same wherever the others say anything."""
    return all(
        getattr(others, name) in (UNSET, getattr(marks, name))
        for name in SessionMarks.__struct_fields__
    )


def _with(marks: SessionMarks, **changed: Any) -> SessionMarks:
    return msgspec.structs.replace(marks, **changed)


def _clean(title: str | None) -> str | None:
    """A title as it will be stored; `InvalidInput` if it is too long."""
    columns = title_columns(title, by="user")
    return plain(columns["title"])


def _check_past(marks: SessionMarks, now: int) -> None:
    for at in (marks.archived_at, marks.deleted_at):
        if isinstance(at, int) and at > now + DAY_MS:
            raise InvalidInput("A session can't have been put away in the future.")
