"""Questions to the owner on a channel: how they are worded, and which message answers one.

Pure. A question is sent to the conversation that its turn came from. The owner answers it there,
with one of a few words. The runtime keeps track of waiting questions and continues the turn; a
terminal asks in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from clew.core.channels.incoming import Incoming, is_unattended
from clew.core.channels.replies import Choice
from clew.core.commands import without_mention
from clew.core.delivery import Outbound, OutboundStatus
from clew.core.names import counted
from clew.core.session import OWNER
from clew.core.text import cut, strip_controls
from clew.core.tokens import covers
from clew.core.turn import MAX_REASON, ApprovalScope, Decision

SCOPES: Final[tuple[ApprovalScope, ...]] = ("once", "session", "always")

NOTHING: Final = "none"
"""Used as a question's id if no question was waiting when the message came."""

SUMMARY: Final = 300
"""Columns of the subject of a question."""
RULE: Final = 100
DETAIL: Final = 1_500
"""Characters of the details of a question: fits the shortest message limit of any platform."""
LINES: Final = 30

_CUT: Final = "[… It goes on: this is cut. Look at all of it in a terminal before you say yes.]"


class Answer(msgspec.Struct, frozen=True):
    """A yes and for how long, or a no and why."""

    decision: Decision
    scope: ApprovalScope = "once"
    reason: str | None = None


ANSWERS: Final[dict[str, Answer]] = {
    "yes": Answer("yes"),
    "y": Answer("yes"),
    "no": Answer("no"),
    "n": Answer("no"),
    "session": Answer("yes", "session"),
    "always": Answer("yes", "always"),
}
"""Messages that answer a question; case and a final dot or exclamation mark don't matter."""


# --- asking -------------------------------------------------------------------------------------
def asked_id(approval_id: str) -> str:
    """The id of the delivery that asks a question."""
    return f"{approval_id}-asked"


def question_text(tool_name: str, request: Mapping[str, Any], *, wait_ms: int) -> str:
    """What a tool wants to do, and how to answer: plain text, and never long."""
    summary = summarise(tool_name, request)
    name = cut(_one_line(tool_name), 60)
    first = summary if request.get("plan") else f"May I use {name}? {summary}"
    parts = [first, *_detail(summary, request), _how_to_answer(request)]
    minutes = max(1, round(wait_ms / 60_000))
    return "\n\n".join(parts) + f" After {counted(minutes, 'minute')} it is a no."


def choices_for(approval_id: str, request: Mapping[str, Any]) -> tuple[Choice, ...]:
    """The buttons of a question."""
    words = ("yes", "no") if find_rule(request) is None else ("yes", "no", "session", "always")
    return tuple(Choice(each.capitalize(), f"{approval_id}:{each}") for each in words)


ASKED_APART: Final = "I have to ask my owner before I go on; the question went to them directly."
"""What a group is told: it does not see what the question is about."""


def summarise(tool_name: str, request: Mapping[str, Any]) -> str:
    """The subject of a question, in one line."""
    return cut(_one_line(str(request.get("summary") or tool_name)), SUMMARY)


def _detail(summary: str, request: Mapping[str, Any]) -> Iterator[str]:
    """The details of the tool call, unless the summary has them all; says so if they are cut."""
    detail = strip_controls(str(request.get("detail") or "")).strip("\n")
    if not detail.strip() or detail in summary:
        return  # the summary is one line, so it never contains a text of several lines
    shown = "\n".join(detail[:DETAIL].split("\n")[:LINES])
    yield shown if shown == detail else f"{shown}\n{_CUT}"


def _how_to_answer(request: Mapping[str, Any]) -> str:
    rule = find_rule(request)
    if rule is None:
        return "Answer yes or no."
    return f"Answer yes, no, session or always. The last two allow {rule} from now on."


def find_rule(request: Mapping[str, Any]) -> str | None:
    """The rule that "always" would add, in one line; None if it can't be remembered."""
    rule = request.get("rule")
    return cut(_one_line(str(rule)), RULE) if rule else None


def ask_again(request: Mapping[str, Any]) -> str:
    """The second question after "always": the whole rule, and what it means."""
    rule = strip_controls(str(request.get("rule"))).strip()
    return (
        "Always? Then this rule is written to tools.allow in the configuration, and holds in every "
        f"session:\n\n{rule}\n\nSay always once more to write it; else yes, session or no."
    )


def _one_line(text: str) -> str:
    return " ".join(strip_controls(text).split())


# --- answering ----------------------------------------------------------------------------------
def read_answer(incoming: Incoming, person: str) -> Answer | None:
    """The answer in a message of the owner; None if the message is not an answer.

    A message that came with a token is an answer only if the token may approve.
    """
    if person != OWNER or not incoming.from_person or incoming.attachments:
        return None
    if is_unattended(incoming):
        return None
    if incoming.scopes is not None and not covers(incoming.scopes, "approve"):
        return None
    said = without_mention(incoming.text.strip(), incoming.mention).strip().lower()
    return ANSWERS.get(said[:-1] if said.endswith((".", "!")) else said)


class Asked(msgspec.Struct, frozen=True):
    """A question that waits, and its delivery, if there is one."""

    approval_id: str
    delivery: Outbound | None = None


_SEEN: Final[tuple[OutboundStatus, ...]] = ("sending", "sent", "uncertain")
"""Deliveries that a person may have read; only those can be answered."""


def find_question(incoming: Incoming, waiting: Sequence[Asked]) -> str | None:
    """The question that an answer is for: the oldest one asked in the same conversation."""
    if incoming.reply_to is None:
        return None
    for each in waiting:
        row = each.delivery
        if row is None or row.id != asked_id(each.approval_id) or row.status not in _SEEN:
            continue
        if (row.channel, row.account, row.key) == incoming.reply_to.place:
            return each.approval_id
    return None


def order_of(answer: Answer, approval_id: str) -> str:
    """The command line that answers exactly this question."""
    if answer.decision == "no":
        return f"/deny {approval_id} {answer.reason or ''}".rstrip()
    return f"/approve {answer.scope} {approval_id}"


def read_wish(rest: str) -> tuple[ApprovalScope, str | None] | None:
    """Read the arguments of `/approve`: for how long, and the id of the question, if given."""
    words = rest.split()
    scope: ApprovalScope = "once"
    for known in SCOPES:
        if words and words[0].lower() == known:
            scope = known
            words = words[1:]
            break
    if len(words) > 1 or (words and not _is_id(words[0])):
        return None
    return scope, words[0] if words else None


def read_refusal(rest: str) -> tuple[str | None, str | None]:
    """The arguments of `/deny`: the question, if it is named, and the reason, if there is one."""
    first, _, more = rest.strip().partition(" ")
    question, reason = (first, more.strip()) if _is_id(first) else (None, rest.strip())
    return question, reason[:MAX_REASON] or None


def _is_id(word: str) -> bool:
    return word == NOTHING or (len(word) == 16 and all(each in "0123456789abcdef" for each in word))
