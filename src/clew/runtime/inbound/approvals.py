"""Turns messages that answer a question of a turn into commands.

The command names the question before it is stored. So it can only answer that question, whenever it
is carried out and however often it is delivered. `core.channels.approvals` decides what counts as
an answer; the commands `/approve` and `/deny` give it.
"""

from __future__ import annotations

import contextlib
from typing import Final

import msgspec

from clew.core.channels.approvals import (
    NOTHING,
    Answer,
    Asked,
    asked_id,
    find_question,
    order_of,
    read_answer,
    read_refusal,
    read_wish,
)
from clew.core.channels.incoming import Incoming
from clew.core.commands import parse
from clew.core.delivery import Outbound
from clew.core.session import Session
from clew.errors import RecordNotFound
from clew.ports import Clock, Store
from clew.runtime.lane.questions import Questions, list_waiting

AGAIN_MS: Final = 1_500
"""A second answer within this time, as by a double tap, is not one to the next question."""


class Answers(msgspec.Struct, frozen=True):
    """Reads messages of a conversation as answers to questions asked there."""

    asking: Questions
    clock: Clock
    answered: dict[tuple[str, str, str], tuple[str, int]] = {}
    """For each conversation of the owner: the question last answered by a message, and when."""

    async def read(
        self, incoming: Incoming, person: str, session: Session | None, line: str | None
    ) -> str | None:
        """The command line in a message; `line` is its command line without any question."""
        if line is not None:
            return await self._name_question(line, session)
        answer = read_answer(incoming, person)
        if answer is None:
            return None
        question = find_question(incoming, await self._list_asked())
        if question is None or incoming.reply_to is None:
            return None
        place, now = incoming.reply_to.place, self.clock()
        before, at = self.answered.get(place, (question, now))
        if answer.decision == "yes" and before != question and now - at < AGAIN_MS:
            return None
        self.answered[place] = (question, now)
        return order_of(answer, question)

    async def _list_asked(self) -> tuple[Asked, ...]:
        """The open questions of this process: only its own turns can be answered here.

        In the store, questions of a dead process look open until its lease has expired.
        """
        asking, store = self.asking, self.asking.store
        # Of every session: what a group is asked about, the owner answers elsewhere.
        found = await store.list_approvals()
        waiting = [each.id for each in found if asking.is_asking(each.id)]
        return tuple([Asked(each, await _find_sent(store, each)) for each in waiting])

    async def _name_question(self, line: str, session: Session | None) -> str:
        """A command line; an answer that names no question gets the question's id."""
        name, rest = parse(line, is_path=lambda _: False) or ("", "")
        if name == "deny":
            named, reason = read_refusal(rest)
            answer = Answer("no", reason=reason)
        elif name == "approve" and (wish := read_wish(rest)) is not None:
            scope, named = wish
            answer = Answer("yes", scope)
        else:
            return line
        if named is not None:
            return line
        waiting = () if session is None else await list_waiting(self.asking, session.id)
        return order_of(answer, waiting[0].id if waiting else NOTHING)


async def _find_sent(store: Store, approval_id: str) -> Outbound | None:
    """The delivery of a question to the owner, if it was asked on a channel."""
    with contextlib.suppress(RecordNotFound):
        return await store.get_outbound(asked_id(approval_id))
    return None
