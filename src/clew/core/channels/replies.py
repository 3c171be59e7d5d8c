"""Replies: where they go, which were already sent, and how a long one is cut into messages.

Values and rules only. `runtime.outbound` and the channels send them and handle receipts.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from clew.core.channels.send_policy import ChatType, Conversation, describe_conversation
from clew.core.delivery import Outbound, OutboundStatus
from clew.core.keys import normalise_word, parse_key
from clew.core.tokens import Scopes, scopes_of
from clew.errors import InvalidInput

REPEAT_MS: Final = 30_000
"""How long the same text under the same key counts as a repetition, in a retry."""

ACCOUNT: Final = "default"

API: Final = "api"
"""The channel of callers over the API, or in process: they read the answer themselves."""

_NO_CHANNELS: Final = ("cron", "hook", "subagent", "agent", API)
_SAID: Final[tuple[OutboundStatus, ...]] = ("pending", "sending", "sent", "uncertain")

SHARE: Final = 3
"""A cut is good enough if at least 1/SHARE of the message is filled."""

CLOSEST: Final = 32
"""How far to step back so that no letter is separated from its accents."""

_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_PARAGRAPH: Final = re.compile(r"\n[ \t\r]*\n\s*")
_LINE: Final = re.compile(r"\n")
_SPACE: Final = re.compile(r"\s+")
_JOINER: Final = "\u200d"


class Attached(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that comes or goes with a message."""

    media_type: str
    data: bytes
    name: str | None = None


class ReplyTo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The surface and the address that an answer goes to.

    `key` is the conversation there: under one key, replies arrive in order. `address` is in the
    channel's own format; where it has a `peer` with `kind` and `id`, and a `thread`, they are those
    of the incoming message. `is_retry`: the same text may have been sent a moment ago. `person`
    asked, and an interrupted answer continues with their rights and the `scopes` of its turn;
    `attended`: they are there to approve tool calls; `memory`: it may write memory. `sender` is
    their id on the platform.
    """

    channel: str
    key: str
    account: str = ACCOUNT
    address: dict[str, Any] = {}
    is_retry: bool = False
    person: str | None = None
    attended: bool = True
    scopes: Scopes | None = None
    memory: bool = True
    sender: str | None = None

    @property
    def place(self) -> tuple[str, str, str]:
        """Identifies the conversation: equal for two messages of the same one."""
        return (self.channel, self.account, self.key)

    def find_scopes(self, person: str) -> Scopes:
        """The scopes of a turn of this person; an API caller with unknown scopes may only talk."""
        if self.scopes is not None:
            return self.scopes
        return ("chat",) if self.is_fetched else scopes_of(person)

    @property
    def is_fetched(self) -> bool:
        """Whether the caller fetches the answer: then nothing is delivered."""
        return self.channel == API


NO_MEMORY: Final = {"memory": False}
"""In the place of an address: nothing is delivered, and the turn may not write memory."""


def reply_over_api(person: str) -> ReplyTo:
    """The reply address of a caller over the API: the answer goes only into the thread.

    It is stored so that a gateway that restarts knows that a caller waits for the answer.
    """
    return ReplyTo(channel=API, key=API, account=person, person=person)


class Piece(NamedTuple):
    """A part of a reply: the slice of its text, and the message as it is sent.

    Slices joined are the whole text. What is sent is in the platform's markup, and a code block
    that was cut is closed and opened again there.
    """

    source: str
    sent: str


class Choice(msgspec.Struct, frozen=True):
    """A button below a question: what it shows, and the value that its press brings."""

    label: str
    value: str


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """A single message that a channel sends: a reply, a part of a long one, or a file of one.

    `text` is in the platform's markup unless it `is_plain`.
    """

    outbound: Outbound
    text: str
    part: int = 1
    is_last: bool = True
    is_plain: bool = False
    file: Attached | None = None

    @property
    def account(self) -> str:
        """The account of the channel that sends it."""
        return self.outbound.account

    @property
    def address(self) -> dict[str, Any]:
        """Where it goes, in the channel's own format."""
        return self.outbound.address

    @property
    def id(self) -> str:
        """The same each time this part is sent, so that the receiver can recognise a repetition."""
        return f"{self.outbound.id}-{self.part}"


