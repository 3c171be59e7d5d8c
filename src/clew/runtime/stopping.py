"""Stopping what another process is at in a session: its turn, and what waits behind it.

Nobody has to be asked for it. Whoever takes the lease fences the other process off, which from then
on can't write, and finds that out by itself; what it has not begun is taken out of the inbox, and
then can't begin. What runs in this process is stopped in its lane.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from clew.core.changes import EndTurn
from clew.core.delivery import Inbound
from clew.core.turn import Turn
from clew.errors import LeaseHeld, RecordNotFound, StaleLease
from clew.ports import Store
from clew.runtime.commits import unbroken
from clew.runtime.recovery import MANY

TTL_MS: Final = 5_000
"""How long the lease lasts if this process dies before it has given it back."""
TRIES: Final = 5


async def stop_elsewhere(store: Store, session_id: str) -> bool:
    """Abort the turn that another process runs in the session; False if there is none."""
    for _ in range(TRIES):
        turn = await _find_open(store, session_id)
        if turn is None:
            return False
        if await unbroken(_abort(store, turn)):
            return True
    return False


async def _find_open(store: Store, session_id: str) -> Turn | None:
    """The turn that somebody alive runs."""
    turns = await store.list_turns(session_id, limit=1)
    return next((each for each in turns if each.ended_at is None), None)


async def _abort(store: Store, turn: Turn) -> bool:
    """Give a turn its end under a lease that is taken from who runs it; False to look again."""
    lease = await store.find_lease(turn.session_id)
    if lease is None:
        await store.interrupt_turns(turn.session_id)  # nobody runs it any more
        return False
    try:
        # In the holder's name it is never free in between, so nobody else can come first.
        taken = await store.acquire_lease(turn.session_id, lease.holder, ttl=TTL_MS)
    except LeaseHeld:
        return False
    try:
        end = EndTurn(turn_id=turn.id, status="aborted")
        await store.record(turn.session_id, taken.epoch, end)
    except (StaleLease, RecordNotFound):
        return False  # it has come to its end, or somebody has taken over
    finally:
        await store.release_lease(taken)
    return True


async def take_back_elsewhere(
    store: Store, session_id: str, only: Collection[str] | None = None
) -> tuple[Inbound, ...]:
    """Take what other processes have not begun out of the inbox, or of it those with these ids."""
    rows = [
        row
        for row in await store.list_inbound(session_id, limit=MANY)
        if (only is None or row.id in only) and not is_own(store, row)
    ]
    for row in rows:
        if row.claimant is not None:
            await store.release_inbound(row.claimant)
    dropped = await store.drop_inbound([row.id for row in rows])
    return tuple(row for row in rows if row.id in dropped)


def is_own(store: Store, row: Inbound) -> bool:
    """Whether this process has that message."""
    return row.claimant is not None and row.claimant.startswith(f"{store.identity}#")
