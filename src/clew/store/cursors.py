"""Limits of pages, and the cursors between them: opaque to callers, checked when they return."""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

import msgspec

from clew.errors import InvalidCursor, InvalidInput

T = TypeVar("T")


def check_limit(limit: int) -> int:
    """The limit of a page; `InvalidInput` if it is negative."""
    if limit < 0:
        raise InvalidInput(f"A page can't have {limit} rows.")
    return limit


def make_cursor(place: object) -> str:
    """A place in a list as a cursor."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read_cursor(cursor: str, kind: type[T]) -> T:
    """The place that a cursor stands for; `InvalidCursor` if it can't be read."""
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return msgspec.json.decode(raw, type=kind)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise InvalidCursor(
            "That cursor does not belong here. Start again from the first page."
        ) from error
