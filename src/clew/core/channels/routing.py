"""The agent and the key that a message on a channel is for.

Pure: the rules of the configuration and the arrival give a route. The store knows which session the
key leads to; `core.channels.resets` decides whether that session is reset first. `core.keys` makes
the keys of directories.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from clew.core.keys import ChannelKey, PeerKind, format_key, normalise_id, normalise_word
from clew.errors import InvalidInput

DmScope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]
MatchedBy = Literal[
    "binding.peer", "binding.guild", "binding.team", "binding.account", "binding.channel", "default"
]

AgentMemory = Literal["own", "shared"]

UNKNOWN: Final = "unknown"
MAIN: Final = "main"
ANY: Final = "*"
GENERAL_TOPIC: Final = "1"
"""The topic of a Telegram forum that has no id of its own."""

_PEER: Final = re.compile(r"(dm|group|channel):(.*)", re.DOTALL | re.IGNORECASE)


class Peer(msgspec.Struct, frozen=True):
    """Whom a message is exchanged with: a person, a group, or a channel with many readers."""

    kind: PeerKind
    id: str


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message came from, as far as routing is concerned."""

    channel: str
    account: str = "default"
    peer: Peer | None = None
    guild: str | None = None
    team: str | None = None
    thread: str | None = None
    is_forum: bool = False
    is_owner: bool = True


class AgentEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[[agents]]`: an agent that bindings can name, and what it has of its own.

    `tools` are names or patterns: it has no others. With `memory = "own"` it has memory files of
    its own.
    """

    id: Annotated[str, Meta(min_length=1)]
    default: bool = False
    model: Annotated[str, Meta(pattern=r"^\S+$")] | None = None
    personality: Annotated[str, Meta(pattern=r"^\S+$")] | None = None
    workspace: Annotated[str, Meta(pattern=r"^(/|~|[A-Za-z]:)")] | None = None
    tools: tuple[str, ...] | None = None
    memory: AgentMemory = "shared"


class BindingMatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which messages a binding matches. Without an account: those of the default account."""

    channel: Annotated[str, Meta(min_length=1)]
    account: str | None = None
    peer: str | None = None
    guild: str | None = None
    team: str | None = None


class Binding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[[bindings]]`: these messages go to that agent."""

    agent: str
    match: BindingMatch


class RoutingRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says about routing."""

    agents: tuple[AgentEntry, ...] = ()
    bindings: tuple[Binding, ...] = ()
    dm_scope: DmScope = "main"
    guest_dm_scope: DmScope = "per-channel-peer"
    main_key: str = MAIN
    identity_links: dict[str, tuple[str, ...]] = {}


class Considered(msgspec.Struct, frozen=True):
    """A rule that was checked, and the result."""

    rule: str
    verdict: str


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message goes, and why. `linked` is the name that a person is known by."""

    key: str
    agent: str
    account: str
    matched_by: MatchedBy
    dm_scope: DmScope | None = None
    linked: str | None = None
    considered: tuple[Considered, ...] = ()


def route(rules: RoutingRules, arrival: Arrival) -> Route:
    """The agent and the key of a message."""
    channel = normalise_word(arrival.channel) or UNKNOWN
    account = normalise_word(arrival.account) or "default"
    agent, matched_by, looked_at = _choose_agent(rules, arrival, channel, account)
    scope = linked = None
    if arrival.peer is None or arrival.peer.kind == "dm":
        scope, linked = _choose_scope(rules, arrival), _find_link(rules, arrival, channel)
        base = _direct_key(rules, arrival, ChannelKey(agent, channel=channel, account=account))
        looked_at += (Considered(f"dm_scope {scope}", _word_scope(rules, arrival, linked)),)
    else:
        base = ChannelKey(
            agent, arrival.peer.kind, channel=channel, id=_peer_id(arrival.peer.id, channel)
        )
    return Route(
        key=format_key(_with_thread(base, arrival, channel)),
        agent=agent,
        account=account,
        matched_by=matched_by,
        dm_scope=scope,
        linked=linked if scope != "main" else None,
        considered=looked_at,
    )


# --- agent ------------------------------------------------------------------------------------
def find_agent(agents: tuple[AgentEntry, ...], agent: str) -> AgentEntry | None:
    """What the configuration says about an agent, if it says anything."""
    return next((each for each in agents if normalise_agent(each.id) == agent), None)


def default_agent(agents: tuple[AgentEntry, ...]) -> str:
    """The agent that answers where no binding fits."""
    marked = next((each for each in agents if each.default), agents[0] if agents else None)
    return normalise_agent(marked.id if marked else "")


def normalise_agent(text: str) -> str:
    """An agent's id as it is written in keys; `main` if nothing is left of it."""
    return normalise_word(text) or MAIN


