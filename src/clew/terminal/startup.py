"""The start of a chat: from the flags to the session that the seat is at.

`sessions.find` and `seats.locate` decide what a value means; here the person is asked if there is a
choice, and told what was decided. Transcript files are those of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from clew.api.seats import Reason, Seated
from clew.api.sessions import SessionView
from clew.client.seats import find_file, find_question, locate
from clew.core.keys import home_of
from clew.core.resume import (
    Answer,
    Breadcrumb,
    candidate_of,
    check_value,
    read_answer,
    shown_value,
    word_question,
    word_refusal,
)
from clew.core.session import Session
from clew.errors import AmbiguousId, ClewError, InvalidInput, NotFound, SessionNotFound
from clew.terminal.picker import Picked
from clew.terminal.seat import Seat

if TYPE_CHECKING:
    from clew.transfer.resume_file import TranscriptOpening


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """How the chat was started. `picks` is `--resume` alone; `target` is what was named."""

    continues: bool = False
    picks: bool = False
    target: str | None = None
    fork: bool = False
    read_only: bool = False


class NothingChosen(ClewError):
    """`--resume` without a value, and no session was chosen."""

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
    """Asks a person."""

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

    async def ask_text(self, question: str, *, hidden: bool = False) -> str:
        """A line of text; `hidden`: it is not shown while it is typed."""
        ...

    async def choose(self, sessions: tuple[SessionView, ...]) -> Picked | None:
        """Let the person choose one of these; without any, one of all."""
        ...


class Transcripts(Protocol):
    """Opens transcript files of this machine."""

    async def open(self, path: Path) -> TranscriptOpening:
        """Import a transcript; one that does not exist yet begins a new session."""
        ...


class Startup:
    """Finds the session to open. `asker` may change: line mode at first, then the screen."""

    def __init__(self, seat: Seat, asker: Asker, transcripts: Transcripts) -> None:
        self._seat = seat
        self._transcripts = transcripts
        self.asker = asker

    async def open(
        self, flags: Flags, current: Session | None, breadcrumb: Breadcrumb | None
    ) -> tuple[Seated, Opening]:
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
            found = await self._seat.find_continued(breadcrumb)
            return Opening(found.continued, (found.note,) if found.note else ())
        return Opening(current)

    async def _resolve(self, value: str) -> Opening:
        """What `--resume VALUE` means: a file of this machine, or a session."""
        value = check_value(value)
        path, comes_first = await find_file(self._seat.client, value, self._seat.place)
        if path is not None and comes_first:
            return await self._open_file(path)
        try:
            found = await self.find(value)
        except SessionNotFound:
            if path is None:
                raise
            return await self._open_file(path)
        if len(found) == 1:
            return Opening(found[0], explicit=True)
        if not self.asker.is_attended:
            candidates = [candidate_of(each, each.short_id) for each in found]
            raise AmbiguousId(shown_value(value), candidates)
        self.asker.note(f'"{value}" matches several sessions.', None)
        return await self._insist(tuple(found))

    async def find(self, value: str) -> Sequence[SessionView]:
        """The sessions that a person may mean by this; `SessionNotFound` if there is none."""
        place = self._seat.place
        return await self._seat.client.sessions.find(
            value, cwd=place.cwd, project=place.project, scope=place.scope
        )

    async def _open_file(self, path: Path) -> Opening:
        transcript = await self._transcripts.open(path)
        return Opening(transcript.session, transcript.notes, transcript)

    async def _pick(self) -> Opening:
        """`--resume` alone."""
        if not (await self._seat.client.sessions.names(limit=1)).names:
            raise NothingChosen("No sessions found")
        if not self.asker.is_attended:
            raise InvalidInput(
                "There is no terminal to choose at. Name a session, as in `clew -r ID`; "
                "`clew list` shows them."
            )
        return await self._insist(())

    async def _insist(self, sessions: tuple[SessionView, ...]) -> Opening:
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
    ) -> Seated:
        """Switch to a session, or to a fork of it; asks first if it is another project's.

        A terminal's session without a directory, such as an imported one, gets this one.
        `returns`: the person has named it. After an error the seat is where it was, and nothing
        new was made.
        """
        seat = self._seat
        place, key = seat.place, seat.key
        answer = "fork" if forks else await self._ask_about(session) if asks else None
        if answer is None and session.platform == "cli" and session.cwd is None:
            answer = "move"
            self.asker.note(f"The session has no directory yet; it works in {place.cwd} now.")
        try:
            if answer == "fork":
                return await seat.switch(session, "fork", forks=True)
            if answer == "open":
                seat.place = locate(home_of(session, seat.place.scope), seat.place.scope)
                seat.key = (await seat.locate(seat.place)).key
            return await seat.switch(session, reason, moves=answer == "move", returns=returns)
        except BaseException:
            seat.place, seat.key = place, key
            raise

    async def _ask_about(self, session: Session) -> Answer | None:
        """What to do with a session of another project, None for one of this.

        `NotFound` if the answer is no, or if there is no terminal.
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
