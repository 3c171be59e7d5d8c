"""What the public operations are given: one struct for each, every length and number bounded.

An unknown field is an error. What a struct is for, and from where its fields come, is told in
`operations`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from clew.core.complaints import WORDS
from clew.core.delivery import OutboundStatus
from clew.core.keys import MAX_KEY
from clew.core.memory import MEMORY_BYTES, MemoryName
from clew.core.models import Thinking
from clew.core.session import MAX_TITLE, OWNER, SendPolicy
from clew.core.tokens import Scope
from clew.core.turn import ApprovalScope, Decision
from clew.core.usage import UsageBy

# --- what parameters are made of --------------------------------------------------------------

_LAST: Final = 2**53 - 1
"""The last whole number that every JSON reader knows exactly."""
_END: Final = r"$(?!\n)"
"""The very end, to Python and to JSON Schema alike: Python's `$` allows a newline behind it."""

SessionId = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        max_length=36,
        description="A whole session id.",
        extra={WORDS: "a whole session id, like 3f0c6f1e-9a4b-4c7d-8e21-5b6a7c8d9e0f"},
    ),
]
RowId = Annotated[
    str,
    Meta(
        pattern=f"^[0-9A-Za-z_.:-]+{_END}",
        min_length=1,
        max_length=100,
        extra={WORDS: "an id: letters, digits and . _ : - only"},
    ),
]
Word = Annotated[str, Meta(min_length=1, max_length=200)]
Key = Annotated[str, Meta(min_length=1, max_length=MAX_KEY)]
Cursor = Annotated[str, Meta(max_length=2_000)]
Line = Annotated[str, Meta(max_length=1_000)]
Seq = Annotated[int, Meta(ge=0, le=_LAST)]
Moment = Annotated[int, Meta(ge=0, le=_LAST, description="Milliseconds UTC.")]
MediaType = Annotated[
    str,
    Meta(
        pattern=f"^[a-z]+/[A-Za-z0-9.+-]+{_END}",
        max_length=100,
        extra={WORDS: "a media type, like image/png"},
    ),
]

MAX_TEXT: Final = 1_000_000
MAX_ATTACHMENT: Final = 20_000_000


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operation is given. A field that is left out is its default; None clears."""


class NoParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing."""


# --- sessions ---------------------------------------------------------------------------------


