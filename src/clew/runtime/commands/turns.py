"""Commands about turns: stop, retry, undo, redo."""

from __future__ import annotations

from clew.core.changes import Change, RedoTurn, UndoCompaction, UndoTurn
from clew.core.names import counted
from clew.core.session import Session
from clew.core.text import cut, strip_controls
from clew.errors import Conflict, InvalidInput
from clew.runtime.attempts import Exchange, find_end, find_last, find_undone
from clew.runtime.commands.desk import Desk, Reply
from clew.runtime.commands.queueing import clear
from clew.runtime.recovery import recover


async def stop(desk: Desk, _rest: str) -> Reply:
    """`/stop`: the turn, its sub-agents with it, and what waits behind it."""
    session = desk.current
    spawned = 0 if session is None else desk.runtime.count_spawned(session.id)
    taken_back = await clear(desk)
    stopped = session is not None and await desk.runtime.stop(session.id, anywhere=True)
    said = "Stopped." if stopped else "Nothing is running."
    if stopped and spawned:
        said = f"Stopped, and {counted(spawned, 'sub-agent')} with it."
    return Reply(text=f"{said} {taken_back}".strip())


async def retry(desk: Desk, _rest: str) -> Reply:
    """`/retry`: go on with a turn that did not end well, or do one that did anew.

    A message whose turn could not even begin, as on a full disk, comes first.
    """
    session = await _get_idle(desk)
    left = await recover(desk.store, session.id, idle=desk.store.identity)
    if left.unanswered:
        return Reply(ticket=await desk.adopt(left.unanswered[0]))
    last = await find_last(desk.store, session.id)
    if last is None:
        raise InvalidInput("There is nothing to try again yet.")
    ended = await find_end(desk.store, last)
    if ended.status == "done":
        return Reply(ticket=desk.go_on(drafts=last.drafts, undo=last.turns))
    return Reply(ticket=desk.go_on())


async def undo(desk: Desk, _rest: str) -> Reply:
    """`/undo`: the last turn with all its rows."""
    session = await _get_idle(desk)
    last = await find_last(desk.store, session.id)
    if last is None:
        raise InvalidInput("There is nothing to undo.")
    changes: list[Change] = [UndoTurn(each) for each in last.turns]
    compaction = await desk.store.find_compaction(session.id)
    if compaction is not None and last.first_seq < compaction.keep_from:
        # The summary tells of what is taken back, so it goes too.
        changes.append(UndoCompaction(compaction.id))
    await desk.runtime.amend(session.id, *changes)
    await desk.refresh()
    return Reply(text=f"Took back {_described(last)} /redo brings it back.")


async def redo(desk: Desk, _rest: str) -> Reply:
    """`/redo`: what the last undo took back."""
    session = await _get_idle(desk)
    undone = await find_undone(desk.store, session.id)
    if undone is None:
        raise InvalidInput("There is nothing to bring back.")
    await desk.runtime.amend(session.id, *(RedoTurn(each) for each in undone.turns))
    await desk.refresh()
    return Reply(text=f"Brought back {_described(undone)}")


async def _get_idle(desk: Desk) -> Session:
    """The session, if nothing runs in it."""
    session = desk.session
    await desk.runtime.settle(session.id)
    if desk.runtime.is_running(session.id):
        raise Conflict("A turn is running. Wait for it, or stop it first (Ctrl+C or /stop).")
    return session


def _described(exchange: Exchange) -> str:
    said = cut(" ".join(strip_controls(exchange.drafts[0].content).split()), 40)
    return f'"{said}" ({counted(exchange.messages, "message")}).'
