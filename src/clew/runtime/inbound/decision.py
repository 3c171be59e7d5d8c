"""Decides how to handle a message, and makes the inbox row with that decision.

Who wrote it, which session it is for, whether that session begins with it, and whether it is a
command: the pure rules of `core` decide, and `clew explain` asks the same rules. Nothing is changed
here, except that attached files are stored. `inbound.reception` stores the row and carries it out.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from functools import partial
from typing import Final, NamedTuple

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
from clew.core.channels.incoming import Incoming, is_unattended
from clew.core.channels.people import Admission, Pairing, Role, admit, is_owner, person_of
from clew.core.channels.replies import ReplyTo, read_reply_to
from clew.core.channels.routing import Peer, Route, route
from clew.core.channels.session_choice import (
    Placement,
    ReceptionRules,
    begin_session,
    explicit_key,
    find_keyholder,
    is_platforms,
    place,
)
from clew.core.channels.speech import asked_parts, author_of, parts_of
from clew.core.channels.triggers import Triggered, read_trigger
from clew.core.commands import find_command, may_command, parse, read_order
from clew.core.decision import Decision, encode_decision
from clew.core.delivery import NewInbound, Outbound
from clew.core.keys import Place, new_id, normalise_word, parse_key
from clew.core.session import OWNER, Session, may_see
from clew.core.tokens import covers
from clew.errors import Forbidden, RecordNotFound
from clew.ports import Clock, Store
from clew.runtime.inbound.inbox import keep_files
from clew.runtime.lane.questions import Questions, list_waiting

AGAIN_MS: Final = 1_500
"""A second answer within this time, as by a double tap, is not one to the next question."""


class Answers(msgspec.Struct, frozen=True):
    """Reads messages of a conversation as answers to questions asked there.

    An answer becomes a command (`/approve`, `/deny`) that names its question before it is stored.
    So it can only answer that question, whenever it is carried out and however often it is
    delivered.
    """

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


IN_PERSON = ("approve", "deny", "link")
"""Commands that are plain text where nobody is there to approve something, as in a mail."""


class Known(NamedTuple):
    """A message, its route, the person who wrote it, and whether they are admitted."""

    message: Incoming
    route: Route
    person: str
    admission: Admission

    @property
    def is_let_in(self) -> bool:
        """Whether the person is admitted, so that the message is answered."""
        return self.admission in ("known", "open")

    def may(self, name: str) -> bool:
        """Whether the person may use a command; if not, the line is plain text."""
        if not self._reaches(name) or (is_unattended(self.message) and name in IN_PERSON):
            return False
        role: Role = "guest" if self.admission == "known" else "stranger"
        peer = self.message.arrival.peer
        is_direct = peer is None or peer.kind == "dm"
        return may_command("owner" if self.person == OWNER else role, name, is_direct=is_direct)

    def _reaches(self, name: str) -> bool:
        """Whether the scopes of their token, if they have one, are enough for a command."""
        scopes, key, command = self.message.scopes, self.message.key, find_command(name)
        if scopes is None or command is None:
            return True
        # A command that lets others read another session, as /link does.
        leads_others = name == "resume" and key is not None and is_platforms(key)
        return covers(scopes, "write" if leads_others else command.scope)

    def is_mistyped(self, name: str) -> bool:
        """Whether the owner typed a command that does not exist."""
        return self.person == OWNER and find_command(name) is None


class Decider:
    """Decides how to handle messages. `at` is the directory that new sessions work in."""

    def __init__(
        self, store: Store, rules: ReceptionRules, *, at: Place, clock: Clock, answers: Answers
    ) -> None:
        self._store = store
        self._rules = rules
        self._at = at
        self._clock = clock
        self._answers = answers

    async def meet(self, incoming: Incoming) -> Known:
        """Find the person and the key of a message, and whether the person is admitted."""
        incoming, found = self._find_route(incoming)
        arrival = incoming.arrival
        person = incoming.person or person_of(
            arrival.channel, incoming.sender.id, owner=arrival.is_owner, linked=found.linked
        )
        return Known(incoming, found, person, await self._admit(incoming, person))

    async def _admit(self, incoming: Incoming, person: str) -> Admission:
        if person == OWNER or incoming.person is not None:
            return "known"  # the owner has given them a token
        if incoming.key is not None:
            return "open"  # a webhook has a secret of its own
        return admit(self._rules.guests, incoming, await self._find_pairing(incoming, person))

    async def _find_pairing(self, incoming: Incoming, person: str) -> Pairing | None:
        """The pairing of a person under any of their names; a refusal of one name counts for all.

        An identity link gives a person a second name, also in groups.
        """
        arrival, sender = incoming.arrival, incoming.sender.id
        direct = msgspec.structs.replace(arrival, peer=Peer("dm", sender))
        own = partial(person_of, arrival.channel, sender, owner=False)
        names = {person, own(), own(linked=route(self._rules.routing, direct).linked)}
        found = [await self._store.find_pairing(each) for each in sorted(names)]
        known = {each.status: each for each in found if each is not None}
        return known.get("refused") or known.get("paired") or known.get("waiting")

    def _find_route(self, incoming: Incoming) -> tuple[Incoming, Route]:
        """The route of a message, and the message with `is_owner` filled in."""
        arrival = incoming.arrival
        owner = incoming.is_verified and is_owner(
            self._rules.owners, arrival.channel, incoming.sender.id
        )
        if incoming.key is not None:
            owner = arrival.is_owner
        if incoming.person is not None:
            owner = incoming.person == OWNER
        arrival = msgspec.structs.replace(arrival, is_owner=owner)
        known = msgspec.structs.replace(incoming, arrival=arrival)
        return known, route(self._rules.routing, arrival)

    async def decide(self, known: Known) -> NewInbound:
        """Make the inbox row of a message, with the complete decision."""
        incoming, found, person, _ = known
        key, own_key, session = await self._find(incoming, found)
        placed, line = await self._place(known, key, session)
        lines = await self._store.list_lines(key) if line is None else ()
        decision = await self._decide_content(incoming, placed, session, person)
        around = parts_of(incoming.quote, lines)
        decision = msgspec.structs.replace(
            decision, parts=(*around, *decision.parts), author=author_of(incoming)
        )
        session_id = session.id if session is not None and not placed.begins else new_id()
        if placed.begins:
            new = begin_session(
                incoming, found, key, placed, session, session_id=session_id, person=person,
                at=self._place_of(found, key),
                keyholder=find_keyholder(self._rules, key) if incoming.key is not None else None,
            )  # fmt: skip
            decision = msgspec.structs.replace(
                decision,
                opens=new,
                pinned=placed.reason is not None and session is not None and session.pinned,
                may_resume=known.may("resume"),
            )
        if line is not None:
            decision = msgspec.structs.replace(decision, command=line, own_key=own_key)
        return NewInbound(
            id=secrets.token_hex(8),
            channel=normalise_word(incoming.arrival.channel) or "unknown",
            # A person's id is not normalised: two people must never be taken for one.
            account=found.account if incoming.person is None else incoming.person,
            external_id=incoming.external_id,
            position=incoming.position,
            key=key,
            session_id=session_id,
            person=person,
            payload=encode_decision(decision),
            takes=tuple(each.id for each in lines),
        )

    def _place_of(self, found: Route, key: str) -> Place:
        """The directory of the agent that a conversation belongs to."""
        parsed = parse_key(key)
        agent = found.agent if parsed is None else parsed.agent
        return self._rules.places.get(agent, self._at)

    async def find_session(self, known: Known) -> tuple[str, Session | None]:
        """The key that leads to the session of a conversation, and the session if there is one."""
        key, _, session = await self._find(known.message, known.route)
        return key, session

    async def _find(self, incoming: Incoming, found: Route) -> tuple[str, str, Session | None]:
        """The key that leads to the session, the conversation's own key, and the session."""
        if incoming.key is not None:
            session = await self._store.find_route(incoming.key)
            _check_may(incoming, session)
            return incoming.key, incoming.key, session
        own_key = explicit_key(found, incoming)
        if own_key is not None:
            linked = await self._store.find_route(own_key)
            if linked is not None:
                return own_key, own_key, linked
        session = await self._store.find_route(found.key)
        return found.key, own_key or found.key, session

    async def _place(
        self, known: Known, key: str, session: Session | None
    ) -> tuple[Placement, str | None]:
        """Where the message goes, and its command line, if it is one."""
        incoming = known.message
        trigger, line = self._read(known)
        if not trigger.triggered:
            line = await self._answers.read(incoming, known.person, session, line)
        if line is not None:
            return Placement(text=incoming.text, begins=session is None), line
        now = self._clock()
        return place(self._rules, incoming, key, session, trigger, now=now), None

    def _read(self, known: Known) -> tuple[Triggered, str | None]:
        """Whether the message begins a new conversation, or is a command line."""
        incoming = known.message
        if not incoming.from_person:
            return Triggered(triggered=False, remainder=incoming.text), None
        trigger = read_trigger(
            incoming.text,
            extra=self._rules.triggers,
            mention=incoming.mention,
            may_command=known.may("new"),
            models=self._rules.models if known.person == OWNER else None,
        )
        line = None if trigger.triggered else read_order(incoming.text, incoming.mention)
        name = "" if line is None else name_of(line)
        is_order = bool(name) and (known.may(name) or known.is_mistyped(name))
        return trigger, line if is_order else None

    async def _decide_content(
        self, incoming: Incoming, placed: Placement, session: Session | None, person: str
    ) -> Decision:
        """The decision, apart from the session that the message goes to."""
        reply_to = incoming.reply_to
        if reply_to is None and session is not None:
            reply_to = read_reply_to(session.last_route)
        if reply_to is not None:
            sender = incoming.sender.id if incoming.reply_to is not None else None
            reply_to = msgspec.structs.replace(reply_to, person=person, sender=sender)
        return await _decide_as_said(self._store, incoming, placed.text, reply_to)


