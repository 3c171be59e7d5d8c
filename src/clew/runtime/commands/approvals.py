"""Commands that answer what a tool asks before it acts: approve, deny."""

from __future__ import annotations

from typing import Final

from clew.core.channels.approvals import NOTHING, SCOPES, Answer, find_rule, read_wish, summarise
from clew.core.names import counted
from clew.core.session import OWNER
from clew.core.text import cut
from clew.core.turn import Approval
from clew.errors import Forbidden, InvalidInput
from clew.runtime.commands.desk import Desk, Reply
from clew.runtime.lane.questions import list_waiting

QUIET: Final = "Nothing waits for your yes or no."
LATE: Final = "It was answered already, or its time is over."
SHOWN: Final = 60
"""Columns of what was answered."""


async def approve(desk: Desk, rest: str) -> Reply:
    """`/approve [once|session|always]`: yes to the oldest question."""
    wish = read_wish(rest)
    if wish is None:
        raise InvalidInput(f'/approve is {", ".join(SCOPES)}; not "{cut(rest, 40)}".')
    return Reply(text=await _answer(desk, Answer("yes", wish[0]), wish[1]))


async def deny(desk: Desk, rest: str) -> Reply:
    """`/deny`: no to the oldest question."""
    wish = read_wish(rest)
    if wish is None or (rest and wish[1] is None):
        raise InvalidInput("/deny has nothing behind it. What to do instead, say in a message.")
    return Reply(text=await _answer(desk, Answer("no"), wish[1]))


async def _answer(desk: Desk, answer: Answer, question: str | None) -> str:
    """Give it to the question that is named, or else to the oldest; what to say about it."""
    if desk.person != OWNER:
        raise Forbidden("Only the owner of this clew may answer for tools.")
    waiting = (
        () if desk.current is None else await list_waiting(desk.runtime.questions, desk.current.id)
    )
    if question == NOTHING or (question is None and not waiting):
        return QUIET
    chosen = next((each for each in waiting if question in (None, each.id)), None)
    if chosen is None:
        return LATE
    scope = "once" if find_rule(chosen.request) is None else answer.scope
    by = desk.person if desk.reply_to is None else f"{desk.person}:{desk.reply_to.channel}"
    decided = await desk.runtime.decide(chosen.id, answer.decision, by=by, scope=scope)
    if decided.decided_by != by:
        return f"It was answered already: {decided.decision}."
    return _tell(answer, decided, len(waiting) - 1)


def _tell(answer: Answer, decided: Approval, left: int) -> str:
    """What was allowed, and what else waits."""
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
    what = cut(summarise(decided.tool_name, decided.request), SHOWN)
    verb = "waits" if left == 1 else "wait"
    return f'{said} ("{what}"). {counted(left, "more question")} {verb}.'
