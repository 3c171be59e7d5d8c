"""People on a channel: the owner, paired guests, and strangers who ask to be paired.

Pure: the configuration, the sender's id and the pairing give the answer. Which commands each may
use is in `core.commands`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from clew.core.channels.incoming import Incoming
from clew.core.keys import normalise_id, normalise_word
from clew.core.session import OWNER
from clew.core.text import cut, strip_controls

Role = Literal["owner", "guest", "stranger"]

PairingStatus = Literal["waiting", "paired", "refused"]
Decided = Literal["paired", "refused"]
Admission = Literal["known", "open", "asks", "ignored"]
"""`known`: named in the configuration or paired; `open`: the configuration admits anyone."""

CODE_MS: Final = 3_600_000
TOLD_MS: Final = 24 * CODE_MS
"""How long messages to strangers are kept. Anyone can write, so they must not accumulate."""
CODE_LENGTH: Final = 8
LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ"
"""The letters of a code: without I and O, which look like digits."""

LONGEST_NAME: Final = 100
"""Characters that are kept of a stranger's name."""
MOST_WAITING: Final = 50
"""How many strangers of one channel can have a valid code at the same time."""
MOST_TOLD: Final = 3
"""How often a stranger is told the same code at most."""

_CODE: Final = re.compile(rf"[{LETTERS}]{{{CODE_LENGTH}}}")
_EVERYBODY: Final = "*"


def is_owner(owners: Iterable[str], channel: str, sender: str) -> bool:
    """Whether `owners` of the configuration names this sender of this channel."""
    name = normalise_word(channel)
    spelled = normalise_id(sender, name)
    return bool(spelled) and any(_reads(each, name, spelled) for each in owners)


def _reads(entry: str, channel: str, sender: str) -> bool:
    where, colon, who = entry.strip().partition(":")
    return bool(colon) and normalise_word(where) == channel and normalise_id(who, channel) == sender


def person_of(channel: str, sender: str, *, owner: bool, linked: str | None = None) -> str:
    """The person a sender is: the owner, a person linked by name, or a guest of the channel."""
    if owner:
        return OWNER
    if linked is not None:
        return f"person:{linked}"
    name = normalise_word(channel) or "unknown"
    return f"{name}:{normalise_id(sender, name) or 'unknown'}"


class NewPairing(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A stranger who asks to be paired: with which code, and where to tell them the decision.

    `reply_to` is a `core.channels.replies.ReplyTo`, as data.
    """

    person: str
    channel: str
    code: str
    name: str | None = None
    reply_to: dict[str, Any] | None = None


class Pairing(msgspec.Struct, frozen=True, omit_defaults=True):
    """A guest, or a stranger who asks to be one. A code can be used once, until it expires."""

    person: str
    channel: str
    status: PairingStatus
    name: str | None
    code: str | None
    told: int
    reply_to: dict[str, Any] | None
    asked_at: int | None
    expires_at: int | None
    decided_at: int | None
    decided_by: str | None

    def is_open(self, now: int) -> bool:
        """Whether its code is still valid."""
        return self.status == "waiting" and self.expires_at is not None and now < self.expires_at

    def is_late(self, now: int) -> bool:
        """Whether the code expired without a decision."""
        return self.status == "waiting" and not self.is_open(now)


def read_code(typed: str) -> str | None:
    """Read a typed code; ignores case, dashes and spaces. None if it is not a code."""
    code = re.sub(r"[\s-]", "", typed).upper()
    return code if _CODE.fullmatch(code) else None


def spell_code(code: str) -> str:
    """A code as people read it: `ABCD-EFGH`."""
    return f"{code[:4]}-{code[4:]}"


def describe_person(pairing: Pairing) -> str:
    """A person as people read it. The name is chosen by that person and can't be trusted."""
    name = cut(strip_controls(pairing.name or "", keep_newlines=False).strip(), 40)
    person = strip_controls(pairing.person, keep_newlines=False)
    return f"{name} ({person})" if name else person


def read_person(typed: str) -> str | None:
    """Read a person as `channel:id`, in the channel's spelling; None if it is not one."""
    channel, colon, who = typed.strip().partition(":")
    name = normalise_word(channel)
    spelled = normalise_id(who, name)
    return f"{name}:{spelled}" if colon and name and spelled else None


def admit(guests: Iterable[str], incoming: Incoming, pairing: Pairing | None) -> Admission:
    """Whether a sender who is not the owner may talk.

    `guests` of the configuration names people (`telegram:456`), groups (`telegram:-100123`) and all
    senders (`telegram:*`, `*`). A refused person stays refused, even if the configuration names
    them. A code is offered in direct messages only: in a group everyone would read it.
    """
    if pairing is not None and pairing.status == "refused":
        return "ignored"
    if pairing is not None and pairing.status == "paired":
        return "known"
    channel = normalise_word(incoming.arrival.channel)
    sender = normalise_id(incoming.sender.id, channel)
    listed = [each.strip() for each in guests]
    if sender != _EVERYBODY and any(_names(each, channel, sender) for each in listed):
        return "known"
    if any(each == _EVERYBODY or _names(each, channel, _EVERYBODY) for each in listed):
        return "open"
    peer = incoming.arrival.peer
    if peer is None or peer.kind == "dm":
        return "asks" if sender else "ignored"
    group = normalise_id(peer.id, channel)
    return "open" if any(_names(each, channel, group) for each in listed) else "ignored"


def _names(entry: str, channel: str, wanted: str) -> bool:
    where, colon, who = entry.partition(":")
    named = normalise_id(who, channel)
    return bool(colon and named) and normalise_word(where) == channel and named == wanted
