"""Values as JSON text: for any database and back without losing a character, or for any parser.

Ordinary values go straight through msgspec. Only where a string holds what UTF-8 can't carry
(lone surrogates) or the escape of `core.text` itself is every string of the value escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from clew.core.text import ESCAPE, decode_text, encode_text
from clew.errors import InvalidInput

T = TypeVar("T")

_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def to_json(value: object) -> str:
    """The value as JSON text."""
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        text = ESCAPE
    except (TypeError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"A value that is no JSON: {error}. Nothing was changed.") from error
    if ESCAPE in text:
        text = msgspec.json.encode(_map(msgspec.to_builtins(value), encode_text)).decode()
    return text


def from_json(text: str, kind: type[T]) -> T:
    """The value of that type which `to_json` wrote."""
    if ESCAPE in text:
        return msgspec.convert(_map(msgspec.json.decode(text), decode_text), kind)
    return msgspec.json.decode(text, type=kind)


def to_wire(value: object) -> bytes:
    """Any value as JSON that every parser takes: lone surrogates become U+FFFD.

    Spelled as escapes they would be JSON that many parsers refuse.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        import json  # noqa: PLC0415  # hardly ever needed, and every command loads this

        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        return _SURROGATES.sub("\ufffd", text).encode()


def _map(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_map(item, change) for item in value]
    if isinstance(value, dict):
        return {_map(key, change): _map(item, change) for key, item in value.items()}
    return value
