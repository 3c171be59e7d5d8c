"""The part of SQLite's search index that clew itself maintains, and functions for queries.

Triggers index every message in `messages_fts`. Messages in scripts without spaces are also split
by clew into pairs of characters, for `messages_spaceless`: the triggers can only queue these.
"""

from __future__ import annotations

from typing import Any

import apsw

from clew.core.search.hits import bm25
from clew.core.search.query import spaceless_tokens
from clew.core.text import decode_text, fold
from clew.store.sqlite.connection import fetch, fetch_one

INDEXES = ("messages_fts", "messages_spaceless")

_STEP = 200


def index_queued(connection: apsw.Connection) -> None:
    """Index the messages that triggers have queued, in the open transaction."""
    while has_queued(connection):
        queued = fetch(
            connection,
            """SELECT q.message_id, m.content,
                      EXISTS (SELECT 1 FROM messages_spaceless_docsize d WHERE d.id = q.message_id)
               FROM spaceless_queue q LEFT JOIN messages_indexed m ON m.id = q.message_id
               LIMIT ?""",
            (_STEP,),
        )
        for message_id, content, indexed in queued:
            if indexed:
                connection.execute("DELETE FROM messages_spaceless WHERE rowid = ?", (message_id,))
            if content is not None:
                _index_spaceless(connection, message_id, content)
            connection.execute("DELETE FROM spaceless_queue WHERE message_id = ?", (message_id,))


def has_queued(connection: apsw.Connection) -> bool:
    """Whether another program has changed messages since clew's last write."""
    return fetch_one(connection, "SELECT 1 FROM spaceless_queue LIMIT 1") is not None


def rebuild(connection: apsw.Connection) -> None:
    """Rebuild both indexes, in the open transaction."""
    connection.execute("INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')")
    connection.execute("INSERT INTO messages_spaceless (messages_spaceless) VALUES ('delete-all')")
    connection.execute("DELETE FROM spaceless_queue")
    for row_id, content in connection.execute("SELECT id, content FROM messages_indexed"):
        if not content.isascii():
            _index_spaceless(connection, row_id, content)


def _index_spaceless(connection: apsw.Connection, message_id: int, content: str) -> None:
    tokens = spaceless_tokens(decode_text(content))
    if tokens is not None:
        connection.execute(
            "INSERT INTO messages_spaceless (rowid, tokens) VALUES (?, ?)", (message_id, tokens)
        )


# --- functions of queries ---------------------------------------------------------------------


def register_functions(connection: apsw.Connection) -> None:
    """Give a connection the functions that searches and lists use."""
    connection.register_fts5_function("clew_score", _score)
    connection.create_scalar_function("clew_fold", _fold, 1, deterministic=True)


def _fold(*values: Any) -> str | None:
    # SQLite's own lower() knows ASCII only.
    (text,) = values
    return None if text is None else fold(text)


def _score(api: apsw.FTS5ExtensionApi, *weights: Any) -> float:
    """The bm25 of a match; each phrase of the query has a weight."""
    length = api.column_size(0)
    average = api.column_total_size(0) / max(1, api.row_count)
    total = 0.0
    for phrase, weight in enumerate(weights):
        frequency = len(api.phrase_locations(phrase)[0])
        if frequency:
            total += bm25(frequency, length, average, weight)
    return total
