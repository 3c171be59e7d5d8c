"""What a gateway takes up when it starts: what a dead one had accepted, or was answering.

Only what came from channels and the API: a terminal's messages wait for their person. First the
answers that were cut off go on, then the messages that no turn has, in order. Doing it twice, or
dying while doing it, is as doing it once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from clew.core.delivery import Inbound, NewOutbound
from clew.core.replies import ReplyTo, read_reply_to
from clew.core.session import OWNER, Session
from clew.core.turn import Turn
from clew.errors import SessionNotFound
from clew.ports import Store
from clew.runtime.projects import walk_sessions
from clew.runtime.reception import Reception
from clew.runtime.recovery import MANY, claim
from clew.runtime.runtime import Runtime

NOT_OURS: Final = ("cli", "spawn")
RECENT_MS: Final = 24 * 3_600_000
"""Older answers than this are not what anybody still waits for."""
ATTEMPTS: Final = 10
"""Times that an answer is cut off before it is left alone: it may be what ends the process."""
GIVEN_UP: Final = (
    f"I was cut off {ATTEMPTS} times while I was answering, and leave it at that. "
    "/retry tries again."
)
_AT_ONCE: Final = 200


class TakenUp(msgspec.Struct, frozen=True):
    """Sessions whose answers go on, and messages that were run."""

    continued: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()


async def take_up(runtime: Runtime, reception: Reception) -> TakenUp:
    """Go on where another process was ended. Returns when all of it is on its way."""
    continued = [
        session.id
        async for session, turns in _find_cut_off(runtime.store, runtime.clock())
        if await _go_on(runtime, session, turns)
    ]
    adopted = [
        inbound.id
        for inbound in await _list_left(runtime.store)
        if await _adopt(runtime.store, reception, inbound)
    ]
    return TakenUp(tuple(continued), tuple(adopted))


# --- answers ------------------------------------------------------------------------------------


Turns = tuple[Turn, ...]


async def _find_cut_off(store: Store, now: int) -> AsyncIterator[tuple[Session, Turns]]:
    """Sessions whose newest turn was cut off, and their newest turns."""
    where = {"active_since": now - RECENT_MS, "archived": None}
    page: list[Session] = []
    async for session in walk_sessions(store, where, viewer=OWNER):
        page.append(session)
        if len(page) == _AT_ONCE:
            for each in await _look_at(store, page):
                yield each
            page = []
    for each in await _look_at(store, page):
        yield each


async def _look_at(store: Store, page: Sequence[Session]) -> list[tuple[Session, Turns]]:
    states = await store.list_states([each.id for each in page])
    found = []
    for session in page:
        state = states.get(session.id)
        if state is None or not state.interrupted:
            continue
        await store.interrupt_turns(session.id)
        found.append((session, await store.list_turns(session.id, limit=ATTEMPTS)))
    return found


async def _go_on(runtime: Runtime, session: Session, turns: Turns) -> bool:
    """Answer what the thread ends with, with the rights of the person who asked."""
    turn = turns[-1]
    reply_to = read_reply_to(turn.reply_to)
    if turn.status != "interrupted" or turn.undone_at is not None or reply_to is None:
        return False
    if len(turns) == ATTEMPTS and all(each.status == "interrupted" for each in turns):
        await _give_up(runtime, session, turn, reply_to)
        return False
    person = reply_to.person or _asker_of(session, reply_to)
    runtime.go_on(
        session.id, person=person, attended=person == OWNER, reply_to=reply_to, is_retry=False
    )
    return True


async def _give_up(runtime: Runtime, session: Session, turn: Turn, reply_to: ReplyTo) -> None:
    if reply_to.is_fetched:
        return  # who comes for it sees that it was cut off
    new = NewOutbound(
        id=f"{turn.id}-given-up",
        key=reply_to.key,
        channel=reply_to.channel,
        address=reply_to.address | {"account": reply_to.account},
        content=GIVEN_UP,
        turn_id=turn.id,
    )
    await runtime.store.add_outbound(session.id, new)
    runtime.replies.bell.set()


def _asker_of(session: Session, reply_to: ReplyTo) -> str:
    """Where nobody is named: nobody's rights, but for a conversation of one person."""
    return session.person if session.kind in ("main", "dm") else f"{reply_to.channel}:unknown"


# --- messages -----------------------------------------------------------------------------------


async def _list_left(store: Store) -> list[Inbound]:
    """Messages that nobody alive has, oldest first."""
    rows = [row for row in await store.list_inbound(limit=MANY) if row.channel not in NOT_OURS]
    claimants = dict.fromkeys(row.claimant for row in rows if row.claimant is not None)
    dead = {each for each in claimants if not await store.is_living(each)}
    for claimant in dead:
        await store.release_inbound(claimant)
    return [row for row in rows if row.claimant is None or row.claimant in dead]


async def _adopt(store: Store, reception: Reception, inbound: Inbound) -> bool:
    taken = await claim(store, inbound)
    if taken is None:
        return False
    try:
        await reception.carry_out(taken, recovered=True)
    except SessionNotFound:
        return False  # it was purged meanwhile, and what was said in it too
    return True
