"""The index of messages in scripts without spaces, kept in step from its queue."""

from __future__ import annotations

import apsw

from clew.core.query import spaceless_tokens
from clew.core.text import decode_text
from clew.store.sqlite.connection import fetch, fetch_one

_STEP = 200


def index_queued(connection: apsw.Connection) -> None:
    """Index what triggers have queued, in the transaction that is open now."""
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
            tokens = None if content is None else spaceless_tokens(decode_text(content))
            if tokens is not None:
                connection.execute(
                    "INSERT INTO messages_spaceless (rowid, tokens) VALUES (?, ?)",
                    (message_id, tokens),
                )
            connection.execute("DELETE FROM spaceless_queue WHERE message_id = ?", (message_id,))


def has_queued(connection: apsw.Connection) -> bool:
    """Whether somebody changed messages by hand since the last write of clew's."""
    return fetch_one(connection, "SELECT 1 FROM spaceless_queue LIMIT 1") is not None
