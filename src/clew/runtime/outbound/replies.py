"""Replies: an answer on its way to the person who asked, durable with the message that it carries.

A turn that has somewhere to reply to gets an outbox row for each of its answers, in the commit of
the answer itself, and for each question to its owner. What was said between tool calls stays in the
thread. That a failed turn is told of is decided here too; sending is done by `outbound.delivery`.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import NamedTuple

from clew.core.changes import AddMessage, Change, EndTurn, Send, WaitForApproval
from clew.core.channels.approvals import asked_id, question_text
from clew.core.channels.replies import ReplyTo, conversation_of, is_said
from clew.core.channels.send_policy import SendRules, decide_send
from clew.core.delivery import NewOutbound
from clew.core.session import OWNER, SendPolicy
from clew.ports import Clock, Store

FAILED = "That did not work: {}"
FAILED_FOR_GUESTS = "That did not work. The owner of this clew can see why; try again later."
"""The reason may tell of keys, quotas and the configuration, which guests must not see."""
RECENT = 100
"""Deliveries of a session that are looked at for a repetition."""


class _Words(NamedTuple):
    """What is to be said of a turn. A question's delivery has an id that its answer knows."""

    text: str = ""
    turn_id: str | None = None
    id: str | None = None

    @property
    def is_question(self) -> bool:
        return self.id is not None


class Replies:
    """What turns add to their commits. `bell` rings when there is something to deliver."""

    def __init__(self, store: Store, clock: Clock, rules: SendRules) -> None:
        self.bell = asyncio.Event()
        self._store = store
        self._clock = clock
        self._rules = rules

    async def answer(
        self,
        reply_to: ReplyTo,
        session_id: str,
        head: int,
        changes: tuple[Change, ...],
        *,
        asks: bool = False,
    ) -> tuple[Change, ...]:
        """The changes of a turn with what is to be delivered of them; `head` is before them.

        `asks`: the owner is there to answer for tools; else nothing is asked.
        """
        added: list[Change] = []
        if reply_to.is_fetched:
            return changes
        for change in changes:
            if isinstance(change, AddMessage):
                head += 1
            if isinstance(change, WaitForApproval):
                words = self._ask(change)
            else:
                words = _words_of(change, is_owners=reply_to.person in (None, OWNER))
            if not words.text.strip() or (words.is_question and not asks):
                continue
            if not words.is_question and await self._is_said(reply_to, session_id, words.text):
                continue
            added.append(
                Send(
                    NewOutbound(
                        id=words.id or secrets.token_hex(8),
                        key=reply_to.key,
                        channel=reply_to.channel,
                        address=reply_to.address | {"account": reply_to.account},
                        content=words.text,
                        turn_id=words.turn_id,
                        seq=head if isinstance(change, AddMessage) else None,
                        withheld=await self._is_withheld(reply_to, session_id),
                    )
                )
            )
        return (*changes, *added)

    def _ask(self, change: WaitForApproval) -> _Words:
        """A question is put every time: the one that was answered is not this one."""
        wait_ms = change.expires_at - self._clock()
        text = question_text(change.tool_name, change.request, wait_ms=wait_ms)
        return _Words(text, change.turn_id, asked_id(change.approval_id))

    def ring(self, changes: tuple[Change, ...]) -> None:
        """Tell who delivers, once the changes are committed."""
        if any(isinstance(each, Send) for each in changes):
            self.bell.set()

    async def _is_said(self, reply_to: ReplyTo, session_id: str, text: str) -> bool:
        if not reply_to.is_retry:
            return False
        rows = await self._store.list_outbound(session_id=session_id, limit=RECENT)
        return is_said(reply_to, text, rows, self._clock())

    async def _is_withheld(self, reply_to: ReplyTo, session_id: str) -> bool:
        """As it is now: the owner may have said `/send off` while the turn ran."""
        session = await self._store.get_session(session_id)
        return self.is_denied(reply_to, session.key, override=session.send_policy)

    def is_denied(self, reply_to: ReplyTo, key: str, *, override: SendPolicy | None = None) -> bool:
        """Whether the send policy has nothing delivered there; `override` is the session's own."""
        verdict = decide_send(self._rules, conversation_of(reply_to, key), override=override)
        return verdict.decision == "deny"


def _words_of(change: Change, *, is_owners: bool) -> _Words:
    """What of a change is to be delivered: an answer, or why there is none."""
    if isinstance(change, AddMessage):
        draft = change.draft
        is_answer = draft.role == "assistant" and not draft.tool_calls
        return _Words(draft.content if is_answer else "", change.turn_id)
    if isinstance(change, EndTurn) and change.status == "failed":
        why = FAILED.format(change.error or "nobody knows why.")
        return _Words(why if is_owners else FAILED_FOR_GUESTS, change.turn_id)
    return _Words()