def _choose_agent(
    rules: RoutingRules, arrival: Arrival, channel: str, account: str
) -> tuple[str, MatchedBy, tuple[Considered, ...]]:
    found: dict[MatchedBy, Binding] = {}
    looked_at = []
    for number, binding in enumerate(rules.bindings):
        level, why = _match(binding.match, arrival, channel, account)
        looked_at.append(Considered(f"bindings[{number}] ({binding.agent})", why))
        if level is not None:
            found.setdefault(level, binding)
    for level in _LEVELS:
        if level in found:
            agent, note = _known_agent(rules.agents, found[level].agent)
            return agent, level, (*looked_at, *note)
    return default_agent(rules.agents), "default", tuple(looked_at)


_LEVELS: Final[tuple[MatchedBy, ...]] = (
    "binding.peer", "binding.guild", "binding.team", "binding.account", "binding.channel",
)  # fmt: skip


def _known_agent(agents: tuple[AgentEntry, ...], wanted: str) -> tuple[str, tuple[Considered, ...]]:
    """The agent that a binding names; the default one if it is not among the listed agents."""
    name = normalise_agent(wanted)
    if not agents or any(normalise_agent(each.id) == name for each in agents):
        return name, ()
    fallback = default_agent(agents)
    return fallback, (Considered(f"agent {name}", f"unknown, so the default one, {fallback}"),)


def _match(
    match: BindingMatch, arrival: Arrival, channel: str, account: str
) -> tuple[MatchedBy | None, str]:
    """How specific a binding's match is: the most specific field that fits, if none differs."""
    if normalise_word(match.channel) != channel:
        return None, f"another channel: {match.channel}"
    wanted = (match.account or "default").strip()
    if wanted != ANY and normalise_word(wanted) != account:
        return None, f"another account: {wanted}"
    level: MatchedBy | None = None
    for name, given, here in _specifics(match, arrival, channel):
        if here is None:
            continue
        if given != here:
            return None, f"another {name}: {given}"
        level = level or _BY[name]
    if level is not None:
        return level, f"fits by {level.removeprefix('binding.')}"
    if match.peer or match.guild or match.team:
        return None, "the message has nothing of what it names"
    level = "binding.channel" if wanted == ANY else "binding.account"
    return level, f"fits by {level.removeprefix('binding.')}"


_BY: Final[dict[str, MatchedBy]] = {
    "peer": "binding.peer", "guild": "binding.guild", "team": "binding.team"
}  # fmt: skip


def _specifics(
    match: BindingMatch, arrival: Arrival, channel: str
) -> Iterator[tuple[str, str, str | None]]:
    """The fields that a binding names, with the message's values, the most specific first."""
    if match.peer:
        named, here = _PEER.fullmatch(match.peer.strip()), arrival.peer
        wanted = normalise_id(named[2] if named else match.peer, channel)
        if named and here is not None:
            kind = named[1].lower()
            yield "peer", f"{kind}:{wanted}", f"{here.kind}:{normalise_id(here.id, channel)}"
        else:
            yield "peer", wanted, None if here is None else normalise_id(here.id, channel)
    if match.guild:
        yield "guild", normalise_id(match.guild), _given(arrival.guild)
    if match.team:
        yield "team", normalise_id(match.team), _given(arrival.team)


