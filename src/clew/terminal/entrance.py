"""Where a chat begins: from the start-up flags to the session to sit down at.

The decisions are `runtime.resuming`'s; this asks the person where they leave a choice, and says
what was decided.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from clew.client.place import locate
from clew.core.breadcrumb import Breadcrumb
from clew.core.keys import home_of
from clew.core.resume import (
    Answer,
    read_answer,
    word_question,
    word_refusal,
)
from clew.core.session import Session, SessionFilter
from clew.errors import AmbiguousId, ClewError, InvalidInput, NotFound
from clew.runtime.commands.desk import Desk
from clew.runtime.resuming import find_question, get_resumed
from clew.runtime.seat import Reason, Seat, Switched
from clew.terminal.picker import Picked

if TYPE_CHECKING:
    from clew.transfer.resume_file import TranscriptOpening

    OpenFile = Callable[[Path], Awaitable[TranscriptOpening]]


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

    def __init__(self, desk: Desk, asker: Asker, open_file: OpenFile | None = None) -> None:
        self._desk = desk
        self._seat: Seat = desk.seat
        self._open_file = open_file or self._open_here
        self.asker = asker

    async def open(
        self, flags: Flags, current: Session | None, breadcrumb: Breadcrumb | None
    ) -> tuple[Switched, Opening]:
        """Sit down at what the flags mean; `current` is where the directory's key leads."""
        opening = await self._choose(flags, current, breadcrumb)
        for note in opening.notes:
            self.asker.note(note)
        chosen = opening.session
        if chosen is None and flags.read_only:
            raise NotFound("There is no session to look at. `clew list` shows what there is.")
        if chosen is None or flags.read_only:
            return await self._seat.switch(chosen, "startup", read_only=flags.read_only), opening
        forks = flags.fork or opening.forks
        how = {"forks": forks, "asks": opening.explicit}
        named = opening.explicit or opening.transcript is not None or flags.continues
        return await self.sit_at(chosen, "startup", **how, returns=named), opening

    async def _choose(
        self, flags: Flags, current: Session | None, breadcrumb: Breadcrumb | None
    ) -> Opening:
        if flags.picks:
            return await self._pick()
        if flags.target is not None:
            return await self._resolve(flags.target)
        if flags.continues:
            continued = await self._seat.find_continued(breadcrumb)
            return Opening(continued.session, (continued.note,) if continued.note else ())
        return Opening(current)

    async def _resolve(self, value: str) -> Opening:
        store = self._seat.runtime.store
        resolution = await self._desk.resolve(value)
        if resolution.path is not None:
            transcript = await self._open_file(Path(resolution.path))
            return Opening(transcript.session, transcript.notes, transcript)
        try:
            return Opening(await get_resumed(store, resolution), explicit=True)
        except AmbiguousId:
            if not self.asker.is_attended:
                raise
            self.asker.note(f'"{value}" fits several sessions.', None)
            return await self._insist(resolution.matches)

    async def _open_here(self, path: Path) -> TranscriptOpening:
        from clew.transfer.resume_file import open_transcript  # noqa: PLC0415  # seldom

        return await open_transcript(self._seat.runtime.store, path)

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

    async def sit_at(
        self,
        session: Session,
        reason: Reason,
        *,
        forks: bool = False,
        asks: bool = True,
        returns: bool = False,
    ) -> Switched:
        """Sit down at a session, or at a branch of it; one of another project asks first.

        `returns`: the person has named it.

        Whatever is refused, the seat is where it was, and nothing new is left behind.
        """
        seat = self._seat
        place, key = seat.place, seat.key
        answer = "fork" if forks else await self._ask_about(session) if asks else None
        try:
            if answer == "fork":
                return await seat.branch(session)
            if answer == "move":
                session = await seat.move_here(session)
            elif answer == "open":
                seat.place = locate(home_of(session, seat.place.scope), seat.place.scope)
                seat.key = (await seat.locate(seat.place)).key
            return await seat.switch(session, reason, returns=returns)
        except BaseException:
            seat.place, seat.key = place, key
            raise

    async def _ask_about(self, session: Session) -> Answer | None:
        """What to do with a session of another project, None for one of this.

        Without a terminal, and on a no, it is refused.
        """
        place = self._seat.place
        question = find_question(session, place)
        if question is None:
            return None
        answer: Answer = "no"
        if self.asker.is_attended:
            asked = await self.asker.ask(f"{word_question(session, place, question)}: ")
            answer = read_answer(question, asked)
        if answer == "no":
            raise NotFound(word_refusal(session, place, question))
        return answer
