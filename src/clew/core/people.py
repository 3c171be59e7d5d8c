"""Who writes on a channel, and what they may tell clew to do.

Pure: the configuration and the sender's id give the answer. The owner may everything; a guest who
is paired may a little in a conversation of their own; what anybody else says is plain text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from clew.core.channelkeys import normalise_id, normalise_word
from clew.core.session import OWNER

Role = Literal["owner", "guest", "stranger"]

GUEST_MAY: Final = frozenset({"new", "reset", "resume", "stop", "status", "help"})
"""Commands of a paired guest, in a conversation of their own."""


def is_owner(owners: Iterable[str], channel: str, sender: str) -> bool:
    """Whether `owners` of the configuration names this sender of this channel."""
    name = normalise_word(channel)
    spelled = normalise_id(sender, name)
    return bool(spelled) and any(_reads(each, name, spelled) for each in owners)


def _reads(entry: str, channel: str, sender: str) -> bool:
    where, colon, who = entry.strip().partition(":")
    return bool(colon) and normalise_word(where) == channel and normalise_id(who, channel) == sender


def person_of(channel: str, sender: str, *, owner: bool, linked: str | None = None) -> str:
    """The person a sender is: the owner, somebody known by a name, or a guest of the channel."""
    if owner:
        return OWNER
    if linked is not None:
        return f"person:{linked}"
    name = normalise_word(channel) or "unknown"
    return f"{name}:{normalise_id(sender, name) or 'unknown'}"


def may_command(role: Role, name: str, *, is_direct: bool) -> bool:
    """Whether a command is one for them; else their words are plain text."""
    return role == "owner" or (role == "guest" and is_direct and name in GUEST_MAY)
