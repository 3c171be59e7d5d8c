"""Turns: a turn is one user message and everything that the agent does to answer it.

Also approvals, the two kinds of hold on a session (a lease is the right to run the next turn,
fenced by its epoch; an attachment is a terminal's exclusive hold), turns that ended without an
answer, and the queue modes for messages that come while a turn runs. Expiry is checked by the
store, with its own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from clew.core.message import Message
from clew.core.usage import Usage

TurnStatus = Literal["running", "waiting", "done", "failed", "aborted", "interrupted"]
"""`waiting` means waiting for an approval; the last four are final."""

TurnEnd = Literal["done", "failed", "aborted", "interrupted"]

LEASE_MS = 30_000
HEARTBEAT_MS = 10_000
STALE_HEARTBEAT_MS = 30_000

ENDS: Final[dict[TurnStatus, str]] = {
    "aborted": "stopped",
    "interrupted": "interrupted",
    "failed": "failed",
}
"""The words for the end of a turn that has no answer."""

QueueMode = Literal["followup", "steer", "interrupt", "collect"]
"""What happens to a message that comes while a turn runs."""

QUEUE_MODES: Final[dict[QueueMode, str]] = {
    "followup": "each message waits for its own turn",
    "steer": "a message goes into the turn that runs, before its next step",
    "interrupt": "a message stops the turn that runs, and is next",
    "collect": "messages wait, and are answered together",
}

QUEUED: Final[dict[QueueMode, str]] = {
    "followup": "Queued; it is next when this turn is done.",
    "steer": "It goes into this turn before its next step.",
    "interrupt": "This turn is stopped; yours is next.",
    "collect": "Queued; what waits is answered together when this turn is done.",
}
"""The notice about a message that was sent while a turn runs."""


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn. `partial` is the text of a failed turn: shown to people, never to the model.

    `undone_at` is set while the turn is undone in the session that was asked about.
    """

    id: str
    session_id: str
    status: TurnStatus
    reply_to: dict[str, Any] | None
    model: str | None
    usage: Usage
    error: str | None
    partial: str | None
    started_at: int
    ended_at: int | None
    undone_at: int | None = None


Decision = Literal["yes", "no"]
ApprovalScope = Literal["once", "session", "always"]


UNASKED: Final = (
    "The owner can't be asked here, so it was not done. Go on without it; a rule in tools.allow, "
    "or a chat in a terminal, would make it possible."
)
"""The result of a tool call that needs an approval in a turn that nobody attends."""

MAX_REASON: Final = 2_000
"""Characters of the reason of a no."""


class Approval(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question to the owner about a tool call. Without an answer by `expires_at` it is denied.

    `reason` is what the owner said to a no, for the model.
    """

    id: str
    session_id: str
    turn_id: str
    tool_call_id: str
    tool_name: str
    request: dict[str, Any]
    asked_at: int
    expires_at: int
    decision: Decision | None = None
    scope: ApprovalScope | None = None
    decided_by: str | None = None
    decided_at: int | None = None
    reason: str | None = None


class Lease(msgspec.Struct, frozen=True):
    """The right to run the next turn of a session, until `expires_at` or the next epoch."""

    session_id: str
    holder: str
    epoch: int
    expires_at: int


class Attachment(msgspec.Struct, frozen=True):
    """A terminal's hold on a session. pid and start time are for people to read."""

    session_id: str
    host: str
    process: str
    pid: int
    started_at: int
    terminal: str | None
    since: int
    beat_at: int


def find_ends(messages: Sequence[Message]) -> dict[str, int]:
    """The turns whose last message in `messages` is not an answer, with that message's number."""
    last = {each.turn_id: each for each in messages if each.turn_id is not None}
    return {
        turn_id: message.seq
        for turn_id, message in last.items()
        if message.role != "assistant" or message.tool_calls
    }


def place_unfinished(turns: Sequence[Turn], messages: Sequence[Message]) -> dict[int, Turn]:
    """Unfinished turns by the number of the message that they follow."""
    ends = find_ends(messages)
    return {ends[turn.id]: turn for turn in turns if turn.id in ends}


def read_mode(noted: object) -> QueueMode:
    """The queue mode in a session's metadata; an unknown value means the default."""
    return noted if isinstance(noted, str) and noted in QUEUE_MODES else "followup"