_TYPES: Final[dict[object, ChatType]] = {
    "dm": "direct", "group": "group", "channel": "channel"
}  # fmt: skip


def conversation_of(reply_to: ReplyTo, session_key: str) -> Conversation:
    """The conversation that the send policy is applied to, from its key or its address."""
    key = reply_to.key if parse_key(reply_to.key) is not None else session_key
    peer = reply_to.address.get("peer")
    kind = peer.get("kind") if isinstance(peer, Mapping) else None
    return describe_conversation(key, reply_to.channel, _TYPES.get(kind))


def read_reply_to(value: object) -> ReplyTo | None:
    """Read the reply address stored with a message or a turn; None if there is none."""
    if not isinstance(value, Mapping):
        return None
    try:
        return msgspec.convert(dict(value), ReplyTo)
    except msgspec.ValidationError:
        return None


def parse_reply_to(text: str) -> ReplyTo:
    """Parse the address that a person gives for a job's replies; raises `InvalidInput`.

    `telegram:123`, `telegram:group:-100:topic:7`, `slack:channel:c01`, `webhook:deploys`.
    """
    channel, colon, rest = text.strip().partition(":")
    name = normalise_word(channel)
    whole = parse_key(f"agent:main:{name}:{rest}")
    if not colon or not name or not rest.strip() or name in _NO_CHANNELS:
        raise InvalidInput(
            f'"{text}" is not a place to deliver to: write channel:id or channel:group:id.'
        )
    if whole is None or whole.channel is None:
        whole = parse_key(f"agent:main:{name}:dm:{rest.strip()}")
    if whole is None or whole.channel is None:
        raise InvalidInput(f'"{text}" is not a place to deliver to: write channel:id.')
    return reply_to_peer(
        name,
        # Each webhook is an account of its own.
        whole.id if name == "webhook" else whole.account or ACCOUNT,
        whole.kind,
        whole.id,
        thread=whole.topic or whole.thread,
    )


def reply_to_peer(
    channel: str, account: str, kind: str, peer: str, *, thread: str | None = None
) -> ReplyTo:
    """Where replies to a person or a group go; its key is the same for every message there."""
    key = f"{channel}:{account}:{kind}:{peer}"
    return ReplyTo(
        channel=channel,
        key=f"{key}:{thread}" if thread else key,
        account=account,
        address={"peer": {"kind": kind, "id": peer}} | ({"thread": thread} if thread else {}),
    )


def is_group(reply_to: ReplyTo) -> bool:
    """Whether other people read what is said there."""
    peer = reply_to.address.get("peer")
    return isinstance(peer, Mapping) and peer.get("kind") in ("group", "channel")


def chat_of(outbound: Outbound) -> tuple[str, str, str]:
    """The chat of a reply: a platform's limit for it holds for all of its threads."""
    peer = outbound.address.get("peer")
    name = str(peer.get("id")) if isinstance(peer, Mapping) else outbound.key
    return (outbound.channel, outbound.account, name)


def is_said(reply_to: ReplyTo, text: str, rows: Iterable[Outbound], now: int) -> bool:
    """Whether a retry would repeat what the session has just sent to this conversation.

    Failed replies don't count. Only retries are checked: two turns that happen to give the same
    answer are two replies. `rows` are the session's deliveries.
    """
    return reply_to.is_retry and any(
        (row.channel, row.key, row.content) == (reply_to.channel, reply_to.key, text)
        and row.status in _SAID
        and now - row.created_at < REPEAT_MS
        for row in rows
    )


