"""Pages: how long they are, and the cursors that are opaque to callers and checked on return."""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

import msgspec

from clew.errors import InvalidCursor, InvalidInput

T = TypeVar("T")


def check_limit(limit: int) -> int:
    """The limit of a page, if it can be one."""
    if limit < 0:
        raise InvalidInput(f"A page can't have {limit} rows.")
    return limit


def make_cursor(place: object) -> str:
    """A place as a cursor."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read_cursor(cursor: str, kind: type[T]) -> T:
    """The place that a cursor stands for."""
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return msgspec.json.decode(raw, type=kind)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise InvalidCursor(
            "That cursor does not belong here. Start again from the first page."
        ) from error
