"""The preview of a session: its last messages, or those around a search hit.

`load_preview` asks for the messages and draws in a thread; the drawing is pure.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec
from textual.geometry import Size

from clew.api.sessions import StateView
from clew.client.client import Client
from clew.core.message import Message
from clew.core.names import counted
from clew.core.search.hits import SearchHit, snippet
from clew.core.search.query import parse
from clew.core.text import columns, cut, strip_controls
from clew.errors import ClewError
from clew.terminal.picker.lines import PIN, Piece
from clew.terminal.picker.rows import Row, clean_line
from clew.terminal.plain_output import message_lines

Line = list[Piece]

MESSAGES: Final = 12
"""Newest messages that are loaded for a preview."""
AROUND: Final = 3
"""Messages before and after a hit."""
LONGEST: Final = 4_000
"""Characters of a message that are drawn, on either side of a match."""
_GLIMPSE: Final = 3
"""Lines of a message that is not the hit."""


async def load_preview(
    client: Client,
    row: Row,
    size: Size,
    *,
    hit: SearchHit | None,
    query: str,
    state: StateView | None,
) -> list[Line]:
    """The lines of the preview: the session, then its end or the messages around the hit."""
    head = draw_head(row, state, size.width)
    height = size.height - len(head)
    try:
        messages = await _load_messages(client, row.id, hit)
    except ClewError as error:
        return [*head, [(cut(strip_controls(str(error)), size.width), "error")]]
    if hit is None:
        body = await asyncio.to_thread(draw_end, messages, size.width, height)
    else:
        body = await asyncio.to_thread(draw_hit, messages, hit.seq, query, size.width, height)
    return [*head, *(body or [[("(no messages)", "dim")]])]


async def _load_messages(
    client: Client, session_id: str, hit: SearchHit | None
) -> tuple[Message, ...]:
    if hit is None:
        return (await client.sessions.messages(session_id, limit=MESSAGES)).messages
    page = await client.sessions.messages(
        session_id,
        after=max(0, hit.seq - AROUND - 1),
        before=hit.seq + AROUND + 1,
        undone=True,
    )
    return page.messages


def draw_head(row: Row, state: StateView | None, width: int) -> list[Line]:
    """The session's name, its id, and the process that has it open."""
    facts = [row.id[:8], counted(row.message_count, "message")]
    if state is not None and state.attachment is not None:
        holder = state.attachment
        where = f" in {holder.terminal}" if holder.terminal else ""
        facts.append(f"open{where}, process {holder.pid} on {holder.host}")
    if row.directory:
        facts.append(row.directory)
    said = clean_line(" · ".join(facts))
    mark: list[Piece] = [(f"{PIN} ", "pin")] if row.pinned else []
    return [
        [*mark, (cut(row.title, max(1, width - 2)), "user")],
        [(cut(said, width), "dim")],
        [],
    ]


# --- drawing ----------------------------------------------------------------------------------


