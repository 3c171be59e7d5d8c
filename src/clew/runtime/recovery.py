"""What a crash left in one session: turns without an end, and messages that no turn has.

A terminal recovers only the session that it attaches, and asks before it runs anything; what
belongs to channels and the API is recovered by a gateway.
"""

from __future__ import annotations

import msgspec

from clew.core.delivery import Inbound
from clew.core.turn import Turn
from clew.ports import Store

MANY = 10_000
"""Messages of the inbox that are looked at."""


class Recovered(msgspec.Struct, frozen=True):
    """Turns that are `interrupted` from now on, and messages that wait for somebody's word."""

    interrupted: tuple[Turn, ...] = ()
    unanswered: tuple[Inbound, ...] = ()


async def recover(store: Store, session_id: str, *, idle: str | None = None) -> Recovered:
    """Mark what nobody runs any more. A living lease, or claimant, is left alone.

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


async def claim(store: Store, inbound: Inbound) -> Inbound | None:
    """Take one message of the inbox for this process; None if somebody else has it.

    What waits before it, such as a terminal's for its person's word, is only passed over.
    """
    waiting = await store.list_inbound(inbound.session_id, limit=MANY)
    queued = [each.id for each in waiting if each.status == "queued"]
    if inbound.id not in queued:
        return None
    mine, aside = f"{store.identity}#{inbound.id}", f"{store.identity}#aside"
    before = queued.index(inbound.id)
    try:
        if before:
            await store.claim_inbound(aside, session_id=inbound.session_id, limit=before)
        taken = await store.claim_inbound(mine, session_id=inbound.session_id, limit=1)
    finally:
        if before:
            await store.release_inbound(aside)
    if [each.id for each in taken] != [inbound.id]:
        await store.release_inbound(mine)
        return None
    return taken[0]
