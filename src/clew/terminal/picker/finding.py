"""Full text of every message, for what is typed in the picker.

The store searches; this asks it for the sessions that the list is about, and finds a row for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from clew.core.search import SearchFilter, SearchHit
from clew.errors import SessionNotFound
from clew.ports import Store
from clew.terminal.picker.rows import Row, row_of

HITS: Final = 50
"""Sessions that are shown for what was said in them, at most."""


class Hits(msgspec.Struct, frozen=True):
    """Sessions in which something was said, the best first, and where in them."""

    query: str = ""
    rows: tuple[Row, ...] = ()
    hits: dict[str, SearchHit] = {}
    cut: bool = False


async def find_hits(
    store: Store,
    query: str,
    where: SearchFilter,
    *,
    find_row: Callable[[str], Row | None],
    only: tuple[str, ...] = (),
) -> Hits:
    """Sessions in which the words were said; the last word may be only begun.

    `only`: look nowhere but in these. `find_row` knows the rows that are loaded; of the others,
    archived ones for example, the session is asked for.
    """
    if only:
        pages = await asyncio.gather(
            *(
                store.search(
                    query, msgspec.structs.replace(where, session=each), limit=1, typing=True
                )
                for each in only[:HITS]
            )
        )
        # A fork's hit may name the session where it was said; it is the fork that was asked.
        found = [(each, page.hits[0]) for each, page in zip(only, pages, strict=False) if page.hits]
        cut = any(page.cut for page in pages)
    else:
        page = await store.search(query, where, limit=HITS, typing=True, per_session=True)
        found, cut = [(hit.session_id, hit) for hit in page.hits], page.cut
    rows = await asyncio.gather(*(_get_row(store, each, find_row) for each, _ in found))
    return Hits(
        query=query,
        rows=tuple(row for row in rows if row is not None),
        hits=dict(found),
        cut=cut,
    )


async def _get_row(
    store: Store, session_id: str, find_row: Callable[[str], Row | None]
) -> Row | None:
    row = find_row(session_id)
    if row is not None:
        return row
    try:
        session = await store.get_session(session_id)
    except SessionNotFound:
        return None
    return None if session.deleted_at is not None else row_of(session)
