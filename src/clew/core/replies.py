"""Where answers go, and which of them were given already.

Values and rules only. When a reply is sent, and what its receipt says, is the business of
`runtime.outbound.delivery` and of the channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from clew.core.channelkeys import normalise_word, parse_key
from clew.core.delivery import Outbound, OutboundStatus
from clew.core.sending import ChatType, Conversation, describe_conversation
from clew.errors import InvalidInput

REPEAT_MS: Final = 30_000
"""For so long the same words under the same key are a repetition, if a retry says them."""

ACCOUNT: Final = "default"

API: Final = "api"
"""The channel of whoever asks over the API, or in process: they read the answer themselves."""

_NO_CHANNELS: Final = ("cron", "hook", "subagent", "agent", API)
_SAID: Final[tuple[OutboundStatus, ...]] = ("pending", "sending", "sent", "uncertain")


class ReplyTo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The surface and the address that an answer goes to.

    `key` is the conversation there: under one key, replies arrive in order. `address` is the
    channel's own business; where it has a `peer` with `kind` and `id`, and a `thread`, they are
    those of the message that came in. `is_retry`: what is said there may have been said a moment
    ago. `person` asked; what an interrupted answer goes on with are that one's rights, and whether
    it was `attended`: somebody is there to answer for tools.
    """

    channel: str
    key: str
    account: str = ACCOUNT
    address: dict[str, Any] = {}
    is_retry: bool = False
    person: str | None = None
    attended: bool = True

    @property
    def place(self) -> tuple[str, str, str]:
        """What two messages of one conversation have in common."""
        return (self.channel, self.account, self.key)

    @property
    def is_fetched(self) -> bool:
        """Whether whoever asked comes for the answer: then nothing is delivered."""
        return self.channel == API


def reply_over_api(person: str) -> ReplyTo:
    """Where the answer goes to a person who asked over the API: nowhere but into the thread.

    That somebody waits for it is what a gateway that starts has to know.
    """
    return ReplyTo(channel=API, key=API, account=person, person=person)


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel sends at once: a reply, or a part of a long one."""

    outbound: Outbound
    text: str
    part: int = 1
    is_last: bool = True

    @property
    def account(self) -> str:
        """Which account of the channel sends it."""
        return account_of(self.outbound)

    @property
    def id(self) -> str:
        """The same whenever this part is sent: the peer may know it again by that."""
        return f"{self.outbound.id}-{self.part}"


def account_of(outbound: Outbound) -> str:
    """Which account of its channel a reply goes through."""
    return str(outbound.address.get("account", ACCOUNT))


_TYPES: Final[dict[object, ChatType]] = {
    "dm": "direct", "group": "group", "channel": "channel"
}  # fmt: skip


def conversation_of(reply_to: ReplyTo, session_key: str) -> Conversation:
    """What the rules of sending look at: the place, as its key or its address tells."""
    key = reply_to.key if parse_key(reply_to.key) is not None else session_key
    peer = reply_to.address.get("peer")
    kind = peer.get("kind") if isinstance(peer, Mapping) else None
    return describe_conversation(key, reply_to.channel, _TYPES.get(kind))


def read_reply_to(value: object) -> ReplyTo | None:
    """What is noted with a message or a turn; None if that is no place to reply to."""
    if not isinstance(value, Mapping):
        return None
    try:
        return msgspec.convert(dict(value), ReplyTo)
    except msgspec.ValidationError:
        return None


def parse_reply_to(text: str) -> ReplyTo:
    """Where a job delivers, as a person writes it, or `InvalidInput`.

    `telegram:123`, `telegram:group:-100:topic:7`, `slack:channel:c01`, `webhook:deploys`.
    """
    channel, colon, rest = text.strip().partition(":")
    name = normalise_word(channel)
    whole = parse_key(f"agent:main:{name}:{rest}")
    if not colon or not name or not rest.strip() or name in _NO_CHANNELS:
        raise InvalidInput(
            f'"{text}" is no place to deliver to: write channel:id or channel:group:id.'
        )
    if whole is None or whole.channel is None:
        whole = parse_key(f"agent:main:{name}:dm:{rest.strip()}")
    if whole is None or whole.channel is None:
        raise InvalidInput(f'"{text}" is no place to deliver to: write channel:id.')
    thread = whole.topic or whole.thread
    return ReplyTo(
        channel=name,
        key=f"{name}:{rest.strip()}",
        # Each webhook is an account of its own.
        account=whole.id if name == "webhook" else whole.account or ACCOUNT,
        address={"peer": {"kind": whole.kind, "id": whole.id}}
        | ({"thread": thread} if thread else {}),
    )


def is_said(reply_to: ReplyTo, text: str, rows: Iterable[Outbound], now: int) -> bool:
    """Whether a retry would say a second time what the session has said there just now.

    What failed was not said. Two turns that happen to say the same are two replies: only a retry
    is asked about. `rows` are the session's deliveries.
    """
    return reply_to.is_retry and any(
        (row.channel, row.key, row.content) == (reply_to.channel, reply_to.key, text)
        and row.status in _SAID
        and now - row.created_at < REPEAT_MS
        for row in rows
    )
