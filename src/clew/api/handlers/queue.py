"""Handlers of the operations about queued messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from clew.api.chat import Accepted
from clew.api.handlers.parts import Caller, Parts, find_replacement, get_visible, handles
from clew.api.queue import (
    DROP,
    GET,
    LIST,
    RUN,
    WAIT,
    Dropped,
    DropQueue,
    GetQueued,
    ListQueue,
    Outcome,
    QueueList,
    RunQueued,
    Waited,
    WaitForAnswer,
    view_queued,
)
from clew.core.decision import read_decision
from clew.core.delivery import Inbound
from clew.core.session import may_see
from clew.errors import RecordNotFound


@handles(LIST)
async def list_queue(parts: Parts, params: ListQueue, caller: Caller) -> QueueList:
    """List messages without a turn; a guest sees their own."""
    if params.session is not None:
        await get_visible(parts, params.session, caller)
    rows = await parts.store.list_inbound(params.session, limit=params.limit)
    shown = [each for each in rows if may_see(caller.person, each.person)]
    return QueueList(tuple(map(view_queued, shown)))


@handles(DROP)
async def drop_queue(parts: Parts, params: DropQueue, caller: Caller) -> Dropped:
    """Take back queued messages of a session, of this or any process."""
    session = await get_visible(parts, params.session, caller)
    only = None if params.id is None else (params.id,)
    return Dropped(await take_back(parts, session.id, only))


@handles(WAIT)
async def wait_for_answer(parts: Parts, params: WaitForAnswer, caller: Caller) -> Waited:
    """Wait until a message is answered or the time is over."""
    # Imported late: these load the runtime, which lists of sessions don't need.
    from clew.api.frames import EventFrame  # noqa: PLC0415
    from clew.api.handlers.chat import answer  # noqa: PLC0415
    from clew.core.live_events import Committed, TurnEnded  # noqa: PLC0415
    from clew.runtime.inbound.reception import ticket_of  # noqa: PLC0415

    row = await parts.store.get_inbound(params.id)
    if row.session_id is None or not may_see(caller.person, row.person):
        raise RecordNotFound("message", params.id)
    session = await get_visible(parts, row.session_id, caller)
    turn, said = None, None
    with parts.runtime.watch(session.id, session.head) as events, contextlib.suppress(TimeoutError):
        frames = answer(parts, ticket_of(row), events)
        async with asyncio.timeout(params.seconds), contextlib.aclosing(frames):
            async for frame in frames:
                match frame:
                    case EventFrame(event=Committed(message)) if message.role == "assistant":
                        said = message.content
                    case EventFrame(event=TurnEnded(ended)):
                        turn = ended
                    case _:
                        pass
    return Waited(session.id, turn, said)


async def take_back(
    parts: Parts, session_id: str, only: Collection[str] | None = None
) -> tuple[str, ...]:
    """Take queued messages, or only these, out of a session's queue; returns their ids."""
    taken = await parts.runtime.take_back(session_id, only, anywhere=True)
    return tuple(each.id for each in taken)


@handles(GET)
async def get_queued(parts: Parts, params: GetQueued, caller: Caller) -> Outcome:
    """A message, and the turn that answers it."""
    from clew.api.handlers.chat import find_turn  # noqa: PLC0415  # it loads the runtime

    row = await _get_row(parts, params.id, caller)
    return Outcome(view_queued(row), await find_turn(parts, row))


@handles(RUN)
async def run_queued(parts: Parts, params: RunQueued, caller: Caller) -> Accepted:
    """Run a message of a dead process, which waits until the person confirms it."""
    from clew.api.handlers.chat import describe_accepted  # noqa: PLC0415  # it loads the runtime

    row = await _get_row(parts, params.id, caller)
    for each in read_decision(row).find_scopes(row.person):
        caller.need(each, "Running this message")
    session = await get_visible(parts, row.session_id or "", caller)
    model = find_replacement(parts, session, params.model)
    ticket = await parts.runtime.take_up(row, attended=params.attended, model=model)
    return describe_accepted(ticket)


async def _get_row(parts: Parts, inbound_id: str, caller: Caller) -> Inbound:
    """A row of the inbox that the caller may see."""
    row = await parts.store.get_inbound(inbound_id)
    if not may_see(caller.person, row.person):
        raise RecordNotFound("message", inbound_id)
    return row
