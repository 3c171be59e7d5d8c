"""The entrance for every message: decides, stores the message with the decision, carries it out.

Deciding (`inbound.decision`) changes nothing. The inbox row with the decision is the first commit;
after it, everything is done from the row. So a second delivery changes nothing, and if a process
dies, another one (`runtime.recovery`) carries the row out with the same function. Only channels
know how to listen to a platform and how to send answers there.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Final, Literal, Protocol
from weakref import WeakValueDictionary

import msgspec

from clew.core.channels.approvals import ANSWERS, asked_id
from clew.core.channels.incoming import (
    Edited,
    Event,
    Incoming,
    Learned,
    Pressed,
    Receipt,
    find_news,
)
from clew.core.channels.people import is_owner
from clew.core.channels.replies import ReplyTo
from clew.core.channels.routing import AgentEntry, find_agent
from clew.core.channels.session_choice import (
    ReceptionRules,
    find_keyholder,
    is_overheard,
    notice_of,
)
from clew.core.channels.speech import LONGEST, author_of
from clew.core.commands import find_command
from clew.core.decision import Decision, read_decision
from clew.core.delivery import ContextLine, Inbound, NewInbound, NewOutbound, Outbound
from clew.core.keys import Place, normalise_word
from clew.core.message import Draft
from clew.core.session import (
    OWNER,
    NewSession,
    Session,
    SessionEdit,
    SessionFacts,
)
from clew.core.tokens import Scopes
from clew.core.turn import QueueMode, Turn, read_mode
from clew.errors import (
    ClewError,
    Conflict,
    FateUnknown,
    Forbidden,
    InvalidInput,
    NotFound,
    SessionNotFound,
)
from clew.ports import Clock, Store
from clew.runtime.event_log import EventLog
from clew.runtime.inbound.decision import Answers, Decider, Known, decide_for_session, name_of
from clew.runtime.inbound.inbox import MANY, STORE_TROUBLE, Inbox, is_own
from clew.runtime.inbound.pairing import offer_pairing
from clew.runtime.lane.lane import Lanes
from clew.runtime.lane.questions import Questions
from clew.runtime.lane.queue import Work
from clew.runtime.lane.turn import Asker
from clew.runtime.outbound import Replies

SETTLE_S: Final = 1.0
"""Seconds without a new message after which messages sent during a turn are answered together."""


class Ticket(msgspec.Struct, frozen=True):
    """An accepted message: its inbox row, a future of its ended turn, and its session.

    `turn` is cancelled if there will be no turn: the message was taken back, was delivered a
    second time (not `is_new`), or is a command. `session` is its state before the turn. Without a
    row the message was not stored, and `note` says why.
    """

    inbound: Inbound | None
    is_new: bool
    turn: asyncio.Future[Turn]
    session: Session | None = None
    note: str | None = None

    @property
    def row(self) -> Inbound:
        """The row of a message that was stored."""
        if self.inbound is None:
            raise InvalidInput(self.note or "The message was not kept.")
        return self.inbound


def ticket_of(row: Inbound) -> Ticket:
    """The ticket of a message that was stored before; its turn is found by the row."""
    return Ticket(row, False, _no_turn())


def _no_turn() -> asyncio.Future[Turn]:
    nothing: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
    nothing.cancel()
    return nothing


class Handling(msgspec.Struct, frozen=True, kw_only=True):
    """What this process knows about a message besides its row; recovery has only defaults.

    `queue` overrides the session's queue mode, `model` the session's model. `asker` asks the owner
    about tool calls; if not `attended`, all calls that need approval are denied. `is_placed`: rules
    have chosen its session. `is_recovered`: it interrupts no turn and joins none. `session` is the
    one that the message names.
    """

    queue: QueueMode | None = None
    model: str | None = None
    asker: Asker | None = None
    attended: bool = True
    session: Session | None = None
    is_placed: bool = True
    is_recovered: bool = False


RECOVERED: Final = Handling(is_recovered=True)
"""For a message that another process left, or that is delivered again."""


class GivenCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command, who gave it, and where.

    `key` led to the session; `own_key` is the conversation's key on its platform, if different.
    `scopes` are those of the token that it came with; None without a token.
    """

    line: str
    session: Session
    key: str
    own_key: str
    person: str
    scopes: Scopes | None = None
    reply_to: ReplyTo | None = None


