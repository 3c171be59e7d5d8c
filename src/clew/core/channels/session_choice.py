"""Which session a message on a channel is for: the one that its key leads to, or a new one.

Pure: the rules, the message, the session as it is stored and the time give the answer, which is
kept with the message. The runtime makes the session and tells people about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import Any, Final

import msgspec

from clew.core.channels.incoming import Incoming, facts_of_key, kind_of, origin_of, places_of
from clew.core.channels.people import is_owner, person_of
from clew.core.channels.resets import (
    ResetDecision,
    ResetRules,
    channel_of,
    choose_policy,
    decide_reset,
    reset_type,
)
from clew.core.channels.routing import UNKNOWN, Arrival, Peer, Route, RoutingRules, route
from clew.core.channels.send_policy import SendRules
from clew.core.channels.triggers import ModelNames, Triggered
from clew.core.keys import Place, normalise_id, normalise_word, parse_key
from clew.core.session import OWNER, Kind, NewSession, Session

GREETING: Final = "/new: greet me in one short sentence."
"""What the model is told if `/new` comes without a message."""

KEPT: Final = ("model", "provider", "personality", "thinking", "service_tier", "send_policy")
NOTED: Final = ("queue", "verbose")
"""Metadata that a new session copies from the previous one, besides a person's title."""

PLACED: Final = (
    "platform", "kind", "agent", "cwd", "project", "display_name", "channel", "subject", "room",
    "space", "origin",
)  # fmt: skip
"""Origin fields that a new session copies from the previous one if they are not known."""

NO_PLATFORMS: Final = ("", "agent", "cli", "web", "sdk")
"""First parts of keys that are not a conversation on a platform."""

PERSONAL: Final = ("telegram", "email")
"""Platforms on which `platform:id` shows whether a conversation belongs to one person."""

RETURNED: Final = "returned_at"
"""Metadata key: when a person last came back to the session on purpose."""


Judge = Callable[[Session, int], ResetDecision]
"""Whether a session goes on at this time."""


class ReceptionRules(msgspec.Struct, frozen=True, kw_only=True):
    """All that the configuration says about messages on channels.

    `by_mention` are the (channel, account) pairs that answer in groups only if they are spoken to.
    `places` are the directories of the agents that have one of their own.
    """

    owners: tuple[str, ...] = ()
    guests: tuple[str, ...] = ()
    routing: RoutingRules = RoutingRules()
    resets: ResetRules = ResetRules()
    triggers: tuple[str, ...] = ()
    models: ModelNames = ModelNames()
    sending: SendRules = SendRules()
    by_mention: tuple[tuple[str, str], ...] = ()
    places: Mapping[str, Place] = {}
    zone: tzinfo


def is_overheard(rules: ReceptionRules, incoming: Incoming, account: str) -> bool:
    """Whether a message in a group is not for the agent: it is context, and is not answered."""
    peer = incoming.arrival.peer
    if peer is None or peer.kind == "dm" or incoming.key is not None or incoming.is_mentioned:
        return False
    return (normalise_word(incoming.arrival.channel), account) in rules.by_mention


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The text and its place: the existing session, or a new one that begins with it.

    A new session without a reason is the first one of its key.
    """

    text: str
    begins: bool = False
    reason: str | None = None
    model: str | None = None


def explicit_key(route: Route, incoming: Incoming) -> str | None:
    """The key under which a platform's conversation can be linked: `telegram:42`."""
    arrival = incoming.arrival
    channel = normalise_word(arrival.channel)
    if arrival.peer is None or channel in NO_PLATFORMS:
        return None
    peer = normalise_id(arrival.peer.id, channel)
    if not peer:
        return None
    parsed = parse_key(route.key)
    if parsed is not None and parsed.topic is not None:
        return f"{channel}:{peer}:topic:{parsed.topic}"
    if parsed is not None and parsed.thread is not None:
        return f"{channel}:{peer}:thread:{parsed.thread}"
    return f"{channel}:{peer}"


