"""Recovery: finds the work that dead processes left, and continues it.

A terminal recovers the session that it opens; its messages run only after the person confirms. A
gateway takes over everything that came from channels and the API: first it continues the answers
that were cut off, then it runs the messages without a turn, in order. All of it can be repeated
safely, also after a crash in the middle.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import msgspec

from clew.core.channels.replies import ReplyTo, read_reply_to
from clew.core.delivery import Inbound, NewOutbound
from clew.core.message import Message
from clew.core.names import counted
from clew.core.session import OWNER, Session
from clew.core.turn import ENDS, Turn, find_ends
from clew.errors import ClewError, RecordNotFound, SessionNotFound
from clew.ports import Store
from clew.runtime.inbound.inbox import MANY, STORE_TROUBLE
from clew.runtime.lane.queue import PERSONS, Attempt
from clew.runtime.place.directories import walk_sessions
from clew.runtime.runtime import Runtime

RECENT_MS: Final = 24 * 3_600_000
"""Answers that were cut off longer ago than this are not continued."""
EVERY: Final = 15.0
"""Seconds between two checks for work that other gateways left."""
PAUSE: Final = 1.0
"""Seconds between two attempts after the store has failed."""
LATELY_MS: Final = 3_600_000
"""How recently a session must be active to be checked then; a starting gateway checks more."""
ATTEMPTS: Final = 10
"""How often an answer is continued: it may itself be what crashes the process."""
GIVEN_UP: Final = (
    f"I was cut off {ATTEMPTS} times while I was answering, and stopped trying. /retry tries again."
)
_AT_ONCE: Final = 200


class Recovered(msgspec.Struct, frozen=True):
    """Turns that are now `interrupted`, and messages that wait for the person to confirm."""

    interrupted: tuple[Turn, ...] = ()
    unanswered: tuple[Inbound, ...] = ()


async def recover(store: Store, session_id: str, *, idle: str | None = None) -> Recovered:
    """Mark turns that no process runs any more. Live leases and claimants are left alone.

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
    """The turns among these messages that began an answer and did not finish it."""
    found = []
    for turn_id in find_ends(messages):
        with contextlib.suppress(RecordNotFound):
            turn = await store.get_turn(turn_id)
            if turn.partial and turn.partial.strip() and turn.status in ENDS:
                found.append(turn)
    return tuple(found)


class TakenUp(msgspec.Struct, frozen=True):
    """Sessions whose answers are continued, and messages that were started."""

    continued: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()


async def take_up(runtime: Runtime, *, active_ms: int = RECENT_MS) -> TakenUp:
    """Continue the work of dead processes. Returns when all of it is started.

    From now on, work that another process leaves in a session is continued before anything new
    begins there. `active_ms`: sessions that were idle for longer are skipped.
    """
    takeover = GatewayTakeover(runtime)
    runtime.takeover = takeover
    continued = [
        session.id
        async for session in _find_cut_off(runtime.store, runtime.clock() - active_ms)
        if await takeover.go_on(session)
    ]
    adopted = [row.id for row in await _list_left(runtime.store) if await _try_to(takeover, row)]
    return TakenUp(tuple(continued), tuple(adopted))


async def keep_up(
    runtime: Runtime,
    *,
    every: float = EVERY,
    pause: float = PAUSE,
    active_ms: int = LATELY_MS,
    tell: Callable[[str], object] = lambda _words: None,
) -> None:
    """Take up the work that other gateways leave, until cancelled.

    So are messages of this gateway whose turn could not begin because the store failed: those are
    tried again after each `pause`. `tell` is told when they can be answered.
    """
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(runtime.wait_for_trouble(), every)
            await asyncio.sleep(pause)
        try:
            count = await runtime.give_back()
            if count:
                tell(f"The store works again; {counted(count, 'message')} had to wait for it.")
            await take_up(runtime, active_ms=active_ms)
        except STORE_TROUBLE:
            runtime.report_trouble()
        except ClewError:
            continue  # such as a session that was removed meanwhile; the next round looks again


