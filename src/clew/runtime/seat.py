"""A seat: a surface's place at a session, and the one way from there to another.

Start-up, `/resume`, `/new` and `/fork` all go through `Seat.switch`, so that they restore the same
things. A seat may have no session yet: it is made with the first message. What the person sees of
all this is the surface's affair; which session to take is decided in `resuming`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from clew.core.delivery import Inbound, NewInbound
from clew.core.keys import Place, new_key
from clew.core.models import ModelInfo
from clew.core.session import MAX_TITLE, OWNER, NewSession, Session, SessionEdit, SessionFacts
from clew.core.turn import HEARTBEAT_MS, Attachment
from clew.errors import ClewError, InvalidInput, ModelNotFound, SwitchRefused
from clew.ports import Models
from clew.runtime.projects import fork_here
from clew.runtime.recovery import Recovered, recover
from clew.runtime.runtime import Runtime, Ticket

Reason = Literal["startup", "resume", "new", "fork"]
Crumb = Callable[[str | None, bool], None]
"""Remember where this terminal was: the session, and whether `/new` was the last act."""


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
    ) -> None:
        self.runtime = runtime
        self.models = models
        self.place = place
        self.key = key
        self.session: Session | None = None
        self.read_only = False
        self.messages_sent = 0
        self._platform = platform
        self._person = person
        self._terminal = terminal
        self._holds = holds
        self._attended = attended
        self._wanted: dict[str, Any] = dict(defaults or {})
        self._leave_crumb = leave_crumb
        self._model: str | None = None
        self._beat_ms = beat_ms
        self._beating: asyncio.Task[None] | None = None
        self._held: set[str] = set()
        self._beginning = asyncio.Lock()
        self._tickets: list[Ticket] = []

    @property
    def person(self) -> str:
        """Who sits here."""
        return self._person

    # --- what the session is set to -------------------------------------------------------------

    def setting(self, name: str) -> Any:
        """A setting of the session (`model`, `mode`, …), or what the next one will have."""
        if self.session is not None:
            return getattr(self.session, name)
        return self._wanted.get(name)

    @property
    def model(self) -> ModelInfo:
        """The model that the next turn uses."""
        if self._model is not None:
            return self.models.get_model(self._model)
        try:
            return self.models.get_model(self.setting("model"))
        except ModelNotFound:
            return self.models.get_model()

    async def edit(self, edit: SessionEdit) -> None:
        """A person's change, to the session or to the one that the first message makes."""
        self._refuse_if_read_only()
        if self.session is not None:
            store = self.runtime.store
            self.session = await store.edit_session(self.session.id, edit)
        else:
            check_title(edit.title)
            given = msgspec.structs.asdict(edit)
            self._wanted |= {name: value for name, value in given.items() if value is not UNSET}
            self._wanted["title_by"] = "user" if self._wanted.get("title") else None
        if edit.model is not UNSET:
            self._model = None

    async def note(self, name: str, value: object) -> None:
        """Keep something about the session that is no setting of it, beside what else is noted."""
        self._refuse_if_read_only()
        session = await self.refresh()
        if session is None:
            raise InvalidInput("There is no session yet; say something first.")
        self.session = await self.runtime.store.describe_session(
            session.id, SessionFacts(metadata=session.metadata | {name: value})
        )

    def begin_at(self, transcript: str) -> None:
        """The next new session belongs to this transcript file."""
        self._wanted["transcript_path"] = transcript

    async def refresh(self) -> Session | None:
        """The session as it is in the store now."""
        if self.session is not None:
            self.session = await self.runtime.store.get_session(self.session.id)
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
            model=self._model,
        )
        self.messages_sent += ticket.is_new
        return self._follow(ticket)

    async def adopt(self, inbound: Inbound) -> Ticket:
        """Run a message that a dead process left, in this session."""
        self._refuse_if_read_only()
        ticket = await self.runtime.adopt(inbound, attended=self._attended, model=self._model)
        return self._follow(ticket)

    def go_on(self, **how: Any) -> Ticket:
        """Another attempt at what the thread ends with; see `Runtime.go_on`."""
        self._refuse_if_read_only()
        if self.session is None:
            raise InvalidInput("There is nothing to try again yet.")
        ticket = self.runtime.go_on(
            self.session.id,
            person=self._person,
            attended=self._attended,
            model=self._model,
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

    async def begin(self) -> Session:
        """The row of a new session, and this key's route to it; `say` does it if need be."""
        store = self.runtime.store
        known = await store.find_keys(self.key, limit=1)
        model = self.model
        wanted = {name: value for name, value in self._wanted.items() if name in _SETTABLE}
        session = await store.create_session(
            NewSession(
                key=new_key(self.key, self.runtime.clock()) if known else self.key,
                platform=self._platform,
                person=self._person,
                cwd=self.place.cwd,
                project=self.place.project,
                previous_id=self._wanted.get("previous_id"),
                transcript_path=self._wanted.get("transcript_path"),
                metadata={"directory": self.place.facts},
                **(wanted | {"model": model.name, "provider": model.provider}),
            ),
            route=self.key,
        )
        if self._wanted.get("pinned"):
            session = await store.edit_session(session.id, SessionEdit(pinned=True))
        await self._hold(session)
        self.session = session
        self._leave_crumb(session.id, False)
        return session

    # --- to another session ---------------------------------------------------------------------

    async def switch(
        self, target: Session | None, reason: Reason, *, read_only: bool = False
    ) -> Switched:
        """Leave this session for another one, or for a new one that the first message makes.

        `SwitchRefused` if a hook says no. If anything fails, the seat is where it was.
        """
        previous, model = self.session, self._model
        about = self._about(target, reason)
        verdict = await self.runtime.hooks.ask("session_before_switch", about)
        if verdict.cancelled:
            raise SwitchRefused(f"A hook refused the switch: {verdict.reason or 'no reason given'}")
        again = target is not None and previous is not None and target.id == previous.id
        had = target is not None and target.id in self._held
        dead, recovered = None, Recovered()
        if target is not None and not read_only:
            dead = await self._hold(target)
        try:
            if target is not None and not read_only:
                recovered = await recover(self.runtime.store, target.id)
            notices = await self._restore(target, reason, read_only=read_only)
            if not again:
                await self._let_go(previous)
        except BaseException:
            self.session, self._model = previous, model
            if target is not None and not had:
                await self._release(target)
            raise
        if target is not None and read_only:
            await self._release(target)
        self.read_only = read_only
        self._leave_crumb(self.session.id if self.session else None, reason == "new")
        told = await self.runtime.hooks.tell("session_switch", about)
        return Switched(
            session=self.session,
            previous_id=previous.id if previous else None,
            reason=reason,
            taken_over=dead,
            recovered=recovered,
            notices=(*notices, *told),
        )

    async def _restore(
        self, target: Session | None, reason: Reason, *, read_only: bool
    ) -> tuple[str, ...]:
        """Sit down at the target: its settings, and this directory's way to it."""
        store, current = self.runtime.store, self.model
        if target is None:
            previous = self.session
            keep = ("model", "provider", "personality", "thinking", "service_tier")
            if previous is not None:
                self._wanted |= {name: getattr(previous, name) for name in keep}
                self._wanted |= {"previous_id": previous.id}
            self._wanted |= {"title": None, "mode": None, "pinned": None, "transcript_path": None}
            if reason == "new":
                await store.clear_route(self.key)
            self.session = None
            return ()
        session = await store.get_session(target.id)
        if not read_only and session.archived_at is not None:
            session = await store.edit_session(session.id, SessionEdit(archived=False))
        if not read_only and session.platform == "cli" and self.place.is_home_of(session):
            await store.set_route(self.key, session.id)
        self.session, self._model = session, None
        if session.model is None:
            return ()
        try:
            self.models.get_model(session.model)
        except ModelNotFound:
            self._model = current.name
            return (
                f"The model {session.model} is no longer configured; going on with {current.name}.",
            )
        return ()

    async def fork(self, source: Session, *, at: int | None = None) -> Session:
        """A branch of a session, in this directory."""
        return await fork_here(self.runtime.store, source, self.place, at=at)

    async def leave(self) -> None:
        """Get up: abort what runs here, and let the session go."""
        session = self.session
        await self._let_go(session)
        if session is not None:
            about = self._about(session, "startup") | {"reason": "exit", "previous_id": None}
            with contextlib.suppress(ClewError):
                await self.runtime.hooks.tell("session_end", about)
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None

    # --- holding --------------------------------------------------------------------------------

    async def _hold(self, session: Session) -> Attachment | None:
        """Attach; returns the dead holder that was in the way, if any."""
        if not self._holds:
            return None
        _, dead = await self.runtime.store.attach(session.id, terminal=self._terminal)
        self._held.add(session.id)
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat(), name="heartbeat")
        return dead

    async def _let_go(self, session: Session | None) -> None:
        """Abort the turn that began here, leave what waits in the inbox, and detach."""
        if session is None:
            return
        if self.is_busy:
            await self.runtime.put_back(session.id)
            await self.runtime.stop(session.id)
        await self._release(session)

    async def _release(self, session: Session) -> None:
        if session.id in self._held:
            await self.runtime.store.detach(session.id)
            self._held.discard(session.id)

    async def _beat(self) -> None:
        """Tell other hosts that this terminal is alive."""
        while True:
            await asyncio.sleep(self._beat_ms / 1000)
            with contextlib.suppress(ClewError):
                await self.runtime.store.beat()

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


_SETTABLE = ("title", "title_by", "personality", "thinking", "service_tier", "mode")
