"""What becomes of a message that is sent while a turn runs: the queue modes of a session."""

from __future__ import annotations

from typing import Final, Literal

QueueMode = Literal["followup", "steer", "interrupt", "collect"]
"""What becomes of a message that comes while a turn runs."""

QUEUE_MODES: Final[dict[QueueMode, str]] = {
    "followup": "each message waits for its own turn",
    "steer": "a message goes into the turn that runs, before its next step",
    "interrupt": "a message stops the turn that runs, and is next",
    "collect": "messages wait, and are answered together",
}

QUEUED: Final[dict[QueueMode, str]] = {
    "followup": "Queued; it is next when this turn is done.",
    "steer": "It goes into this turn before its next step.",
    "interrupt": "This turn is stopped; yours is next.",
    "collect": "Queued; what waits is answered together when this turn is done.",
}
"""What to say about a message that was said while a turn runs."""


def read_mode(noted: object) -> QueueMode:
    """The mode that is noted with a session; anything else means the usual one."""
    return noted if isinstance(noted, str) and noted in QUEUE_MODES else "followup"
