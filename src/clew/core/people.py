"""Who writes on a channel, and what they may tell clew to do.

Pure: the configuration and the sender's id give the answer. The owner may everything; a guest who
is paired may a little in a conversation of their own; what anybody else says is plain text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from clew.core.channelkeys import normalise_id, normalise_word
from clew.core.session import OWNER
from clew.core.tokens import Scope

Role = Literal["owner", "guest", "stranger"]

GUEST_MAY: Final = frozenset({"new", "reset", "resume", "stop", "status", "help"})
"""Commands of a paired guest, in a conversation of their own."""


CHANGES: Final = frozenset({
    "approve", "compact", "deny", "fork", "link", "mode", "model", "personality", "pin", "redo",
    "send", "thinking", "tier", "title", "uncompact", "undo",
})  # fmt: skip
"""Commands that need what their operations of the API need: a credential with the scope write."""


def scope_of(name: str) -> Scope:
    """The least scope of a credential that may give a command. A channel needs none."""
    if name == "pair":
        return "admin"
    return "write" if name in CHANGES else "chat"


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
