"""The one way in: what is to be done about a message is decided, kept with it, and carried out.

Deciding (`inbound.decision`) changes nothing. The inbox row with the decision is the first commit;
after it, everything is done from the row. So a second delivery changes nothing, and what a process
left when it died is carried out by another one (`runtime.recovery`) by the same function.
How a platform is listened to, and how answers get there, is known to channels.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Literal, Protocol
from weakref import WeakValueDictionary

import msgspec

from clew.core.channels.incoming import Incoming, Receipt, find_news
from clew.core.channels.replies import ReplyTo
from clew.core.channels.session_choice import ReceptionRules, find_keyholder, notice_of
from clew.core.commands import find_command
from clew.core.decision import Decision, read_decision
from clew.core.delivery import Inbound, NewInbound, NewOutbound
from clew.core.keys import Place
from clew.core.message import Draft
from clew.core.session import (
    OWNER,
    NewSession,
    Session,
    SessionEdit,
    SessionFacts,
)
from clew.core.turn import QueueMode, Turn, read_mode
from clew.errors import ClewError, Conflict, FateUnknown, InvalidInput, SessionNotFound
from clew.ports import Clock, Store
from clew.runtime.inbound.approvals import Answers
from clew.runtime.inbound.decision import Decider, Known, decide_for_session, name_of
from clew.runtime.inbound.inbox import MANY, STORE_TROUBLE, Inbox, is_own
from clew.runtime.inbound.pairing import offer_pairing
from clew.runtime.lane.lane import Lanes
from clew.runtime.lane.questions import Questions
from clew.runtime.lane.queue import Work
from clew.runtime.lane.turn import Asker
from clew.runtime.outbound import Replies

SETTLE_S: Final = 1.0
"""Seconds of quiet after which what was said while a turn ran is answered together."""


class Ticket(msgspec.Struct, frozen=True):
    """What became of a message: its inbox row, its turn when that has ended, and its session.

    `turn` is cancelled if there will be none: the message was taken back, was delivered for the
    second time (not `is_new`), or is a command. `session` is as it was before the turn. Without a
    row the message was not kept, and `note` says why.
    """

    inbound: Inbound | None
    is_new: bool
    turn: asyncio.Future[Turn]
    session: Session | None = None
    note: str | None = None

    @property
    def row(self) -> Inbound:
        """The row of a message that was kept."""
        if self.inbound is None:
            raise InvalidInput(self.note or "The message was not kept.")
        return self.inbound


def ticket_of(row: Inbound) -> Ticket:
    """The ticket of a message that was kept before; its turn is found by the row."""
    return Ticket(row, False, _no_turn())


def _no_turn() -> asyncio.Future[Turn]:
    nothing: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
    nothing.cancel()
    return nothing


class Handling(msgspec.Struct, frozen=True, kw_only=True):
    """What this process knows about a message beside its row; who takes it up does without.

    `queue`: what becomes of it while a turn runs, in place of the session's mode. `model` answers
    in place of the session's own. `asker` asks its questions; not `attended`, the answer to all of
    them is no. `is_placed`: rules have chosen its session. What `is_recovered` interrupts nothing
    and joins nothing: it waits for its turn. `session` is the one that the message names.
    """

    queue: QueueMode | None = None
    model: str | None = None
    asker: Asker | None = None
    attended: bool = True
    session: Session | None = None
    is_placed: bool = True
    is_recovered: bool = False


RECOVERED: Final = Handling(is_recovered=True)
"""A message that another process has left, or that comes again."""


class GivenCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command, who gave it, and where.

    `key` led to the session; `own_key` is the conversation's on its platform, if that is another.
    """

    line: str
    session: Session
    key: str
    own_key: str
    person: str
    reply_to: ReplyTo | None = None


class Commands(Protocol):
    """What runs the commands of channels (`inbound.commands`)."""

    @property
    def place(self) -> Place:
        """The directory that new sessions work in."""
        ...

    async def run(self, given: GivenCommand) -> str:
        """Run a command; what it says."""
        ...


