"""One turn under its lease, from its first commit to its end, which it has whatever happens.

The agent works while the lease is kept; watchers are told of the beginning and the end. Which turn
it is, and what comes after it, is decided by the lane; what it says and does, by the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from clew.core.changes import EndTurn
from clew.core.live_events import Notice, TurnEnded, TurnStarted
from clew.core.turn import Lease, Turn, TurnEnd
from clew.errors import ClewError, ContextTooLong, RecordNotFound, StaleLease
from clew.runtime.cancellation import heed_cancel, is_cancelled, whole
from clew.runtime.lane.lease import Leasing
from clew.runtime.lane.parts import RuntimeParts
from clew.runtime.lane.turn import RunningTurn

PATIENCE: Final = 1.0
"""Seconds that a cancelled turn has to stop before the lane goes on without it."""

TAKEN_OVER: Final = "Another process has taken this session over; what this one was at is not kept."
STOPPED: Final = "It was stopped from elsewhere."


async def run_to_end(
    parts: RuntimeParts,
    turn: RunningTurn,
    leasing: Leasing,
    lease: Lease,
    *,
    is_closing: Callable[[], bool],
) -> Turn:
    """Let the agent work, and give the turn its end; watchers are told of it in any case.

    `is_closing`: the process ends, and no person has stopped the turn, so the next one goes on.
    """
    bus, session_id = parts.bus, turn.session.id
    bus.publish(session_id, TurnStarted(turn.id, turn.session.model, turn.answers))
    status, error = await _let_work(parts, turn, leasing, lease)
    if status == "aborted" and is_closing() and turn.reply_to is not None:
        status = "interrupted"
    try:
        ended = await _end(parts, turn, status, error)
    except Exception as problem:
        cut_off = turn.as_cut_off(str(problem))
        bus.publish(session_id, TurnEnded(cut_off, turn.answers))
        raise
    finally:
        turn.close()
    bus.publish(session_id, TurnEnded(ended, turn.answers))
    return ended


async def _let_work(
    parts: RuntimeParts, turn: RunningTurn, leasing: Leasing, lease: Lease
) -> tuple[TurnEnd | None, str | None]:
    agent = asyncio.create_task(_answer(parts, turn), name=f"turn {turn.id}")
    keeper = asyncio.create_task(leasing.keep(lease))
    # A person's stop cancels this task: what follows gives the turn its end all the same.
    with contextlib.suppress(asyncio.CancelledError):
        if not is_cancelled():
            await asyncio.wait({agent, keeper}, return_when=asyncio.FIRST_COMPLETED)
    lost = keeper.done()
    keeper.cancel()
    agent.cancel()
    await whole(asyncio.wait({agent, keeper}, timeout=PATIENCE))
    return _verdict(agent, lost=lost)


async def _answer(parts: RuntimeParts, turn: RunningTurn) -> None:
    await parts.around_turns.turn_started(turn.session, turn.id)
    try:
        await parts.agent.run(turn)
    except ContextTooLong:
        if not await parts.around_turns.rescue(turn):
            raise
        heed_cancel()
        await parts.agent.run(turn)


async def _end(
    parts: RuntimeParts, turn: RunningTurn, status: TurnEnd | None, error: str | None
) -> Turn:
    try:
        if status is not None and turn.is_open:
            partial = turn.partial or None
            end = EndTurn(turn_id=turn.id, status=status, error=error, partial=partial)
            await whole(turn.end(end))
    except (StaleLease, RecordNotFound):
        status = None  # another process has given the turn its end
    ended = await whole(parts.store.get_turn(turn.id))
    if status is None:
        text = STOPPED if ended.status == "aborted" else TAKEN_OVER
        parts.bus.publish(turn.session.id, Notice(text))
    return ended


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
