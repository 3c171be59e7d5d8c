"""Who writes on a channel: the owner, or a person of another name.

Pure: the configuration and the sender's id give the answer. Which commands each may use is in
`core.commands`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from clew.core.channelkeys import normalise_id, normalise_word
from clew.core.session import OWNER

Role = Literal["owner", "guest", "stranger"]


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
