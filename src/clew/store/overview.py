"""What both stores make of the rows of an overview. It runs no SQL."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.overview import NamePage
from clew.core.session import SessionFilter
from clew.store.cursors import make_cursor
from clew.store.rows import Row, name_place, names_from

MAX_NAMES = 5000
"""Most names of one page: building them keeps other threads from running."""


def name_page(where: SessionFilter, lists: Sequence[Sequence[Row]], limit: int) -> NamePage:
    """A page of the lists that are shown as one, each with one row more than fits if it has it."""

    def place(row: Row) -> tuple[int, int, str]:
        return name_place(row, trashed=where.trashed)

    rows = [row for each in lists for row in each]
    if len(lists) > 1:
        rows.sort(key=place, reverse=True)
    more = len(rows) > limit
    return NamePage(names_from(rows[:limit]), make_cursor(place(rows[limit - 1])) if more else None)
