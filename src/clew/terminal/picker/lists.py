"""The lists of sessions that the picker can show, as far as they are loaded.

A `LoadedList` has the names of one list, in the order of the API's list: a page for the screen, the
rest behind it. `Lists` has one for each scope (this directory or all, one platform or all), made
when it is first looked at; a change that a person makes is made in all of them.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Iterable
from typing import Final

import msgspec

from clew.client.client import Client
from clew.core.keys import Place, here_filter
from clew.core.session import Session, name_of
from clew.terminal.picker.rows import Row, make_row

FIRST: Final = 60
"""Rows of the first page: a screen full, and some to move on to."""
CHUNK: Final = 500
"""Rows of the pages after it. More would block the screen for too many milliseconds."""


class Where(msgspec.Struct, frozen=True):
    """What narrows a list or a search; None for everything."""

    platform: str | None = None
    cwd: str | None = None
    project: str | None = None


class LoadedList:
    """One list. While it is loaded `rows` only grows; a change by the person replaces it.

    `edition` goes up with each such change: rows may have changed places.
    """

    def __init__(self, client: Client, where: Where) -> None:
        self._client = client
        self._where = where
        self._cursor: str | None = None
        self._loading = asyncio.Lock()
        self.rows: list[Row] = []
        self.platforms: set[str] = set()
        self.is_complete = False
        self.edition = 0
        self._known: dict[str, Row] = {}
        self._gone: set[str] = set()

    @classmethod
    def of(cls, client: Client, where: Where, sessions: Iterable[Session]) -> LoadedList:
        """A list of just these sessions, in their order."""
        listed = cls(client, where)
        listed._take([make_row(name_of(session)) for session in sessions])
        listed.is_complete = True
        return listed

    async def load(self, limit: int = CHUNK) -> None:
        """Load the next page; nothing, if all are there."""
        async with self._loading:
            if self.is_complete:
                return
            page = await self._client.sessions.names(
                limit=limit,
                cursor=self._cursor,
                platform=self._where.platform,
                cwd=self._where.cwd,
                project=self._where.project,
            )
            self._take([make_row(name) for name in page.names])
            self._cursor = page.cursor
            self.is_complete = page.cursor is None

    async def load_first(self) -> None:
        """Load the first page, unless it is there."""
        if not self.rows:
            await self.load(FIRST)

    def find(self, session_id: str) -> Row | None:
        """The row of a session, if it is loaded."""
        return self._known.get(session_id)

    def put(self, row: Row) -> None:
        """Add or replace a row, at its place in the order."""
        rows = [each for each in self.rows if each.id != row.id]
        insort(rows, row, key=_backwards)
        self._gone.discard(row.id)
        self._known[row.id] = row
        self.rows = rows
        self.edition += 1

    def remove(self, session_id: str) -> Row | None:
        """Remove a session, also from pages loaded later. Returns its row."""
        self._gone.add(session_id)
        row = self._known.pop(session_id, None)
        if row is not None:
            self.rows = [each for each in self.rows if each.id != session_id]
            self.edition += 1
        return row

    def _take(self, rows: list[Row]) -> None:
        # A session that was changed or deleted here may be in a later page again.
        new = [row for row in rows if row.id not in self._known and row.id not in self._gone]
        self._known.update((row.id, row) for row in new)
        self.platforms.update(row.platform for row in new)
        self.rows += new


def _backwards(row: Row) -> tuple[bool, int, tuple[int, ...]]:
    """The sort key of a list, which is in descending order."""
    return (not row.pinned, -row.updated_at, tuple(-ord(letter) for letter in row.id))


class Scope(msgspec.Struct, frozen=True):
    """Which list: of all directories or of this one, and of one platform or of all."""

    everywhere: bool = False
    platform: str | None = None


class Lists:
    """All lists of a picker. With `only`, there is one list, of those sessions."""

    def __init__(self, client: Client, place: Place, only: tuple[Session, ...]) -> None:
        self._client = client
        self._place = place
        self._only = only
        self._lists: dict[Scope, LoadedList] = {}
        self._trashed: dict[str, list[tuple[LoadedList, Row]]] = {}

    @property
    def only(self) -> tuple[str, ...]:
        """The ids of the sessions to which the choice is limited."""
        return tuple(session.id for session in self._only)

    def get_list(self, scope: Scope) -> LoadedList:
        """The list of a scope, perhaps with nothing loaded yet."""
        if scope not in self._lists:
            where = self.get_where(scope)
            self._lists[scope] = (
                LoadedList.of(self._client, where, self._choose(scope))
                if self._only
                else LoadedList(self._client, where)
            )
        return self._lists[scope]

    def get_where(self, scope: Scope) -> Where:
        """What narrows calls to the sessions of a list."""
        here = {} if scope.everywhere or self._only else here_filter(self._place)
        return Where(platform=scope.platform, **here)

    def list_platforms(self, scope: Scope) -> list[str]:
        """The platforms of a list, as far as it is loaded."""
        return sorted(self.get_list(Scope(scope.everywhere)).platforms)

    def put(self, row: Row) -> None:
        """Replace a row in every list that has the session."""
        for listed in self._lists.values():
            if listed.find(row.id) is not None:
                listed.put(row)

    def remove(self, session_id: str) -> None:
        """Take a session out of all lists."""
        removed = self._trashed.setdefault(session_id, [])
        for listed in self._lists.values():
            row = listed.remove(session_id)
            if row is not None:
                removed.append((listed, row))

    def restore(self, session_id: str) -> None:
        """Put a session back where it was."""
        for listed, row in self._trashed.pop(session_id, []):
            listed.put(row)

    def _choose(self, scope: Scope) -> list[Session]:
        return [
            session
            for session in self._only
            if scope.platform is None or session.platform == scope.platform
        ]
