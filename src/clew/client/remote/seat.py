"""A seat at a gateway: the same place at a session, whose decisions are made there.

It keeps what a seat keeps: where it is, what the next session will be like, the breadcrumbs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from typing import Any, Final, cast

import msgspec

from clew.api import commands as commands_rows
from clew.api import queue as queue_rows
from clew.api import seats as seats_rows
from clew.api.chat import Upload
from clew.api.commands import CommandReply, RunCommand
from clew.api.queue import DropQueue
from clew.api.seats import (
    BeginSession,
    Crumb,
    LeaveSeat,
    Located,
    LocateSeat,
    SwitchSeat,
    read_wanted,
    tell_place,
)
from clew.api.sessions import SessionView
from clew.client.remote.runtime import Letter, RemoteRuntime
from clew.core.arrivals import Attached
from clew.core.breadcrumb import Breadcrumb
from clew.core.delivery import Inbound
from clew.core.keys import Place
from clew.core.placing import word_reset
from clew.core.session import Session
from clew.core.signals import Event
from clew.core.turn import Turn
from clew.errors import ClewError, InvalidInput
from clew.runtime.continuing import Continued
from clew.runtime.projects import KeyChoice
from clew.runtime.recovery import Recovered
from clew.runtime.runtime import Runtime, Ticket
from clew.runtime.seat import Ready, Reason, Seat, Switched
from clew.runtime.sitting import Sitting, sit_at_nothing

GOODBYE: Final = 5.0
"""Seconds in which a gateway has to hear that somebody leaves."""
WISHES: Final = (
    "title", "personality", "model", "thinking", "service_tier", "mode", "send_policy",
)  # fmt: skip


class RemoteSeat(Seat):
    """One terminal at one session of a gateway at a time."""

    def __init__(self, there: RemoteRuntime, models: Any, **more: Any) -> None:
        # A terminal uses no more of the runtime than what is there.
        super().__init__(cast(Runtime, there), models, holds=False, **more)
        self._there = there
        self._moves: str | None = None
        self._resets = False
        self._begun_at: tuple[str, str | None] | None = None

    def keep(self, session: SessionView) -> Session:
        """A session as a terminal knows it."""
        return self._there.store.keep(session)

    # --- talking --------------------------------------------------------------------------------

    async def say(
        self,
        text: str,
        *,
        parts: tuple[dict[str, Any], ...] = (),
        files: tuple[Attached, ...] = (),
        external_id: str | None = None,
    ) -> Ticket:
        """See `Seat`."""
        self.check_may_change()
        if parts or external_id is not None:
            raise InvalidInput("Only text and files can be said over a gateway.")
        async with self._beginning:
            session = self.session or await self.begin()
        uploads = tuple(Upload(media_type=each.media_type, data=each.data) for each in files)
        letter = Letter(text, session.id, self.person, self._attended, uploads)
        ticket = await self._there.send(letter)
        self.messages_sent += ticket.is_new
        return self._tickets.follow(ticket)

    async def adopt(self, inbound: Inbound) -> Ticket:  # noqa: ARG002  # which one is known there
        """See `Seat`: a retry takes what waits first, and this is what waits first."""
        reply, ticket = await self.order("/retry")
        if ticket is None:
            raise InvalidInput(reply.text or "The message could not be run.")
        return ticket

    async def drop(self, inbound: Inbound) -> None:
        """See `Seat`."""
        if inbound.session_id is not None:
            params = DropQueue(session=inbound.session_id, id=inbound.id)
            await self._there.client.do(queue_rows.DROP, params)

    async def _renew(self, session: Session) -> Ready:
        """See `Seat`; the gateway decides."""
        if not self._resets or self.read_only or self.is_busy or session.platform != "cli":
            return Ready(session)
        params = BeginSession(
            where=tell_place(self.place), key=self.key, previous=session.id, resets=True
        )
        made = await self._there.client.do(seats_rows.BEGIN, params)
        if made.id == session.id:
            return Ready(session)
        new = self.keep(made)
        self._at = Sitting(session=new, wanted=self._at.wanted)
        self._trail.leave(new)
        return Ready(new, is_new=True, notice=word_reset(made.reset_reason, may_resume=True))

    async def begin(self) -> Session:
        """See `Seat`."""
        wanted = self._at.wanted
        wishes: dict[str, Any] = {name: wanted.get(name) for name in WISHES}
        params = BeginSession(
            where=tell_place(self.place),
            key=self.key,
            pinned=bool(wanted.get("pinned")),
            previous=wanted.get("previous_id"),
            **wishes,
        )
        made = await self._there.client.do(seats_rows.BEGIN, params)
        session = self.keep(made)
        self._be(session=session)
        self._begun_at = (session.id, wanted.get("transcript_path"))
        self._trail.leave(session)
        return session

    def has_begun_at(self, transcript: str) -> bool:
        """See `Seat`. The file is of this machine, so the gateway is not told."""
        return self.session is not None and self._begun_at == (self.session.id, transcript)

    async def stop(self) -> bool:
        """See `Seat`; whoever has begun the turn."""
        return self.session is not None and await self._there.stop(self.session.id)

    def watch_answer(self, _session: Session) -> AbstractContextManager[AsyncIterator[Event]]:
        """See `Seat`."""
        return self._there.watch_answers()

    async def order(self, line: str) -> tuple[CommandReply, Ticket | None]:
        """Let the gateway run a command; the turn that comes of it, if one does."""
        session = self.session
        coming: asyncio.Future[Turn] | None = None
        if session is not None:
            coming = self._there.line.expect_end(session.id)
        params = RunCommand(
            line=line,
            session=None if session is None else session.id,
            key=self.key,
            where=tell_place(self.place),
            wanted=None if session is not None else read_wanted(self._at.wanted),
            read_only=self.read_only,
        )
        reply: CommandReply | None = None
        try:
            reply = await self._there.client.do(commands_rows.RUN, params)
        finally:
            if coming is not None and (reply is None or not reply.begins):
                coming.cancel()
        if reply.session is not None and session is not None:
            self._be(session=self.keep(reply.session))
        if reply.wanted is not None and session is None:
            self._be(wanted=self._at.wanted | msgspec.structs.asdict(reply.wanted))
        if not reply.begins or coming is None:
            return reply, None
        return reply, self._tickets.follow(Ticket(None, True, coming))

    # --- to another session ---------------------------------------------------------------------

    async def locate(self, place: Place, key: str | None = None) -> KeyChoice:
        """See `Seat`."""
        found = await self._locate(place, key)
        self._resets = found.resets
        session = None if found.session is None else self.keep(found.session)
        return KeyChoice(found.key, session, found.moved_from)

    async def find_continued(self, breadcrumb: Breadcrumb | None) -> Continued:
        """See `Seat`."""
        found = await self._locate(self.place, self.key, continues=True, crumb=_tell(breadcrumb))
        session = None if found.continued is None else self.keep(found.continued)
        return Continued(session, "none" if session is None else "directory", found.note)

    async def _locate(self, place: Place, key: str | None, **more: Any) -> Located:
        params = LocateSeat(where=tell_place(place), key=key, **more)
        return await self._there.client.do(seats_rows.LOCATE, params)

    async def move_here(self, session: Session) -> Session:
        """See `Seat`; done together with the switch that follows."""
        self._moves = session.id
        return session

    async def switch(
        self,
        target: Session | None,
        reason: Reason,
        *,
        read_only: bool = False,
        returns: bool = False,
    ) -> Switched:
        """See `Seat`."""
        moves, self._moves = self._moves is not None and target is not None, None
        how = {"read_only": read_only, "moves": moves, "returns": returns}
        return await self._go(self._switching(target, reason, **how))

    async def branch(self, source: Session, *, title: str | None = None) -> Switched:
        """See `Seat`."""
        return await self._go(self._switching(source, "fork", forks=True, title=title))

    def _switching(self, target: Session | None, reason: Reason, **more: Any) -> SwitchSeat:
        return SwitchSeat(
            where=tell_place(self.place),
            key=self.key,
            session=None if target is None else target.id,
            previous=None if self.session is None else self.session.id,
            reason=reason,
            **self._unfinished(),
            **more,
        )

    def _unfinished(self) -> dict[str, Any]:
        """Whether the turn that runs here is ours, and what of ours waits behind it."""
        if self.session is None or not self.is_busy:
            return {}
        waiting = tuple(each.id for each in self._there.list_queued(self.session.id))
        pending = self._tickets.list_pending()
        return {"stops": len(pending) > len(waiting), "waiting": waiting}

    async def _go(self, params: SwitchSeat) -> Switched:
        seated = await self._there.client.do(seats_rows.SWITCH, params)
        session = None if seated.session is None else self.keep(seated.session)
        if session is None:
            self._at = sit_at_nothing(self._at)
        else:
            self._at = Sitting(session=session, read_only=params.read_only, wanted=self._at.wanted)
        self._trail.leave(session, fresh=params.reason == "new")
        return Switched(
            session=session,
            previous_id=seated.previous_id,
            reason=seated.reason,
            recovered=Recovered(seated.interrupted, seated.unanswered),
            notices=seated.notices,
        )

    async def leave(self) -> None:
        """See `Seat`. A gateway that can't be reached is left all the same."""
        if self.session is not None:
            params = LeaveSeat(
                where=tell_place(self.place), session=self.session.id, **self._unfinished()
            )
            with contextlib.suppress(ClewError, TimeoutError):
                async with asyncio.timeout(GOODBYE):
                    await self._there.client.do(seats_rows.LEAVE, params)
        await self._there.close()


def _tell(crumb: Breadcrumb | None) -> Crumb | None:
    if crumb is None:
        return None
    return Crumb(cwd=crumb.cwd, session=crumb.session_id, fresh=crumb.fresh, at=max(0, crumb.at))
