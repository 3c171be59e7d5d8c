"""What turns had said that were stopped before their answer was done: for people, never for models.

It is no message, so whoever shows a thread asks for it here, beside the messages. How it looks is
the surface's affair.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from clew.core.message import Message
from clew.core.turn import Turn
from clew.core.unfinished import ENDS, find_ends
from clew.errors import RecordNotFound
from clew.ports import Store


async def list_unfinished(store: Store, messages: Sequence[Message]) -> tuple[Turn, ...]:
    """The turns among these messages that had begun an answer, and did not end it."""
    found = []
    for turn_id in find_ends(messages):
        with contextlib.suppress(RecordNotFound):
            turn = await store.get_turn(turn_id)
            if turn.partial and turn.partial.strip() and turn.status in ENDS:
                found.append(turn)
    return tuple(found)
