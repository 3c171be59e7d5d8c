"""The send policy: whether replies of a conversation are delivered.

Pure: the session's own setting, the rules and the conversation give the answer. The runtime asks
when a reply is recorded: a denied one is stored and shown as not delivered; the turn runs anyway.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from clew.core.channels.resets import channel_of
from clew.core.keys import normalise_word, parse_key

Verdict = Literal["allow", "deny"]
ChatType = Literal["direct", "group", "channel"]


class SendMatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which conversations a rule applies to: every given field must match."""

    channel: str | None = None
    chat_type: ChatType | None = None
    key_prefix: str | None = None


class SendRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of the send policy."""

    action: Verdict
    match: SendMatch = SendMatch()


class SendRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`session.send_policy`."""

    default: Verdict = "allow"
    rules: tuple[SendRule, ...] = ()


class Conversation(msgspec.Struct, frozen=True):
    """What a rule can match."""

    key: str
    channel: str | None = None
    chat_type: ChatType | None = None


class SendDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict, the rule that decided, and all rules that were checked."""

    decision: Verdict
    rule: str
    considered: tuple[tuple[str, str], ...] = ()


def describe_conversation(
    key: str, channel: str | None = None, chat_type: ChatType | None = None
) -> Conversation:
    """A conversation; what is not given is read from its key."""
    parsed = parse_key(key)
    if chat_type is None and parsed is not None and parsed.kind in ("main", "dm"):
        chat_type = "direct"
    elif chat_type is None and parsed is not None and parsed.kind in ("group", "channel"):
        chat_type = parsed.kind
    return Conversation(key, normalise_word(channel or "") or channel_of(key), chat_type)


def decide_send(
    policy: SendRules, conversation: Conversation, *, override: Verdict | None = None
) -> SendDecision:
    """The session's setting; else any rule that denies; else one that allows; else the default."""
    if override is not None:
        return SendDecision(decision=override, rule="override")
    looked_at: list[tuple[str, str]] = []
    fitting: dict[Verdict, str] = {}
    for number, rule in enumerate(policy.rules):
        misfit = _find_misfit(rule.match, conversation)
        looked_at.append((f"rules[{number}] {rule.action}", misfit or "fits"))
        if misfit is None:
            fitting.setdefault(rule.action, f"rules[{number}]")
    considered = tuple(looked_at)
    verdicts: tuple[Verdict, ...] = ("deny", "allow")
    for verdict in verdicts:
        if verdict in fitting:
            return SendDecision(decision=verdict, rule=fitting[verdict], considered=considered)
    return SendDecision(decision=policy.default, rule="default", considered=considered)


def _find_misfit(match: SendMatch, conversation: Conversation) -> str | None:
    """Why a rule does not apply to this conversation; None if it does."""
    if match.channel is not None and normalise_word(match.channel) != conversation.channel:
        return f"another channel: {match.channel}"
    if match.chat_type is not None and match.chat_type != conversation.chat_type:
        return f"another kind of chat: {match.chat_type}"
    if match.key_prefix is not None:
        key, prefix = conversation.key.lower(), match.key_prefix.strip().lower()
        if not any(each.startswith(prefix) for each in (key, _without_agent(key))):
            return f"another key than {match.key_prefix}…"
    return None


def _without_agent(key: str) -> str:
    parts = key.split(":", 2)
    return parts[2] if parts[0] == "agent" and len(parts) == 3 else key
