"""Rows as values, and values as bindings: the one module that knows the order of columns.

Tables and columns have the same names in both databases. It runs no SQL. The limits of pages and
their cursors, which are opaque to callers, are here too.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from clew.core.channels.people import Pairing
from clew.core.delivery import ContextLine, Inbound, Outbound
from clew.core.message import Author, Draft, Message, ToolCall
from clew.core.notes import Compaction
from clew.core.session import NAME_TEXT, Session, SessionName
from clew.core.text import ESCAPE, decode_text, encode_text, from_json, to_json
from clew.core.turn import Approval, Attachment, Turn
from clew.core.usage import Usage
from clew.errors import InvalidCursor, InvalidInput

Row = tuple[Any, ...]

USAGE_COLUMNS = (
    "input_tokens, output_tokens, cache_read_tokens, cache_creation_tokens, cost, api_calls"
)

SESSION_COLUMNS = f"""
  id, key, agent, person, platform, kind, title, title_by, revision, cwd, project, model, provider,
  personality, thinking, service_tier, mode, parent_id, forked_at_seq, display_name, channel,
  subject, room, space, origin, last_route, short_summary, send_policy, pinned, {USAGE_COLUMNS},
  compactions, context_tokens, message_count, content_bytes, preview, head, created_at, updated_at,
  last_interaction_at, archived_at, deleted_at, reset_reason, previous_id, transcript_path, metadata
"""

NAME_COLUMNS = """
  id, title, short_summary, preview, cwd, project, platform, kind, person, updated_at, pinned,
  message_count, archived_at IS NOT NULL, deleted_at
"""

MESSAGE_COLUMNS = f"""
  id, session_id, seq, turn_id, role, content, parts, tool_call_id, tool_name, tool_calls, is_error,
  model, {USAGE_COLUMNS}, at, author, external_id
"""

NEW_MESSAGE_COLUMNS = f"""
  checksum, turn_id, role, content, parts, tool_call_id, tool_name, tool_calls, model, author,
  is_error, {USAGE_COLUMNS}, external_id
"""

COVERED = (
    "turn_id", "role", "content", "parts", "tool_call_id", "tool_name", "tool_calls", "model",
    "author",
)  # fmt: skip
"""The columns of a message that its checksum is made of: its texts, no numbers and no times."""

TURN_COLUMNS = f"""
  id, session_id, status, reply_to, model, {USAGE_COLUMNS}, error, partial, started_at, ended_at,
  (SELECT undone_at FROM undone u WHERE u.session_id = turns.session_id AND u.turn_id = turns.id
    AND u.ended IS NULL)
"""

APPROVAL_COLUMNS = """
  id, session_id, turn_id, tool_call_id, tool_name, request, asked_at, expires_at, decision, scope,
  decided_by, decided_at
"""

REASON = "reason"
"""The name of the reason of a no, inside `approvals.request`."""

ATTACHMENT_COLUMNS = "session_id, host, process, pid, started_at, terminal, since, beat_at"

INBOX_COLUMNS = """
  id, channel, account, external_id, key, session_id, person, payload, status, claimant, claimed_at,
  turn_id, received_at, position
"""

OUTBOX_COLUMNS = """
  id, session_id, key, channel, address, content, turn_id, seq, status, attempts, due_at, claimant,
  claimed_at, receipt, error, created_at, updated_at, account, parts
"""

LINE_COLUMNS = "id, key, channel, content, account, external_id, session_id, kind, author, at"

PAIRING_COLUMNS = """
  person, channel, status, name, code, told, reply_to, asked_at, expires_at, decided_at, decided_by
"""

COMPACTION_COLUMNS = """
  id, session_id, keep_from, made_at_seq, summary, short_summary, tokens_before, tokens_after,
  created_at, undone_at
