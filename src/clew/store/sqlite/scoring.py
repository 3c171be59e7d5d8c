"""The ranking function that searches use inside SQLite."""

from __future__ import annotations

from typing import Any

import apsw

from clew.core.ranking import bm25


def register_score(connection: apsw.Connection) -> None:
    """Give a connection the ranking function that searches use."""
    connection.register_fts5_function("clew_score", _score)


def _score(api: apsw.FTS5ExtensionApi, *weights: Any) -> float:
    length = api.column_size(0)
    average = api.column_total_size(0) / max(1, api.row_count)
    total = 0.0
    for phrase, weight in enumerate(weights):
        frequency = len(api.phrase_locations(phrase)[0])
        if frequency:
            total += bm25(frequency, length, average, weight)
    return total