class Commands(Protocol):
    """Runs the commands of channels (`inbound.commands`)."""

    @property
    def place(self) -> Place:
        """The directory that new sessions work in."""
        ...

    async def run(self, given: GivenCommand) -> str:
        """Run a command; returns the answer."""
        ...


class Front(msgspec.Struct, frozen=True, kw_only=True):
    """What a reception needs to accept messages of channels, and messages under keys."""

    rules: ReceptionRules
    commands: Commands
    decider: Decider
    settle_s: float


class Reception:
    """Accepts messages. Until `open` sets the rules, only those that name their session."""

    def __init__(
        self,
        store: Store,
        inbox: Inbox,
        lanes: Lanes,
        *,
        replies: Replies,
        questions: Questions,
        clock: Clock,
        events: EventLog,
    ) -> None:
        self._events = events
        self._store = store
        self._inbox = inbox
        self._lanes = lanes
        self._replies = replies
        self._questions = questions
        self._clock = clock
        self._front: Front | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unsaid: dict[str, tuple[Inbound, GivenCommand, str]] = {}
        """Replies to commands that the store has not taken yet."""

    def open(
        self, rules: ReceptionRules, commands: Commands, *, settle_s: float = SETTLE_S
    ) -> None:
        """From now on accept messages of channels, and messages under keys, by these rules."""
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
            raise InvalidInput("Keys can't be used here: name a session. Nothing was sent.")
        return self._front

    def find_keyholder(self, key: str) -> str | None:
        """The person to whom the conversation of a key belongs; None for a shared one."""
        return None if self._front is None else find_keyholder(self._front.rules, key)

    def find_agent(self, agent: str) -> tuple[AgentEntry | None, Place | None]:
        """What the configuration says about an agent, and its directory if it has its own."""
        if self._front is None:
            return None, None
        rules = self._front.rules
        return find_agent(rules.routing.agents, agent), rules.places.get(agent)

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
        if is_overheard(self._open_front.rules, message, known.route.account):
            return Ticket(None, False, _no_turn(), note=await self._overhear(known))
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

    async def receive(self, event: Event) -> Receipt:
        """Accept what a channel reports; returns the receipt for the channel.

        It raises only if it has to be reported again.
        """
        try:
            match event:
                case Edited():
                    return Receipt(is_new=False, note=await self._revise(event))
                case Pressed():
                    return Receipt(is_new=False, note=await self._press(event))
                case Learned():
                    return Receipt(is_new=False, note=await self._learn_place(event))
            ticket = await self.accept(event)
        except (InvalidInput, Forbidden) as error:
            return Receipt(is_new=False, note=str(error))
        if ticket.inbound is None:
            return Receipt(is_new=False, note=ticket.note)
        row = ticket.inbound
        return Receipt(inbound_id=row.id, session_id=row.session_id, is_new=ticket.is_new)

    # --- what is no message of its own ----------------------------------------------------------

    async def _overhear(self, known: Known) -> str:
        """Keep a line of a group that is not for the agent, for the next message there.

        Only where somebody who is let in has spoken, or is speaking now; never of a person who
        was refused.
        """
        message = known.message
        key, session = await self._open_front.decider.find_session(known)
        if not message.text.strip() or (session is None and not known.is_let_in):
            return OVERHEARD
        pairing = await self._store.find_pairing(known.person)
        if pairing is not None and pairing.status == "refused":
            return OVERHEARD
        await self._store.add_line(
            ContextLine(
                id=secrets.token_hex(8),
                key=key,
                channel=normalise_word(message.arrival.channel) or "unknown",
                account=known.route.account,
                external_id=message.external_id,
                session_id=None if session is None else session.id,
                author=author_of(message),
                content=message.text[:LONGEST],
            )
        )
        return OVERHEARD

    async def _revise(self, edited: Edited) -> str:
        """Change a message before its turn begins; later, keep the change for the next one."""
        known = await self._meet(edited)
        channel = normalise_word(edited.arrival.channel) or "unknown"
        row = await self._store.find_inbound(channel, known.route.account, edited.external_id)
        text = edited.text
        line = ContextLine(
            id=secrets.token_hex(8),
            key=known.route.key if row is None else row.key,
            channel=channel,
            account=known.route.account,
            external_id=edited.external_id,
            session_id=None if row is None else row.session_id,
            kind="edited",
            author=author_of(known.message),
            content=text[:LONGEST],
        )
        if row is None:
            key, _ = await self._open_front.decider.find_session(known)
            lines = await self._store.list_lines(key)
            if any(each.external_id == edited.external_id for each in lines):
                await self._store.add_line(msgspec.structs.replace(line, key=key))
            return "It is not waiting."
        if row.person != known.person or row.status == "dropped" or row.payload.get("command"):
            return "It is not waiting."
        if row.payload.get("text") == text:
            return "It says the same."
        lane = self._lanes.find(row.session_id or "")
        is_here = lane is not None and lane.revise(row.id, text)
        if is_here or row.status == "queued":
            revised = await self._store.revise_inbound(row.id, row.payload | {"text": text})
            if is_here or revised is not None:
                return "It is changed."
        await self._store.add_line(line)
        return "It is answered already; the next answer takes the change into account."

    async def _press(self, pressed: Pressed) -> str:
        """Answer a question by a button: only the owner, and only where it was shown."""
        approval_id, _, word = pressed.value.rpartition(":")
        answer = ANSWERS.get(word)
        if not is_owner(self._open_front.rules.owners, pressed.arrival.channel, pressed.sender.id):
            return NOT_YOURS
        try:
            row = await self._store.get_outbound(asked_id(approval_id))
        except NotFound:
            return OVER
        place = (row.channel, row.account, row.key)
        if answer is None or place != pressed.reply_to.place:
            return OVER
        if not self._questions.is_asking(approval_id):
            return OVER
        by = f"{OWNER}:{row.channel}"
        scope = answer.scope if _offers(row, word) else "once"
        decided = await self._questions.decide(approval_id, answer.decision, by=by, scope=scope)
        if decided.decided_by != by:
            return f"It was answered already: {decided.decision}."
        return "Not allowed." if decided.decision == "no" else f"Allowed, {decided.scope}."

    async def _learn_place(self, learned: Learned) -> str:
        """Let the session of a place know its names, and where its replies go."""
        known = await self._meet(learned)
        _, session = await self._open_front.decider.find_session(known)
        if session is None:
            return "There is no session yet."
        await self._learn(known.message, session)
        return "It is known."

    async def _meet(self, event: Edited | Learned) -> Known:
        """Find the person and the route of something that is no message."""
        external = event.external_id if isinstance(event, Edited) else None
        return await self._open_front.decider.meet(
            Incoming(
                arrival=event.arrival,
                sender=event.sender,
                text=event.text if isinstance(event, Edited) else "",
                external_id=external,
                labels=event.labels,
                reply_to=event.reply_to,
            )
        )

    # --- deciding without keeping ---------------------------------------------------------------

    async def decide(self, message: Incoming) -> NewInbound:
        """Make all decisions about a message, without storing or changing anything."""
        decider = self._open_front.decider
        return await decider.decide(await decider.meet(message))

    async def _turn_away(self, known: Known) -> str:
        """Refuse a stranger's message, which is not stored; may offer a pairing code."""
        channel = known.message.arrival.channel
        if known.admission == "ignored":
            text = "A message was refused: its sender may not talk here."
            self._events.report("message_refused", text, channel=channel)
            return f"{known.person} may not talk here."
        text = "A message was refused: its sender is not let in yet."
        self._events.report("message_refused", text, channel=channel)
        reply_to = known.message.reply_to
        withheld = reply_to is not None and self._replies.is_denied(reply_to, known.route.key)
        await offer_pairing(self._store, known.message, known.person, withheld=withheld)
        self._replies.bell.set()
        return f"{known.person} is not let in yet."

    async def _keep(self, new: NewInbound, handling: Handling) -> Ticket:
        """Store the row with its decision (the first commit), and carry it out."""
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
        """Carry out a message that no live process works on; None if one does.

        `in_order`: also None if an earlier message of its session waits.
        """
        if self._lanes.is_held(row.id):
            return None
        with self._inbox.arriving(row.id):
            taken = await self._inbox.take(row, in_order=in_order)
            return None if taken is None else await self._carry_out(taken, handling)

    async def give_back(self) -> int:
        """Release the messages that this process has claimed and no lane works on.

        The store has failed between claim and turn. Returns how many messages wait again. Replies
        to commands that could not be stored are stored too.
        """
        for said in tuple(self._unsaid.values()):
            del self._unsaid[said[0].id]
            await self._reply(*said)
        count = 0
        rows = await self._store.list_inbound(limit=MANY)
        held = self._lanes.list_held()
        for row in (each for each in rows if is_own(self._store, each) and each.id not in held):
            if not self._lanes.is_held(row.id):  # meanwhile it may be
                with self._inbox.arriving(row.id):
                    count += await self._inbox.give_back(row)
        return count

    async def _learn(self, message: Incoming, session: Session) -> None:
        """Record facts about the conversation that the message brings, if there are new ones."""
        news = find_news(message, session)
        if news is not None:
            await self._store.describe_session(session.id, news)

    # --- carrying out ---------------------------------------------------------------------------

    async def _carry_out(self, row: Inbound, handling: Handling) -> Ticket:
        """Carry out the decision of a row that this process has claimed. Can be repeated."""
        decision = read_decision(row)
        try:
            # A known session is not read again: a row that is visible must be in its lane.
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
            # The message is stored: the next process runs it.
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
            drafts=(
                Draft(
                    role="user",
                    content=decision.text,
                    parts=decision.parts,
                    author=decision.author,
                ),
            ),
            inbound=row,
            person=row.person,
            scopes=decision.find_scopes(row.person),
            attended=row.person == OWNER and is_there,
            from_person=decision.from_person,
            memory=decision.memory,
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
            # Move the pin from the previous session, which would stay on top of the list otherwise.
            # Unpin first: if this process dies in between, the next one sees that work is left.
            await self._store.edit_session(new.previous_id or "", SessionEdit(pinned=False))
            session = await self._store.edit_session(session.id, SessionEdit(pinned=True))
        if session.last_route is None and new.previous_id is not None:
            await self._keep_route(session, new.previous_id)
        await self._tell_of_reset(row, decision, new, session)
        return session

    async def _keep_route(self, session: Session, previous_id: str) -> None:
        """Copy the last route of the previous session: a job's answer is delivered there."""
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
        """Run a command. It leaves the inbox before it runs, so that none runs twice."""
        given = GivenCommand(
            line=decision.command or "",
            session=session,
            key=row.key,
            own_key=decision.own_key,
            person=row.person,
            scopes=decision.scopes,
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
        if text:
            await self._reply(row, given, text)

    async def _reply(self, row: Inbound, given: GivenCommand, text: str) -> None:
        """Store the reply to a command; if the store fails, `give_back` does it later."""
        if given.reply_to is None:
            return
        try:
            # It is delivered in any case: its person waits for it.
            await self._tell(row, given.reply_to, given.session, text, "reply", withheld=False)
        except STORE_TROUBLE:
            self._unsaid[row.id] = (row, given, text)
            self._inbox.trouble.set()

    async def answered(self, row: Inbound) -> None:
        """Wait until a command is answered, if this process runs it."""
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
        """Send a text outside of turns to where the message came from. Can be repeated."""
        await self._store.add_outbound(
            session.id,
            NewOutbound(
                id=f"{row.id}-{what}",
                key=reply_to.key,
                channel=reply_to.channel,
                account=reply_to.account,
                address=reply_to.address,
                content=text,
                withheld=withheld,
            ),
        )
        if reply_to.is_fetched:
            # The caller reads the answer; nothing is sent.
            await self._store.settle_outbound(f"{row.id}-{what}", "sent")
        self._replies.bell.set()

    async def close(self) -> None:
        """Wait for the commands that run."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())


def _offers(row: Outbound, word: str) -> bool:
    """Whether a question has a button for that answer."""
    return any(f":{word}" in str(part.get("choices")) for part in row.parts)


OVERHEARD: Final = "It is not for the agent."
NOT_YOURS: Final = "Only the owner of this clew can answer that."
OVER: Final = "That question is over. Nothing was done."

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
    vars(told).update(vars(error), message=message)
    return told


def _choose_mode(session: Session, handling: Handling) -> QueueMode:
    """The queue mode for a message that comes while a turn runs in its session."""
    noted = session.metadata.get("queue")
    if noted is None and handling.is_placed and session.platform != "cli":
        return "collect"
    mode = read_mode(noted)
    return "followup" if handling.is_recovered and mode != "collect" else mode
