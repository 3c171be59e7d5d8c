"""Replies: where they go, which were given already, and how a long one is cut into messages.

Values and rules only. Sending, and what a receipt says, is done by the runtime's delivery and the
channels.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from clew.core.channels.send_policy import ChatType, Conversation, describe_conversation
from clew.core.delivery import Outbound, OutboundStatus
from clew.core.keys import normalise_word, parse_key
from clew.errors import InvalidInput

REPEAT_MS: Final = 30_000
"""How long the same text under the same key counts as a repetition, if a retry says it."""

ACCOUNT: Final = "default"

API: Final = "api"
"""The channel of callers over the API, or in process: they read the answer themselves."""

_NO_CHANNELS: Final = ("cron", "hook", "subagent", "agent", API)
_SAID: Final[tuple[OutboundStatus, ...]] = ("pending", "sending", "sent", "uncertain")

SHARE: Final = 3
"""A cut is good enough if at least this fraction (one in so many) of the message is filled."""

CLOSEST: Final = 32
"""How far to step back so that no letter is parted from its accents."""

_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_PARAGRAPH: Final = re.compile(r"\n[ \t\r]*\n\s*")
_LINE: Final = re.compile(r"\n")
_SPACE: Final = re.compile(r"\s+")
_JOINER: Final = "\u200d"


class ReplyTo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The surface and the address that an answer goes to.

    `key` is the conversation there: under one key, replies arrive in order. `address` is in the
    channel's own format; where it has a `peer` with `kind` and `id`, and a `thread`, they are those
    of the message that came in. `is_retry`: the same may have been said a moment ago. `person`
    asked, and an interrupted answer goes on with their rights; `attended`: they are there to
    approve tool calls.
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
        """The same for two messages of one conversation."""
        return (self.channel, self.account, self.key)

    @property
    def is_fetched(self) -> bool:
        """Whether the caller fetches the answer: then nothing is delivered."""
        return self.channel == API


def reply_over_api(person: str) -> ReplyTo:
    """Where the answer goes to a person who asked over the API: only into the thread.

    A gateway that starts has to know that a caller waits for it.
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
        """The account of the channel that sends it."""
        return account_of(self.outbound)

    @property
    def id(self) -> str:
        """The same whenever this part is sent, so that the peer can recognise a repetition."""
        return f"{self.outbound.id}-{self.part}"


def account_of(outbound: Outbound) -> str:
    """The account of its channel that a reply goes through."""
    return str(outbound.address.get("account", ACCOUNT))


_TYPES: Final[dict[object, ChatType]] = {
    "dm": "direct", "group": "group", "channel": "channel"
}  # fmt: skip


def conversation_of(reply_to: ReplyTo, session_key: str) -> Conversation:
    """The conversation that the send policy looks at, as its key or its address says."""
    key = reply_to.key if parse_key(reply_to.key) is not None else session_key
    peer = reply_to.address.get("peer")
    kind = peer.get("kind") if isinstance(peer, Mapping) else None
    return describe_conversation(key, reply_to.channel, _TYPES.get(kind))


def read_reply_to(value: object) -> ReplyTo | None:
    """The reply address stored with a message or a turn; None if it is none."""
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
    """Whether a retry would repeat what the session has said there just now.

    A reply that failed was not said. Two turns that happen to say the same are two replies: only a
    retry is checked. `rows` are the session's deliveries.
    """
    return reply_to.is_retry and any(
        (row.channel, row.key, row.content) == (reply_to.channel, reply_to.key, text)
        and row.status in _SAID
        and now - row.created_at < REPEAT_MS
        for row in rows
    )


