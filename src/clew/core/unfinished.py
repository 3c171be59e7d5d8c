"""Turns that were stopped before their answer was done, and where they stand in a thread.

What such a turn had said is no message: people see it, models never do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clew.core.message import Message
from clew.core.turn import Turn, TurnStatus

ENDS: Final[dict[TurnStatus, str]] = {
    "aborted": "stopped",
    "interrupted": "interrupted",
    "failed": "failed",
}
"""How to call the end of a turn that has no answer."""


def find_ends(messages: Sequence[Message]) -> dict[str, int]:
    """The turns whose last message here is no answer, and the number of that message."""
    last = {each.turn_id: each for each in messages if each.turn_id is not None}
    return {
        turn_id: message.seq
        for turn_id, message in last.items()
        if message.role != "assistant" or message.tool_calls
    }


def place_unfinished(turns: Sequence[Turn], messages: Sequence[Message]) -> dict[int, Turn]:
    """Unfinished turns by the number of the message that they stand behind."""
    ends = find_ends(messages)
    return {ends[turn.id]: turn for turn in turns if turn.id in ends}
