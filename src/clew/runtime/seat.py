"""A seat: a surface's place at a session, and the one way from there to another.

Start-up, `/resume`, `/new` and `/fork` all go through `Seat.switch`, so that they restore the same
things. A seat may have no session yet: it is made with the first message. What the person sees of
all this is the surface's affair; which session to take is decided in `resuming`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from clew.core.breadcrumb import Breadcrumb
from clew.core.delivery import Inbound, NewInbound
from clew.core.keys import Place, new_key
from clew.core.models import ModelInfo
from clew.core.replies import ReplyTo
from clew.core.session import MAX_TITLE, OWNER, NewSession, Session, SessionEdit, SessionFacts
from clew.core.signals import Event
from clew.core.turn import HEARTBEAT_MS, Attachment
from clew.errors import ClewError, InvalidInput, ModelNotFound, SwitchRefused
from clew.ports import Models
from clew.runtime.attaching import Holds
from clew.runtime.commits import unbroken
from clew.runtime.continuing import Continued, find_continue
from clew.runtime.journey import Journey, clear_way, make_current
from clew.runtime.projects import KeyChoice, find_cli_key, fork_here, move_here
from clew.runtime.queueing import QueueMode, read_mode
from clew.runtime.recovery import Recovered, recover
from clew.runtime.runtime import Runtime, Ticket
from clew.runtime.sitting import Crumb, Sitting, Trail, sit_at, sit_at_nothing

Reason = Literal["startup", "resume", "new", "fork"]


class Switched(msgspec.Struct, frozen=True, kw_only=True):
    """Where the seat is now, and what there is to say about it."""

    session: Session | None
    previous_id: str | None
    reason: Reason
    taken_over: Attachment | None = None
    recovered: Recovered = Recovered()
    notices: tuple[str, ...] = ()


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
    ) -> None:
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
        self._at = Sitting(wanted=dict(defaults or {}))
        self._trail = Trail(leave_crumb)
        self._beginning = asyncio.Lock()
        self._tickets: list[Ticket] = []

    @property
    def session(self) -> Session | None:
        """Where the seat is; None before the first message."""
        return self._at.session

    def be_at(self, session: Session) -> None:
        """Sit at a session without having come from anywhere: for one command on a channel."""
        self._be(session=session)

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
        if self._at.model is not None:
            return self.models.get_model(self._at.model)
        try:
            return self.models.get_model(self.setting("model"))
        except ModelNotFound:
            return self.models.get_model()

    async def edit(self, edit: SessionEdit) -> None:
        """A person's change, to the session or to the one that the first message makes."""
        self._refuse_if_read_only()
        if self.session is not None:
            self._be(session=await self.runtime.store.edit_session(self.session.id, edit))
        else:
            check_title(edit.title)
            given = msgspec.structs.asdict(edit)
            wanted = self._at.wanted | {k: v for k, v in given.items() if v is not UNSET}
            self._be(wanted=wanted | {"title_by": "user" if wanted.get("title") else None})
        if edit.model is not UNSET:
            self._be(model=None)

    async def note(self, name: str, value: object) -> None:
        """Keep something about the session that is no setting of it, beside what else is noted."""
        self._refuse_if_read_only()
        session = await self.refresh()
        if session is None:
            raise InvalidInput("There is no session yet; say something first.")
        facts = SessionFacts(metadata=session.metadata | {name: value})
        self._be(session=await self.runtime.store.describe_session(session.id, facts))

    def begin_at(self, transcript: str) -> None:
        """The next new session belongs to this transcript file."""
        self._be(wanted=self._at.wanted | {"transcript_path": transcript})

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
        external_id: str | None = None,
    ) -> Ticket:
        """Give a message to the runtime; returns once it is durable. The first makes a session."""
        self._refuse_if_read_only()
        async with self._beginning:
            session = self.session or await self.begin()
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
        return self._follow(ticket)

    async def adopt(self, inbound: Inbound) -> Ticket:
        """Run a message that a dead process left, in this session."""
        self._refuse_if_read_only()
        ticket = await self.runtime.adopt(inbound, attended=self._attended, model=self._at.model)
        return self._follow(ticket)

    async def drop(self, inbound: Inbound) -> None:
        """A message that a dead process left needs no answer."""
        await self.runtime.store.drop_inbound([inbound.id])

    def go_on(self, **how: Any) -> Ticket:
        """Another attempt at what the thread ends with; see `Runtime.go_on`."""
        self._refuse_if_read_only()
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
        return self._follow(ticket)

    def _follow(self, ticket: Ticket) -> Ticket:
        self._tickets = [each for each in self._tickets if not each.turn.done()]
        self._tickets.append(ticket)
        return ticket

    @property
    def is_busy(self) -> bool:
        """Whether a turn that began here is not over yet."""
        return any(not each.turn.done() for each in self._tickets)

    async def stop(self) -> bool:
        """Abort the turn that runs here."""
        return self.session is not None and await self.runtime.stop(self.session.id)

    def watch_answer(self, session: Session) -> AbstractContextManager[AsyncIterator[Event]]:
        """What happens in the session from now on; where others talk too, only what is ours."""
        return self.runtime.watch(session.id, session.head)

    async def begin(self) -> Session:
        """The row of a new session, and this key's route to it; `say` does it if need be."""
        store = self.runtime.store
        known = await store.find_keys(self.key, limit=1)
        model, wanted = self.model, self._at.wanted
        chosen = {name: value for name, value in wanted.items() if name in _SETTABLE}
        session = await store.create_session(
            NewSession(
                key=new_key(self.key, self.runtime.clock()) if known else self.key,
                platform=self._platform,
                person=self._person,
                cwd=self.place.cwd,
                project=self.place.project,
                previous_id=wanted.get("previous_id"),
                transcript_path=wanted.get("transcript_path"),
                metadata={"directory": self.place.facts},
                **(chosen | {"model": model.name, "provider": model.provider}),
            ),
            route=self.key,
        )
        if wanted.get("pinned"):
            session = await store.edit_session(session.id, SessionEdit(pinned=True))
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
        self, target: Session | None, reason: Reason, *, read_only: bool = False
    ) -> Switched:
        """Leave this session for another one, or for a new one that the first message makes.

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
        """From the one to the other: attach that, get up from this, and sit down there."""
        before, previous, current, store = self._at, self.session, self.model, self.runtime.store
        journey.back(partial(setattr, self, "_at", before))
        dead, recovered = None, Recovered()
        notices: tuple[str, ...] = ()
        if target is not None:
            target = await store.get_session(target.id)
        if target is not None and not read_only:
            if not self._holds.has(target):
                journey.back(partial(self._holds.release, target))
            dead = await self._holds.take(target)
            recovered = await recover(store, target.id)
        if previous is not None:
            again = target is not None and target.id == previous.id
            await self._get_up(previous, journey, again=again, read_only=read_only)
        if target is None:
            if reason == "new":
                await clear_way(store, self.key, journey)
            self._at = sit_at_nothing(before)
        else:
            if not read_only:
                target = await make_current(store, target, self.key, self.place, journey)
            self._at, notices = sit_at(before, target, self.models, current, read_only=read_only)
        return Switched(
            session=self.session,
            previous_id=previous.id if previous else None,
            reason=reason,
            taken_over=dead,
            recovered=recovered,
            notices=notices,
        )

    async def _get_up(
        self, previous: Session, journey: Journey, *, again: bool, read_only: bool
    ) -> None:
        """Abort the turn that began here, keep what waits from beginning, and detach.

        Reloading the own session disturbs nothing; it is only let go, if it is to be looked at.
        """
        if self.is_busy and not again:
            journey.back(partial(self.runtime.let_go_on, previous.id))
            journey.onward(partial(self.runtime.let_go_on, previous.id, without_queue=True))
            await self.runtime.hold_back(previous.id)
            await self.runtime.stop(previous.id)
        if self._holds.has(previous) and (read_only or not again):
            journey.back(partial(self._holds.take, previous))
            await self._holds.release(previous)

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

    def _refuse_if_read_only(self) -> None:
        if self.read_only:
            raise InvalidInput(
                "This session is open read-only: nothing can be said or changed. "
                "Use /fork to go on in a branch of it."
            )


def check_title(title: str | UnsetType | None) -> None:
    """What the store would say, before there is a row to say it about."""
    if isinstance(title, str) and len(title.strip()) > MAX_TITLE:
        raise InvalidInput(f"A title can have {MAX_TITLE} characters; this has {len(title)}.")


_SETTABLE = (
    "title", "title_by", "personality", "thinking", "service_tier", "mode", "send_policy",
)  # fmt: skip
