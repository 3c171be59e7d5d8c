"""A message as a channel brings it in, and what the channel is told about it.

Values only. Whose session it is for is decided from its `Arrival` (`core.routing`); that it is
durable before the platform gets its acknowledgement is the reception's promise.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.core.replies import ReplyTo
from clew.core.routing import Arrival
from clew.core.session import OWNER, Session
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

    `session` is for what is said in a session that is named, as it is: a terminal's line, a job's
    run, a sub-agent's task. Without one, rules choose it: by where the message came from, or by its
    `key`, for what has a key of its own (a hook, a node) instead of a conversation on a platform.
    What is said over the API names one of the two. There a credential tells which `person` says it,
    and how far they may go (`scope`). `reply_to` is where an answer goes; without one, where the
    session spoke last, if rules have chosen it. What is not `from_person` doesn't count as somebody
    being there; where it is not `attended`, nobody answers for tools. `mention` is what the bot is
    called there, for those that begin with its name. `platform` is what the message is shown as.
    """

    arrival: Arrival
    sender: Sender
    text: str
    external_id: str | None = None
    attachments: tuple[Attached, ...] = ()
    labels: Labels = Labels()
    reply_to: ReplyTo | None = None
    session: str | None = None
    key: str | None = None
    person: str | None = None
    scope: Scope | None = None
    is_mentioned: bool = False
    mention: str | None = None
    from_person: bool = True
    attended: bool = True
    platform: str | None = None


def message_for(
    session: Session, text: str, *, channel: str, person: str = OWNER, **more: Any
) -> Incoming:
    """A message that is said in a session that is named; `more` are other fields of it."""
    return Incoming(
        arrival=Arrival(channel=channel),
        sender=Sender(person),
        person=person,
        text=text,
        session=session.id,
        key=session.key,
        **more,
    )


class Receipt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What became of it. Whatever it says, the message is dealt with: acknowledge it.

    Without an `inbound_id` nobody answers: `note` says why. A second delivery is not `is_new`.
    """

    inbound_id: str | None = None
    session_id: str | None = None
    is_new: bool = True
    note: str | None = None