class ListSessions(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`active`: updated within so many minutes. `archived` left out: only a search shows them.

    `named`: a fragment of the title or the first prompt; for lists, not for searches.
    """

    q: Annotated[str, Meta(max_length=1_000)] | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 20
    cursor: Cursor | None = None
    platform: Word | None = None
    agent: Word | None = None
    cwd: Line | None = None
    project: Line | None = None
    named: Word | None = None
    active: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    archived: bool | None = None
    trashed: bool = False


class GetSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session, and so many of its newest messages; with `render`, as HTML too."""

    id: SessionId
    messages: Annotated[int, Meta(ge=0, le=1_000)] = 200
    render: Literal["html"] | None = None


class GetMessages(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`before` and `after` are numbers of messages, and exclusive. `render` adds safe HTML."""

    id: SessionId
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 50
    before: Seq | None = None
    after: Seq | None = None
    undone: bool = False
    render: Literal["html"] | None = None


class OneSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The session that it is about."""

    id: SessionId


class StopSession(OneSession, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`queue`: whether what waits is taken back too; else its turn comes next."""

    queue: bool = True


class UpdateSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change. `if_match` is the revision that the caller has seen."""

    id: SessionId
    title: Annotated[str, Meta(max_length=MAX_TITLE)] | UnsetType | None = UNSET
    pinned: bool | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    personality: Word | UnsetType | None = UNSET
    model: Word | UnsetType | None = UNSET
    thinking: Thinking | UnsetType | None = UNSET
    send_policy: SendPolicy | UnsetType | None = UNSET
    if_match: Annotated[int, Meta(ge=0, le=_LAST)] | None = None


class ForkSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`at` is the last message to take along; all if left out."""

    id: SessionId
    at: Seq | None = None


class CompactSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`instructions`: what the summary should heed."""

    id: SessionId
    instructions: Annotated[str, Meta(max_length=4_000)] | None = None


class ExportSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`masked`: whether secrets are; left out, in all but `jsonl`."""

    id: SessionId
    format: Literal["md", "html", "jsonl"] = "md"
    masked: bool | None = None


class ResolveSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person typed: a part of an id, a title or a part of it, or a key."""

    value: Annotated[str, Meta(min_length=1, max_length=1_000)]


class PreviewSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many messages, and how much of each."""

    id: SessionId
    limit: Annotated[int, Meta(ge=1, le=50)] = 10
    characters: Annotated[int, Meta(ge=10, le=2_000)] = 200


# --- talking ----------------------------------------------------------------------------------


class Upload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that comes with a message; `data` is base64 in JSON."""

    media_type: MediaType
    data: Annotated[bytes, Meta(min_length=1, max_length=MAX_ATTACHMENT)]


class SendChat(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message for a session, or for where a key leads; with neither, for a new session.

    With an `idempotency_key` a second delivery is the first one. `stream` answers with events
    until the message is answered. `attended`: the owner is there to answer for tools; else those
    that need a word are refused at once.
    """

    text: Annotated[str, Meta(max_length=MAX_TEXT)]
    session: SessionId | None = None
    key: Key | None = None
    attachments: Annotated[tuple[Upload, ...], Meta(max_length=10)] = ()
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    stream: bool = False
    attended: bool = True


class ListQueue(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that waits, or what waits in a session."""

    session: SessionId | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class DropQueue(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Take back what waits in a session; with `id`, that message only."""

    session: SessionId
    id: RowId | None = None


class ListApprovals(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of all sessions, or of one."""

    session: SessionId | None = None


class DecideApproval(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The owner's word about a tool call."""

    id: RowId
    decision: Decision
    scope: ApprovalScope = "once"


class ListOutbox(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of all sessions, or of one."""

    session: SessionId | None = None
    state: OutboundStatus | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class RetryOutbound(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Send a reply again that failed, or of which nobody knows whether it arrived."""

    id: RowId


# --- memory and credentials -------------------------------------------------------------------


class GetMemory(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file, and under which hat."""

    store: MemoryName
    personality: Word | None = None


class WriteMemory(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file anew. `if_match` is the etag that the caller has seen."""

    store: MemoryName
    content: Annotated[str, Meta(max_length=MEMORY_BYTES)]
    personality: Word | None = None
    if_match: Annotated[str, Meta(max_length=200)] | None = None


class CreateToken(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A credential for a person; without `expires_at` until it is revoked."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    scope: Scope
    person: Word = OWNER
    expires_at: Moment | None = None


class OneToken(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The credential that it is about."""

    id: RowId


class DecidePairing(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The owner's word about a guest. `who` is a code of eight letters, or a person.

    A person is a channel and an id there: `telegram:456`.
    """

    who: Annotated[str, Meta(min_length=1, max_length=300)]
    decision: Literal["approve", "refuse"] = "approve"


class AddJob(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that runs by the clock. `session` is `isolated`, `fixed`, or a key.

    `schedule` has five fields, or says `every 2h`. `deliver_to` is a channel and an id there.
    """

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    schedule: Annotated[str, Meta(min_length=1, max_length=200)]
    text: Annotated[str, Meta(min_length=1, max_length=100_000)]
    agent: Word = "main"
    session: Key = "isolated"
    deliver_to: Annotated[str, Meta(min_length=1, max_length=MAX_KEY)] | None = None
    timezone: Annotated[str, Meta(min_length=1, max_length=100)] | None = None


class OneJob(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The job that it is about."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]


class GetUsage(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to sum up by, and from when. `limit` is for sessions: so many, the dearest first."""

    by: UsageBy = "day"
    since: Moment = 0
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
