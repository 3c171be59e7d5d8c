"""Where a conversation comes from, and what it is called: kept with its session.

Pure: values of the message. That new values overwrite and absent ones never erase is the store's
promise for `origin`; for the columns beside it, what is absent is left out here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.core.arrivals import Incoming
from clew.core.channelkeys import parse_key
from clew.core.session import Kind, Session, SessionFacts


def label_of(incoming: Incoming) -> str | None:
    """What the conversation is called: by the platform, by its people, or by where it is."""
    peer = incoming.arrival.peer
    last = incoming.sender.id if _is_direct(incoming) or peer is None else peer.id
    return _name_of(incoming) or _first(last)


def _name_of(incoming: Incoming) -> str | None:
    """A name for it that people gave; an id is none."""
    labels = incoming.labels
    if _is_direct(incoming):
        return _first(labels.conversation, labels.thread, incoming.sender.name)
    return _first(
        labels.conversation, labels.thread, labels.group_channel, labels.subject, labels.space
    )


def origin_of(incoming: Incoming) -> dict[str, Any]:
    """What came in as it came in, without what is absent."""
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
    """The columns of a session that tell where it is, without what is absent."""
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
    """What the session does not know yet; None if it knows all of it."""
    places, origin = places_of(incoming), origin_of(incoming)
    if session.origin.get("label") and _name_of(incoming) is None:
        # An id says less than what is known.
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
    """What kind of session a key is for."""
    parsed = parse_key(key)
    if parsed is not None and (parsed.topic is not None or parsed.thread is not None):
        return "thread"
    if parsed is not None:
        return parsed.kind
    peer = incoming.arrival.peer
    return "dm" if peer is None else peer.kind


def facts_of_key(key: str) -> dict[str, Any]:
    """What a key alone tells about the session that begins under it."""
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