async def decide_for_session(store: Store, message: Incoming, session: Session) -> NewInbound:
    """Make the inbox row of a message that names its session: no rules are applied."""
    decision = await _decide_as_said(store, message, message.text, message.reply_to)
    return NewInbound(
        id=secrets.token_hex(8),
        channel=message.arrival.channel,
        account=message.arrival.account,
        external_id=message.external_id,
        position=message.position,
        key=message.key or session.key,
        session_id=session.id,
        person=message.person or OWNER,
        payload=encode_decision(decision),
    )


async def _decide_as_said(
    store: Store, message: Incoming, text: str, reply_to: ReplyTo | None
) -> Decision:
    return Decision(
        text=text,
        parts=(
            *asked_parts(message.instructions, message.earlier),
            *await keep_files(store, message.attachments),
        ),
        reply_to=reply_to,
        from_person=message.from_person,
        attended=message.attended,
        memory=message.memory,
        platform=message.platform,
        scopes=message.scopes,
    )


def _check_may(incoming: Incoming, session: Session | None) -> None:
    """Check that a person may write under a key.

    The error is the same whether the session does not exist or is not theirs.
    """
    person = incoming.person
    if person is None or person == OWNER:
        return
    if session is None or not may_see(person, session.person):
        raise Forbidden(
            "No session of yours has that key, and only the owner of this clew may begin one under "
            "a key. Nothing was changed."
        )


def read_line(line: str) -> tuple[str, str] | None:
    """The name of a command and its arguments; None for an existing path."""
    return parse(line, is_path=os.path.exists)


def name_of(line: str) -> str:
    """The name of a command line; empty for a path."""
    parsed = read_line(line)
    return "" if parsed is None else parsed[0]