def split_text(text: str, limit: int, *, size: Callable[[str], int] = len) -> tuple[str, ...]:
    """The text in pieces of at most `limit`; none for an empty one.

    `size` is how the channel counts, never less than a character each. One character that is too
    big for any message is a piece of its own.
    """
    if limit < 1:
        raise InvalidInput("A message has room for at least one character.")
    if size(text) <= limit:
        return (text,) if text else ()
    fences = tuple(_list_fences(text))
    borders = _list_borders(text, fences)
    pieces = []
    start = 0
    while start < len(text):
        end = _reach(text, start, limit, size)
        if end < len(text):
            end = _choose_cut(text, start, end, fences, borders, _Fits(text, limit, size))
        pieces.append(text[start:end])
        start = end
    return tuple(pieces)


def utf16_size(text: str) -> int:
    """How long a text is for those who count in UTF-16 (Telegram)."""
    return len(text) + sum(each > "\uffff" for each in text)


class _Fits:
    """Whether a part of the text has room in one message."""

    def __init__(self, text: str, limit: int, size: Callable[[str], int]) -> None:
        self._text, self._limit, self._size = text, limit, size

    def __call__(self, start: int, end: int) -> bool:
        return end - start <= self._limit and self._size(self._text[start:end]) <= self._limit


def _reach(text: str, start: int, limit: int, size: Callable[[str], int]) -> int:
    """The farthest place that one message can go to."""
    low, high = start + 1, min(len(text), start + limit)
    while low < high:
        middle = (low + high + 1) // 2
        if size(text[start:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def _choose_cut(  # noqa: PLR0917  # the text and what is known of it
    text: str,
    start: int,
    end: int,
    fences: tuple[tuple[int, int], ...],
    borders: tuple[int, ...],
    fits: _Fits,
) -> int:
    inside = next((each for each in fences if each[0] < end < each[1]), None)
    if inside is not None and inside[0] > start and fits(*inside):
        return inside[0]  # it stays whole in the next message
    enough = start + (end - start) // SHARE
    index = bisect_right(borders, end) - 1
    if index >= 0 and borders[index] > max(start, enough):
        return borders[index]
    for kind in (_LINE, _SPACE):
        cut = _find_last(kind, text, start, end)
        if cut > enough:
            return cut
    return _step_back(text, start, end)


def _find_last(kind: re.Pattern[str], text: str, start: int, end: int) -> int:
    """Behind the last of its kind; the beginning if there is none."""
    found = start
    for match in kind.finditer(text, start, end):
        found = match.end()
    return found


def _step_back(text: str, start: int, end: int) -> int:
    """A place between two letters, if there is one near."""
    for cut in range(end, max(start, end - CLOSEST), -1):
        if not _belongs_together(text[cut - 1], text[cut]):
            return cut
    return end


def _belongs_together(before: str, after: str) -> bool:
    if (before, after) == ("\r", "\n") or _JOINER in (before, after):
        return True
    return unicodedata.category(after) in ("Mn", "Mc", "Me")


def _list_fences(text: str) -> Iterator[tuple[int, int]]:
    """Where code is, with its fences; one that is never closed goes to the end."""
    opened: tuple[int, str] | None = None
    position = 0
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line.rstrip("\r\n"))
        if match is not None and opened is None and not (match[1][0] == "`" and "`" in match[2]):
            opened = (position, match[1])
        elif match is not None and opened is not None and _closes(match, opened[1]):
            yield opened[0], position + len(line)
            opened = None
        position += len(line)
    if opened is not None:
        yield opened[0], len(text)


def _closes(match: re.Match[str], mark: str) -> bool:
    return match[1][0] == mark[0] and len(match[1]) >= len(mark) and not match[2].strip()


def _list_borders(text: str, fences: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """Behind paragraphs that are no code, and around code; sorted."""
    paragraphs = (match.end() for match in _PARAGRAPH.finditer(text))
    starts = [start for start, _ in fences]

    def is_outside(place: int) -> bool:
        index = bisect_right(starts, place - 1) - 1
        return index < 0 or place >= fences[index][1]

    around = (place for fence in fences for place in fence)
    return tuple(sorted({each for each in (*paragraphs, *around) if is_outside(each)}))
