"""The way of a message from a channel, or under a key over the API, to its turn.

Everything is decided first (`runtime.deciding`), and then kept in the inbox together with the
message; what was decided is carried out afterwards, from what is kept. So a second delivery changes
nothing, and a process that dies in between is taken up where it was (`runtime.resumption`).
How a platform is listened to, and how answers get there, is known to channels.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from clew.core.arrivals import Incoming, Receipt
from clew.core.commands import find_command
from clew.core.delivery import Inbound, NewInbound, NewOutbound
from clew.core.origins import find_news
from clew.core.placing import ReceptionRules, find_keyholder, notice_of
from clew.core.queue_modes import QueueMode, read_mode
from clew.core.replies import ReplyTo, conversation_of, read_reply_to
from clew.core.sending import decide_send
from clew.core.session import (
    OWNER,
    NewSession,
    SendPolicy,
    Session,
    SessionEdit,
    SessionFacts,
)
from clew.errors import ClewError, Conflict, SessionNotFound
from clew.runtime.answering import Answers
from clew.runtime.deciding import Decider, Met
from clew.runtime.ordering import Order, Orders, name_of
from clew.runtime.pairing import offer_pairing
from clew.runtime.recovery import claim
from clew.runtime.runtime import Runtime, Ticket

SETTLE_S: Final = 1.0
"""Seconds of quiet after which what was said while a turn ran is answered together."""


class Taken(NamedTuple):
    """A message that was taken in: its row, its session as it was before the turn, and the turn.

    A second delivery has only the row of the first; a command has no turn.
    """

    inbound: Inbound
    session: Session | None = None
    ticket: Ticket | None = None

    @property
    def is_new(self) -> bool:
        """Whether it was not known before."""
        return self.session is not None


class Reception:
    """Takes in what channels bring. Close it before the runtime."""

    def __init__(
        self,
        runtime: Runtime,
        rules: ReceptionRules,
        orders: Orders,
        *,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._runtime = runtime
        self._store = runtime.store
        self._rules = rules
        self._orders = orders
        self._decider = Decider(
            runtime.store,
            rules,
            at=orders.place,
            clock=runtime.clock,
            answers=Answers(runtime, runtime.clock),
        )
        self._settle_s = settle_s
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def find_keyholder(self, key: str) -> str | None:
        """See `core.placing`."""
        return find_keyholder(self._rules, key)

    async def receive(self, incoming: Incoming) -> Receipt:
        """Keep a message and set going what it asks for; durable when this returns."""
        if not incoming.text.strip() and not incoming.attachments:
            return Receipt(is_new=False, note="There is nothing in it.")
        met = await self._decider.meet(incoming)
        if not met.is_let_in:
            return await self._turn_away(met)
        taken = await self._take_in(met)
        row = taken.inbound
        return Receipt(inbound_id=row.id, session_id=row.session_id, is_new=taken.is_new)

    async def take_in(self, incoming: Incoming) -> Taken:
        """The same for who has a credential, and follows what comes of it."""
        return await self._take_in(await self._decider.meet(incoming))

    async def _turn_away(self, met: Met) -> Receipt:
        """A stranger's words are not kept; they may ask to be let in."""
        if met.admission == "ignored":
            return Receipt(is_new=False, note=f"{met.person} may not talk here.")
        reply_to = met.incoming.reply_to
        withheld = reply_to is not None and self._is_denied(reply_to, met.route.key)
        await offer_pairing(self._store, met.incoming, met.person, withheld=withheld)
        self._runtime.replies.bell.set()
        return Receipt(is_new=False, note=f"{met.person} is not let in yet.")

    async def _take_in(self, met: Met) -> Taken:
        incoming = met.incoming
        async with self._locks.setdefault(incoming.key or met.route.key, asyncio.Lock()):
            new = await self._decider.decide(met)
            inbound, is_new = await self._runtime.keep(new)
            if not is_new:
                await self._go_on_with(inbound)
                return Taken(inbound)
            taken = await self.carry_out(inbound)
            if taken.session is not None and incoming.person is None:
                await self._learn(incoming, taken.session)
            return taken

    async def _go_on_with(self, inbound: Inbound) -> None:
        """A second delivery changes nothing; unless the first one was kept, and then got stuck."""
        if inbound.status not in ("queued", "claimed"):
            return
        if inbound.claimant is not None:
            if await self._store.is_living(inbound.claimant):
                return
            await self._store.release_inbound(inbound.claimant)
        taken = await claim(self._store, inbound)
        if taken is not None:
            await self.carry_out(taken)

    async def decide(self, incoming: Incoming) -> NewInbound:
        """All that there is to decide about a message; nothing is kept or changed by it."""
        return await self._decider.decide(await self._decider.meet(incoming))

    async def answered(self, inbound: Inbound) -> None:
        """Wait until a command is answered, if this process is at it."""
        if inbound.id in self._tasks:
            await asyncio.wait({self._tasks[inbound.id]})

    # --- carrying out ---------------------------------------------------------------------------

    async def carry_out(self, inbound: Inbound, *, recovered: bool = False) -> Taken:
        """Do what a row that this process holds asks for; twice is as once.

        What is `recovered` interrupts nothing and goes into nothing: it waits for its turn.
        """
        try:
            session = await self._open(inbound)
        except BaseException:
            await self._runtime.let_go(inbound)
            raise
        inbound = msgspec.structs.replace(inbound, session_id=session.id)
        if "command" in inbound.payload:
            await self._obey(inbound, session)
            return Taken(inbound, session)
        noted = session.metadata.get("queue")
        is_terminals = session.platform == "cli"
        mode: QueueMode = "collect" if noted is None and not is_terminals else read_mode(noted)
        payload = inbound.payload
        is_there = payload.get("from_person", True) and payload.get("attended", True)
        try:
            ticket = self._runtime.start(
                inbound,
                attended=inbound.person == OWNER and bool(is_there),
                queue="followup" if recovered and mode != "collect" else mode,
                settle_s=self._settle_s,
            )
        except Conflict:
            # It is closing. The message is kept: whoever comes next runs it.
            await self._runtime.let_go(inbound)
            return Taken(inbound, session)
        return Taken(inbound, session, ticket)

    async def _open(self, inbound: Inbound) -> Session:
        """The session of a row, which may have to be made first."""
        payload = inbound.payload
        if "opens" not in payload:
            return await self._store.get_session(inbound.session_id or "")
        new = msgspec.convert(payload["opens"], NewSession)
        if new.reset_reason is None:
            session, _ = await self._store.open_session(new)
            return session
        try:
            session = await self._store.create_session(new)
        except Conflict:
            session = await self._store.get_session(new.id or "")
        if payload.get("pinned") and not session.pinned:
            # The pin goes along; the one before would else stay on top for ever. Its own pin goes
            # first, so that whoever takes this up sees that there is something left to do.
            await self._store.edit_session(new.previous_id or "", SessionEdit(pinned=False))
            session = await self._store.edit_session(session.id, SessionEdit(pinned=True))
        if session.last_route is None and new.previous_id is not None:
            await self._keep_route(session, new.previous_id)
        notice = notice_of(new, may_resume=bool(payload.get("may_resume")))
        if notice is not None:
            await self._tell(inbound, session, notice, "notice", is_policed=True)
        return session

    async def _keep_route(self, session: Session, previous_id: str) -> None:
        """What nobody asks for is delivered where the session before it was."""
        with contextlib.suppress(SessionNotFound):
            before = await self._store.get_session(previous_id)
            if before.last_route is not None:
                facts = SessionFacts(last_route=before.last_route)
                await self._store.describe_session(session.id, facts)

    async def _learn(self, incoming: Incoming, session: Session) -> None:
        """What the message tells about the conversation, if it tells anything new."""
        news = find_news(incoming, session)
        if news is not None:
            await self._store.describe_session(session.id, news)

    # --- commands -------------------------------------------------------------------------------

    async def _obey(self, inbound: Inbound, session: Session) -> None:
        """Run a command. It is out of the inbox before it begins: none is run twice."""
        payload = inbound.payload
        order = Order(
            line=str(payload["command"]),
            session=session,
            key=inbound.key,
            own_key=str(payload["own_key"]),
            person=inbound.person,
            reply_to=read_reply_to(payload.get("reply_to")),
        )
        await self._runtime.let_go(inbound, drop=True)
        task = asyncio.create_task(self._answer(inbound, order), name=f"order {inbound.id}")
        self._tasks[inbound.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(inbound.id))
        command = find_command(name_of(order.line))
        if command is None or not command.is_slow:
            await asyncio.shield(task)

    async def _answer(self, inbound: Inbound, order: Order) -> None:
        try:
            text = await self._orders.run(order)
        except ClewError as error:
            text = str(error)
        if text:
            await self._tell(inbound, order.session, text, "reply")

    async def _tell(
        self, inbound: Inbound, session: Session, text: str, what: str, *, is_policed: bool = False
    ) -> None:
        """Words that no turn says, to where the message came from. Twice is as once.

        What a command answers is delivered in any case: its person waits for it.
        """
        reply_to: ReplyTo | None = read_reply_to(inbound.payload.get("reply_to"))
        if reply_to is None:
            return
        is_denied = self._is_denied(reply_to, session.key, override=session.send_policy)
        await self._store.add_outbound(
            session.id,
            NewOutbound(
                id=f"{inbound.id}-{what}",
                key=reply_to.key,
                channel=reply_to.channel,
                address=reply_to.address | {"account": reply_to.account},
                content=text,
                withheld=is_policed and is_denied,
            ),
        )
        if reply_to.is_fetched:
            # It is there for whoever comes for it, and that is all that can be done.
            await self._store.settle_outbound(f"{inbound.id}-{what}", "sent")
        self._runtime.replies.bell.set()

    def _is_denied(
        self, reply_to: ReplyTo, key: str, *, override: SendPolicy | None = None
    ) -> bool:
        conversation = conversation_of(reply_to, key)
        return decide_send(self._rules.sending, conversation, override=override).decision == "deny"

    async def close(self) -> None:
        """Wait for the commands that run."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())
