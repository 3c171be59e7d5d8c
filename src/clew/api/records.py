"""Records of other programs: sessions that a token makes, and writes into.

A program in any language can keep its conversations in clew. It writes only into sessions that its
own token has made; what it writes is read by the operations of `sessions`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from clew.api.blobs import BlobHash
from clew.api.chat import MAX_ATTACHMENT, MediaType
from clew.api.fields import _END, WORDS, Moment, RowId, Seq, SessionId, Title, Word
from clew.api.operation import Params, row
from clew.api.sessions import SessionView
from clew.core.message import Role

MAX_CHANGES: Final = 500
MAX_CONTENT: Final = 4_000_000
MOST_FACTS: Final = 100
LONGEST_FACTS: Final = 20_000
"""Bytes of all facts of a session, as JSON."""

OwnKey = Annotated[str, Meta(min_length=1, max_length=300)]
Program = Annotated[
    str,
    Meta(
        pattern=f"^[a-z0-9][a-z0-9-]{{0,39}}{_END}",
        max_length=40,
        extra={WORDS: "the name of a program: small letters, digits and -"},
    ),
]
Amount = Annotated[int, Meta(ge=0, le=10**15)]
Label = Annotated[str, Meta(min_length=1, max_length=100)]


# --- what is asked ----------------------------------------------------------------------------
class OpenStored(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The session of a key, made if there is none. The key belongs to the token that asks.

    `program` is the name of the program, for people.
    """

    key: OwnKey
    program: Program = "store"
    title: Title | None = None


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool that the assistant asked for; `arguments` is JSON text."""

    id: Word
    name: Word
    arguments: Annotated[str, Meta(max_length=MAX_CONTENT)] = "{}"


class Spent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens and money of model calls; `cost` is in nano-dollars, null when it is unknown."""

    input_tokens: Amount = 0
    output_tokens: Amount = 0
    cache_read_tokens: Amount = 0
    cache_creation_tokens: Amount = 0
    cost: Amount | None = 0
    api_calls: Amount = 0


class PutMessage(
    msgspec.Struct, frozen=True, kw_only=True, tag="message", forbid_unknown_fields=True
):
    """Add a message.

    One with an `external_id` that the session has already is passed over. Messages with the same
    `turn` (a word of the caller's) are one turn; without it, each has a turn of its own.
    """

    role: Role
    content: Annotated[str, Meta(max_length=MAX_CONTENT)] = ""
    parts: Annotated[tuple[dict[str, Any], ...], Meta(max_length=1_000)] = ()
    tool_call_id: Word | None = None
    tool_name: Word | None = None
    tool_calls: Annotated[tuple[Call, ...], Meta(max_length=1_000)] = ()
    is_error: bool = False
    model: Word | None = None
    usage: Spent | None = None
    at: Moment | None = None
    external_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    turn: Label | None = None


class PutTitle(msgspec.Struct, frozen=True, kw_only=True, tag="title", forbid_unknown_fields=True):
    """Name the session; a title that a person has given stays."""

    title: Annotated[str, Meta(min_length=1, max_length=200)]


class PutUsage(msgspec.Struct, frozen=True, kw_only=True, tag="usage", forbid_unknown_fields=True):
    """Add tokens and money to the totals of the session."""

    usage: Spent


class PutFacts(msgspec.Struct, frozen=True, kw_only=True, tag="facts", forbid_unknown_fields=True):
    """Set facts of the program about the session; null removes one."""

    facts: Annotated[dict[Label, Any], Meta(max_length=MOST_FACTS)]


class Undo(msgspec.Struct, frozen=True, kw_only=True, tag="undo", forbid_unknown_fields=True):
    """Take a turn out of the thread; its messages stay in the store."""

    turn: RowId


class Erase(msgspec.Struct, frozen=True, kw_only=True, tag="erase", forbid_unknown_fields=True):
    """Take a turn back for good: what its messages said is removed from the store."""

    turn: RowId


RecordChange = PutMessage | PutTitle | PutUsage | PutFacts | Undo | Erase


class AddRecords(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of one session: all of them happen, in order, or none.

    With an `idempotency_key`, a second call has no effect and the first one's answer.
    """

    id: SessionId
    changes: Annotated[tuple[RecordChange, ...], Meta(min_length=1, max_length=MAX_CHANGES)]
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class PutBlob(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes for a part of a message, which names them as `{"blob": HASH}`; base64 in JSON."""

    data: Annotated[bytes, Meta(max_length=MAX_ATTACHMENT)]
    media_type: MediaType = "application/octet-stream"


# --- what is given ----------------------------------------------------------------------------
class Stored(msgspec.Struct, frozen=True):
    """The session of a key. `is_new`: this call has made it. `facts` are those of the program."""

    session: SessionView
    is_new: bool
    facts: dict[str, Any] = {}


class StoredMessage(msgspec.Struct, frozen=True):
    """A message that was added: its number, and the turn by which it can be taken back."""

    seq: Seq
    turn: str | None = None
    external_id: str | None = None


class RecordsAdded(msgspec.Struct, frozen=True):
    """The messages of the call, in order, and the last number of the session.

    `repeated`: the idempotency key was known, and nothing was changed.
    """

    messages: tuple[StoredMessage, ...]
    head: Seq
    repeated: bool = False


class BlobStored(msgspec.Struct, frozen=True):
    """The hash by which a part of a message names the bytes."""

    hash: BlobHash
    size: int


# --- the rows of the table ---------------------------------------------------------------------
OPEN: Final = row(
    "records.open", "POST", "sessions", "store", OpenStored, Stored,
    "Open a session of this token by its key; it is made if there is none.",
)  # fmt: skip
ADD: Final = row(
    "records.add", "POST", "sessions/{id}/records", "store", AddRecords, RecordsAdded,
    "Write into a session that this token has made.",
    also="only sessions that the same token has made with `records.open`",
    uploads=True,
)  # fmt: skip
PUT: Final = row(
    "records.put", "POST", "blobs", "store", PutBlob, BlobStored,
    "Store bytes for messages of this token.",
    uploads=True,
)  # fmt: skip
ROWS: Final = (OPEN, ADD, PUT)
