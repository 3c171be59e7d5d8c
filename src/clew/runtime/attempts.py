"""Taking back, bringing back and trying again: what `/undo`, `/redo` and `/retry` mean.

An exchange is what a person sees as one turn: what they said, and everything that was done about
it. A retry goes on in a turn of its own, so an exchange may have several turns; what was said while
a turn ran belongs to that turn. Reads the thread; the changes themselves are the caller's.
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
    drafts: tuple[Draft, ...]
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
    """Each from something that the user began with up to the next."""
    parts: list[list[Message]] = []
    for message in messages:
        if not parts or _begins(message, parts[-1][-1]):
            parts.append([])
        parts[-1].append(message)
    return parts


def _begins(message: Message, before: Message) -> bool:
    """Whether the user begins something here, and does not only say more to a turn that runs."""
    own = message.turn_id is None or message.turn_id != before.turn_id
    return message.role == "user" and own


async def find_end(store: Store, exchange: Exchange) -> Turn:
    """How the exchange ended: its last turn."""
    return await store.get_turn(exchange.turns[-1])


async def _tail(store: Store, session_id: str) -> Sequence[Message]:
    """The newest messages, back to where the user began something."""
    limit = STEP
    while True:
        messages = await store.get_messages(session_id, limit)
        parts = _split(messages)
        if len(messages) < limit:
            return parts[-1] if parts else ()
        if len(parts) > 1:
            return parts[-1]
        limit *= 4


def _last_of(messages: Sequence[Message]) -> Exchange | None:
    drafts = tuple(
        Draft(role="user", content=each.content, parts=each.parts)
        for each in messages
        if each.role == "user"
    )
    turns = dict.fromkeys(each.turn_id for each in messages if each.turn_id is not None)
    if not drafts or not turns or messages[0].role != "user":
        return None
    return Exchange(tuple(turns), drafts, len(messages), messages[0].seq)
