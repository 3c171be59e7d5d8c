"""A thread as people read it: pages of messages, and the blocks that a message is shown as.

`exporter` writes these blocks as Markdown or HTML; this module knows neither.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from clew.core.channels.speech import name_of
from clew.core.message import Message
from clew.core.session import Session
from clew.core.text import cut, strip_controls
from clew.core.usage import Usage
from clew.ports import Log

PAGE = 100
"""Messages in one page."""

Clean = Callable[[str], str]
"""Masks the secrets in a text, or returns it as it is."""


class Block(msgspec.Struct, frozen=True):
    """A part of a message. `text` is the message itself; `details` can be folded away."""

    kind: Literal["text", "details", "note"]
    body: str
    title: str = ""
    language: str = ""


async def pages(
    log: Log, session: Session, *, undone: bool = False, notes: bool = False
) -> AsyncIterator[tuple[Message, ...]]:
    """The thread up to the session's head, oldest first, a page at a time."""
    for low in range(0, session.head, PAGE):
        high = min(low + PAGE, session.head)
        yield await log.get_messages(
            session.id, after=low, before=high + 1, undone=undone, notes=notes
        )


def title_of(session: Session, clean: Clean) -> str:
    """The title of a page about the session, on one line."""
    # The preview may be of a turn that was undone.
    preview = session.preview if session.message_count == session.head else None
    name = session.title or session.short_summary or preview or f"Session {session.id}"
    return cut(_line(clean(name)), 100)


def header(session: Session, clean: Clean) -> list[tuple[str, str]]:
    """The lines above a transcript, as names and values."""
    rows = [
        ("Session", session.id),
        ("Started", _time(session.created_at)),
        ("Updated", _time(session.updated_at)),
        ("Model", session.shown_model and _line(clean(session.shown_model))),
        ("Directory", session.shown_directory and _line(clean(session.shown_directory))),
        ("Messages", f"{session.message_count:,}"),
        ("Usage", _spent(session.usage)),
    ]
    return [(name, value) for name, value in rows if value]


def speaker(message: Message) -> str:
    """The name above a message: results of tools count as the assistant's."""
    if message.role != "user":
        return "Assistant"
    return "User" if message.author is None else f"User · {name_of(message.author)}"


def blocks(message: Message, clean: Clean, *, thinking: bool = False) -> Iterator[Block]:
    """The blocks of a message, in the order in which it is read."""
    if thinking:
        for thought in thoughts(message.parts):
            yield Block("details", _text(clean(thought)), "Thinking")
    content = _text(clean(message.content))
    if message.role == "tool":
        name = message.tool_name or "tool"
        yield Block(
            "details", content, _line(f"{'Error' if message.is_error else 'Result'}: {name}")
        )
    elif content.strip():
        yield Block("text", content)
    for part in message.parts:
        if isinstance(part.get("blob"), str):
            kind = part.get("media_type") or "attachment"
            yield Block("note", _line(f"{kind}, sha256 {part['blob']}"))
    for call in message.tool_calls:
        arguments = _text(clean(call.arguments))
        yield Block("details", arguments, _line(f"Tool: {call.name}"), "json")


def thoughts(parts: tuple[dict[str, Any], ...]) -> Iterator[str]:
    """A model's thinking, as far as its provider returns it."""
    for part in parts:
        if "thinking" in (part.get("type"), part.get("kind"), part.get("part_kind")):
            texts = (part.get(name) for name in ("thinking", "content", "text"))
            yield from (text for text in texts if isinstance(text, str) and text.strip())


def _text(text: str) -> str:
    return strip_controls(text).strip("\n")


def _line(text: str) -> str:
    return strip_controls(text, keep_newlines=False).strip()


def _time(at: int) -> str:
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, OSError, ValueError):
        return f"{at} ms"  # an imported time may be any number


def _spent(usage: Usage) -> str:
    if usage == Usage():
        return ""
    cached = usage.cache_read_tokens + usage.cache_creation_tokens
    cost = "cost unknown" if usage.cost is None else f"${usage.cost / 1e9:.4f}"
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    return ", ".join([tokens, *([f"{cached:,} cached"] if cached else []), cost])
