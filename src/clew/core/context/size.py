"""Estimates of how many tokens something takes, where no provider has counted it.

Four ASCII characters are one token; other scripts need more tokens. That is good enough to decide
what to cut, on the safe side, and is always shown with `~`. A provider's counts are in `Usage`.
`ContextPart` is one part of a request with its size, as `/context` shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from clew.core.message import Message

IMAGE_TOKENS: Final = 1_500
"""Approximate tokens of a picture: providers scale large ones down to this."""

MESSAGE_TOKENS: Final = 4
"""Extra tokens of every message, for its role and its end."""

_THOUGHTS: Final = ("thinking", "text", "signature")

PartKind = Literal["prompt", "tool"]


def estimate_text(text: str) -> int:
    """Tokens of a text: one for four ASCII characters, or for three bytes of other scripts.

    That makes a Chinese character one token, and a Cyrillic letter two thirds of one.
    """
    if text.isascii():
        return -(-len(text) // 4)
    plain = len(text.encode("ascii", "ignore"))
    other = len(text.encode("utf-8", "surrogatepass")) - plain
    return -(-(3 * plain + 4 * other) // 12)


def estimate_message(message: Message) -> int:
    """Tokens of one message, with its calls, its pictures and what the model thought."""
    calls = sum(
        MESSAGE_TOKENS + estimate_text(call.name) + estimate_text(call.arguments)
        for call in message.tool_calls
    )
    parts = sum(map(_estimate_part, message.parts))
    return MESSAGE_TOKENS + estimate_text(message.content) + calls + parts


def estimate_thread(messages: Iterable[Message]) -> int:
    """Tokens of several messages."""
    return sum(map(estimate_message, messages))


def estimate_tool(name: str, description: str, schema: dict[str, Any]) -> int:
    """Tokens that offering a tool takes."""
    shape = msgspec.json.encode(schema).decode()
    return MESSAGE_TOKENS + estimate_text(name) + estimate_text(description) + estimate_text(shape)


def _estimate_part(part: dict[str, Any]) -> int:
    if "blob" in part:
        return IMAGE_TOKENS
    texts = (part.get(name) for name in _THOUGHTS)
    return sum(estimate_text(text) for text in texts if isinstance(text, str))


class ContextPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of the system prompt, or a tool, and about how many tokens it takes.

    `source` is the file that it comes from, if any.
    """

    kind: PartKind
    name: str
    tokens: int
    source: str | None = None
