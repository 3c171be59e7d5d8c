"""What a search is in both engines: its filters as conditions, and where its pages end.

Each engine has its own index and its own statement; they are in its `search`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.core.search.hits import SearchFilter, Snippet, snippet
from clew.core.search.query import Query
from clew.core.session import OWNER, may_see
from clew.core.text import decode_text
from clew.errors import SessionNotFound
from clew.store.rows import text
from clew.store.work.sessions import get
from clew.store.work.thread import Segment, read_line
from clew.store.work.transaction import Transaction

FEW_SESSIONS = 64
FEW_MESSAGES = 50_000
"""Filters that leave at most so many sessions, and messages in them, are searched by their rows."""

SNIPPETS = 0.03
"""Seconds for the snippets of a page, after the time for finding and ranking."""

SHORT = 500


class SearchPlace(msgspec.Struct, frozen=True, array_like=True):
    """Where a page of results ends: the same candidates, some further on."""

    newest: int
    now: int
    offset: int


class Bindings:
    """The values of a statement that is composed; `bind` numbers them."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def bind(self, value: object) -> str:
        """Add a value; returns its mark in the statement."""
        self.values.append(value)
        return f"${len(self.values)}"


def session_conditions(where: SearchFilter, bindings: Bindings) -> list[str]:
    """The conditions on the session `s`."""
    conditions: list[str] = []
    if where.viewer != OWNER:
        viewer = bindings.bind(text(where.viewer))
        conditions += [f"s.person = {viewer}", f"s.person <> '{OWNER}'"]
    for column in ("platform", "agent", "kind", "person", "cwd", "project"):
        value = getattr(where, column)
        if value is not None:
            conditions.append(f"s.{column} = {bindings.bind(text(value))}")
    return conditions


def message_conditions(where: SearchFilter, bindings: Bindings) -> list[str]:
    """The conditions on the message `m`."""
    conditions: list[str] = []
    if where.role is None:
        conditions.append("m.role <> 'note'")
    else:
        conditions.append(f"m.role = {bindings.bind(text(where.role))}")
    for comparison, value in ((">=", where.since), ("<=", where.until)):
        if value is not None:
            conditions.append(f"m.at {comparison} {bindings.bind(value)}")
    return conditions


async def find_few_segments(tx: Transaction, where: SearchFilter) -> list[Segment] | None:
    """The segments of the sessions that the filters leave; None if they are too many."""
    if where.session is not None:
        if not may_see(where.viewer, (await get(tx, where.session)).person):
            raise SessionNotFound(where.session)
        return list((await read_line(tx, where.session)).segments)
    bindings = Bindings()
    conditions = session_conditions(where, bindings)
    if not conditions:
        return None
    rows = await tx.fetch(
        f"""SELECT s.id FROM sessions s
            WHERE s.deleted_at IS NULL AND {" AND ".join(conditions)} LIMIT {FEW_SESSIONS + 1}""",
        tuple(bindings.values),
    )
    if len(rows) > FEW_SESSIONS:
        return None
    parts = {part for (each,) in rows for part in (await read_line(tx, each)).segments}
    few = sum(part.high - part.low for part in parts) <= FEW_MESSAGES
    return list(parts) if few and len(parts) <= 2 * FEW_SESSIONS else None


def make_snippet(content: str, query: Query, *, late: bool) -> Snippet:
    """The snippet of a stored text. A late one has its beginning: a deep match takes long."""
    return snippet(decode_text(content[:SHORT] if late else content), query)
