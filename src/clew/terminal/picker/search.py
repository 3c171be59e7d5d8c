"""The search of the picker: names at once, messages a moment later.

It knows the lists and the client, not the screen. Each coroutine may be cancelled at any point; the
last results stay until there are newer ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from clew.client.client import Client
from clew.core.search.hits import SearchHit, SearchPage
from clew.core.search.query import MAX_QUERY
from clew.errors import SessionNotFound
from clew.terminal.picker.lines import describe_count, describe_found
from clew.terminal.picker.lists import Lists, LoadedList, Scope, Where
from clew.terminal.picker.name_match import (
    FEW,
    Narrowed,
    Steps,
    T,
    list_near,
    narrow,
    rank,
    read_typed,
)
from clew.terminal.picker.rows import Row, make_row

HITS: Final = 50
"""Sessions that are shown at most because of their messages."""
HEADING: Final = "── in messages"


class Hits(msgspec.Struct, frozen=True):
    """Sessions whose messages match, best first, with the best message of each."""

    query: str = ""
    rows: tuple[Row, ...] = ()
    hits: dict[str, SearchHit] = {}
    cut: bool = False


class Search:
    """A list, the typed text, and what was found; `changed` is called after each result."""

    def __init__(
        self, client: Client, lists: Lists, scope: Scope, changed: Callable[[], None]
    ) -> None:
        self._client = client
        self._lists = lists
        self._changed = changed
        self.scope = scope
        self.text = ""
        self.words: tuple[str, ...] = ()
        """The typed words, folded for comparison."""
        self._names: Sequence[Row] = ()
        self._named_for: tuple[str, Scope] | None = None
        self._hits = Hits()
        self._hits_for: tuple[str, Scope] | None = None
        self._narrowed: tuple[LoadedList, int, Narrowed] | None = None

    @property
    def listed(self) -> LoadedList:
        """The list that is shown."""
        return self._lists.get_list(self.scope)

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
        """How many sessions there are, or how many were found."""
        if not self.text:
            listed = self.listed
            return describe_count(len(listed.rows), complete=listed.is_complete)
        hits = len(self._hits.rows) if self.is_searched else None
        return describe_found(len(self._names), hits, cut_short=self._hits.cut)

    def list_items(self) -> Sequence[Row | str]:
        """The lines of the list."""
        if not self.text:
            return self.listed.rows
        known = {row.id for row in self._names}
        said = [row for row in self._hits.rows if row.id not in known]
        return [*self._names, HEADING, *said] if said else self._names

    def find_hit(self, session_id: str) -> SearchHit | None:
        """The best message of a session in which the typed words were said."""
        return self._hits.hits.get(session_id) if self.text and self.is_searched else None

    def type(self, text: str) -> None:
        """Search for another text from now on."""
        self.text = text
        self.words = read_typed(text).words
        if not text:
            self._names, self._hits = (), Hits()
            self._named_for = self._hits_for = None

    def turn_to(self, scope: Scope) -> None:
        """Search another list from now on."""
        self.scope = scope
        self._names, self._hits = (), Hits()
        self._named_for = self._hits_for = None

    def forget(self, session_id: str) -> None:
        """Leave a deleted session out of what was found."""
        self._names = [row for row in self._names if row.id != session_id]
        rows = tuple(row for row in self._hits.rows if row.id != session_id)
        self._hits = Hits(self._hits.query, rows, self._hits.hits, self._hits.cut)

    def put(self, row: Row) -> None:
        """Replace a row where it was found."""
        self._names = [row if each.id == row.id else each for each in self._names]
        rows = tuple(row if each.id == row.id else each for each in self._hits.rows)
        self._hits = Hits(self._hits.query, rows, self._hits.hits, self._hits.cut)

    async def match(self) -> None:
        """Find the names that match what is typed; if those are few, also similar ones."""
        text, scope, listed = self.text, self.scope, self.listed
        if not text:
            return
        rows, edition, before = tuple(listed.rows), listed.edition, None
        if self._narrowed is not None and self._narrowed[:2] == (listed, edition):
            before = self._narrowed[2]
        narrowed = await _run_steps(narrow(rows, read_typed(text), before))
        self._narrowed = (listed, edition, narrowed)
        ranked = await _run_steps(rank(narrowed))
        if len(ranked) < FEW:
            self._names = ranked
            self._changed()
            ranked = ranked + await _run_steps(list_near(rows, narrowed))
        self._names, self._named_for = ranked, (text, scope)
        self._changed()

    async def search(self) -> None:
        """Find the messages in which it was said."""
        text, scope, listed = self.text, self.scope, self.listed
        if not text:
            return
        self._hits = await find_hits(
            self._client,
            text,
            self._lists.get_where(scope),
            find_row=listed.find,
            only=tuple(row.id for row in listed.rows) if self._lists.only else (),
        )
        self._hits_for = (text, scope)
        self._changed()


async def _run_steps(steps: Steps[T]) -> T:
    """Run a generator of `name_match` to its end; the event loop runs between its steps."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            value: T = stop.value
            return value
        await asyncio.sleep(0)


# --- messages ---------------------------------------------------------------------------------


async def find_hits(
    client: Client,
    query: str,
    where: Where,
    *,
    find_row: Callable[[str], Row | None],
    only: tuple[str, ...] = (),
) -> Hits:
    """Find sessions whose messages contain the words; the last word may be incomplete.

    `only`: search just these sessions. `find_row` returns loaded rows; other names, such as those
    of archived sessions, are asked for.
    """
    q = query[:MAX_QUERY]
    if only:
        pages = await asyncio.gather(*(_search_one(client, q, each) for each in only[:HITS]))
        # A hit in a fork may name the session where it was said; the row is the fork's.
        found = [(each, page.hits[0]) for each, page in zip(only, pages, strict=False) if page.hits]
        cut = any(page.cut for page in pages)
    else:
        page = await client.sessions.search(
            q,
            limit=HITS,
            platform=where.platform,
            cwd=where.cwd,
            project=where.project,
            typing=True,
            per_session=True,
        )
        found, cut = [(hit.session_id, hit) for hit in page.hits], page.cut
    rows = await _get_rows(client, [each for each, _ in found], find_row)
    return Hits(query=query, rows=rows, hits=dict(found), cut=cut)


async def _search_one(client: Client, q: str, session_id: str) -> SearchPage:
    """The best hit in one session; none in one that is gone."""
    try:
        return await client.sessions.search(q, limit=1, session=session_id, typing=True)
    except SessionNotFound:
        return SearchPage(())


async def _get_rows(
    client: Client, ids: Sequence[str], find_row: Callable[[str], Row | None]
) -> tuple[Row, ...]:
    """The rows of these sessions, in this order; those that are gone are left out."""
    known = {each: row for each in ids if (row := find_row(each)) is not None}
    page = await client.sessions.names(each for each in ids if each not in known)
    known |= {name.id: make_row(name) for name in page.names}
    return tuple(known[each] for each in ids if each in known)
