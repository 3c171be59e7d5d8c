"""Full text of every message, for what is typed in the picker.

The search is the API's; this asks it for the sessions of a list, and finds a row for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from clew.client.client import Client
from clew.core.query import MAX_QUERY
from clew.core.search import SearchHit, SearchPage
from clew.errors import SessionNotFound
from clew.terminal.picker.catalogue import Where
from clew.terminal.picker.rows import Row, make_row

HITS: Final = 50
"""Sessions that are shown for what was said in them, at most."""


class Hits(msgspec.Struct, frozen=True):
    """Sessions in which something was said, the best first, and where in them."""

    query: str = ""
    rows: tuple[Row, ...] = ()
    hits: dict[str, SearchHit] = {}
    cut: bool = False


async def find_hits(
    client: Client,
    query: str,
    where: Where,
    *,
    find_row: Callable[[str], Row | None],
    only: tuple[str, ...] = (),
) -> Hits:
    """Sessions in which the words were said; the last word may be only begun.

    `only`: look nowhere but in these. `find_row` knows the rows that are loaded; of the others,
    archived ones for example, the names are asked for.
    """
    q = query[:MAX_QUERY]
    if only:
        pages = await asyncio.gather(*(_search_one(client, q, each) for each in only[:HITS]))
        # A fork's hit may name the session where it was said; it is the fork that was asked.
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
