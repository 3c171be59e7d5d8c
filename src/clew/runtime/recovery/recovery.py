"""What a crash left in one session: turns without an end, and messages that no turn has.

A terminal recovers only the session that it attaches, and asks before it runs anything; what
belongs to channels and the API is recovered by a gateway (`recovery.takeover`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec

from clew.core.delivery import Inbound
from clew.core.message import Message
from clew.core.turn import ENDS, Turn, find_ends
from clew.errors import RecordNotFound
from clew.ports import Store


class Recovered(msgspec.Struct, frozen=True):
    """Turns that are `interrupted` from now on, and messages that wait for their person's word."""

    interrupted: tuple[Turn, ...] = ()
    unanswered: tuple[Inbound, ...] = ()


async def recover(store: Store, session_id: str, *, idle: str | None = None) -> Recovered:
    """Mark what no process runs any more. A living lease, or claimant, is left alone.

    `idle` is the identity of a living process that is known to run nothing in the session.
    """
    interrupted = await store.interrupt_turns(session_id)
    for inbound in await store.list_inbound(session_id):
        claimant = inbound.claimant
        if claimant is None:
            continue
        if claimant.partition("#")[0] == idle or not await store.is_living(claimant):
            await store.release_inbound(claimant)
    rows = await store.list_inbound(session_id)
    return Recovered(interrupted, tuple(each for each in rows if each.status == "queued"))


async def list_unfinished(store: Store, messages: Sequence[Message]) -> tuple[Turn, ...]:
    """The turns among these messages that had begun an answer, and did not end it."""
    found = []
    for turn_id in find_ends(messages):
        with contextlib.suppress(RecordNotFound):
            turn = await store.get_turn(turn_id)
            if turn.partial and turn.partial.strip() and turn.status in ENDS:
                found.append(turn)
    return tuple(found)