def is_platforms(key: str) -> bool:
    """Whether it is the key of a conversation on a platform, where other people may read."""
    parsed = parse_key(key)
    if parsed is not None:
        return parsed.kind in ("dm", "group", "channel")
    return (channel_of(key) or "") not in NO_PLATFORMS


def find_keyholder(rules: ReceptionRules, key: str) -> str | None:
    """The person whose own conversation a key is; None for a shared one.

    It does not matter who writes there first: what a guest writes later is not the owner's.
    """
    parsed = parse_key(key)
    if parsed is None:
        channel, _, peer = key.partition(":")
        # Only there the id of a chat is that of a person; Telegram groups have negative ids.
        if channel not in PERSONAL or not peer or ":" in peer or peer.startswith("-"):
            return None
    elif parsed.kind != "dm":
        return None
    elif parsed.channel is None:
        return _holder_of_name(rules, parsed.id)
    else:
        channel, peer = parsed.channel, parsed.id
    owner = is_owner(rules.owners, channel, peer)
    found = route(rules.routing, Arrival(channel=channel, peer=Peer("dm", peer), is_owner=owner))
    return person_of(channel, peer, owner=owner, linked=found.linked)


def _holder_of_name(rules: ReceptionRules, name: str) -> str | None:
    """The person of `agent:main:dm:NAME`: linked by name, or known by this id on a channel."""
    routing, owners = rules.routing, [each.partition(":") for each in rules.owners]
    for linked, ids in routing.identity_links.items():
        if normalise_id(linked) == name:
            known = [each.partition(":") for each in ids]
            is_ours = any(is_owner(rules.owners, channel, peer) for channel, _, peer in known)
            return OWNER if is_ours else f"person:{name}"
    if any(normalise_id(peer, normalise_word(channel)) == name for channel, _, peer in owners):
        return OWNER
    scope = routing.guest_dm_scope if routing.dm_scope == "main" else routing.dm_scope
    return f"{UNKNOWN}:{name}" if scope == "per-peer" else None


def place(
    rules: ReceptionRules,
    incoming: Incoming,
    key: str,
    session: Session | None,
    trigger: Triggered,
    *,
    now: int,
) -> Placement:
    """Decide where a message goes. `session` is the one that the key leads to now."""
    if trigger.triggered:
        alone = not trigger.remainder.strip() and not incoming.attachments
        return Placement(
            text=GREETING if alone else trigger.remainder,
            begins=True,
            reason=trigger.trigger,
            model=trigger.model,
        )
    if session is None:
        return Placement(text=incoming.text, begins=True)
    verdict = judge_reset(rules, incoming, key, session, now)
    return Placement(text=incoming.text, begins=not verdict.fresh, reason=verdict.reason)


def judge_reset(
    rules: ReceptionRules, incoming: Incoming, key: str, session: Session, now: int
) -> ResetDecision:
    """Whether the session continues. Messages not written by a person neither end nor extend it."""
    if not incoming.from_person:
        return ResetDecision(fresh=True)
    arrival = incoming.arrival
    kind = reset_type(
        key, thread=arrival.thread, peer_kind=arrival.peer.kind if arrival.peer else None
    )
    # A message over the API is judged as if it came from the channel of its key.
    told = channel_of(key) if incoming.person is not None else None
    channel = "cli" if session.platform == "cli" else told or arrival.channel
    policy = choose_policy(rules.resets, kind, channel)
    return decide_reset(policy, last_interaction(session), now, rules.zone)


def judge_terminal(rules: ResetRules, session: Session, now: int, zone: tzinfo) -> ResetDecision:
    """Whether a terminal's session continues."""
    if session.platform != "cli":
        return ResetDecision(fresh=True)
    policy = choose_policy(rules, reset_type(session.key), "cli")
    return decide_reset(policy, last_interaction(session), now, zone)


