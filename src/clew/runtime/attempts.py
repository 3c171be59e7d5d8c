"""Taking back, bringing back and trying again: what `/undo`, `/redo` and `/retry` mean.

An exchange is what a person sees as one turn: what they said, and everything that was done about
it. A retry goes on in a turn of its own, so an exchange may have several turns. Reads the thread;
the changes themselves are the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from clew.core.message import Draft, Message
from clew.core.turn import Turn
from clew.ports import Store

STEP = 200
"""Messages looked at in one go; an exchange with more of them takes several."""


class Exchange(msgspec.Struct, frozen=True):
    """The turns of one exchange, oldest first, and what the user said."""

    turns: tuple[str, ...]
    draft: Draft
    messages: int
    first_seq: int


async def find_last(store: Store, session_id: str) -> Exchange | None:
    """The last exchange of the thread as it reads now."""
    return _last_of(await _tail(store, session_id))


async def find_undone(store: Store, session_id: str) -> Exchange | None:
    """The exchange that was taken back last, if nothing was said since."""
    visible = await store.get_messages(session_id, 1)
    after = visible[-1].seq if visible else 0
    hidden = await store.get_messages(session_id, after=after, undone=True)
    exchanges = [each for each in map(_last_of, _split(hidden)) if each is not None]
    if not exchanges:
        return None
    # Going back takes the newest first, so the oldest is the last; but what a retry has replaced
    # lies before what replaced it. Of inherited turns the time is not told: those came last.
    turns = await store.list_turns(session_id, limit=STEP)
    undone = {turn.id: turn.undone_at for turn in turns}
    return max(exchanges, key=lambda each: undone.get(each.turns[0]) or math.inf)


def _split(messages: Sequence[Message]) -> list[list[Message]]:
    """Each from one thing that the user said up to the next."""
    parts: list[list[Message]] = []
    for message in messages:
        if message.role == "user" or not parts:
            parts.append([])
        parts[-1].append(message)
    return parts


async def find_end(store: Store, exchange: Exchange) -> Turn:
    """How the exchange ended: its last turn."""
    return await store.get_turn(exchange.turns[-1])


async def _tail(store: Store, session_id: str) -> Sequence[Message]:
    """The newest messages, back to one that the user said."""
    limit = STEP
    while True:
        messages = await store.get_messages(session_id, limit)
        if len(messages) < limit or any(each.role == "user" for each in messages):
            return messages
        limit *= 4


def _last_of(messages: Sequence[Message]) -> Exchange | None:
    taken: list[Message] = []
    for message in reversed(messages):
        taken.insert(0, message)
        if message.role == "user":
            turns = dict.fromkeys(each.turn_id for each in taken if each.turn_id is not None)
            said = Draft(role="user", content=message.content, parts=message.parts)
            return Exchange(tuple(turns), said, len(taken), message.seq) if turns else None
    return None
