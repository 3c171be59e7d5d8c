"""The place of a terminal or a command, and `Client.seats`: its session, and going to another one.

The operations are told the directory. The file that a value names, and the directory of a session,
are looked for here, because they are on the machine where the person types.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clew.api import seats
from clew.api.fields import LARGEST_INTEGER
from clew.api.seats import (
    BeginSession,
    LeaveSeat,
    Located,
    LocateSeat,
    Reason,
    Seated,
    SwitchSeat,
    TerminalBreadcrumb,
    TerminalPlace,
)
from clew.api.sessions import SessionView
from clew.client.noun import Noun
from clew.core.keys import Identity, Place, Scope, home_of
from clew.core.models import Mode, Thinking
from clew.core.resume import NamedFile, Question, needs_question, read_file_name
from clew.core.session import SendPolicy, Session
from clew.errors import ClewError, InvalidInput, SessionNotFound
from clew.files.directories import (
    directory_exists,
    expand,
    find_repository,
    identify,
    look_at_file,
)

if TYPE_CHECKING:  # it has these seats
    from clew.client.client import Client


def locate(cwd: Path | str | None = None, scope: Scope = "cwd") -> Place:
    """The place of a directory (the process's own if None); with scope `git`, its repository's."""
    try:
        here = (Path.cwd() if cwd is None else Path(cwd)).resolve(strict=True)
        project = (find_repository(here) or here) if scope == "git" else here
        identity = Identity(*identify(project))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidInput("This directory is gone. Change to another one.") from error
    except OSError as error:
        raise ClewError(f"This directory can't be used: {error.strerror or error}.") from error
    return Place(str(here), str(project), project.name, identity, scope)


async def find_file(client: Client, value: str, place: Place) -> tuple[Path | None, bool]:
    """The file that `--resume VALUE` names, and whether it is meant before any session.

    If not, look for a session of this name first.
    """
    path, named = _look_for_file(value, place.cwd)
    if named is None:
        return None, False
    is_session = named.unless is not None and await _is_session(client, named.unless)
    return path, named.comes_first and not is_session


def _look_for_file(value: str, cwd: str) -> tuple[Path, NamedFile | None]:
    path = expand(value, cwd)
    return path, read_file_name(value, look_at_file(path))


async def _is_session(client: Client, session_id: str) -> bool:
    try:
        await client.sessions.get(session_id, messages=0)
    except SessionNotFound:
        return False
    return True


def find_question(session: Session, place: Place) -> Question | None:
    """What to ask before a session is opened here; None for one of this place."""
    home = home_of(session, place.scope)
    return needs_question(session, place, exists=home is None or directory_exists(home))


def tell_place(place: Place) -> TerminalPlace:
    """A place for the wire; numbers that JSON readers can't hold are cut."""
    identity = place.identity
    return TerminalPlace(
        cwd=place.cwd,
        project=place.project,
        basename=place.basename,
        device=_cut(identity.device),
        inode=_cut(identity.inode),
        born=None if identity.born is None else _cut(identity.born),
        scope=place.scope,
    )


def _cut(number: int) -> int:
    return number if -1 <= number <= LARGEST_INTEGER else number & LARGEST_INTEGER


class Seats(Noun):
    """A terminal's place among the sessions."""

    async def locate(
        self,
        where: TerminalPlace,
        *,
        key: str | None = None,
        continues: bool = False,
        crumb: TerminalBreadcrumb | None = None,
        allows: bool | None = None,
        asks: bool = False,
    ) -> Located:
        """The key of a place, and the session that it leads to.

        `allows`: what the person says about a directory that is in doubt (`Located.doubt`).
        """
        params = LocateSeat(
            where=where, key=key, continues=continues, crumb=crumb, allows=allows, asks=asks
        )
        return await self._do(seats.LOCATE, params)

    async def begin(
        self,
        where: TerminalPlace,
        key: str,
        *,
        title: str | None = None,
        pinned: bool = False,
        personality: str | None = None,
        model: str | None = None,
        thinking: Thinking | None = None,
        service_tier: str | None = None,
        mode: Mode | None = None,
        send_policy: SendPolicy | None = None,
        previous: str | None = None,
        resets: bool = False,
        yields: bool = False,
        asks: bool = False,
        transcript_path: str | None = None,
    ) -> SessionView:
        """Begin a session; with `resets`, only if the reset rules end `previous`."""
        params = BeginSession(
            where=where,
            key=key,
            title=title,
            pinned=pinned,
            personality=personality,
            model=model,
            thinking=thinking,
            service_tier=service_tier,
            mode=mode,
            send_policy=send_policy,
            previous=previous,
            resets=resets,
            yields=yields,
            asks=asks,
            transcript_path=transcript_path,
        )
        return await self._do(seats.BEGIN, params)

    async def switch(
        self,
        where: TerminalPlace,
        key: str,
        *,
        session: str | None = None,
        previous: str | None = None,
        reason: Reason = "resume",
        read_only: bool = False,
        forks: bool = False,
        moves: bool = False,
        returns: bool = False,
        stops: bool = False,
        waiting: tuple[str, ...] = (),
        title: str | None = None,
        model: str | None = None,
        asks: bool = False,
    ) -> Seated:
        """Go from `previous` to a session, or to a new one; see `SwitchSeat` for the rest."""
        params = SwitchSeat(
            where=where,
            key=key,
            session=session,
            previous=previous,
            reason=reason,
            read_only=read_only,
            forks=forks,
            moves=moves,
            returns=returns,
            stops=stops,
            waiting=waiting,
            title=title,
            model=model,
            asks=asks,
        )
        return await self._do(seats.SWITCH, params)

    async def leave(
        self,
        where: TerminalPlace,
        session: str,
        *,
        stops: bool = False,
        waiting: tuple[str, ...] = (),
    ) -> bool:
        """Leave a session. Returns whether its running turn was aborted, which `stops` asks for."""
        params = LeaveSeat(where=where, session=session, stops=stops, waiting=waiting)
        return (await self._do(seats.LEAVE, params)).stopped
