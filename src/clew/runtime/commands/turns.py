"""Commands about turns: stop, retry, undo, redo."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from clew.core.changes import Change, RedoTurn, UndoCompaction, UndoTurn
from clew.core.message import Draft, Message
from clew.core.names import counted
from clew.core.session import Session
from clew.core.text import cut, strip_controls
from clew.core.turn import Turn
from clew.errors import Conflict, InvalidInput
from clew.ports import Store
from clew.runtime.commands.desk import Desk, Reply
from clew.runtime.commands.queue import clear
from clew.runtime.recovery.recovery import recover

STEP = 200
"""Messages looked at in one go; an exchange with more of them takes several."""


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
        return Reply(ticket=desk.retry(drafts=last.drafts, undo=last.turns))
    return Reply(ticket=desk.retry())


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