def last_interaction(session: Session) -> int:
    """When a person last wrote, came back on purpose, or began the session."""
    returned = session.metadata.get(RETURNED)
    spoke = session.last_interaction_at
    times = [session.created_at if spoke is None else spoke]
    return max([*times, *([returned] if isinstance(returned, int) else [])])


def begin_session(
    incoming: Incoming,
    found: Route,
    key: str,
    placement: Placement,
    previous: Session | None,
    *,
    session_id: str,
    person: str,
    at: Place | None = None,
    keyholder: str | None = None,
) -> NewSession:
    """The session that a message begins. After a reset it keeps the person's earlier choices.

    `at` is the directory that its tools work in; `keyholder` is the person to whom the conversation
    of the key belongs.
    """
    kept: dict[str, Any] = {}
    noted: dict[str, Any] = {"queue": "collect"}
    if placement.reason is not None and previous is not None:
        kept = {name: getattr(previous, name) for name in KEPT}
        if previous.title_by == "user":
            kept |= {"title": previous.title, "title_by": "user"}
        noted |= {name: previous.metadata[name] for name in NOTED if name in previous.metadata}
    if placement.model is not None:
        kept |= {"model": placement.model, "provider": placement.model.partition("/")[0]}
    if incoming.person is None:
        about = _told_by_place(incoming, found, key, keyholder or person, at)
    else:
        about = _told_by_key(key, person, previous, at, keyholder)
    return NewSession(
        id=session_id,
        key=key,
        reset_reason=placement.reason,
        previous_id=None if previous is None else previous.id,
        metadata=noted,
        **(about | kept),
    )


def _told_by_place(
    incoming: Incoming, found: Route, key: str, person: str, at: Place | None
) -> dict[str, Any]:
    """The columns of a new session that the message gives."""
    parsed, kind = parse_key(key), kind_of(incoming, key)
    whose = _whose(incoming, kind, person)
    return {
        "platform": normalise_word(incoming.arrival.channel) or UNKNOWN,
        "kind": kind,
        "agent": found.agent if parsed is None else parsed.agent,
        "person": whose,
        "origin": origin_of(incoming),
        **_directory(at, whose),
        **places_of(incoming),
    }


def _told_by_key(
    key: str, person: str, previous: Session | None, at: Place | None, keyholder: str | None
) -> dict[str, Any]:
    """The columns that the key and the previous session under it give."""
    whose = keyholder or (person if previous is None else previous.person)
    if previous is not None and (previous.key, previous.person) == (key, whose):
        return {"person": whose} | {name: getattr(previous, name) for name in PLACED}
    about = {"person": whose} | facts_of_key(key)
    # The directory of a terminal's key is not known here.
    return about if about["platform"] == "cli" else about | _directory(at, whose)


def _directory(at: Place | None, whose: str) -> dict[str, Any]:
    """The directory that the session's tools work in; none for a guest."""
    return {} if at is None or whose != OWNER else {"cwd": at.cwd, "project": at.project}


def _whose(incoming: Incoming, kind: Kind, person: str) -> str:
    """The person of a session: shared conversations and the main session belong to the owner."""
    peer = incoming.arrival.peer
    is_shared = peer is not None and peer.kind != "dm"
    return person if kind in ("dm", "thread") and not is_shared else OWNER


def notice_of(new: NewSession, *, may_resume: bool) -> str | None:
    """The line about a reset; None if there was no session before."""
    if new.reset_reason is None or new.previous_id is None:
        return None
    return word_reset(new.reset_reason, may_resume=may_resume)


def word_reset(reason: str | None, *, may_resume: bool) -> str:
    """The line that says that a new conversation begins, why, and how to go back."""
    told = _TOLD.get(reason or "", "A new conversation begins.")
    return f"{told} /resume goes back to the one before." if may_resume else told


_TOLD: Final = {
    "daily": "A new day: a new conversation begins.",
    "idle": "After this pause a new conversation begins.",
}
