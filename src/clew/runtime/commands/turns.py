"""Commands about turns: stop, retry, undo, redo, queue, approve and deny."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from clew.core.changes import Change, RedoTurn, UndoCompaction, UndoTurn
from clew.core.channels.approvals import (
    NOTHING,
    SCOPES,
    Answer,
    ask_again,
    find_rule,
    read_refusal,
    read_wish,
    summarise,
)
from clew.core.decision import read_decision
from clew.core.delivery import Inbound
from clew.core.message import Draft, Message
from clew.core.names import counted
from clew.core.session import OWNER, Session
from clew.core.text import cut, strip_controls
from clew.core.tokens import check_answer
from clew.core.turn import QUEUE_MODES, Approval, Turn, read_mode
from clew.errors import Conflict, Forbidden, InvalidInput
from clew.ports import Store
from clew.runtime.commands.desk import Desk, Reply
from clew.runtime.inbound.inbox import is_own
from clew.runtime.lane.questions import list_waiting
from clew.runtime.recovery import recover

STEP = 200
"""Messages that are read at once; a longer exchange takes several reads."""

SHOWN = 60
"""Columns of a queued message."""

QUIET: Final = "Nothing waits for your yes or no."
LATE: Final = "It was answered already, or its time is over."
SHOWN_ANSWER: Final = 60
"""Columns of a question that was answered."""


async def stop(desk: Desk, _rest: str) -> Reply:
    """`/stop`: stop the turn with its sub-agents, and take back the queued messages."""
    session = desk.current
    spawned = 0 if session is None else desk.runtime.count_spawned(session.id)
    taken_back = await clear(desk)
    stopped = session is not None and await desk.runtime.stop(session.id, anywhere=True)
    said = "Stopped." if stopped else "Nothing is running."
    if stopped and spawned:
        said = f"Stopped, and {counted(spawned, 'sub-agent')} with it."
    return Reply(text=f"{said} {taken_back}".strip())


async def retry(desk: Desk, _rest: str) -> Reply:
    """`/retry`: continue a turn that failed, or repeat one that ended well.

    A message whose turn could not begin (the disk was full, for example) comes first.
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
    """`/undo`: take back the last turn with all its messages."""
    session = await _get_idle(desk)
    last = await find_last(desk.store, session.id)
    if last is None:
        raise InvalidInput("There is nothing to undo.")
    changes: list[Change] = [UndoTurn(each) for each in last.turns]
    compaction = await desk.store.find_compaction(session.id)
    if compaction is not None and last.first_seq < compaction.keep_from:
        # The summary contains the undone turn, so the compaction is undone too.
        changes.append(UndoCompaction(compaction.id))
    await desk.runtime.amend(session.id, *changes)
    await desk.refresh()
    return Reply(text=f"Took back {_described(last)} /redo brings it back.")


async def redo(desk: Desk, _rest: str) -> Reply:
    """`/redo`: bring back what the last undo took back."""
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
    """The turns of one exchange, oldest first, and the user's text."""

    turns: tuple[str, ...]
    drafts: tuple[Draft, ...]
    messages: int
    first_seq: int


async def find_last(store: Store, session_id: str) -> Exchange | None:
    """The last exchange of the thread, without undone turns."""
    return _last_of(await _tail(store, session_id))


async def find_undone(store: Store, session_id: str) -> Exchange | None:
    """The exchange that was undone last, if there are no newer messages."""
    visible = await store.get_messages(session_id, 1)
    after = visible[-1].seq if visible else 0
    hidden = await store.get_messages(session_id, after=after, undone=True)
    exchanges = [each for each in map(_last_of, _split(hidden)) if each is not None]
    if not exchanges:
        return None
    # Undo takes the newest first, so the oldest was undone last; but a turn that a retry replaced
    # lies before its replacement. Inherited turns have no time of undo: they were undone last.
    turns = await store.list_turns(session_id, limit=STEP)
    undone = {turn.id: turn.undone_at for turn in turns}
    return max(exchanges, key=lambda each: undone.get(each.turns[0]) or math.inf)


def _split(messages: Sequence[Message]) -> list[list[Message]]:
    """Split messages into exchanges, each beginning with a message of the user."""
    parts: list[list[Message]] = []
    for message in messages:
        if not parts or _begins(message, parts[-1][-1]):
            parts.append([])
        parts[-1].append(message)
    return parts


def _begins(message: Message, before: Message) -> bool:
    """Whether the user begins an exchange here, and does not only add to a running turn."""
    own = message.turn_id is None or message.turn_id != before.turn_id
    return message.role == "user" and own


async def find_end(store: Store, exchange: Exchange) -> Turn:
    """The last turn of an exchange."""
    return await store.get_turn(exchange.turns[-1])


