"""A message as a channel brings it in, and what the channel is told about it.

Values only. Whose session it is for is decided from its `Arrival` (`core.routing`); that it is
durable before the platform gets its acknowledgement is the reception's promise.
"""

from __future__ import annotations

import msgspec

from clew.core.replies import ReplyTo
from clew.core.routing import Arrival
from clew.core.tokens import Scope


class Sender(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who wrote it, as the platform knows them. Whether that is the owner is in the `Arrival`."""

    id: str
    name: str | None = None


class Labels(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the platform calls the place."""

    conversation: str | None = None
    thread: str | None = None
    subject: str | None = None
    group_channel: str | None = None
    space: str | None = None


class Attached(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that came with it."""

    media_type: str
    data: bytes
    name: str | None = None


class Incoming(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A message that came in. (channel, account, `external_id`) is its identity.

    `key` is for what has a key of its own (a hook, a job, a node) instead of a conversation on a
    platform; what is said over the API names a key too. There a credential tells which `person`
    says it, and how far they may go (`scope`). `reply_to` is where an answer goes; without one,
    where the session spoke last. What is not `from_person` doesn't count as somebody being there;
    where it is not `attended`, nobody answers for tools. `mention` is what the bot is called there,
    for those that begin with its name.
    """

    arrival: Arrival
    sender: Sender
    text: str
    received_at: int
    external_id: str | None = None
    attachments: tuple[Attached, ...] = ()
    labels: Labels = Labels()
    reply_to: ReplyTo | None = None
    key: str | None = None
    person: str | None = None
    scope: Scope | None = None
    is_mentioned: bool = False
    mention: str | None = None
    from_person: bool = True
    attended: bool = True


class Receipt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What became of it. Whatever it says, the message is dealt with: acknowledge it.

    Without an `inbound_id` nobody answers: `note` says why. A second delivery is not `is_new`.
    """

    inbound_id: str | None = None
    session_id: str | None = None
    is_new: bool = True
    note: str | None = None
