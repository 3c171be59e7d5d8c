"""A terminal's seat: where it is, at which session, and what the next session will be like.

The state is this terminal's own; what is decided about sessions is decided by the operations behind
the client, in this process or at a gateway. Start-up, `/resume`, `/new` and `/fork` all go through
`switch`. A seat may have no session yet: the first message makes one.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any, Final

import msgspec

from clew.api.chat import Upload
from clew.api.commands import CommandReply
from clew.api.seats import Located, Reason, Seated, TerminalBreadcrumb, Wanted
from clew.api.sessions import SessionView
from clew.client.chat import Sending
from clew.client.client import Client
from clew.client.seats import tell_place
from clew.clock import host_clock
from clew.core.channels.replies import Attached
from clew.core.channels.session_choice import word_reset
from clew.core.delivery import Inbound
from clew.core.keys import Place
from clew.core.models import ModelInfo, Personality
from clew.core.resume import Breadcrumb
from clew.core.session import OWNER, Session
from clew.core.turn import Approval, ApprovalScope, Decision, QueueMode, read_mode
from clew.errors import (
    GatewayUnavailable,
    InvalidInput,
    ModelNotFound,
    TooManyRequests,
    Unauthorized,
)
from clew.terminal.live import LiveEvents, Sent

GOODBYE: Final = 5.0
"""Seconds to tell a gateway that the terminal leaves."""

KEPT: Final = ("model", "personality", "thinking", "service_tier")
"""What a new session takes over from the one that the person comes from."""

WriteCrumb = Callable[[str | None, bool], None]
"""Remember where this terminal was: the session, and whether `/new` was the last act."""


class Ready(msgspec.Struct, frozen=True):
    """The session that the next message goes to, whether it has just begun, and what to say."""

    session: SessionView
    is_new: bool = False
    notice: str | None = None
    """Why it is a new one, after another that ended."""
    beside: str | None = None
    """That another terminal began a session here first."""


class Seat:
    """One terminal at one session at a time."""

    def __init__(
        self,
        client: Client,
        live: LiveEvents,
        *,
        place: Place,
        key: str = "",
        wanted: Wanted | None = None,
        attended: bool = True,
        asks: bool = False,
        now: Callable[[], int] = host_clock,
        zone: Callable[[int], tzinfo] = lambda _at: UTC,
        write_crumb: WriteCrumb = lambda _session, _fresh: None,
    ) -> None:
        self.client = client
        self.live = live
        self.place = place
        self.key = key
        self.now = now
        self.zone = zone
        """The person's time zone at a moment."""
        self.person = OWNER  # only the owner has terminals
        self.session: SessionView | None = None
        self.read_only = False
        self.wanted = wanted or Wanted()
        self.messages_sent = 0
        self.model = ModelInfo(name="", provider="")
        """The model that the next turn uses."""
        self._replacement: str | None = None
        """Used where the session's own model is not configured any more."""
        self._models: tuple[ModelInfo, ...] | None = None
        self._personalities: tuple[Personality, ...] | None = None
        self._previous_id: str | None = None
        self._transcript: str | None = None
        self._begun_at: tuple[str, str | None] | None = None
        self._remembers_transcript = True
        self._attended = attended
        self._asks = asks
        """Whether it asks a single question, so that no key leads to its session."""
        self._resets = False
        self._is_free = False
        """Whether the key led to no session when it was located."""
        self._has_left = False
        self.write_crumb = write_crumb
        self._beginning = asyncio.Lock()

    # --- what the session is set to -------------------------------------------------------------

    def setting(self, name: str) -> Any:
        """A setting of the session (`title`, `mode`, …), or what the next one will have."""
        return getattr(self.wanted if self.session is None else self.session, name)

    @property
    def queue_mode(self) -> QueueMode:
        """What becomes of a message that is sent while a turn runs."""
        return read_mode(None if self.session is None else self.session.metadata.get("queue"))

    @property
    def is_verbose(self) -> bool:
        """Whether tool calls are shown in full."""
        return self.session is not None and bool(self.session.metadata.get("verbose"))

    async def take(self, session: SessionView | None) -> None:
        """Take in how the session is now; the same one, as somebody has read it."""
        if session is not None and self.session is not None and session.id == self.session.id:
            self.session = session
            await self._find_model()

    async def refresh(self) -> SessionView | None:
        """The session as it is now."""
        if self.session is not None:
            found = await self.client.sessions.get(self.session.id, messages=0)
            await self.take(found.session)
        return self.session

    async def _find_model(self) -> None:
        """What is known of the model that answers next; the default where it is not configured."""
        wanted = self._replacement or self.setting("model")
        if self.model.name and self.model.name == wanted:
            return
        try:
            self.model = await self.client.models.get(wanted)
        except ModelNotFound:
            self.model = await self.client.models.get()

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """The models that can be named there; asked for once."""
        if self._models is None:
            self._models = (await self.client.models.list()).models
        return self._models

    async def list_personalities(self) -> tuple[Personality, ...]:
        """The personalities of the agent there; asked for once."""
        if self._personalities is None:
            self._personalities = await self.client.personalities.list()
        return self._personalities

    def begin_at(self, transcript: str, *, remembers: bool) -> None:
        """The next new session belongs to this transcript file.

        `remembers`: the file is of the machine that keeps the sessions, so that the session knows.
        """
        self._transcript, self._remembers_transcript = transcript, remembers

    def has_begun_at(self, transcript: str) -> bool:
        """Whether the session here is the one that was begun for this transcript file."""
        return self.session is not None and self._begun_at == (self.session.id, transcript)

    def check_may_change(self) -> None:
        """`InvalidInput` where the session is only looked at."""
        if self.read_only:
            raise InvalidInput(
                "This session is open read-only: nothing can be said or changed. "
                "Use /fork to go on in a branch of it."
            )

    # --- talking --------------------------------------------------------------------------------

    async def make_ready(self) -> Ready:
        """The session for the next message: this one, unless there is none or its time is over."""
        self.check_may_change()
        async with self._beginning:
            if self.session is None:
                return await self._begin()
            return await self._renew(self.session)

    async def _begin(self) -> Ready:
        yields = (
            self._is_free
            and not self._asks
            and self._previous_id is None
            and self._transcript is None
        )
        session = await self.client.seats.begin(
            tell_place(self.place),
            self.key,
            **msgspec.structs.asdict(self.wanted),
            previous=self._previous_id,
            transcript_path=self._transcript if self._remembers_transcript else None,
            yields=yields,
            asks=self._asks,
        )
        self._begun_at = (session.id, self._transcript)
        await self._sit_at(session)
        beside = await self._find_first(session) if yields else None
        return Ready(session, is_new=True, beside=beside)

    async def _find_first(self, session: SessionView) -> str | None:
        """What to say if another terminal began the directory's session before this one."""
        first = (await self.locate(self.place, self.key)).session
        if first is None or first.id == session.id:
            return None
        return (
            f"Another terminal began a session here first (`clew -r {first.short_id}`), and "
            f"{self.key} leads there. Yours is a session of its own."
        )

    async def _renew(self, session: SessionView) -> Ready:
        """Begin afresh after a session whose time is over, if the rules say so there."""
        if not self._resets or session.platform != "cli" or self.live.is_busy:
            return Ready(session)
        begun = await self.client.seats.begin(
            tell_place(self.place), self.key, previous=session.id, resets=True
        )
        if begun.id == session.id:
            return Ready(session)
        self._replacement = None
        await self._sit_at(begun)
        return Ready(begun, is_new=True, notice=word_reset(begun.reset_reason, may_resume=True))

    async def _sit_at(self, session: SessionView) -> None:
        self.session = session
        self.write_crumb(session.id, False)
        await self._find_model()
        await self.live.follow(session, is_new=True)

    def prepare(
        self, text: str, *, files: tuple[Attached, ...] = (), instructions: str | None = None
    ) -> Sending:
        """A message to the session, not sent yet. `make_ready` comes before."""
        self.check_may_change()
        if self.session is None:
            raise InvalidInput("There is no session yet.")
        return self.client.chat.send(
            text,
            session=self.session.id,
            attachments=tuple(Upload(media_type=f.media_type, data=f.data) for f in files),
            idempotency_key=secrets.token_hex(16),
            attended=self._attended,
            model=self._replacement,
            instructions=instructions,
            platform="cli",
        )

    async def say(self, text: str, *, files: tuple[Attached, ...] = ()) -> Sent:
        """Send a message to the session; returns once it is kept. `make_ready` comes before."""
        sending = self.prepare(text, files=files)
        with self.live.sending():
            try:
                accepted = await sending.persist()
            except Unauthorized as error:
                self.live.refuse(error)
                raise
            self.messages_sent += accepted.is_new
            return self.live.expect(Sent(accepted.session, accepted.inbound, text))

    async def run_waiting(self, inbound: Inbound) -> Sent:
        """Run a message that a dead process left in the inbox of this session."""
        self.check_may_change()
        with self.live.sending():
            accepted = await self.client.queue.run(
                inbound.id, attended=self._attended, model=self._replacement
            )
            text = str(inbound.payload.get("text", ""))
            return self.live.expect(Sent(accepted.session, accepted.inbound, text))

    async def drop_waiting(self, inbound: Inbound) -> None:
        """A message that a dead process left needs no answer."""
        if inbound.session_id is not None:
            await self.client.queue.drop(inbound.session_id, inbound.id)

    async def run_command(self, line: str) -> tuple[CommandReply, Sent | None]:
        """Run a command where the session is; the turn that comes of it, if one does."""
        session, sent = self.session, None
        with self.live.sending():
            reply = await self.client.commands.run(
                line,
                session=None if session is None else session.id,
                key=self.key,
                where=tell_place(self.place),
                wanted=self.wanted,
                read_only=self.read_only,
                attended=self._attended,
                model=self._replacement,
            )
            if reply.begins and session is not None:
                sent = self.live.expect(Sent(session.id, reply.answers))
        if session is None and reply.wanted is not None:
            self.wanted = reply.wanted
        elif reply.session is not None and reply.session.model != self.setting("model"):
            self._replacement = None  # the person has chosen another one
        await self.take(reply.session)
        await self._find_model()
        return reply, sent

    async def choose(self, *, model: str | None = None, personality: str | None = None) -> None:
        """Let the session, or the next one, have these from now on, as the commands do."""
        for name, wanted in (("model", model), ("personality", personality)):
            if wanted is not None and self.setting(name) != wanted:
                self.check_may_change()
                reply, _ = await self.run_command(f"/{name} {wanted}")
                if reply.is_error:
                    raise InvalidInput(reply.text)

    async def answer(
        self,
        approval: Approval,
        decision: Decision,
        scope: ApprovalScope = "once",
        reason: str | None = None,
    ) -> Approval | None:
        """Answer a question of a tool; what was answered before, if somebody was quicker.

        With `always`, the surface has shown the rule and asked once more.
        """
        rule = approval.request.get("rule") if scope == "always" else None
        decided = await self.client.approvals.decide(
            approval.id, decision, scope=scope, reason=reason, rule=rule
        )
        # A gateway adds to the name with which token it was said.
        by = (decided.decided_by or "").partition(":")[0]
        return None if (by, decided.decision) == (self.person, decision) else decided

    async def stop(self) -> tuple[bool, tuple[Sent, ...]]:
        """Abort the turn that runs in the session, and take back what waits behind it from here.

        Returns whether a turn was aborted, and the messages. A gateway that can't be reached stops
        nothing.
        """
        waiting = self.live.list_waiting()
        if self.session is None or self.read_only:
            return False, ()
        try:
            stopped = await self.client.sessions.stop(
                self.session.id,
                only=tuple(each.id for each in waiting if each.id is not None),
                anywhere=False,
            )
        except (GatewayUnavailable, TooManyRequests):
            return False, ()
        taken = tuple(each for each in waiting if each.id in stopped.dropped)
        for each in taken:
            self.live.forget(each)
        return stopped.stopped, taken

    # --- to another session ---------------------------------------------------------------------

    async def locate(self, place: Place, key: str | None = None) -> Located:
        """The key of a place, and the session that it leads to."""
        found = await self.client.seats.locate(tell_place(place), key=key)
        self._resets = found.resets
        self._is_free = found.session is None
        return found

    async def allow_directory(self, allows: bool) -> None:
        """Keep the person's answer, whether the agent may work in this directory."""
        await self.client.seats.locate(tell_place(self.place), key=self.key, allows=allows)

    async def find_continued(self, breadcrumb: Breadcrumb | None) -> Located:
        """What `--continue` goes on with here."""
        crumb = None
        if breadcrumb is not None:
            crumb = TerminalBreadcrumb(
                cwd=breadcrumb.cwd,
                session=breadcrumb.session_id,
                fresh=breadcrumb.fresh,
                at=max(0, breadcrumb.at),
            )
        where = tell_place(self.place)
        return await self.client.seats.locate(
            where, key=self.key, continues=True, crumb=crumb, asks=self._asks
        )

    async def switch(
        self,
        target: Session | None,
        reason: Reason,
        *,
        read_only: bool = False,
        returns: bool = False,
        moves: bool = False,
        forks: bool = False,
        title: str | None = None,
    ) -> Seated:
        """Leave this session for another one, or for a new one that the first message makes.

        `forks`: to a branch of it. `moves`: it belongs to this place from now on. `returns`: the
        person has named it, so it goes on, however old it is. Where it fails, the seat is where it
        was, and so is everything else; only a turn that ran here may stay aborted.
        """
        previous = self.session
        seated = await self.client.seats.switch(
            tell_place(self.place),
            self.key,
            session=None if target is None else target.id,
            previous=None if previous is None else previous.id,
            reason=reason,
            read_only=read_only,
            returns=returns,
            moves=moves,
            forks=forks,
            title=title,
            asks=self._asks,
            model=self.model.name or None,
            **self._unfinished(),
        )
        # Nothing is awaited from here on: the switch has happened, and so it is known here.
        if seated.session is None:
            self._sit_at_nothing()
        self.session, self.read_only = seated.session, read_only and seated.session is not None
        self._replacement = seated.replacement
        self.model = seated.model
        session_id = None if seated.session is None else seated.session.id
        if previous is not None and previous.id != session_id:
            self.live.unfollow()
        self.write_crumb(session_id, reason == "new")
        return seated

    def _sit_at_nothing(self) -> None:
        """The first message makes a session, with what the person has chosen before."""
        kept = {name: self.setting(name) for name in KEPT}
        if self._replacement is not None:
            kept["model"] = self._replacement
        if self.session is not None:
            self._previous_id = self.session.id
        self.wanted = Wanted(**kept, send_policy=self.wanted.send_policy)
        self._transcript = None

    def _unfinished(self) -> dict[str, Any]:
        """Whether the turn that runs here is ours, and what of ours waits behind it."""
        if self.session is None or not self.live.is_busy:
            return {}
        waiting = tuple(each.id for each in self.live.list_waiting() if each.id is not None)
        return {"stops": self.live.has_turn, "waiting": waiting}

    async def leave(self) -> None:
        """Leave the session, once: abort what runs here, and release it.

        Works also if the gateway can't be reached.
        """
        if self.session is None or self._has_left:
            return
        self._has_left = True
        with contextlib.suppress(GatewayUnavailable, Unauthorized, TimeoutError):
            async with asyncio.timeout(GOODBYE):
                await self.client.seats.leave(
                    tell_place(self.place), self.session.id, **self._unfinished()
                )
