"""What is typed, and what has been found for it so far: names at once, messages a moment later.

It knows the lists and the searches, not the screen. Each of its coroutines may be cancelled at any
point; what had been found stays until something newer is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from clew.client.client import Client
from clew.core.search import SearchHit
from clew.terminal.picker.catalogue import Catalogue
from clew.terminal.picker.finding import Hits, find_hits
from clew.terminal.picker.library import Library, Scope
from clew.terminal.picker.matching import (
    FEW,
    Narrowed,
    Steps,
    T,
    list_near,
    narrow,
    rank,
    read_typed,
)
from clew.terminal.picker.rows import Row
from clew.terminal.picker.wording import word_count, word_found

HEADING = "── in messages"


class Seeker:
    """One list, and what was typed above it. `changed` is called when there is more to show."""

    def __init__(
        self, client: Client, library: Library, scope: Scope, changed: Callable[[], None]
    ) -> None:
        self._client = client
        self._library = library
        self._changed = changed
        self.scope = scope
        self.text = ""
        self.words: tuple[str, ...] = ()
        """Those that were typed, as they compare."""
        self._names: Sequence[Row] = ()
        self._named_for: tuple[str, Scope] | None = None
        self._hits = Hits()
        self._hits_for: tuple[str, Scope] | None = None
        self._narrowed: tuple[Catalogue, int, Narrowed] | None = None

    @property
    def catalogue(self) -> Catalogue:
        """The list that is shown."""
        return self._library.get_catalogue(self.scope)

    @property
    def is_named(self) -> bool:
        """Whether the names for what is typed now have been found."""
        return not self.text or self._named_for == (self.text, self.scope)

    @property
    def is_searched(self) -> bool:
        """Whether the messages for what is typed now have been found."""
        return not self.text or self._hits_for == (self.text, self.scope)

    @property
    def count(self) -> str:
        """How much there is."""
        if not self.text:
            catalogue = self.catalogue
            return word_count(len(catalogue.rows), complete=catalogue.is_complete)
        hits = len(self._hits.rows) if self.is_searched else None
        return word_found(len(self._names), hits, cut_short=self._hits.cut)

    def list_items(self) -> Sequence[Row | str]:
        """The lines of the list."""
        if not self.text:
            return self.catalogue.rows
        known = {row.id for row in self._names}
        said = [row for row in self._hits.rows if row.id not in known]
        return [*self._names, HEADING, *said] if said else self._names

    def find_hit(self, session_id: str) -> SearchHit | None:
        """Where in a session it was said."""
        return self._hits.hits.get(session_id) if self.text and self.is_searched else None

    def type(self, text: str) -> None:
        """Look for something else from now on."""
        self.text = text
        self.words = read_typed(text).words
        if not text:
            self._names, self._hits = (), Hits()
            self._named_for = self._hits_for = None

    def turn_to(self, scope: Scope) -> None:
        """Look at another list from now on."""
        self.scope = scope
        self._names, self._hits = (), Hits()
        self._named_for = self._hits_for = None

    def forget(self, session_id: str) -> None:
        """A session is gone: leave it out of what was found."""
        self._names = [row for row in self._names if row.id != session_id]
        rows = tuple(row for row in self._hits.rows if row.id != session_id)
        self._hits = Hits(self._hits.query, rows, self._hits.hits, self._hits.cut)

    def put(self, row: Row) -> None:
        """A session is another now: show it so where it was found."""
        self._names = [row if each.id == row.id else each for each in self._names]
        rows = tuple(row if each.id == row.id else each for each in self._hits.rows)
        self._hits = Hits(self._hits.query, rows, self._hits.hits, self._hits.cut)

    async def match(self) -> None:
        """Find the names that fit what is typed; where those are few, also those nearly so."""
        text, scope, catalogue = self.text, self.scope, self.catalogue
        if not text:
            return
        rows, edition, before = tuple(catalogue.rows), catalogue.edition, None
        if self._narrowed is not None and self._narrowed[:2] == (catalogue, edition):
            before = self._narrowed[2]
        narrowed = await _breathe(narrow(rows, read_typed(text), before))
        self._narrowed = (catalogue, edition, narrowed)
        ranked = await _breathe(rank(narrowed))
        if len(ranked) < FEW:
            self._names = ranked
            self._changed()
            ranked = ranked + await _breathe(list_near(rows, narrowed))
        self._names, self._named_for = ranked, (text, scope)
        self._changed()

    async def search(self) -> None:
        """Find the messages in which it was said."""
        text, scope, catalogue = self.text, self.scope, self.catalogue
        if not text:
            return
        self._hits = await find_hits(
            self._client,
            text,
            self._library.get_where(scope),
            find_row=catalogue.find,
            only=tuple(row.id for row in catalogue.rows) if self._library.only else (),
        )
        self._hits_for = (text, scope)
        self._changed()


async def _breathe(steps: Steps[T]) -> T:
    """Take the steps one by one; between them the screen has its turn."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            value: T = stop.value
            return value
        await asyncio.sleep(0)
