"""Where a terminal or a command is: its directory, as the operations about seats are told of it."""

from __future__ import annotations

from pathlib import Path

from clew.core.keys import Identity, Place, Scope
from clew.errors import ClewError, InvalidInput
from clew.files.directories import find_repository, identify


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
