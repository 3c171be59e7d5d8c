"""A seat: a surface's place at a session, from which it talks, and goes to another.

Start-up, `/resume`, `/new` and `/fork` all go through `Seat.switch`, so that they restore the same
things. A seat may have no session yet: it is made with the first message. What a switch consists of
is told in `switching`, what a new session is like in `beginning`. What the person sees of all this
is the surface's affair; which session to take is decided in `resuming`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from clew.core.arrivals import Attached
from clew.core.breadcrumb import Breadcrumb
from clew.core.delivery import Inbound, NewInbound
from clew.core.keys import Place, new_key
from clew.core.models import ModelInfo
from clew.core.placing import Judge, last_interaction, word_reset
from clew.core.queue_modes import QueueMode, read_mode
from clew.core.replies import ReplyTo
from clew.core.session import OWNER, Session, SessionEdit
from clew.core.signals import Event
from clew.core.turn import HEARTBEAT_MS
from clew.errors import ClewError, InvalidInput, SwitchRefused
from clew.ports import Models
from clew.runtime.attaching import Holds
from clew.runtime.beginning import Ready, begin_session, shape_session
from clew.runtime.commits import unbroken
from clew.runtime.continuing import Continued, find_continue
from clew.runtime.following import Tickets
from clew.runtime.intake import keep_file
from clew.runtime.journey import Journey
from clew.runtime.noting import note
from clew.runtime.projects import KeyChoice, find_cli_key, fork_here, move_here
from clew.runtime.runtime import Runtime, Ticket
from clew.runtime.sitting import Crumb, Sitting, Trail, find_model, sit_after_reset, want
from clew.runtime.switching import Reason, Switch, Switched, come_back

__all__ = ["Ready", "Reason", "Seat", "Switched"]


class Seat:
    """One surface at one session at a time."""

    def __init__(
        self,
        runtime: Runtime,
        models: Models,
        *,
        place: Place,
        key: str,
        platform: str = "cli",
        person: str = OWNER,
        terminal: str | None = None,
        holds: bool = True,
        attended: bool = True,
        defaults: dict[str, Any] | None = None,
        leave_crumb: Crumb = lambda _session, _fresh: None,
        beat_ms: int = HEARTBEAT_MS,
        reply_to: ReplyTo | None = None,
        judge: Judge | None = None,
    ) -> None:
        """`judge` tells whether a session goes on by itself; without one all do."""
        self.runtime = runtime
        self.models = models
        self.place = place
        self.key = key
        self.messages_sent = 0
        self._platform = platform
        self._person = person
        self._holds = Holds(runtime.store, terminal=terminal, holds=holds, beat_ms=beat_ms)
        self._attended = attended
        self._reply_to = reply_to
        self._judge = judge
        self._at = Sitting(wanted=dict(defaults or {}))
        self._trail = Trail(leave_crumb)
        self._beginning = asyncio.Lock()
        self._tickets = Tickets()

    @property
    def session(self) -> Session | None:
        """Where the seat is; None before the first message."""
        return self._at.session

    def be_at(self, session: Session, *, read_only: bool = False) -> None:
        """Sit at a session without having come from anywhere: for one command on a channel."""
        self._be(session=session, read_only=read_only)

    @property
    def wanted(self) -> dict[str, Any]:
        """What the next session will be like, as far as that was chosen."""
        return self._at.wanted

    @property
    def read_only(self) -> bool:
        """Whether this one only looks."""
        return self._at.read_only

    def _be(self, **changes: Any) -> None:
        self._at = msgspec.structs.replace(self._at, **changes)

    @property
    def person(self) -> str:
        """Who sits here."""
        return self._person

    @property
    def reply_to(self) -> ReplyTo | None:
        """The conversation on a channel that this seat is for; None at a terminal."""
        return self._reply_to

    # --- what the session is set to -------------------------------------------------------------

    def setting(self, name: str) -> Any:
        """A setting of the session (`model`, `mode`, …), or what the next one will have."""
        return self._at.setting(name)

    @property
    def queue_mode(self) -> QueueMode:
        """What becomes of a message that is said while a turn runs."""
        return read_mode(None if self.session is None else self.session.metadata.get("queue"))

    @property
    def model(self) -> ModelInfo:
        """The model that the next turn uses."""
        return find_model(self._at, self.models)

    async def edit(self, edit: SessionEdit) -> None:
        """A person's change, to the session or to the one that the first message makes."""
        self.check_may_change()
        if self.session is not None:
            self._be(session=await self.runtime.store.edit_session(self.session.id, edit))
        else:
            self._at = want(self._at, edit)
        if edit.model is not UNSET:
            self._be(model=None)

    async def note(self, name: str, value: object) -> None:
        """Keep something about the session that is no setting of it, beside what else is noted."""
        self.check_may_change()
        session = await self.refresh()
        if session is None:
            raise InvalidInput("There is no session yet; say something first.")
        store = self.runtime.store
        self._be(session=await note(store, session.id, lambda noted: noted | {name: value}))

    def begin_at(self, transcript: str) -> None:
        """The next new session belongs to this transcript file."""
        self._be(wanted=self._at.wanted | {"transcript_path": transcript})

    def has_begun_at(self, transcript: str) -> bool:
        """Whether the session here is the one that was begun for this transcript file."""
        return self.session is not None and self.session.transcript_path == transcript

    async def refresh(self) -> Session | None:
        """The session as it is in the store now."""
        if self.session is not None:
            self._be(session=await self.runtime.store.get_session(self.session.id))
        return self.session

    # --- talking --------------------------------------------------------------------------------

    async def say(
        self,
        text: str,
        *,
        parts: tuple[dict[str, Any], ...] = (),
        files: tuple[Attached, ...] = (),
        external_id: str | None = None,
    ) -> Ticket:
        """Give a message to the runtime; returns once it is durable. The first makes a session."""
        self.check_may_change()
        async with self._beginning:
            session = self.session or await self.begin()
        parts += tuple([await keep_file(self.runtime.store, each) for each in files])
        payload: dict[str, Any] = {"text": text}
        ticket = await self.runtime.accept(
            NewInbound(
                id=secrets.token_hex(8),
                channel=self._platform,
                external_id=external_id,
                key=self.key,
                session_id=session.id,
                person=self._person,
                payload=payload | ({"parts": list(parts)} if parts else {}),
            ),
            attended=self._attended,
            model=self._at.model,
            queue=self.queue_mode,
        )
        self.messages_sent += ticket.is_new
        return self._tickets.follow(ticket)

    async def adopt(self, inbound: Inbound) -> Ticket:
        """Run a message that a dead process left, in this session."""
        self.check_may_change()
        ticket = await self.runtime.adopt(inbound, attended=self._attended, model=self._at.model)
        return self._tickets.follow(ticket)

    async def drop(self, inbound: Inbound) -> None:
        """A message that a dead process left needs no answer."""
        await self.runtime.store.drop_inbound([inbound.id])

    def go_on(self, **how: Any) -> Ticket:
        """Another attempt at what the thread ends with; see `Runtime.go_on`."""
        self.check_may_change()
        if self.session is None:
            raise InvalidInput("There is nothing to try again yet.")
        ticket = self.runtime.go_on(
            self.session.id,
            person=self._person,
            attended=self._attended,
            model=self._at.model,
            reply_to=self._reply_to,
            **how,
        )
        return self._tickets.follow(ticket)

    @property
    def is_busy(self) -> bool:
        """Whether a turn that began here is not over yet."""
        return self._tickets.is_busy

    async def stop(self) -> bool:
        """Abort the turn that runs here."""
        return self.session is not None and await self.runtime.stop(self.session.id)

    def watch_answer(self, session: Session) -> AbstractContextManager[AsyncIterator[Event]]:
        """What happens in the session from now on; where others talk too, only what is ours."""
        return self.runtime.watch(session.id, session.head)

    async def make_ready(self) -> Ready:
        """The session for the next message: this one, unless there is none or its time is over."""
        async with self._beginning:
            session = self.session
            if session is None:
                return Ready(await self.begin(), is_new=True)
            return await self._renew(session)

    async def _renew(self, session: Session) -> Ready:
        """Begin afresh after a session whose time is over; it keeps its turn and what waits."""
        if self._judge is None or self.read_only or self.runtime.is_running(session.id):
            return Ready(session)
        session = await self.refresh() or session
        verdict = self._judge(session, self.runtime.clock())
        if verdict.fresh:
            return Ready(session)
        about = self._about(None, "new")
        asked = await self.runtime.hooks.ask("session_before_switch", about)
        if asked.cancelled:
            return Ready(session)
        before = self._at
        self._at = sit_after_reset(before, session, verdict.reason, last_interaction(session))
        try:
            new = await self.begin()
        except BaseException:
            self._at = before
            raise
        # What was chosen for this one is not for the next.
        self._at = msgspec.structs.replace(before, session=new)
        if session.pinned:
            await self.runtime.store.edit_session(session.id, SessionEdit(pinned=False))
        await self._holds.release(session)
        await self.runtime.hooks.tell("session_switch", about | {"session_id": new.id})
        return Ready(new, is_new=True, notice=word_reset(verdict.reason, may_resume=True))

    async def begin(self) -> Session:
        """The row of a new session, and this key's route to it; `say` does it if need be."""
        store = self.runtime.store
        known = await store.find_keys(self.key, limit=1)
        wanted = self._at.wanted
        new = shape_session(
            wanted,
            self.model,
            key=new_key(self.key, self.runtime.clock()) if known else self.key,
            place=self.place,
            platform=self._platform,
            person=self._person,
        )
        pinned = bool(wanted.get("pinned"))
        session = await begin_session(store, new, route=self.key, pinned=pinned)
        await self._holds.take(session)
        self._be(session=session)
        self._trail.leave(session)
        return session

    # --- to another session ---------------------------------------------------------------------

    async def locate(self, place: Place, key: str | None = None) -> KeyChoice:
        """The key of a place, and the session that it leads to."""
        return await find_cli_key(self.runtime.store, place, key)

    async def find_continued(self, breadcrumb: Breadcrumb | None) -> Continued:
        """What `--continue` goes on with here."""
        return await find_continue(self.runtime.store, self.place, breadcrumb, self.person)

    async def move_here(self, session: Session) -> Session:
        """Let a session belong to this place from now on."""
        return await move_here(self.runtime.store, session, self.place)

    async def switch(
        self,
        target: Session | None,
        reason: Reason,
        *,
        read_only: bool = False,
        returns: bool = False,
    ) -> Switched:
        """Leave this session for another one, or for a new one that the first message makes.

        `returns`: the person has named it, or goes back there: so it goes on, however old it is.
        `SwitchRefused` if a hook says no. If anything fails, the seat is where it was, and so are
        the key's route and the archive; only the turn that ran here stays aborted.
        """
        about = self._about(target, reason)
        verdict = await self.runtime.hooks.ask("session_before_switch", about)
        if verdict.cancelled:
            raise SwitchRefused(f"A hook refused the switch: {verdict.reason or 'no reason given'}")
        journey = Journey()
        try:
            switched = await self._move(target, reason, journey, read_only=read_only)
            if returns or reason == "resume":
                switched = await self._come_back(switched)
            self._trail.leave(switched.session, journey, fresh=reason == "new")
            told = await self.runtime.hooks.tell("session_switch", about)
        except BaseException:
            await unbroken(journey.turn_back())
            raise
        journey.arrive()
        return msgspec.structs.replace(switched, notices=(*switched.notices, *told))

    async def _move(
        self, target: Session | None, reason: Reason, journey: Journey, *, read_only: bool
    ) -> Switched:
        switch = Switch(
            target=target,
            reason=reason,
            read_only=read_only,
            runtime=self.runtime,
            models=self.models,
            place=self.place,
            key=self.key,
            holds=self._holds,
            tickets=self._tickets,
        )
        journey.back(partial(setattr, self, "_at", self._at))
        self._at, switched = await switch.go(self._at, journey)
        return switched

    async def _come_back(self, switched: Switched) -> Switched:
        session = switched.session
        if session is None or self._judge is None or self.read_only:
            return switched
        session = await come_back(self.runtime, session, self._judge)
        self._be(session=session)
        return msgspec.structs.replace(switched, session=session)

    async def fork(self, source: Session, *, at: int | None = None) -> Session:
        """A branch of a session, in this directory."""
        return await fork_here(self.runtime.store, source, self.place, at=at)

    async def branch(self, source: Session, *, title: str | None = None) -> Switched:
        """Switch to a branch of a session. Refused, there is none: nobody was ever there."""
        store = self.runtime.store
        branch = await self.fork(source)
        try:
            if title:
                branch = await store.edit_session(branch.id, SessionEdit(title=title))
            return await self.switch(branch, "fork")
        except BaseException:
            await store.delete_sessions([branch.id])
            await store.purge_sessions([branch.id])
            raise

    async def leave(self) -> None:
        """Get up: abort what runs here, and let the session go."""
        session = self.session
        await self._let_go(session)
        if session is not None:
            about = self._about(session, "startup") | {"reason": "exit", "previous_id": None}
            with contextlib.suppress(ClewError):
                await self.runtime.hooks.tell("session_end", about)
        self._holds.close()

    async def _let_go(self, session: Session | None) -> None:
        """Abort the turn that began here, leave what waits in the inbox, and detach."""
        if session is None:
            return
        if self.is_busy:
            await self.runtime.put_back(session.id)
            await self.runtime.stop(session.id)
        await self._holds.release(session)

    def _about(self, target: Session | None, reason: Reason) -> dict[str, Any]:
        return {
            "session_id": target.id if target else None,
            "previous_id": self.session.id if self.session else None,
            "reason": reason,
            "cwd": self.place.cwd,
            "at": self.runtime.clock(),
        }

    def check_may_change(self) -> None:
        """`InvalidInput` where the session is only looked at."""
        if self.read_only:
            raise InvalidInput(
                "This session is open read-only: nothing can be said or changed. "
                "Use /fork to go on in a branch of it."
            )