async def _try_to(takeover: GatewayTakeover, row: Inbound) -> bool:
    """Adopt a message. One that can't be begun does not keep the others from it."""
    try:
        return await takeover.adopt(row)
    except STORE_TROUBLE:
        raise
    except ClewError:
        return False


# --- answers ------------------------------------------------------------------------------------
async def _find_cut_off(store: Store, since: int) -> AsyncIterator[Session]:
    """Sessions whose newest turn was cut off."""
    where = {"active_since": since, "archived": None}
    page: list[Session] = []
    async for session in walk_sessions(store, where, viewer=OWNER):
        page.append(session)
        if len(page) == _AT_ONCE:
            for each in await _look_at(store, page):
                yield each
            page = []
    for each in await _look_at(store, page):
        yield each


async def _look_at(store: Store, page: Sequence[Session]) -> list[Session]:
    states = await store.list_states([each.id for each in page])
    return [each for each in page if each.id in states and states[each.id].interrupted]


class GatewayTakeover:
    """`runtime.runtime.Takeover` of a gateway: continues with the asking person's rights."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._store = runtime.store

    async def go_on(self, session: Session) -> bool:
        """Continue the last turn of the thread if its answer was cut off."""
        await self._store.interrupt_turns(session.id)
        for turn in await self._store.list_turns(session.id, limit=1):
            attempt = await self.find_attempt(turn)
            if attempt is not None:
                self._runtime.retry(session.id, attempt)
                return True
        return False

    async def find_attempt(self, turn: Turn) -> Attempt | None:
        """See `runtime.runtime.Takeover`."""
        reply_to = read_reply_to(turn.reply_to)
        if turn.status != "interrupted" or turn.undone_at is not None or reply_to is None:
            return None
        if self._runtime.clock() - (turn.ended_at or turn.started_at) > RECENT_MS:
            return None
        session = await self._store.get_session(turn.session_id)
        turns = await self._store.list_turns(session.id, limit=ATTEMPTS)
        if len(turns) == ATTEMPTS and all(each.status == "interrupted" for each in turns):
            await _give_up(self._runtime, session, turn, reply_to)
            return None
        person = reply_to.person or _asker_of(session, reply_to)
        return Attempt(
            after=turn.id,
            person=person,
            scopes=reply_to.find_scopes(person),
            attended=person == OWNER and reply_to.attended,
            memory=reply_to.memory,
            # It was cut off before it produced any text, so no answer can have been delivered.
            reply_to=msgspec.structs.replace(reply_to, is_retry=False),
        )

    async def adopt(self, inbound: Inbound) -> bool:
        """See `runtime.runtime.Takeover`."""
        waiting = self._runtime.list_queued(inbound.session_id or "")
        if any(each.id == inbound.id for each in waiting):
            return False  # it is already in its lane, and only held back for a moment
        try:
            return await self._runtime.reception.take_up(inbound) is not None
        except SessionNotFound:
            return False  # the session was purged in the meantime, with its messages


async def _give_up(runtime: Runtime, session: Session, turn: Turn, reply_to: ReplyTo) -> None:
    if reply_to.is_fetched:
        return  # whoever opens the session sees that it was cut off
    new = NewOutbound(
        id=f"{turn.id}-given-up",
        key=reply_to.key,
        channel=reply_to.channel,
        account=reply_to.account,
        address=reply_to.address,
        content=GIVEN_UP,
        turn_id=turn.id,
    )
    await runtime.store.add_outbound(session.id, new)
    runtime.replies.bell.set()


def _asker_of(session: Session, reply_to: ReplyTo) -> str:
    """The person of a turn that names none: the one of a direct conversation, else a stranger."""
    return session.person if session.kind in ("main", "dm") else f"{reply_to.channel}:unknown"


# --- messages -----------------------------------------------------------------------------------
async def _list_left(store: Store) -> list[Inbound]:
    """Messages that no live process has claimed, oldest first."""
    rows = [row for row in await store.list_inbound(limit=MANY) if row.channel not in PERSONS]
    claimants = dict.fromkeys(row.claimant for row in rows if row.claimant is not None)
    dead = {each for each in claimants if not await store.is_living(each)}
    return [row for row in rows if row.claimant is None or row.claimant in dead]
