"""Signals: live hints about a turn, and the events that a watcher of a session sees.

A signal may be dropped and is never stored; who missed one loses nothing, for what counts follows
as a message. `Committed` is the one event that is not a hint: a message that is in the store.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.core.message import Message
from clew.core.turn import Approval, Turn


class Committed(msgspec.Struct, frozen=True, tag="message", tag_field="type"):
    """A message of the thread. It was durable before anybody saw this."""

    message: Message


class TurnStarted(msgspec.Struct, frozen=True, tag="turn_started", tag_field="type"):
    """A turn runs; its user messages are committed. `answers`: their ids in the inbox."""

    turn_id: str
    model: str | None = None
    answers: tuple[str, ...] = ()


class TurnJoined(msgspec.Struct, frozen=True, tag="turn_joined", tag_field="type"):
    """Messages went into a turn that runs, which answers them too. `answers`: their ids."""

    turn_id: str
    answers: tuple[str, ...]


class TurnEnded(msgspec.Struct, frozen=True, tag="turn_ended", tag_field="type"):
    """A turn is over: `turn.status` says how. `answers`: the ids in the inbox of all messages that
    it took, those that joined it later included. Another attempt at a turn has taken none.
    """

    turn: Turn
    answers: tuple[str, ...] = ()


class NotAnswered(msgspec.Struct, frozen=True, tag="not_answered", tag_field="type"):
    """Messages of the inbox whose turn does not come: they were taken back.

    With an `error` the turn could not begin, and they wait in the inbox until somebody asks again.
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
    """A tool runs. `arguments` are what the model gave, parsed if they could be."""

    call_id: str
    name: str
    arguments: dict[str, Any] = {}


class ToolProgress(msgspec.Struct, frozen=True, tag="tool_progress", tag_field="type"):
    """A running tool has something to show."""

    call_id: str
    text: str


class ToolEnded(msgspec.Struct, frozen=True, tag="tool_ended", tag_field="type"):
    """A tool is done; its result follows as a message."""

    call_id: str
    name: str
    is_error: bool = False


class Retrying(msgspec.Struct, frozen=True, tag="retrying", tag_field="type"):
    """The provider failed in a way that may pass: another attempt comes in `seconds`."""

    attempt: int
    attempts: int
    seconds: float
    reason: str


class ApprovalAsked(msgspec.Struct, frozen=True, tag="approval_asked", tag_field="type"):
    """The turn waits for the owner's word about a tool call."""

    approval: Approval


class ApprovalDecided(msgspec.Struct, frozen=True, tag="approval_decided", tag_field="type"):
    """The owner has answered, or the time for it is over."""

    approval: Approval


class Notice(msgspec.Struct, frozen=True, tag="notice", tag_field="type"):
    """A sentence for the person, about what clew does."""

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
    | ApprovalAsked
    | ApprovalDecided
    | Notice
)
Event = Committed | Signal