def split_text(text: str, limit: int, *, size: Callable[[str], int] = len) -> tuple[str, ...]:
    """Split a text into pieces of at most `limit`; no pieces for an empty text.

    `size` measures a text as the channel does: at least 1 per character. A single character that is
    too big for any message is a piece of its own.
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


def cut_pieces(
    text: str,
    limit: int,
    *,
    size: Callable[[str], int] = len,
    render: Callable[[str], str] = str,
) -> Iterator[Piece]:
    """Cut a text into messages of at most `limit` as they are sent; none for an empty text.

    `render` puts a message into the platform's markup. A code block that is cut is closed, and
    opened again in the next message. A single character that is too big is a piece of its own.
    """
    start, opener = 0, ""
    while start < len(text):
        window = text[start : start + 2 * limit + 1]
        piece, sent, opener = _cut_one(window, opener, limit, size, render)
        start += len(piece)
        yield Piece(piece, sent)


def _cut_one(
    rest: str,
    opener: str,
    limit: int,
    size: Callable[[str], int],
    render: Callable[[str], str],
) -> tuple[str, str, str]:
    """The slice of the first message, the message as sent, and what opens the next one."""
    room = limit
    while True:
        piece = split_text(opener + rest, room, size=size)[0]
        if len(piece) <= len(opener):
            opener, room = "", limit  # no room to open the block again
            continue
        mark, header = _find_open(piece)
        is_end = len(piece) == len(opener) + len(rest)
        closing = "" if not mark else mark if piece.endswith("\n") else f"\n{mark}"
        sent = render(piece + closing)
        if size(sent) <= limit or room == 1:
            return piece[len(opener) :], sent, "" if is_end or not header else f"{header}\n"
        room = max(1, min(room - 1, room * limit // size(sent)))


def _find_open(text: str) -> tuple[str, str]:
    """The mark and the first line of a code block that is open at the end; empty if none is."""
    opened = ("", "")
    for line in text.splitlines():
        match = _FENCE.match(line)
        if match is None:
            continue
        if not opened[0] and not (match[1][0] == "`" and "`" in match[2]):
            opened = (match[1], line)
        elif opened[0] and _closes(match, opened[0]):
            opened = ("", "")
    return opened


def utf16_size(text: str) -> int:
    """The length of a text in UTF-16 units, as Telegram counts."""
    return len(text) + sum(each > "\uffff" for each in text)


class _Fits:
    """Whether a part of the text fits into one message."""

    def __init__(self, text: str, limit: int, size: Callable[[str], int]) -> None:
        self._text, self._limit, self._size = text, limit, size

    def __call__(self, start: int, end: int) -> bool:
        return end - start <= self._limit and self._size(self._text[start:end]) <= self._limit


def _reach(text: str, start: int, limit: int, size: Callable[[str], int]) -> int:
    """The farthest position at which a message that begins at `start` can end."""
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
        return inside[0]  # the code block stays whole in the next message
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
    """The position after the last match of a pattern; `start` if there is none."""
    found = start
    for match in kind.finditer(text, start, end):
        found = match.end()
    return found


def _step_back(text: str, start: int, end: int) -> int:
    """The nearest earlier position that does not split a letter from its accents."""
    for cut in range(end, max(start, end - CLOSEST), -1):
        if not _belongs_together(text[cut - 1], text[cut]):
            return cut
    return end


def _belongs_together(before: str, after: str) -> bool:
    if (before, after) == ("\r", "\n") or _JOINER in (before, after):
        return True
    return unicodedata.category(after) in ("Mn", "Mc", "Me")


def _list_fences(text: str) -> Iterator[tuple[int, int]]:
    """The ranges of fenced code blocks; an unclosed one goes to the end."""
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
    """Positions after paragraphs outside of code, and around code blocks; sorted."""
    paragraphs = (match.end() for match in _PARAGRAPH.finditer(text))
    starts = [start for start, _ in fences]

    def is_outside(place: int) -> bool:
        index = bisect_right(starts, place - 1) - 1
        return index < 0 or place >= fences[index][1]

    around = (place for fence in fences for place in fence)
    return tuple(sorted({each for each in (*paragraphs, *around) if is_outside(each)}))