def _given(text: str | None) -> str | None:
    return normalise_id(text) if text and text.strip() else None


# --- key --------------------------------------------------------------------------------------
def parse_peer(text: str) -> Peer:
    """`dm:123`, `group:-100…`, `channel:c1`; or `InvalidInput`."""
    match = _PEER.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(f'A peer is dm:ID, group:ID or channel:ID, not "{text}".')
    return Peer(match[1].lower(), match[2])  # type: ignore[arg-type]


def _choose_scope(rules: RoutingRules, arrival: Arrival) -> DmScope:
    """The scope of direct messages. A guest never shares the owner's main session by default."""
    if rules.dm_scope == MAIN and not arrival.is_owner:
        return rules.guest_dm_scope
    return rules.dm_scope


def _word_scope(rules: RoutingRules, arrival: Arrival, linked: str | None) -> str:
    told = "the owner" if arrival.is_owner else "a guest"
    if _choose_scope(rules, arrival) != MAIN and linked is not None:
        return f"{told}, known as {linked}"
    return told


def _direct_key(rules: RoutingRules, arrival: Arrival, base: ChannelKey) -> ChannelKey:
    """The key of a direct message; `base` has its agent, channel and account."""
    scope, channel = _choose_scope(rules, arrival), base.channel or UNKNOWN
    if scope == MAIN:
        return ChannelKey(base.agent, "main", id=normalise_word(rules.main_key) or MAIN)
    linked = _find_link(rules, arrival, channel)
    if linked is not None:
        return ChannelKey(base.agent, "dm", id=linked)
    peer = _peer_id(arrival.peer.id if arrival.peer else "", channel)
    if scope == "per-peer" and peer not in _link_names(rules):
        return ChannelKey(base.agent, "dm", id=peer)
    # A stranger whose id is spelled like a linked name must not get into that person's session.
    account = base.account if scope == "per-account-channel-peer" else None
    return ChannelKey(base.agent, "dm", channel=channel, account=account, id=peer)


def _peer_id(text: str, channel: str) -> str:
    return normalise_id(text, channel) or UNKNOWN


def _link_names(rules: RoutingRules) -> frozenset[str]:
    return frozenset(normalise_id(name) for name in rules.identity_links)


def _find_link(rules: RoutingRules, arrival: Arrival, channel: str) -> str | None:
    """The name of a person who is known by several ids; the first link wins."""
    peer = normalise_id(arrival.peer.id, channel) if arrival.peer else ""
    if not peer:
        return None
    for name, ids in rules.identity_links.items():
        known = {_link_id(each) for each in ids}
        if name.strip() and (f"{channel}:{peer}" in known or peer in known):
            return normalise_id(name)
    return None


def _link_id(text: str) -> str:
    """An id in a link, `<channel>:<id>` or only the id, in the form used for comparing."""
    channel, colon, rest = text.strip().partition(":")
    if not colon:
        return normalise_id(text)
    return f"{normalise_word(channel)}:{normalise_id(rest, normalise_word(channel))}"


def _with_thread(base: ChannelKey, arrival: Arrival, channel: str) -> ChannelKey:
    """Add the thread of the conversation to a key: a topic, a thread, or a channel of its own."""
    thread = normalise_id(arrival.thread or "", channel)
    is_group = arrival.peer is not None and arrival.peer.kind != "dm"
    if channel == "telegram" and is_group:
        topic = thread or GENERAL_TOPIC
        return msgspec.structs.replace(base, topic=topic) if arrival.is_forum else base
    if not thread:
        return base
    if channel == "discord" and is_group:
        return ChannelKey(base.agent, "channel", channel=channel, id=thread)
    return msgspec.structs.replace(base, thread=thread)
