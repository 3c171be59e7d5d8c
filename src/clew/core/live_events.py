"""Live events: what a watcher of a session sees while a turn runs.

`Committed` is a message that is in the store. All others are hints (`Signal`): they may be dropped
and are never stored. A watcher that misses one loses nothing: the content follows as a message.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.core.message import Message
from clew.core.turn import Approval, Turn


class Committed(msgspec.Struct, frozen=True, tag="message", tag_field="type"):
    """A message of the thread. It was durable before this event was sent."""

    message: Message


class TurnStarted(msgspec.Struct, frozen=True, tag="turn_started", tag_field="type"):
    """A turn has started; its user messages are committed. `answers`: their ids in the inbox."""

    turn_id: str
    model: str | None = None
    answers: tuple[str, ...] = ()


class TurnJoined(msgspec.Struct, frozen=True, tag="turn_joined", tag_field="type"):
    """Messages were added to a running turn, which answers them too. `answers`: their ids."""

    turn_id: str
    answers: tuple[str, ...]


class TurnEnded(msgspec.Struct, frozen=True, tag="turn_ended", tag_field="type"):
    """A turn has ended: `turn.status` says how.

    `answers`: the inbox ids of all messages that it answered, also those that joined it later.
    Empty for another attempt at a turn.
    """

    turn: Turn
    answers: tuple[str, ...] = ()


class NotAnswered(msgspec.Struct, frozen=True, tag="not_answered", tag_field="type"):
    """Inbox messages that get no turn, because they were taken back.

    With an `error`: the turn could not begin, and they stay in the inbox until a person retries.
    """

    ids: tuple[str, ...]
    error: str | None = None


class TextDelta(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    """The next piece of what the model says."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag="thinking", tag_field="type"):
    """The next piece of what the model thinks."""

    text: str


class ToolStarted(msgspec.Struct, frozen=True, tag="tool_started", tag_field="type"):
    """A tool runs. `arguments` are those of the model, parsed if possible."""

    call_id: str
    name: str
    arguments: dict[str, Any] = {}


class ToolProgress(msgspec.Struct, frozen=True, tag="tool_progress", tag_field="type"):
    """A running tool has output to show."""

    call_id: str
    text: str


class ToolEnded(msgspec.Struct, frozen=True, tag="tool_ended", tag_field="type"):
    """A tool has ended; its result follows as a message."""

    call_id: str
    name: str
    is_error: bool = False


class Retrying(msgspec.Struct, frozen=True, tag="retrying", tag_field="type"):
    """The provider failed temporarily: the next attempt comes in `seconds`."""

    attempt: int
    attempts: int
    seconds: float
    reason: str


class Stalled(msgspec.Struct, frozen=True, tag="stalled", tag_field="type"):
    """Nothing has come from the provider for so many seconds; the turn still waits."""

    seconds: int


class ApprovalAsked(msgspec.Struct, frozen=True, tag="approval_asked", tag_field="type"):
    """The turn waits for an approval of a tool call."""

    approval: Approval


class ApprovalDecided(msgspec.Struct, frozen=True, tag="approval_decided", tag_field="type"):
    """The owner has answered, or the approval has expired."""

    approval: Approval


class Notice(msgspec.Struct, frozen=True, tag="notice", tag_field="type"):
    """A message from clew to the person."""

    text: str


Signal = (
    TurnStarted
    | TurnJoined
    | TurnEnded
    | NotAnswered
    | TextDelta
    | ThinkingDelta
    | ToolStarted
    | ToolProgress
    | ToolEnded
    | Retrying
    | Stalled
    | ApprovalAsked
    | ApprovalDecided
    | Notice
)
Event = Committed | Signal
