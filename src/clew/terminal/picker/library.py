"""The lists that the picker can show: this directory's or everybody's, of one platform or of all.

One catalogue for each, made when it is first looked at. A change that a person makes is made in
all of them.
"""

from __future__ import annotations

import msgspec

from clew.client.client import Client
from clew.core.keys import Place, here_filter
from clew.core.session import Session
from clew.terminal.picker.catalogue import Catalogue, Where
from clew.terminal.picker.rows import Row


class Scope(msgspec.Struct, frozen=True):
    """Which list: of all directories, and of one platform only."""

    everywhere: bool = False
    platform: str | None = None


class Library:
    """All catalogues of a picker. With `only`, there is just the one of those sessions."""

    def __init__(self, client: Client, place: Place, only: tuple[Session, ...]) -> None:
        self._client = client
        self._place = place
        self._only = only
        self._catalogues: dict[Scope, Catalogue] = {}
        self._trashed: dict[str, list[tuple[Catalogue, Row]]] = {}

    @property
    def only(self) -> tuple[str, ...]:
        """The ids of the sessions to which the choice is limited."""
        return tuple(session.id for session in self._only)

    def get_catalogue(self, scope: Scope) -> Catalogue:
        """The catalogue of a list, perhaps with nothing loaded yet."""
        if scope not in self._catalogues:
            where = self.get_where(scope)
            self._catalogues[scope] = (
                Catalogue.of(self._client, where, self._choose(scope))
                if self._only
                else Catalogue(self._client, where)
            )
        return self._catalogues[scope]

    def get_where(self, scope: Scope) -> Where:
        """What narrows calls to the sessions of a list."""
        here = {} if scope.everywhere or self._only else here_filter(self._place)
        return Where(platform=scope.platform, **here)

    def list_platforms(self, scope: Scope) -> list[str]:
        """The platforms of a list, as far as it is loaded."""
        return sorted(self.get_catalogue(Scope(scope.everywhere)).platforms)

    def put(self, row: Row) -> None:
        """Take in how a session is now, wherever it is listed."""
        for catalogue in self._catalogues.values():
            if catalogue.find(row.id) is not None:
                catalogue.put(row)

    def remove(self, session_id: str) -> None:
        """Take a session out of all lists."""
        removed = self._trashed.setdefault(session_id, [])
        for catalogue in self._catalogues.values():
            row = catalogue.remove(session_id)
            if row is not None:
                removed.append((catalogue, row))

    def restore(self, session_id: str) -> None:
        """Put a session back where it was."""
        for catalogue, row in self._trashed.pop(session_id, []):
            catalogue.put(row)

    def _choose(self, scope: Scope) -> list[Session]:
        return [
            session
            for session in self._only
            if scope.platform is None or session.platform == scope.platform
        ]