"""

_pack = msgspec.msgpack.Encoder().encode
_ESCAPED = ESCAPE.encode()
_SEPARATOR = "\x1f"

_decode_parts = msgspec.json.Decoder(tuple[dict[str, Any], ...]).decode
_decode_calls = msgspec.json.Decoder(tuple[ToolCall, ...]).decode

T = TypeVar("T")


LAST_CHARACTER = "\U0010ffff"
"""Comes after every other character in the order of keys."""


def text(value: str) -> str:
    """Text for a TEXT column."""
    if type(value) is not str:
        raise InvalidInput(f"Text was expected, not {type(value).__name__}. Nothing was changed.")
    return encode_text(value)


def optional(value: str | None) -> str | None:
    """Text or NULL for a TEXT column."""
    return None if value is None else text(value)


def whole(value: int | None) -> int | None:
    """A whole number or NULL; PostgreSQL would silently round a fraction and accept text."""
    if value is not None and type(value) is not int:
        raise InvalidInput(f"A whole number was expected, not {value!r}. Nothing was changed.")
    return value


def check_types(value: msgspec.Struct) -> None:
    """Refuse a value whose fields have wrong types: a struct does not check them itself."""
    given = {name: getattr(value, name) for name in value.__struct_fields__}
    try:
        msgspec.convert({n: v for n, v in given.items() if v is not msgspec.UNSET}, type(value))
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{error}. Nothing was changed.") from error


def plain(value: str | None) -> str | None:
    """The original text of a TEXT column."""
    return value if value is None or ESCAPE not in value else decode_text(value)


def byte_length(value: str) -> int:
    """The size in UTF-8 of a text that is ready for its column."""
    return len(value) if value.isascii() else len(value.encode())


def usage_bindings(usage: Usage) -> tuple[int | None, ...]:
    """In the order of USAGE_COLUMNS."""
    return msgspec.structs.astuple(usage)


def session_from(row: Row) -> Session:
    """A row of SESSION_COLUMNS."""
    if _ESCAPED in _pack(row):  # the quickest way to check fifty columns at once
        row = _unescape(row, json_at=(24, 25, 49))
    return _session(row)


def sessions_from(rows: Sequence[Row]) -> list[Session]:
    """Rows of SESSION_COLUMNS; one check for escapes serves all of them."""
    if _ESCAPED in _pack(rows):
        rows = [_unescape(row, json_at=(24, 25, 49)) for row in rows]
    return list(map(_session, rows))


def _session(row: Row) -> Session:
    origin, route, metadata = row[24], row[25], row[49]
    return Session(  # type: ignore[call-arg]  # as many as there are columns
        *row[:24],
        {} if origin == "{}" else from_json(origin, dict[str, Any]),
        None if route is None else from_json(route, dict[str, Any]),
        row[26],
        row[27],
        row[28] == 1,
        Usage(*row[29:35]),
        *row[35:49],
        {} if metadata == "{}" else from_json(metadata, dict[str, Any]),
    )


def names_from(rows: Sequence[Row]) -> tuple[SessionName, ...]:
    """Rows of NAME_COLUMNS. There are many: one check for escapes, and no call for each."""
    if _ESCAPED in _pack(rows):
        rows = [_unescape(row, json_at=()) for row in rows]
    return tuple([
        SessionName(
            session_id, title, summary and summary[:NAME_TEXT], preview and preview[:NAME_TEXT],
            cwd, project, platform, kind, person, updated_at, pinned == 1, count, archived == 1,
        )
        for (
            session_id, title, summary, preview, cwd, project, platform, kind, person, updated_at,
            pinned, count, archived, _,
        ) in rows
    ])  # fmt: skip


def name_place(row: Row, *, trashed: bool) -> tuple[int, int, str]:
    """The position of a row of NAME_COLUMNS in its list."""
    return (0, row[13], row[0]) if trashed else (int(row[10]), row[9], row[0])


def _unescape(row: Row, *, json_at: tuple[int, ...]) -> Row:
    return tuple(
        decode_text(value) if type(value) is str and index not in json_at else value
        for index, value in enumerate(row)
    )


def _object(value: str | None) -> dict[str, Any] | None:
    if value is None or value == "{}":
        return None if value is None else {}
    return from_json(value, dict[str, Any])


def message_from(row: Row) -> Message:
    """A row of MESSAGE_COLUMNS. The hottest function of all reads: no loops, no indirection."""
    (
        row_id, session_id, seq, turn_id, role, content, parts, call_id, tool, calls, is_error,
        model, tokens_in, tokens_out, cache_read, cache_made, cost, api_calls, at, author,
        external_id,
    ) = row  # fmt: skip
    return Message(
        row_id,
        session_id,
        seq,
        turn_id if turn_id is None or ESCAPE not in turn_id else decode_text(turn_id),
        role,
        content if ESCAPE not in content else decode_text(content),
        () if parts is None else _parts(parts),
        call_id if call_id is None or ESCAPE not in call_id else decode_text(call_id),
        tool if tool is None or ESCAPE not in tool else decode_text(tool),
        () if calls is None else _calls(calls),
        is_error == 1,
        model if model is None or ESCAPE not in model else decode_text(model),
        None
        if tokens_in is None
        else Usage(tokens_in, tokens_out, cache_read, cache_made, cost, api_calls),
        at,
        None if author is None else from_json(author, Author),
        plain(external_id),
    )


def author_from(value: str | None) -> Author | None:
    """The author of a message."""
    return None if value is None else from_json(value, Author)


def _parts(value: str) -> tuple[dict[str, Any], ...]:
    if ESCAPE in value:
        return from_json(value, tuple[dict[str, Any], ...])
    return _decode_parts(value)


def _calls(value: str) -> tuple[ToolCall, ...]:
    return from_json(value, tuple[ToolCall, ...]) if ESCAPE in value else _decode_calls(value)


def message_bindings(draft: Draft, turn_id: str | None) -> tuple[Row, int]:
    """A draft in the order of NEW_MESSAGE_COLUMNS, and its size in bytes."""
    turn = optional(turn_id)
    content = text(draft.content)
    parts = to_json(draft.parts) if draft.parts else None
    calls = to_json(draft.tool_calls) if draft.tool_calls else None
    size = byte_length(content)
    if parts or calls:
        size += byte_length(parts or "") + byte_length(calls or "")
    usage = (None,) * 6 if draft.usage is None else usage_bindings(draft.usage)
    call_id, tool = optional(draft.tool_call_id), optional(draft.tool_name)
    model = optional(draft.model)
    author = None if draft.author is None else to_json(draft.author)
    covered = (turn, draft.role, content, parts, call_id, tool, calls, model, author)
    bindings = (checksum(*covered), *covered, bool(draft.is_error), *usage)
    bindings += (optional(draft.external_id),)
    return bindings, size


def checksum(*texts: str | None) -> int:
    """The checksum of a message: of its texts as they are stored, in the order of COVERED.

    It tells a row that the disk has changed from the one that was written. PostgreSQL makes it too,
    with the function `clew_checksum` of its schema.
    """
    return _short_hash(_SEPARATOR.join([each or "" for each in texts]).encode())


def checksum_of_bytes(*texts: bytes | None) -> int:
    """The same over texts that may not be UTF-8 any more."""
    return _short_hash(_SEPARATOR.encode().join([each or b"" for each in texts]))


def _short_hash(data: bytes) -> int:
    # As a signed number: both databases keep that in four bytes.
    return int.from_bytes(sha256(data, usedforsecurity=False).digest()[:4], "big", signed=True)


def turn_from(row: Row) -> Turn:
    """A row of TURN_COLUMNS."""
    values = (
        decode_text(row[0]),
        *row[1:3],
        _object(row[3]),
        plain(row[4]),
        Usage(*row[5:11]),
        plain(row[11]),
        plain(row[12]),
        *row[13:16],
    )
    return Turn(*values)


def approval_from(row: Row) -> Approval:
    """A row of APPROVAL_COLUMNS. The reason of a no is kept inside the request."""
    values = _unescape(row, json_at=(5,))
    request = _object(row[5]) or {}
    reason = request.pop(REASON, None)
    return Approval(*(*values[:5], request, *values[6:], reason))


def attachment_from(row: Row) -> Attachment:
    """A row of ATTACHMENT_COLUMNS."""
    return Attachment(*_unescape(row, json_at=()))


def inbound_from(row: Row) -> Inbound:
    """A row of INBOX_COLUMNS."""
    values = _unescape(row, json_at=(7,))
    return Inbound(*(*values[:7], _object(row[7]) or {}, *values[8:]))


def outbound_from(row: Row) -> Outbound:
    """A row of OUTBOX_COLUMNS."""
    values = _unescape(row, json_at=(4, 13, 18))
    middle = (_object(row[4]) or {}, *values[5:13], _object(row[13]))
    parts = () if row[18] is None else _parts(row[18])
    return Outbound(*(*values[:4], *middle, *values[14:18], parts))


def line_from(row: Row) -> ContextLine:
    """A row of LINE_COLUMNS."""
    line_id, key, channel, content, account, external_id, session_id, kind, _, at = _unescape(
        row, json_at=(8,)
    )
    return ContextLine(
        id=line_id,
        key=key,
        channel=channel,
        content=content,
        account=account,
        external_id=external_id,
        session_id=session_id,
        kind=kind,
        author=None if row[8] is None else from_json(row[8], Author),
        at=at,
    )


def pairing_from(row: Row) -> Pairing:
    """A row of PAIRING_COLUMNS."""
    values = _unescape(row, json_at=(6,))
    return Pairing(*(*values[:6], _object(row[6]), *values[7:]))


def compaction_from(row: Row) -> Compaction:
    """A row of COMPACTION_COLUMNS."""
    return Compaction(*_unescape(row, json_at=()))


def check_limit(limit: int) -> int:
    """The limit of a page; `InvalidInput` if it is negative."""
    if limit < 0:
        raise InvalidInput(f"A page can't have {limit} rows.")
    return limit


def make_cursor(place: object) -> str:
    """A position in a list as a cursor."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read_cursor(cursor: str, kind: type[T]) -> T:
    """The position that a cursor stands for; `InvalidCursor` if it can't be read."""
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return msgspec.json.decode(raw, type=kind)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise InvalidCursor(
            "That cursor does not belong here. Start again from the first page."
        ) from error
