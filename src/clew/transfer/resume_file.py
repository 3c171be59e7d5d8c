"""`--resume FILE`: begin a chat with a transcript, or write a new chat to one.

A file with a transcript is imported, and never changed. A missing or empty file gets the new
session when the chat ends. All other files are refused and not changed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from clew.api.sessions import Imported
from clew.core.names import counted
from clew.core.resume import is_transcript_name
from clew.core.rules import word_revoked
from clew.core.session import Session
from clew.core.text import strip_controls
from clew.errors import ClewError, Conflict, NotATranscript, NotFound
from clew.ports import Store
from clew.transfer.exporter import write_file
from clew.transfer.importer import import_transcript
from clew.transfer.jsonl import parse_first_line


class TranscriptOpening(msgspec.Struct, frozen=True):
    """How a chat begins with a file.

    With a session: it was imported from the file, and `notes` say what could not be read. Without:
    a new session is made with `transcript_path=path`, and `write_back` writes it there.
    """

    path: str
    session: Session | None = None
    imported: Imported | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether a new session begins, which is written to the file at the end."""
        return self.session is None


async def open_transcript(store: Store, path: Path) -> TranscriptOpening:
    """Import the transcript, or say that a new one begins. The file is not changed.

    Raises `NotATranscript` for any other file, `ClewError` for one that can't be read.
    """
    new = find_new(path)
    if new is not None:
        return new
    path = _resolved(path)
    try:
        with path.open("rb") as stream:
            imported = await import_transcript(store, stream)
    except NotATranscript as error:
        raise NotATranscript(f"{_shown(path)}: {error}") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    session = await store.get_session(imported.session_id)
    return TranscriptOpening(str(path), session, imported, _notes(path, imported))


def find_new(path: Path) -> TranscriptOpening | None:
    """A new session, if the file is named like a transcript and is missing or empty."""
    may_begin = is_transcript_name(path.name)
    path = _resolved(path)
    if _size(path, missing_ok=may_begin) or not may_begin:
        return None
    _check_folder(path)
    return TranscriptOpening(str(path))


def write_back(session_id: str, path: Path | str, transcript: str) -> None:
    """Write a session that began with a missing or empty file to that file, in one step.

    `Conflict` if another program has written the file meanwhile: it is not changed, and the
    session is still in the store.
    """
    target = _resolved(Path(path))
    if _size(target, missing_ok=True) and _session_in(target) != session_id:
        raise Conflict(
            f"{_shown(target)} was written by another program meanwhile, and was not changed. "
            f"The session is stored: `clew export {session_id} --format jsonl` writes it again."
        )
    write_file(target, transcript, force=True)


def _resolved(path: Path) -> Path:
    """The target of a link, so that a link stays a link."""
    try:
        return path.expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreadable(path, error) from error


def _size(path: Path, *, missing_ok: bool) -> int:
    """The size of a file, 0 for one that may be made; an error for what is not a file."""
    try:
        status = path.stat()
    except FileNotFoundError as error:
        if missing_ok:
            return 0
        raise NotFound(f"There is no file {_shown(path)}.") from error
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if stat.S_ISDIR(status.st_mode):
        raise ClewError(f"{_shown(path)} is a directory. Name a transcript file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise ClewError(
            f"{_shown(path)} is not a regular file. `clew import -` reads a transcript from a pipe."
        )
    return status.st_size


def _check_folder(path: Path) -> None:
    """Check at the beginning, not at the end, that the file can be written."""
    folder = path.parent
    if not folder.is_dir():
        raise NotFound(f"There is no directory {_shown(folder)}: make it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ClewError(f"{_shown(path)} can't be written: Permission denied.")


def _session_in(path: Path) -> str | None:
    """The id of the session in a transcript file."""
    try:
        with path.open("rb") as stream:
            return parse_first_line(stream.readline()).session.id
    except (OSError, NotATranscript):
        return None


def _notes(path: Path, imported: Imported) -> tuple[str, ...]:
    notes = [word_revoked(imported.revoked)] if imported.revoked else []
    if imported.skipped:
        some = ", ".join(map(str, imported.skipped[:10]))
        more = " …" if len(imported.skipped) > 10 else ""
        lines = counted(len(imported.skipped), "line")
        notes.append(
            f"{lines} of {_shown(path)} could not be read and {_were(imported)} left out "
            f"({'line' if len(imported.skipped) == 1 else 'lines'} {some}{more})."
        )
    if not imported.whole:
        notes.append(f"{_shown(path)} is incomplete: messages are missing.")
    return tuple(notes)


def _were(imported: Imported) -> str:
    return "was" if len(imported.skipped) == 1 else "were"


def _unreadable(path: Path, error: Exception) -> ClewError:
    reason = error.strerror if isinstance(error, OSError) else None
    return ClewError(f"{_shown(path)} can't be read: {reason or error}.")


def _shown(path: Path) -> str:
    return strip_controls(str(path), keep_newlines=False)
