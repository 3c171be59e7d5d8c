"""Functions of clew's that queries use inside SQLite: ranking for searches, folding for lists."""

from __future__ import annotations

from typing import Any

import apsw

from clew.core.ranking import bm25
from clew.core.text import fold


def register_functions(connection: apsw.Connection) -> None:
    """Give a connection the functions that searches and lists use."""
    connection.register_fts5_function("clew_score", _score)
    connection.create_scalar_function("clew_fold", _fold, 1, deterministic=True)


def _fold(*values: Any) -> str | None:
    # SQLite's own lower() knows ASCII only.
    (text,) = values
    return None if text is None else fold(text)


def _score(api: apsw.FTS5ExtensionApi, *weights: Any) -> float:
    length = api.column_size(0)
    average = api.column_total_size(0) / max(1, api.row_count)
    total = 0.0
    for phrase, weight in enumerate(weights):
        frequency = len(api.phrase_locations(phrase)[0])
        if frequency:
            total += bm25(frequency, length, average, weight)
    return total
