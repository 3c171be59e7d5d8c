"""Rows of the durable inbox and outbox. The runtime decides when and where to send."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from clew.core.message import Author

InboundStatus = Literal["queued", "claimed", "done", "dropped"]
OutboundStatus = Literal["pending", "sending", "sent", "uncertain", "failed", "withheld"]


class NewInbound(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A message as it came in. (channel, account, external_id) is its identity.

    Without an `external_id` a second delivery can't be recognised. `position` is the number by
    which the channel orders its messages, if it has one: with it, a second delivery is recognised
    even after the first was removed. `takes` are the ids of the context lines that
    go along: they are removed when it is stored.
    """

    id: str
    channel: str
    key: str
    account: str = "default"
    external_id: str | None = None
    session_id: str | None = None
    person: str = "owner"
    payload: dict[str, Any] = {}
    position: int | None = None
    takes: tuple[str, ...] = ()


class Inbound(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message in the inbox. `claimant` runs it; `turn_id` is the turn that answers it."""

    id: str
    channel: str
    account: str
    external_id: str | None
    key: str
    session_id: str | None
    person: str
    payload: dict[str, Any]
    status: InboundStatus
    claimant: str | None
    claimed_at: int | None
    turn_id: str | None
    received_at: int
    position: int | None = None


class NewOutbound(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A reply to deliver, committed together with the message that it carries.

    `parts` are the files that go along, by the hash of their blob, and the choices of a question.
    """

    id: str
    key: str
    channel: str
    account: str = "default"
    address: dict[str, Any] = {}
    content: str = ""
    parts: tuple[dict[str, Any], ...] = ()
    turn_id: str | None = None
    seq: int | None = None
    withheld: bool = False


class Outbound(msgspec.Struct, frozen=True, omit_defaults=True):
    """A delivery. `uncertain`: it may or may not have arrived; people are shown these.

    A message to a stranger who is not paired yet belongs to no session.
    """

    id: str
    session_id: str | None
    key: str
    channel: str
    address: dict[str, Any]
    content: str
    turn_id: str | None
    seq: int | None
    status: OutboundStatus
    attempts: int
    due_at: int
    claimant: str | None
    claimed_at: int | None
    receipt: dict[str, Any] | None
    error: str | None
    created_at: int
    updated_at: int
    account: str = "default"
    parts: tuple[dict[str, Any], ...] = ()


LineKind = Literal["said", "edited"]


class ContextLine(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A line that the next message of a conversation takes along, and that has no turn of its own.

    `said`: in a group, without a mention; `edited`: the new text of a message that was answered
    already. (channel, account, external_id) is the message. `at` is set by the store.
    """

    id: str
    key: str
    channel: str
    content: str
    account: str = "default"
    external_id: str | None = None
    session_id: str | None = None
    kind: LineKind = "said"
    author: Author | None = None
    at: int = 0
