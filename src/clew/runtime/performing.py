"""One turn under its lease, from its first commit to its end, which it has whatever happens.

The agent works while the lease is kept; who watches hears of the beginning and the end. Which turn
it is, and what comes after it, is the lane's business; what it says and does, the agent's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from clew.core.changes import EndTurn
from clew.core.session import Session
from clew.core.signals import Notice, TurnEnded, TurnStarted
from clew.core.turn import Lease, Turn, TurnEnd
from clew.errors import ClewError, ContextTooLong, RecordNotFound, StaleLease
from clew.ports import Agent
from clew.runtime.commits import heed_cancel, is_cancelled, whole
from clew.runtime.leasing import Leasing
from clew.runtime.turn import RunningTurn, Surroundings

PATIENCE: Final = 1.0
"""Seconds that a cancelled turn has to stop before the lane goes on without it."""

TAKEN_OVER: Final = "Another process has taken this session over; what this one was at is not kept."
STOPPED: Final = "It was stopped from elsewhere."

OnStart = Callable[[Session, str], Awaitable[None]]
Rescue = Callable[[RunningTurn], Awaitable[bool]]
"""Make room for a turn whose thread is too long for its model; False if there is none to make."""


class Performer:
    """Runs the turns of one session, each from beginning to end."""

    def __init__(
        self,
        agent: Agent,
        around: Surroundings,
        leasing: Leasing,
        *,
        on_start: OnStart,
        rescue: Rescue,
    ) -> None:
        self._agent = agent
        self._around = around
        self._leasing = leasing
        self._on_start = on_start
        self._rescue = rescue

    async def perform(
        self, turn: RunningTurn, lease: Lease, *, is_closing: Callable[[], bool]
    ) -> Turn:
        """Let the agent work, and give the turn its end; who watches hears of it in any case.

        `is_closing`: nobody has stopped it, so whoever comes next goes on with it.
        """
        bus, session_id = self._around.bus, turn.session.id
        bus.publish(session_id, TurnStarted(turn.id, turn.session.model, turn.answers))
        status, error = await self._let_work(turn, lease)
        if status == "aborted" and is_closing() and turn.reply_to is not None:
            status = "interrupted"
        try:
            ended = await self._end(turn, status, error)
        except Exception as problem:
            cut_off = turn.as_cut_off(str(problem))
            bus.publish(session_id, TurnEnded(cut_off, turn.answers))
            raise
        finally:
            turn.close()
        bus.publish(session_id, TurnEnded(ended, turn.answers))
        return ended

    async def _let_work(self, turn: RunningTurn, lease: Lease) -> tuple[TurnEnd | None, str | None]:
        agent = asyncio.create_task(self._answer(turn), name=f"turn {turn.id}")
        keeper = asyncio.create_task(self._leasing.keep(lease))
        # A person's stop cancels this task: what follows gives the turn its end all the same.
        with contextlib.suppress(asyncio.CancelledError):
            if not is_cancelled():
                await asyncio.wait({agent, keeper}, return_when=asyncio.FIRST_COMPLETED)
        lost = keeper.done()
        keeper.cancel()
        agent.cancel()
        await whole(asyncio.wait({agent, keeper}, timeout=PATIENCE))
        return _verdict(agent, lost=lost)

    async def _end(self, turn: RunningTurn, status: TurnEnd | None, error: str | None) -> Turn:
        try:
            if status is not None and turn.is_open:
                partial = turn.partial or None
                end = EndTurn(turn_id=turn.id, status=status, error=error, partial=partial)
                await whole(turn.end(end))
        except (StaleLease, RecordNotFound):
            status = None  # somebody else has given the turn its end
        ended = await whole(self._around.store.get_turn(turn.id))
        if status is None:
            text = STOPPED if ended.status == "aborted" else TAKEN_OVER
            self._around.bus.publish(turn.session.id, Notice(text))
        return ended

    async def _answer(self, turn: RunningTurn) -> None:
        await self._on_start(turn.session, turn.id)
        try:
            await self._agent.run(turn)
        except ContextTooLong:
            if not await self._rescue(turn):
                raise
            heed_cancel()
            await self._agent.run(turn)


def _verdict(agent: asyncio.Task[None], *, lost: bool) -> tuple[TurnEnd | None, str | None]:
    """How the turn ended, and why; no end where this process may not write one."""
    if not agent.done():
        return "aborted", "It did not stop when it was told to."
    if agent.cancelled():
        return (None, None) if lost else ("aborted", None)
    match agent.exception():
        case None:
            return "done", None
        case StaleLease():
            return None, None
        case ClewError() as error:
            return "failed", str(error)
        case error:
            return "failed", f"{type(error).__name__}: {error} (this is a bug in clew)"
