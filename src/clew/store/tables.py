"""The tables that are copied to another store: names, columns and order of rows.

Leases, attachments and processes are left out, because they belong to running processes; indexes,
because each database builds its own; the vectors of the memory, because they are made again where
they are missing. It runs no SQL.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Table(NamedTuple):
    """One table. `key` is its primary key.

    `ordered`: the order in which rows were made matters, so a copy keeps it.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    ordered: bool = False


def _table(name: str, columns: str, key: str, *, ordered: bool = False) -> Table:
    return Table(name, tuple(columns.split()), tuple(key.split()), ordered)


_USAGE = "input_tokens output_tokens cache_read_tokens cache_creation_tokens cost api_calls"

# A row comes after the rows that it refers to (except that a fork may precede its parent).
TABLES: Final = (
    _table(
        "sessions",
        f"""id key agent person platform kind title title_key title_by revision cwd project model
        provider personality thinking service_tier mode parent_id forked_at_seq display_name channel
        subject room space origin last_route short_summary send_policy pinned {_USAGE} compactions
        context_tokens message_count content_bytes preview head created_at updated_at
        last_interaction_at archived_at deleted_at purged_at reset_reason previous_id
        transcript_path metadata undo_steps forked_at_step""",
        "id",
    ),
    _table("blobs", "hash media_type data created_at", "hash"),
    _table(
        "messages",
        f"""id session_id seq at role turn_id checksum author external_id tool_call_id tool_name
        is_error model {_USAGE} content parts tool_calls""",
        "id",
    ),
    _table("message_blobs", "message_id hash", "message_id hash"),
    _table("routes", "key session_id updated_at", "key"),
    _table(
        "turns",
        f"""id session_id first_seq status reply_to model {_USAGE} error partial started_at
        ended_at""",
        "id",
        ordered=True,
    ),
    _table("undone", "session_id turn_id begun ended undone_at", "session_id turn_id begun"),
    _table(
        "approvals",
        """id session_id turn_id tool_call_id tool_name request asked_at expires_at decision scope
        decided_by decided_at""",
        "id",
        ordered=True,
    ),
    _table(
        "compactions",
        """id session_id keep_from made_at_seq summary short_summary tokens_before tokens_after
        created_at undone_at""",
        "id",
        ordered=True,
    ),
    _table("scratchpad", "session_id name content size created_at", "session_id name"),
    _table("todos", "session_id position text status", "session_id position"),
    _table("idempotency", "session_id key result at", "session_id key"),
    _table(
        "inbox",
        """id channel account external_id key session_id person payload status claimant claimed_at
        turn_id received_at settled_at position""",
        "id",
        ordered=True,
    ),
    _table("inbox_cursors", "channel account position", "channel account"),
    _table(
        "outbox",
        """id session_id key channel address content turn_id seq status attempts due_at claimant
        claimed_at receipt error created_at updated_at account parts""",
        "id",
        ordered=True,
    ),
    _table(
        "context_lines",
        "id key session_id channel account external_id kind author content at",
        "id",
        ordered=True,
    ),
    _table(
        "tokens",
        "id name person scopes kind digest created_at expires_at revoked_at",
        "id",
        ordered=True,
    ),
    _table(
        "pairings",
        """person channel status name code told reply_to asked_at expires_at decided_at
        decided_by""",
        "person",
    ),
    _table("imports", "session_id agent native_id stamp head noted_at", "session_id"),
)


class Mark(NamedTuple):
    """The progress of a table: how many rows are copied, and their SHA-256."""

    rows: int
    digest: str


CHUNK_ROWS = 1000
CHUNK_BYTES = 4 << 20
"""About how much one transaction of a copy writes; at least one row."""


def row_size(row: tuple[object, ...]) -> int:
    """About how many bytes a row takes."""
    return sum(len(value) for value in row if isinstance(value, str | bytes)) + 8 * len(row)