async def _tail(store: Store, session_id: str) -> Sequence[Message]:
    """The newest messages, back to the beginning of an exchange."""
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


async def queue(desk: Desk, rest: str) -> Reply:
    """`/queue [followup|steer|interrupt|collect|clear]`."""
    wanted = rest.lower()
    if not wanted:
        return Reply(text="\n".join([_mode(desk), *await _waiting(desk)]))
    if wanted == "clear":
        return Reply(text=await clear(desk) or "Nothing was waiting.")
    if wanted not in QUEUE_MODES:
        known = ", ".join(QUEUE_MODES)
        raise InvalidInput(f'/queue is {known}, or clear; not "{wanted[:40]}".')
    await desk.note("queue", read_mode(wanted))
    return Reply(text=_mode(desk))


async def clear(desk: Desk) -> str:
    """Take back the queued messages. Returns how many, as a sentence; empty if none."""
    session = desk.current
    taken: tuple[Inbound, ...] = ()
    if session is not None:
        taken = await desk.runtime.take_back(session.id, anywhere=True)
    return f"Took back {counted(len(taken), 'waiting message')}." if taken else ""


def _mode(desk: Desk) -> str:
    mode = desk.queue_mode
    return f"While a turn runs ({mode}): {QUEUE_MODES[mode]}."


async def _waiting(desk: Desk) -> list[str]:
    session = desk.current
    rows: tuple[Inbound, ...] = ()
    if session is not None:
        waiting_here = desk.runtime.list_queued(session.id)
        others = await desk.store.list_inbound(session.id)
        rows = (*waiting_here, *(row for row in others if not is_own(desk.store, row)))
    if not rows:
        return ["Nothing waits."]
    texts = (" ".join(strip_controls(read_decision(row).text).split()) for row in rows)
    waiting = counted(len(rows), "message")
    return [f"{waiting} waiting (/queue clear takes back):", *(f"  {cut(t, SHOWN)}" for t in texts)]


async def approve(desk: Desk, rest: str) -> Reply:
    """`/approve [once|session|always]`: yes to the oldest question."""
    wish = read_wish(rest)
    if wish is None:
        raise InvalidInput(f'/approve is {", ".join(SCOPES)}; not "{cut(rest, 40)}".')
    return Reply(text=await _answer(desk, Answer("yes", wish[0]), wish[1]))


async def deny(desk: Desk, rest: str) -> Reply:
    """`/deny [why]`: no to the oldest question; the model is told why."""
    question, reason = read_refusal(rest)
    return Reply(text=await _answer(desk, Answer("no", reason=reason), question))


async def _answer(desk: Desk, answer: Answer, question: str | None) -> str:
    """Answer the given question, or else the oldest. Returns the text to show."""
    if desk.person != OWNER:
        raise Forbidden("Only the owner of this clew may approve tool calls.")
    check_answer(desk.scopes, answer.scope)
    waiting = (
        () if desk.current is None else await list_waiting(desk.runtime.questions, desk.current.id)
    )
    if question == NOTHING or (question is None and not waiting):
        return QUIET
    if question is not None and all(each.id != question for each in waiting):
        # Asked about a group, and sent to the owner's own chat.
        asking = desk.runtime.questions
        found = await asking.store.list_approvals()
        waiting = tuple(each for each in found if asking.is_asking(each.id))
    chosen = next((each for each in waiting if question in (None, each.id)), None)
    if chosen is None:
        return LATE
    scope = "once" if find_rule(chosen.request) is None else answer.scope
    if scope == "always" and not desk.runtime.questions.insists(chosen.id):
        return ask_again(chosen.request)
    by = desk.person if desk.reply_to is None else f"{desk.person}:{desk.reply_to.channel}"
    decided = await desk.runtime.decide(
        chosen.id, answer.decision, by=by, scope=scope, reason=answer.reason
    )
    if decided.decided_by != by:
        return f"It was answered already: {decided.decision}."
    return _tell(answer, decided, len(waiting) - 1)


def _tell(answer: Answer, decided: Approval, left: int) -> str:
    """The text about the answer, and how many questions still wait."""
    said = "Allowed, once"
    if decided.decision == "no":
        said = "Not allowed"
    elif decided.scope in ("session", "always"):
        how = ", always" if decided.scope == "always" else " for this session"
        said = f"Allowed{how}: {find_rule(decided.request)}"
    elif answer.scope != "once":
        said = "Allowed, once: there is no rule that would allow it for longer"
    if not left:
        return f"{said}."
    what = cut(summarise(decided.tool_name, decided.request), SHOWN_ANSWER)
    verb = "waits" if left == 1 else "wait"
    return f'{said} ("{what}"). {counted(left, "more question")} {verb}.'
