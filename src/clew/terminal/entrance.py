"""Where a chat begins: from the start-up flags to the session to sit down at.

The decisions are `runtime.resuming`'s; this asks the person where they leave a choice, and says
what was decided.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from clew.core.breadcrumb import Breadcrumb
from clew.core.keys import home_of
from clew.core.resume import AmbiguousSession, read_answer, word_question, word_refusal
from clew.core.session import Session, SessionFilter
from clew.errors import ClewError, InvalidInput, NotFound
from clew.runtime.commands.desk import Desk
from clew.runtime.continuing import find_continue
from clew.runtime.projects import find_cli_key, locate, move_here
from clew.runtime.resuming import find_question, get_resumed, resolve_resume
from clew.runtime.seat import Reason, Seat, Switched
from clew.transfer.opening import TranscriptOpening, open_transcript


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """How the chat was started. `picks` is `--resume` alone; `target` is what was named."""

    continues: bool = False
    picks: bool = False
    target: str | None = None
    fork: bool = False
    read_only: bool = False


class NothingChosen(ClewError):
    """`--resume` alone, and nothing came of it: `No sessions found`, `No session selected`."""

    code = "nothing_chosen"
    exit_code = 0


class Opening(msgspec.Struct, frozen=True):
    """The session that was chosen (None: a new one), and lines to say about it."""

    session: Session | None
    notes: tuple[str, ...] = ()
    transcript: TranscriptOpening | None = None
    explicit: bool = False
    forks: bool = False


class Picked(msgspec.Struct, frozen=True):
    """A session that the person chose: to go on with it, or to branch off."""

    session: Session
    forks: bool = False


class Asker(Protocol):
    """Where a person is asked. `is_attended`: somebody is there to answer."""

    @property
    def is_attended(self) -> bool:
        """Whether a person is there to answer."""
        ...

    def note(self, text: str, style: str | None = "dim") -> None:
        """A sentence beside the conversation."""
        ...

    async def ask(self, question: str) -> str:
        """A short answer to a question that names its keys; empty for none."""
        ...

    async def choose(self, sessions: tuple[Session, ...]) -> Picked | None:
        """Let the person choose one of these; without any, one of all."""
        ...


class Entrance:
    """The way in. Whoever asks may change: line mode at first, then the screen."""

    def __init__(self, desk: Desk, asker: Asker) -> None:
        self._seat: Seat = desk.seat
        self.asker = asker

    async def open(
        self, flags: Flags, current: Session | None, breadcrumb: Breadcrumb | None
    ) -> tuple[Switched, Opening]:
        """Sit down at what the flags mean; `current` is where the directory's key leads."""
        opening = await self._choose(flags, current, breadcrumb)
        for note in opening.notes:
            self.asker.note(note)
        chosen = target = opening.session
        if chosen is None and flags.read_only:
            raise NotFound("There is no session to look at. `clew list` shows what there is.")
        if chosen is not None and (flags.fork or opening.forks):
            target = await self._seat.fork(chosen)
        elif chosen is not None and opening.explicit and not flags.read_only:
            target = await self.settle_project(chosen)
        is_branch = chosen is not None and target is not None and chosen.id != target.id
        reason: Reason = "fork" if is_branch else "startup"
        return await self._seat.switch(target, reason, read_only=flags.read_only), opening

    async def _choose(
        self, flags: Flags, current: Session | None, breadcrumb: Breadcrumb | None
    ) -> Opening:
        if flags.picks:
            return await self._pick()
        if flags.target is not None:
            return await self._resolve(flags.target)
        if flags.continues:
            seat = self._seat
            continued = await find_continue(seat.runtime.store, seat.place, breadcrumb, seat.person)
            return Opening(continued.session, (continued.note,) if continued.note else ())
        return Opening(current)

    async def _resolve(self, value: str) -> Opening:
        store = self._seat.runtime.store
        resolution = await resolve_resume(store, value, self._seat.place, viewer=self._seat.person)
        if resolution.path is not None:
            transcript = await open_transcript(store, Path(resolution.path))
            return Opening(transcript.session, transcript.notes, transcript)
        try:
            return Opening(await get_resumed(store, resolution), explicit=True)
        except AmbiguousSession:
            if not self.asker.is_attended:
                raise
            self.asker.note(f'"{value}" fits several sessions.', None)
            return await self._insist(resolution.matches)

    async def _pick(self) -> Opening:
        """`--resume` alone."""
        store, everything = self._seat.runtime.store, SessionFilter(viewer=self._seat.person)
        if not (await store.list_sessions(everything, limit=1)).sessions:
            raise NothingChosen("No sessions found")
        if not self.asker.is_attended:
            raise InvalidInput("Nobody is here to choose: name a session, as in `clew -r ID`.")
        return await self._insist(())

    async def _insist(self, sessions: tuple[Session, ...]) -> Opening:
        picked = await self.asker.choose(sessions)
        if picked is None:
            raise NothingChosen("No session selected")
        return Opening(picked.session, explicit=True, forks=picked.forks)

    async def settle_project(self, session: Session) -> Session:
        """The session to open: itself, or a branch of it here, as the person says.

        One of another project asks first; without a terminal, and on a no, it is refused.
        """
        seat = self._seat
        question = find_question(session, seat.place)
        if question is None:
            return session
        answer = "no"
        if self.asker.is_attended:
            asked = await self.asker.ask(f"{word_question(session, seat.place, question)}: ")
            answer = read_answer(question, asked)
        match answer:
            case "fork":
                return await seat.fork(session)
            case "move":
                return await move_here(seat.runtime.store, session, seat.place)
            case "open":
                seat.place = locate(home_of(session, seat.place.scope), seat.place.scope)
                seat.key = (await find_cli_key(seat.runtime.store, seat.place)).key
                return session
            case _:
                raise NotFound(word_refusal(session, seat.place, question))
