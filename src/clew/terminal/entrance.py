"""Where a chat begins: from the start-up flags to the session to sit down at.

The decisions are `runtime.resuming`'s; this asks the person where they leave a choice, and says
what was decided.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from clew.core.breadcrumb import Breadcrumb
from clew.core.keys import home_of
from clew.core.names import counted, recent_name, time_ago
from clew.core.resume import AmbiguousSession, read_answer, word_question, word_refusal
from clew.core.session import Session, SessionFilter
from clew.errors import ClewError, InvalidInput, NotFound
from clew.runtime.commands.desk import Desk
from clew.runtime.continuing import find_continue
from clew.runtime.projects import find_cli_key, here_filter, locate, move_here
from clew.runtime.resuming import find_question, get_resumed, resolve_resume
from clew.runtime.seat import Reason, Seat, Switched
from clew.terminal.lines import Lines
from clew.terminal.paper import Paper
from clew.transfer.opening import TranscriptOpening, open_transcript

CHOICES = 10


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


class Entrance:
    """The way in: asks on the lines, tells on the paper beside the answer."""

    def __init__(self, desk: Desk, lines: Lines, aside: Paper) -> None:
        self._desk = desk
        self._seat: Seat = desk.seat
        self._lines = lines
        self._aside = aside

    async def open(
        self, flags: Flags, current: Session | None, breadcrumb: Breadcrumb | None
    ) -> tuple[Switched, Opening]:
        """Sit down at what the flags mean; `current` is where the directory's key leads."""
        opening = await self._choose(flags, current, breadcrumb)
        for note in opening.notes:
            self._aside.line(note, "dim")
        chosen = target = opening.session
        if chosen is None and flags.read_only:
            raise NotFound("There is no session to look at. `clew list` shows what there is.")
        if chosen is not None and flags.fork:
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
            return Opening(await self._pick(), explicit=True)
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
            if not self._lines.is_terminal:
                raise
            self._aside.line(f'"{value}" fits several sessions.')
            return Opening(await self._insist(resolution.matches), explicit=True)

    async def _pick(self) -> Session:
        """`--resume` alone: this directory's newest sessions, or all if it has none."""
        store, person = self._seat.runtime.store, self._seat.person
        here = SessionFilter(viewer=person, **here_filter(self._seat.place))
        page = await store.list_sessions(here, limit=CHOICES)
        if not page.sessions:
            page = await store.list_sessions(SessionFilter(viewer=person), limit=CHOICES)
        if not page.sessions:
            raise NothingChosen("No sessions found")
        if not self._lines.is_terminal:
            raise InvalidInput("Nobody is here to choose: name a session, as in `clew -r ID`.")
        return await self._insist(page.sessions)

    async def _insist(self, sessions: Sequence[Session]) -> Session:
        session = await self.choose(sessions)
        if session is None:
            raise NothingChosen("No session selected")
        return session

    async def choose(self, sessions: Sequence[Session]) -> Session | None:
        """Let the person choose one by its number; anything else is none."""
        shown, desk = sessions[:CHOICES], self._desk
        for number, session in enumerate(shown, 1):
            name = recent_name(session.title, session.short_summary, session.preview, session.id)
            ago = time_ago(session.updated_at, desk.now, desk.zone(session.updated_at))
            where = home_of(session, self._seat.place.scope) or session.platform
            count = counted(session.message_count, "message")
            self._aside.line(f"{number:>3}  {name}  ({ago}, {count}, {where})")
        typed = await self._ask(f"Which one? [1-{len(shown)}, Enter for none] ")
        with contextlib.suppress(ValueError):
            if 1 <= int(typed) <= len(shown):
                return shown[int(typed) - 1]
        return None

    async def settle_project(self, session: Session) -> Session:
        """The session to open: itself, or a branch of it here, as the person says.

        One of another project asks first; without a terminal, and on a no, it is refused.
        """
        seat = self._seat
        question = find_question(session, seat.place)
        if question is None:
            return session
        answer = "no"
        if self._lines.is_terminal:
            asked = await self._ask(f"{word_question(session, seat.place, question)}: ")
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

    async def _ask(self, question: str) -> str:
        """A line from the person; the terminal has ended it then."""
        self._aside.write(question)
        typed = await self._lines.get()
        if typed is None:
            self._aside.fresh()  # Ctrl+D has left the cursor behind the question
        else:
            self._aside.moved()
        return (typed or "").strip()
