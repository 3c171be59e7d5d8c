"""An incoming message of a channel, its receipt, and what the session records about its origin.

Values, and functions over them: the label and origin of a conversation. `session_choice` decides
which session a message is for. `runtime.inbound.reception` makes sure that the message is durable
before the platform gets its acknowledgement.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.core.channels.replies import Attached, ReplyTo
from clew.core.channels.routing import Arrival
from clew.core.keys import parse_key
from clew.core.message import Earlier
from clew.core.session import OWNER, Kind, Session, SessionFacts
from clew.core.tokens import Scopes


class Sender(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sender as the platform knows them. `Arrival` says whether it is the owner."""

    id: str
    name: str | None = None


class Labels(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The names that the platform has for the place."""

    conversation: str | None = None
    thread: str | None = None
    subject: str | None = None
    group_channel: str | None = None
    space: str | None = None


class Quote(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that another one answers. `is_own`: the agent said it."""

    text: str
    author: Sender | None = None
    is_own: bool = False


class Incoming(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A message that came in. (channel, account, `external_id`) is its identity.

    `session` is set if the sender names the session: a terminal's line, a job's run, a
    sub-agent's task. Otherwise rules choose it, by the conversation that the message came from,
    or by its `key` if it has no conversation on a platform (a webhook, a node). A message over
    the API names one of the two; there the token says which `person` writes, and what they may
    do (`scopes`). `position` is the number by which the channel orders its messages (an update's
    id, a mail's uid), if it has one: a message from before those that were removed from the inbox
    is not answered, however late it is delivered again. `reply_to` is where the answer goes;
    without it, an answer in a session that rules chose goes to where the session last replied. A
    message that is not `from_person` does not move the reset clock; if it is not `attended`, no
    person is there to approve tool calls. `memory`: its turn may write memory, if its person
    may; a job or a webhook only if it is configured so. `mention` is the bot's name there, for
    messages that begin with it; `is_mentioned`: it speaks to the bot, by its name or as an answer.
    `quote` is the message that it answers. Not `is_verified`: the platform does not vouch for the
    sender, who is then never the owner; the channel gives such a sender an id of its own.
    `platform` is shown as the origin of the message. `instructions` hold for its turn, after
    clew's own; `earlier` is what was said elsewhere before it, which the model gets as a quote.
    """

    arrival: Arrival
    sender: Sender
    text: str
    external_id: str | None = None
    position: int | None = None
    attachments: tuple[Attached, ...] = ()
    labels: Labels = Labels()
    reply_to: ReplyTo | None = None
    session: str | None = None
    key: str | None = None
    person: str | None = None
    scopes: Scopes | None = None
    is_mentioned: bool = False
    is_verified: bool = True
    quote: Quote | None = None
    mention: str | None = None
    from_person: bool = True
    attended: bool = True
    memory: bool = True
    platform: str | None = None
    instructions: str | None = None
    earlier: tuple[Earlier, ...] = ()


class Edited(msgspec.Struct, frozen=True, kw_only=True):
    """A message that its sender has changed; `external_id` is that of the message.

    Before its turn begins, the new text replaces the old one; later it goes along with the next
    message. It is never answered by itself.
    """

    arrival: Arrival
    sender: Sender
    external_id: str
    text: str
    labels: Labels = Labels()
    reply_to: ReplyTo | None = None


class Pressed(msgspec.Struct, frozen=True, kw_only=True):
    """A button below a question that was pressed: by whom, in which chat, and its value.

    `external_id` identifies the press.
    """

    arrival: Arrival
    sender: Sender
    value: str
    reply_to: ReplyTo
    external_id: str


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """A place that replies can go to, without a message: the bot was added to a group, say.

    The session of that place, if there is one, learns its names and where its replies go.
    """

    arrival: Arrival
    sender: Sender
    reply_to: ReplyTo
    labels: Labels = Labels()


Event = Incoming | Edited | Pressed | Learned
"""What a channel reports to its `Receive`."""


def is_unattended(incoming: Incoming) -> bool:
    """Whether it came over a channel on which nothing can be approved, such as e-mail."""
    return incoming.person is None and not incoming.attended


def message_for(
    session: Session, text: str, *, channel: str, person: str = OWNER, **more: Any
) -> Incoming:
    """Make a message to a given session; `more` sets other fields."""
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
    """The result of accepting a message. The platform can always be given its acknowledgement.

    Without an `inbound_id` there will be no answer: `note` says why. `is_new` is False for a second
    delivery of the same message.
    """

    inbound_id: str | None = None
    session_id: str | None = None
    is_new: bool = True
    note: str | None = None


def label_of(incoming: Incoming) -> str | None:
    """The name of the conversation: from the platform, its people, or its place."""
    peer = incoming.arrival.peer
    last = incoming.sender.id if _is_direct(incoming) or peer is None else peer.id
    return _name_of(incoming) or _first(last)


def _name_of(incoming: Incoming) -> str | None:
    """The name that people gave the conversation; never an id."""
    labels = incoming.labels
    if _is_direct(incoming):
        return _first(labels.conversation, labels.thread, incoming.sender.name)
    return _first(
        labels.conversation, labels.thread, labels.group_channel, labels.subject, labels.space
    )


def origin_of(incoming: Incoming) -> dict[str, Any]:
    """The origin as it came in, without absent values."""
    arrival = incoming.arrival
    peer = arrival.peer
    told = {
        "label": label_of(incoming),
        "provider": arrival.channel,
        "from": incoming.sender.id,
        "to": None if peer is None else f"{peer.kind}:{peer.id}",
        "account": arrival.account,
        "thread": arrival.thread,
    }
    return {name: value.strip() for name, value in told.items() if value and value.strip()}


def places_of(incoming: Incoming) -> dict[str, str]:
    """The columns of a session that say where it is, without absent values."""
    labels = incoming.labels
    told = {
        "display_name": label_of(incoming),
        "channel": incoming.arrival.channel,
        "subject": labels.subject,
        "room": labels.group_channel,
        "space": labels.space,
    }
    return {name: value.strip() for name, value in told.items() if value and value.strip()}


def find_news(incoming: Incoming, session: Session) -> SessionFacts | None:
    """The facts that the session does not have yet; None if it has them all."""
    places, origin = places_of(incoming), origin_of(incoming)
    if session.origin.get("label") and _name_of(incoming) is None:
        # An id must not replace a name.
        places.pop("display_name", None)
        origin.pop("label", None)
    changed: dict[str, Any] = {
        name: value for name, value in places.items() if getattr(session, name) != value
    }
    if session.origin | origin != session.origin:
        changed["origin"] = origin
    if incoming.reply_to is not None and incoming.from_person:
        last_route = msgspec.to_builtins(incoming.reply_to)
        if session.last_route != last_route:
            changed["last_route"] = last_route
    return SessionFacts(**changed) if changed else None


def kind_of(incoming: Incoming, key: str) -> Kind:
    """The kind of session that a key is for."""
    parsed = parse_key(key)
    if parsed is not None and (parsed.topic is not None or parsed.thread is not None):
        return "thread"
    if parsed is not None:
        return parsed.kind
    peer = incoming.arrival.peer
    return "dm" if peer is None else peer.kind


def facts_of_key(key: str) -> dict[str, Any]:
    """The facts about a new session that its key alone gives."""
    parsed = parse_key(key)
    if parsed is not None:
        is_thread = parsed.topic is not None or parsed.thread is not None
        kind: Kind = "thread" if is_thread else parsed.kind
        return {"platform": parsed.channel or "sdk", "kind": kind, "agent": parsed.agent}
    surface = key.partition(":")[0]
    kinds: dict[str, Kind] = {
        "cli": "cli", "web": "web", "telegram": "dm", "discord": "channel", "slack": "dm",
        "email": "dm",
    }  # fmt: skip
    if ":" in key and surface in kinds:
        return {"platform": surface, "kind": kinds[surface]}
    return {"platform": "sdk", "kind": "sdk"}


def _is_direct(incoming: Incoming) -> bool:
    return incoming.arrival.peer is None or incoming.arrival.peer.kind == "dm"


def _first(*texts: str | None) -> str | None:
    return next((each.strip() for each in texts if each and each.strip()), None)
