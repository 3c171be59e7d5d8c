"""The checksum of a message: tells a row that the disk has changed from the one that was written.

It covers the texts of a row, in the order of `COVERED`; numbers and times are left out. It is kept
with the row, and looked at by `clew doctor --full`, exports, copies and backups, not by every read.
A row without one was changed by hand: a trigger takes it away. PostgreSQL makes it itself too, with
`clew_checksum` in its schema.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

COVERED: Final = (
    "turn_id", "role", "content", "parts", "tool_call_id", "tool_name", "tool_calls", "model",
    "author",
)  # fmt: skip

_SEPARATOR: Final = "\x1f"
_SEPARATOR_BYTE: Final = b"\x1f"


def checksum(*texts: str | None) -> int:
    """The checksum of the texts of a row as they are stored, in the order of `COVERED`."""
    return _number(_SEPARATOR.join([each or "" for each in texts]).encode())


def checksum_of_bytes(*texts: bytes | None) -> int:
    """The same over texts that may not be UTF-8 any more."""
    return _number(_SEPARATOR_BYTE.join([each or b"" for each in texts]))


def _number(data: bytes) -> int:
    """Four bytes of a hash, as a signed number: both databases keep that in four bytes."""
    return int.from_bytes(sha256(data, usedforsecurity=False).digest()[:4], "big", signed=True)