class Front(msgspec.Struct, frozen=True, kw_only=True):
    """What a reception knows that takes in messages of channels, and under keys."""

    rules: ReceptionRules
    commands: Commands
    decider: Decider
    settle_s: float


class Reception:
    """Takes messages in. Without rules (`open`) only such that name their session."""

    def __init__(
        self,
        store: Store,
        inbox: Inbox,
        lanes: Lanes,
        *,
        replies: Replies,
        questions: Questions,
        clock: Clock,
    ) -> None:
        self._store = store
        self._inbox = inbox
        self._lanes = lanes
        self._replies = replies
        self._questions = questions
        self._clock = clock
        self._front: Front | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def open(
        self, rules: ReceptionRules, commands: Commands, *, settle_s: float = SETTLE_S
    ) -> None:
        """Take in messages of channels, and such under keys, by these rules."""
        decider = Decider(
            self._store,
            rules,
            at=commands.place,
            clock=self._clock,
            answers=Answers(self._questions, self._clock),
        )
        self._front = Front(rules=rules, commands=commands, decider=decider, settle_s=settle_s)

    @property
    def _open_front(self) -> Front:
        if self._front is None:
            raise InvalidInput("Keys lead nowhere here: name a session. Nothing was sent.")
        return self._front

    def find_keyholder(self, key: str) -> str | None:
        """The person whose own conversation a key is; None if it belongs to no person."""
        return None if self._front is None else find_keyholder(self._front.rules, key)

    # --- deciding and keeping -------------------------------------------------------------------

    async def accept(
        self,
        message: Incoming,
        *,
        queue: QueueMode | None = None,
        model: str | None = None,
        asker: Asker | None = None,
    ) -> Ticket:
        """See `Runtime.accept`. If the store fails, the error says what became of the message."""
        self._lanes.refuse_if_closing()
        try:
            return await self._accept(message, queue, model, asker)
        except STORE_TROUBLE as error:
            if "message" in vars(error):
                raise
            raise _tell_fate(error, "not kept") from error

    async def _accept(
        self, message: Incoming, queue: QueueMode | None, model: str | None, asker: Asker | None
    ) -> Ticket:
        if message.session is not None:
            session = await self._store.get_session(message.session)
            new = await decide_for_session(self._store, message, session)
            if not message.from_person:
                queue = queue or "followup"
            named = Handling(
                queue=queue, model=model, asker=asker, session=session, is_placed=False
            )
            return await self._keep(new, named)
        if not message.text.strip() and not message.attachments:
            return Ticket(None, False, _no_turn(), note="There is nothing in it.")
        known = await self._open_front.decider.meet(message)
        if not known.is_let_in:
            return Ticket(None, False, _no_turn(), note=await self._turn_away(known))
        async with self._locks.setdefault(message.key or known.route.key, asyncio.Lock()):
            new = await self._open_front.decider.decide(known)
            ticket = await self._keep(new, Handling(queue=queue, model=model, asker=asker))
            if ticket.session is not None and message.person is None:
                # The message is kept; what could not be learnt is learnt from the next one.
                with contextlib.suppress(*STORE_TROUBLE):
                    await self._learn(message, ticket.session)
            return ticket

    async def receive(self, message: Incoming) -> Receipt:
        """Accept a message of a channel; what to tell the platform about it."""
        ticket = await self.accept(message)
        if ticket.inbound is None:
            return Receipt(is_new=False, note=ticket.note)
        row = ticket.inbound
        return Receipt(inbound_id=row.id, session_id=row.session_id, is_new=ticket.is_new)

    async def decide(self, message: Incoming) -> NewInbound:
        """All that there is to decide about a message; nothing is kept or changed by it."""
        decider = self._open_front.decider
        return await decider.decide(await decider.meet(message))

    async def _turn_away(self, known: Known) -> str:
        """A stranger's words are not kept; they may ask to be let in."""
        if known.admission == "ignored":
            return f"{known.person} may not talk here."
        reply_to = known.message.reply_to
        withheld = reply_to is not None and self._replies.is_denied(reply_to, known.route.key)
        await offer_pairing(self._store, known.message, known.person, withheld=withheld)
        self._replies.bell.set()
        return f"{known.person} is not let in yet."

    async def _keep(self, new: NewInbound, handling: Handling) -> Ticket:
        """Keep the row with its decision, the first commit, and carry it out."""
        with self._inbox.arriving(new.id):
            try:
                row, is_new = await self._inbox.keep(new)
            except FateUnknown as error:
                raise _tell_fate(error, "unknown") from error
            try:
                if is_new:
                    return await self._carry_out(row, handling)
                await self.take_up(row)
            except STORE_TROUBLE as error:
                self._inbox.trouble.set()
                raise _tell_fate(error, "kept") from error
        return Ticket(row, False, _no_turn())

    async def take_up(
        self, row: Inbound, handling: Handling = RECOVERED, *, in_order: bool = False
    ) -> Ticket | None:
        """Carry out a message that no process works on; None if one does, or was quicker.

        `in_order`: nor if an earlier one of its session waits.
        """
        if self._lanes.is_held(row.id):
            return None
        with self._inbox.arriving(row.id):
            taken = await self._inbox.take(row, in_order=in_order)
            return None if taken is None else await self._carry_out(taken, handling)

    async def give_back(self) -> int:
        """Let go of what this process has claimed and no lane works on; how many wait again.

        The store has failed between the claim and the turn, or the end of a claim was not written.
        """
        count = 0
        for row in await self._store.list_inbound(limit=MANY):
            if is_own(self._store, row) and not self._lanes.is_held(row.id):
                with self._inbox.arriving(row.id):
                    count += await self._inbox.give_back(row)
        return count

    async def _learn(self, message: Incoming, session: Session) -> None:
        """What the message tells about the conversation, if it tells anything new."""
        news = find_news(message, session)
        if news is not None:
            await self._store.describe_session(session.id, news)

    # --- carrying out ---------------------------------------------------------------------------

    async def _carry_out(self, row: Inbound, handling: Handling) -> Ticket:
        """Do what a row that this process holds asks for; twice is as once."""
        decision = read_decision(row)
        try:
            # One that is known is not asked for: once it is seen in the inbox, it is in its lane.
            session = handling.session or await self._open_session(row, decision)
        except BaseException:
            with contextlib.suppress(*STORE_TROUBLE):  # then it is given back later
                await self._inbox.put_back(row)
            raise
        row = msgspec.structs.replace(row, session_id=session.id)
        if decision.command is not None:
            await self._obey(row, decision, session)
            return Ticket(row, True, _no_turn(), session)
        work = self._make_work(row, decision, session, handling)
        if self._lanes.is_closing:
            # The message is kept: the next process runs it.
            await self._inbox.put_back(row)
            work.done.cancel()
        else:
            self._lanes.get(session.id).put(work)
        return Ticket(row, True, work.done, session)

    def _make_work(
        self, row: Inbound, decision: Decision, session: Session, handling: Handling
    ) -> Work:
        is_settling = handling.is_placed and self._front is not None
        is_there = decision.from_person and decision.attended and handling.attended
        return Work(
            done=asyncio.get_running_loop().create_future(),
            drafts=(Draft(role="user", content=decision.text, parts=decision.parts),),
            inbound=row,
            person=row.person,
            attended=row.person == OWNER and is_there,
            from_person=decision.from_person,
            reply_to=decision.reply_to,
            model=handling.model,
            asker=handling.asker,
            queue=handling.queue or _choose_mode(session, handling),
            settle_s=self._open_front.settle_s if is_settling else 0.0,
        )

    async def _open_session(self, row: Inbound, decision: Decision) -> Session:
        """The session of a row, which may have to be made first."""
        new = decision.opens
        if new is None:
            return await self._store.get_session(row.session_id or "")
        if new.reset_reason is None:
            session, _ = await self._store.open_session(new)
            return session
        try:
            session = await self._store.create_session(new)
        except Conflict:
            session = await self._store.get_session(new.id or "")
        if decision.pinned and not session.pinned:
            # The pin goes along; the one before would else stay on top for ever. Its own pin goes
            # first, so that a process that takes this up sees that there is something left to do.
            await self._store.edit_session(new.previous_id or "", SessionEdit(pinned=False))
            session = await self._store.edit_session(session.id, SessionEdit(pinned=True))
        if session.last_route is None and new.previous_id is not None:
            await self._keep_route(session, new.previous_id)
        await self._tell_of_reset(row, decision, new, session)
        return session

    async def _keep_route(self, session: Session, previous_id: str) -> None:
        """A job's answer is delivered where the session before this one spoke last."""
        with contextlib.suppress(SessionNotFound):
            before = await self._store.get_session(previous_id)
            if before.last_route is not None:
                facts = SessionFacts(last_route=before.last_route)
                await self._store.describe_session(session.id, facts)

    async def _tell_of_reset(
        self, row: Inbound, decision: Decision, new: NewSession, session: Session
    ) -> None:
        notice = notice_of(new, may_resume=decision.may_resume)
        if notice is None or decision.reply_to is None:
            return
        withheld = self._replies.is_denied(
            decision.reply_to, session.key, override=session.send_policy
        )
        await self._tell(row, decision.reply_to, session, notice, "notice", withheld=withheld)

    # --- commands -------------------------------------------------------------------------------

    async def _obey(self, row: Inbound, decision: Decision, session: Session) -> None:
        """Run a command. It is out of the inbox before it begins: none is run twice."""
        given = GivenCommand(
            line=decision.command or "",
            session=session,
            key=row.key,
            own_key=decision.own_key,
            person=row.person,
            reply_to=decision.reply_to,
        )
        await self._inbox.drop(row)
        task = asyncio.create_task(self._answer(row, given), name=f"command {row.id}")
        self._tasks[row.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(row.id))
        command = find_command(name_of(given.line))
        if command is None or not command.is_slow:
            await asyncio.shield(task)

    async def _answer(self, row: Inbound, given: GivenCommand) -> None:
        try:
            text = await self._open_front.commands.run(given)
        except ClewError as error:
            text = str(error)
        if text and given.reply_to is not None:
            # It is delivered in any case: its person waits for it.
            await self._tell(row, given.reply_to, given.session, text, "reply", withheld=False)

    async def answered(self, row: Inbound) -> None:
        """Wait until a command is answered, if this process is at it."""
        if row.id in self._tasks:
            await asyncio.wait({self._tasks[row.id]})

    async def _tell(
        self,
        row: Inbound,
        reply_to: ReplyTo,
        session: Session,
        text: str,
        what: str,
        *,
        withheld: bool,
    ) -> None:
        """Words that no turn says, to where the message came from. Twice is as once."""
        await self._store.add_outbound(
            session.id,
            NewOutbound(
                id=f"{row.id}-{what}",
                key=reply_to.key,
                channel=reply_to.channel,
                address=reply_to.address | {"account": reply_to.account},
                content=text,
                withheld=withheld,
            ),
        )
        if reply_to.is_fetched:
            # The caller reads it; nothing is sent.
            await self._store.settle_outbound(f"{row.id}-{what}", "sent")
        self._replies.bell.set()

    async def close(self) -> None:
        """Wait for the commands that run."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())


_FATES: Final = {
    "kept": (
        "The message is kept, and is answered as soon as the store works again: "
        "do not send it a second time."
    ),
    "not kept": "The message was not kept: send it again.",
    "unknown": (
        "Whether the message was kept is not known: repeat it with the same idempotency key, and "
        "it is answered once."
    ),
}


def _tell_fate(error: ClewError, message: Literal["kept", "not kept", "unknown"]) -> ClewError:
    """The error of a store, with what became of the message; programs find it as `message`."""
    told = type(error)(f"{error} {_FATES[message]}")
    vars(told)["message"] = message
    return told


def _choose_mode(session: Session, handling: Handling) -> QueueMode:
    """What becomes of a message that comes while a turn runs in its session."""
    noted = session.metadata.get("queue")
    if noted is None and handling.is_placed and session.platform != "cli":
        return "collect"
    mode = read_mode(noted)
    return "followup" if handling.is_recovered and mode != "collect" else mode
