"""The directory of a terminal or a command, and the files that it looks for before it asks the API.

The operations about seats are told the directory. The file that a value names, and the directory
of a session, are looked for here, because they are on the machine where the person types.
"""

from __future__ import annotations

from pathlib import Path

from clew.api.fields import (
    LARGEST_INTEGER,
)
from clew.api.seats import TerminalPlace
from clew.client.client import Client
from clew.core.keys import Identity, Place, Scope, home_of
from clew.core.resume import NamedFile, Question, needs_question, read_file_name
from clew.core.session import Session
from clew.errors import ClewError, InvalidInput, SessionNotFound
from clew.files.directories import (
    directory_exists,
    expand,
    find_repository,
    identify,
    look_at_file,
)


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