def draw_end(messages: Sequence[Message], width: int, height: int) -> list[Line]:
    """The beginnings of the last messages, in so many lines."""
    shown: list[list[Line]] = []
    room = height
    for message in reversed(messages):
        if room <= 0:
            break
        most = max(_GLIMPSE, height // 2) if message.role == "assistant" else _GLIMPSE
        lines = _draw_message(message, width, min(most, room))
        room -= len(lines) + 1
        shown.append(lines)
    return _join(reversed(shown))[-height:] if height > 0 else []


def draw_hit(
    messages: Sequence[Message], seq: int, query: str, width: int, height: int
) -> list[Line]:
    """The part of a message that contains the query, and the messages around it."""
    at = next((index for index, each in enumerate(messages) if each.seq == seq), None)
    if at is None:
        return draw_end(messages, width, height)
    hit = messages[at]
    before = [_draw_message(each, width, 2) for each in messages[max(0, at - 1) : at]]
    behind = [_draw_message(each, width, _GLIMPSE) for each in messages[at + 1 : at + 1 + AROUND]]
    used = sum(len(lines) + 1 for lines in before)
    room = max(_GLIMPSE, height - used - (2 if behind and height > 8 else 0))
    return _join([*before, _draw_marked(hit, query, width, room), *behind])[:height]


def find_words(content: str, query: str) -> re.Pattern[str] | None:
    """A pattern for what made a message match, as it is written there."""
    found = snippet(content, parse(query, typing=True), width=200)
    matched = found.text[found.start : found.end].strip("…")
    if not matched.split():
        return None
    words = r"\s+".join(re.escape(word) for word in matched.split())
    # Whole words only; scripts without spaces have none.
    front, back = (r"(?<![^\W_])" if matched[0].isascii() and matched[0].isalnum() else ""), ""
    if matched[-1].isascii() and matched[-1].isalnum():
        back = r"(?![^\W_])"
    return re.compile(front + words + back)


def wrap(text: str, width: int) -> Iterator[str]:
    """The text in lines of at most so many columns, broken between words where it can be."""
    text = text.expandtabs(4)
    # A text this long is wider than a line; measuring it for each line would take long.
    while len(text) > 8 * width or columns(text) > width:
        piece = _fitting(text, width)
        space = piece.rfind(" ")
        if space > width // 3 and text[len(piece) : len(piece) + 1] != " ":
            piece = piece[:space]
        yield piece.rstrip()
        text = text[len(piece) :].lstrip()
    yield text


def _fitting(text: str, width: int) -> str:
    """The longest beginning of a text that fits; one character at least."""
    if text[:width].isascii():
        return text[:width]
    low, high = 1, min(len(text), 4 * width)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if columns(text[:middle]) <= width else (low, middle - 1)
    return text[:low]


def _draw_message(message: Message, width: int, most: int) -> list[Line]:
    """The beginning of a message."""
    short = message
    if len(message.content) > LONGEST:
        short = msgspec.structs.replace(message, content=message.content[:LONGEST])
    lines: list[Line] = []
    for text, style in message_lines(short, verbose=False):
        if not text.strip(" >"):
            continue
        parts = islice(wrap(text, width), most + 1 - len(lines))
        lines += [[(part, style or "")] for part in parts]
        if len(lines) > most:
            return _cut_short(lines[:most], width)
    return lines


def _cut_short(lines: list[Line], width: int) -> list[Line]:
    if not lines:
        return lines
    text, style = lines[-1][0]
    return [*lines[:-1], [(cut(f"{text} ……", min(width, columns(text) + 2)), style)]]


def _draw_marked(message: Message, query: str, width: int, height: int) -> list[Line]:
    """The lines of a message around its first match, with all its matches marked."""
    pattern = find_words(message.content, query)
    content = strip_controls(message.content)
    found = None if pattern is None else pattern.search(content)
    if pattern is None or found is None:
        return _draw_message(message, width, height)
    first = max(0, found.start() - LONGEST)
    content = content[first : found.end() + LONGEST]
    lead = {"user": "> ", "tool": "  "}.get(message.role, "")
    style = {"user": "user", "tool": "dim"}.get(message.role, "")
    lines = [
        part
        for text in content.split("\n")
        if text.strip()
        for part in wrap(f"{lead}{text}", width)
    ]
    at = next((index for index, line in enumerate(lines) if pattern.search(line)), 0)
    start = max(0, min(at - height // 3, len(lines) - height))
    return [_mark(line, pattern, style) for line in lines[start : start + height]]


def _mark(line: str, pattern: re.Pattern[str], style: str) -> Line:
    pieces: Line = []
    done = 0
    for match in pattern.finditer(line):
        pieces += [(line[done : match.start()], style), (match[0], "match")]
        done = match.end()
    pieces.append((line[done:], style))
    return [piece for piece in pieces if piece[0]]


def _join(groups: Iterator[list[Line]] | Sequence[list[Line]]) -> list[Line]:
    """Messages below each other, with an empty line between them."""
    lines: list[Line] = []
    for group in groups:
        if group:
            lines += [[]] * bool(lines) + group
    return lines
