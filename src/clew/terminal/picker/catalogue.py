"""The sessions of one list, as far as they are loaded: a page for the screen, the rest behind it.

It asks for names, in the order of the list of sessions, and keeps that order when a person changes
something.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Iterable
from typing import Final

import msgspec

from clew.client.client import Client
from clew.core.overview import name_of
from clew.core.session import Session
from clew.terminal.picker.rows import Row, make_row, make_rows

FIRST: Final = 60
"""Rows of the first page: a screen full, and some to move on to."""
CHUNK: Final = 500
"""Rows of the pages after it. Making rows of so many takes a few milliseconds of the screen's."""


class Where(msgspec.Struct, frozen=True):
    """What narrows a list or a search; None for everything."""

    platform: str | None = None
    cwd: str | None = None
    project: str | None = None


class Catalogue:
    """One list. `rows` only grows while it is loaded; a person's changes make it anew.

    `edition` tells one from the other: where it is another one, rows have changed places.
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
    def of(cls, client: Client, where: Where, sessions: Iterable[Session]) -> Catalogue:
        """A list of just these sessions, in their order."""
        catalogue = cls(client, where)
        catalogue._take([make_row(name_of(session)) for session in sessions])
        catalogue.is_complete = True
        return catalogue

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
            self._take(make_rows(page.names))
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
        """Take in how a session is now; it goes where it belongs."""
        rows = [each for each in self.rows if each.id != row.id]
        insort(rows, row, key=_backwards)
        self._gone.discard(row.id)
        self._known[row.id] = row
        self.rows = rows
        self.edition += 1

    def remove(self, session_id: str) -> Row | None:
        """Take a session out, also if a later page still has it; returns its row."""
        self._gone.add(session_id)
        row = self._known.pop(session_id, None)
        if row is not None:
            self.rows = [each for each in self.rows if each.id != session_id]
            self.edition += 1
        return row

    def _take(self, rows: list[Row]) -> None:
        # Who was moved by a person's change, or trashed, may come again in a later page.
        new = [row for row in rows if row.id not in self._known and row.id not in self._gone]
        self._known.update((row.id, row) for row in new)
        self.platforms.update(row.platform for row in new)
        self.rows += new


def _backwards(row: Row) -> tuple[bool, int, tuple[int, ...]]:
    """The order of a list, for those who sort upwards."""
    return (not row.pinned, -row.updated_at, tuple(-ord(letter) for letter in row.id))
