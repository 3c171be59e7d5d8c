"""How a live socket ends, in words that both ends know: a WebSocket's code, and the reason.

When it ends is the gateway's to say; whether it is of use to come back, the client's.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Ending(NamedTuple):
    """Why it is over, as a WebSocket says it."""

    code: int
    reason: str


UNAUTHORIZED: Final = 4401
"""The code where a credential has ended; the reason says how."""
CLOSING: Final = Ending(1012, "clew is closing; come back in a moment")
STALLED: Final = Ending(1013, "what was sent here was not read; come back when you can")
UNREADABLE: Final = Ending(1008, "too many frames that can't be read")
FLOOD: Final = Ending(1008, "too many frames at once")
TOO_LONG: Final = Ending(1009, "a frame that is too long")
