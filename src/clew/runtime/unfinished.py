"""What turns had said that were stopped before their answer was done: for people, never for models.

It is no message, so whoever shows a thread asks for it here, beside the messages. How it looks is
the surface's affair.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from clew.core.message import Message
from clew.core.turn import Turn, TurnStatus
from clew.errors import RecordNotFound
from clew.ports import Store

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


async def list_unfinished(store: Store, messages: Sequence[Message]) -> tuple[Turn, ...]:
    """The turns among these messages that had begun an answer, and did not end it."""
    found = []
    for turn_id in find_ends(messages):
        with contextlib.suppress(RecordNotFound):
            turn = await store.get_turn(turn_id)
            if turn.partial and turn.partial.strip() and turn.status in ENDS:
                found.append(turn)
    return tuple(found)


def place_unfinished(turns: Sequence[Turn], messages: Sequence[Message]) -> dict[int, Turn]:
    """The same by the number of the message that they stand behind."""
    ends = find_ends(messages)
    return {ends[turn.id]: turn for turn in turns if turn.id in ends}
