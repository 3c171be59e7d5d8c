"""The session and parts that a slash command works with (`Desk`), and its `Reply`."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import msgspec
from msgspec import UNSET

from clew.core.channels.incoming import Incoming, Sender
from clew.core.channels.replies import ReplyTo
from clew.core.channels.routing import Arrival
from clew.core.channels.speech import without_instructions
from clew.core.commands import Issuer
from clew.core.delivery import Inbound
from clew.core.message import Draft
from clew.core.models import ModelInfo, Personality
from clew.core.rules import HeldRule
from clew.core.session import MAX_TITLE, Session, SessionEdit
from clew.core.tokens import Scopes, scopes_of
from clew.core.turn import QueueMode, read_mode
from clew.errors import InvalidInput, PersonalityNotFound
from clew.ports import Context, Memory, Models, Personalities, Recall, Store
from clew.runtime.commits import note
from clew.runtime.inbound.reception import Ticket
from clew.runtime.lane.queue import Attempt
from clew.runtime.place.begin import Surface, begin
from clew.runtime.place.switch import Switch, Switched, branching, switch
from clew.runtime.runtime import Runtime

KEPT = ("model", "provider", "personality", "thinking", "service_tier")
"""Settings that a new session copies from the one that the person leaves."""


class Desk(msgspec.Struct, kw_only=True):
    """The session that a command is about, the surface it was typed on, and the parts it uses.

    `current` is None before there is a session; then `wanted` has the settings of the next one.
    `model` overrides the session's own. `issuer` is who gives the commands, and where: `/help`
    shows the commands that they can use. `attended`: a person is there to approve tool calls.
    """

    at: Surface
    personalities: Personalities
    memory: Memory
    recall: Recall
    context: Context
    zone: tzinfo
    issuer: Issuer
    current: Session | None = None
    wanted: SessionEdit = SessionEdit()
    model_name: str | None = None
    read_only: bool = False
    attended: bool = True
    reply_to: ReplyTo | None = None
    previous_id: str | None = None
    rules: tuple[HeldRule, ...] = ()
    """The rules about tools that hold in every session."""

    @property
    def runtime(self) -> Runtime:
        """The runtime that the session runs in."""
        return self.at.runtime

    @property
    def store(self) -> Store:
        """The store, through the runtime."""
        return self.at.store

    @property
    def models(self) -> Models:
        """The models of the configuration."""
        return self.at.models

    @property
    def person(self) -> str:
        """Who gives the commands."""
        return self.at.person

    @property
    def scopes(self) -> Scopes:
        """What their turns may do."""
        given = self.issuer.scopes
        return scopes_of(self.person) if given is None else given

    @property
    def now(self) -> int:
        """Milliseconds UTC."""
        return self.runtime.clock()

    # --- the session ----------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session that a command is about; `core.commands` says which ones need one."""
        if self.current is None:
            raise InvalidInput("There is no session yet; say something first.")
        return self.current

    async def refresh(self) -> Session | None:
        """The session as it is in the store now."""
        if self.current is not None:
            self.current = await self.store.get_session(self.current.id)
        return self.current

    def check_may_change(self) -> None:
        """Raise `InvalidInput` if the session is read-only here."""
        if self.read_only:
            raise InvalidInput(
                "This session is open read-only: nothing can be said or changed. "
                "Use /fork to go on in a branch of it."
            )

    # --- what it is set to ----------------------------------------------------------------------

    def setting(self, name: str) -> Any:
        """A setting of the session (`model`, `mode`, …), or what the next one will have."""
        if self.current is not None:
            return getattr(self.current, name)
        wanted = getattr(self.wanted, name)
        return None if wanted is UNSET else wanted

    @property
    def queue_mode(self) -> QueueMode:
        """The queue mode: what happens to a message that is sent while a turn runs."""
        return read_mode(None if self.current is None else self.current.metadata.get("queue"))

    @property
    def model(self) -> ModelInfo:
        """The model that the next turn uses."""
        return self.at.find_model(
            self.model_name or self.setting("model") or self.personality.model
        )

    @property
    def personality(self) -> Personality:
        """The personality of the next turn: the session's, or the default if that is gone."""
        if self.current is not None:
            return self.personalities.choose_personality(self.current)
        try:
            return self.personalities.get_personality(self.setting("personality"))
        except PersonalityNotFound:
            return self.personalities.get_personality()

    async def edit(self, edit: SessionEdit) -> None:
        """Apply a person's change to the session, or to the one that will be made."""
        self.check_may_change()
        if self.current is not None:
            self.current = await self.store.edit_session(self.current.id, edit)
        else:
            _check_title(edit)
            given = {k: v for k, v in msgspec.structs.asdict(edit).items() if v is not UNSET}
            self.wanted = msgspec.structs.replace(self.wanted, **given)
        if edit.model is not UNSET:
            self.model_name = None

    async def note(self, name: str, value: object) -> None:
        """Set a value in the metadata of the session; the other values stay."""
        self.check_may_change()
        session = self.session
        self.current = await note(self.store, session.id, lambda noted: noted | {name: value})

    # --- turns ----------------------------------------------------------------------------------

    async def say(self, text: str) -> Ticket:
        """Give a message to the runtime; the first one makes a session."""
        self.check_may_change()
        if self.current is None:
            self.current = await begin(self.at, self.wanted, previous_id=self.previous_id)
        message = Incoming(
            arrival=Arrival(channel=self.at.platform),
            sender=Sender(self.person),
            text=text,
            session=self.current.id,
            key=self.at.key,
            person=self.person,
            scopes=self.issuer.scopes,
            attended=self.attended,
        )
        return await self.runtime.accept(message, queue=self.queue_mode, model=self.model_name)

    async def adopt(self, inbound: Inbound) -> Ticket:
        """Run a message of this session that a dead process left."""
        self.check_may_change()
        return await self.runtime.take_up(inbound, attended=self.attended, model=self.model_name)

    def retry(self, *, drafts: tuple[Draft, ...] = (), undo: tuple[str, ...] = ()) -> Ticket:
        """Make another attempt at the last turn of the thread; see `Attempt`."""
        self.check_may_change()
        attempt = Attempt(
            person=self.person,
            scopes=self.scopes,
            # The program whose instructions came with it does not ask now.
            drafts=tuple(map(without_instructions, drafts)),
            undo=undo,
            attended=self.attended,
            model=self.model_name,
            reply_to=self.reply_to,
        )
        return self.runtime.retry(self.session.id, attempt)

    # --- to another session ---------------------------------------------------------------------

    async def begin_anew(self) -> Switched:
        """Leave the session for a new one, which the next message makes."""
        switched = await switch(self.at, self._switch(None))
        kept = {name: self.setting(name) for name in KEPT}
        if self.model_name is not None:
            kept |= {"model": self.model.name, "provider": self.model.provider}
        if self.current is not None:
            self.previous_id = self.current.id
        self.wanted = SessionEdit(**kept, send_policy=self.wanted.send_policy)
        self.current = None
        return switched

    async def branch_off(self, title: str | None) -> Switched:
        """Leave the session for a branch of it."""
        async with branching(self.at, self._switch(self.session), title=title) as switched:
            pass
        self.current, self.read_only = switched.session, False
        self.model_name = switched.replacement
        return switched

    def _switch(self, target: Session | None) -> Switch:
        return Switch(
            target=target,
            reason="new" if target is None else "fork",
            previous=self.current,
            model=self.model.name,
        )


def _check_title(edit: SessionEdit) -> None:
    """Check a title as the store does, before the session has a row."""
    title = edit.title
    if isinstance(title, str) and len(title.strip()) > MAX_TITLE:
        raise InvalidInput(f"A title can have {MAX_TITLE} characters; this has {len(title)}.")


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a command's answer, and what else the surface must do.

    `ticket`: follow this turn. `switched`: show the new session. `pick`: let the person choose one
    of these, or of all if it is empty. `open`: `/resume` found this session; switch to it, after
    asking if it belongs to another project.
    """

    text: str = ""
    is_error: bool = False
    ticket: Ticket | None = None
    switched: Switched | None = None
    pick: tuple[Session, ...] | None = None
    open: Session | None = None
