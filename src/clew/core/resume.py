"""Which session a person means by what they typed, and what to ask before one is opened.

Also the breadcrumb: what a terminal remembers between two starts (stored by
`terminal.breadcrumbs`). Pure: reads the value, orders the sessions found, and words questions. The
look-ups in the store are in `runtime.place.resume`; `transfer.resume_file` opens transcript files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from clew.core.keys import SHORTEST_ENDING, Place, Purpose, home_of, id_prefix, is_id
from clew.core.session import Session
from clew.core.text import cut, fold, strip_controls
from clew.errors import Candidate, InvalidInput

_EXPORT: Final = re.compile(
    r"session-(?P<id>[0-9a-f-]+?)(?:\.(?:md|markdown|html?|jsonl))?", re.IGNORECASE
)


Step = Literal["path", "id", "title", "id_part", "digits", "key", "fragment"]
STEPS: Final[tuple[Step, ...]] = ("path", "id", "title", "id_part", "key", "fragment")
STEP_NAMES: Final[dict[Step, str]] = {
    "path": "transcript file",
    "id": "exact id, or the id that another agent has for it",
    "title": "exact title",
    "id_part": "beginning or end of an id, or the name of an exported transcript",
    "digits": "beginning of an id, however short, or its end",
    "key": "exact key",
    "fragment": "part of a title",
}

PURPOSES: Final[dict[Purpose, tuple[Step, ...]]] = {
    "resume": STEPS,
    "read": ("id", "title", "id_part", "digits", "key"),
    "change": ("id", "title", "digits"),
}
"""For each purpose of a look-up, the steps that may find the session, in order.

Commands that change or delete a session never guess: no part of a title, no name of a file.
"""


class Rejected(msgspec.Struct, frozen=True):
    """A session that was considered, and why it is not the one."""

    session_id: str
    step: Step
    why: str


class Resolution(msgspec.Struct, frozen=True):
    """What a value means: the step that decided, and the sessions it found, newest first.

    No step: nothing was found. Step `path`: open the file at `path`, which may not exist yet.
    Several matches: the person has to choose.
    """

    value: str
    step: Step | None = None
    matches: tuple[Session, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    path: str | None = None

    @property
    def session(self) -> Session | None:
        """The session, if there is exactly one."""
        return self.matches[0] if len(self.matches) == 1 else None


# --- reading the value ------------------------------------------------------------------------
def check_value(value: str) -> str:
    """The value, stripped; an empty one is an error."""
    if not value.strip():
        raise InvalidInput(
            "An empty value names no session. Give an id, a title, a key or a file, or --resume "
            "alone to choose."
        )
    return value.strip()


def is_path_like(value: str) -> bool:
    """Whether the value may name a file: a slash, a backslash, or a transcript's ending."""
    return "/" in value or "\\" in value or is_transcript_name(value)


def is_transcript_name(value: str) -> bool:
    """Whether a missing file of this name would be created."""
    return value.lower().endswith(".jsonl")


FileState = Literal["file", "missing", "odd"]
"""What a path leads to: a file, nothing, or something that can't be opened as one."""


class NamedFile(msgspec.Struct, frozen=True):
    """A value that names a file: before any session, or only if no session matches.

    `unless` is the id of a session that comes first if it exists.
    """

    comes_first: bool
    unless: str | None = None


def read_file_name(value: str, state: FileState) -> NamedFile | None:
    """Whether a value names a file, by its spelling and by what is there; None if it does not."""
    if not is_path_like(value):
        return None
    if state == "file":
        return NamedFile(comes_first=True)
    if not is_transcript_name(value):
        return None if state == "missing" else NamedFile(comes_first=False)
    # The default name of an export, but no such file: the person means the session.
    named = exported_id(value) if state == "missing" else None
    unless = named if named is not None and is_id(named) else None
    return NamedFile(comes_first=True, unless=unless)


def id_part(value: str) -> str | None:
    """The part of an id in the value itself, or in the name of an exported file.

    At least four digits, in the spelling of stored ids.
    """
    for part in (value, exported_id(value) or ""):
        digits = part.strip().replace("-", "")
        if len(digits) >= SHORTEST_ENDING and id_prefix(digits):
            return id_prefix(digits)
    return None


def exported_id(value: str) -> str | None:
    """The id, or part of one, in the name of an exported transcript: `session-<id>.md`."""
    match = _EXPORT.fullmatch(file_name(value))
    return None if match is None else id_prefix(match["id"])


def file_name(value: str) -> str:
    """The part after the last slash or backslash."""
    return re.split(r"[/\\]", value)[-1]


def is_transcript_of(value: str, session: Session) -> bool:
    """Whether the value names the file that the session is exported to, with or without ending."""
    if session.transcript_path is None:
        return False
    name, wanted = fold(file_name(session.transcript_path)), fold(file_name(value))
    return bool(wanted) and wanted in (name, name.rpartition(".")[0])


# --- choosing ---------------------------------------------------------------------------------
def settle(
    value: str,
    step: Step,
    found: Sequence[Session],
    place: Place | None,
    rejected: Sequence[Rejected] = (),
) -> Resolution:
    """The resolution of a step that found sessions, newest first.

    If some belong to this directory, the others are rejected.
    """
    unique = {session.id: session for session in found}
    newest = sorted(unique.values(), key=lambda each: (each.updated_at, each.id), reverse=True)
    local = [each for each in newest if place is not None and place.is_home_of(each)]
    others = [each for each in newest if each not in local] if local else []
    why = "it fits too, but this directory's sessions come first"
    return Resolution(
        value=value,
        step=step,
        matches=tuple(local or newest),
        rejected=(*rejected, *(Rejected(each.id, step, why) for each in others)),
    )


Question = Literal["other_project", "directory_gone"]
Answer = Literal["fork", "open", "move", "no"]

# A yes means what the question offers first.
_ANSWERS: Final[dict[Question, dict[str, Answer]]] = {
    "other_project": {
        "y": "fork", "yes": "fork", "f": "fork", "fork": "fork", "o": "open", "open": "open",
    },
    "directory_gone": {
        "y": "move", "yes": "move", "m": "move", "move": "move", "f": "fork", "fork": "fork",
    },
}  # fmt: skip


def needs_question(session: Session, place: Place, *, exists: bool) -> Question | None:
    """Whether to ask before a session is opened here; `exists`: its directory is still there.

    Sessions without a directory (those of channels) can be opened anywhere.
    """
    if home_of(session, place.scope) is None or place.is_home_of(session):
        return None
    return "other_project" if exists else "directory_gone"


def word_question(session: Session, place: Place, question: Question) -> str:
    """The question, with the letters that answer it."""
    name, home = session.name, _home(session, place)
    if question == "directory_gone":
        return (
            f'Session "{name}" belongs to {home}, which is gone. '
            "[m]ove it here, [f]ork it here, [n]o"
        )
    return f'Session "{name}" belongs to {home}. [f]ork it here, [o]pen it there, [n]o'


def word_refusal(session: Session, place: Place, question: Question) -> str:
    """The message after the answer no, and when no question can be asked."""
    refusal = f'Session "{session.name}" is in another project ({_home(session, place)}).'
    if question == "directory_gone":
        return f"{refusal} That directory is gone: --fork goes on with a copy here."
    return refusal


def read_answer(question: Question, typed: str) -> Answer:
    """What a person's answer means; anything that was not offered means no."""
    return _ANSWERS[question].get(typed.strip().lower(), "no")


def shown_value(value: str) -> str:
    """A typed value, made safe and short for a message."""
    return cut(strip_controls(value, keep_newlines=False), 60)


def candidate_of(session: Session, short_id: str) -> Candidate:
    """A session as an entry in an error's list of candidates."""
    return Candidate(session.id, short_id, session.listed_name, session.cwd, session.updated_at)


def _home(session: Session, place: Place) -> str:
    return strip_controls(home_of(session, place.scope) or "", keep_newlines=False)


class Breadcrumb(msgspec.Struct, frozen=True):
    """The last session of a terminal, and the directory it was opened in.

    `fresh`: the last command was `/new`, and no session has begun since. `at` is when this was
    written, in milliseconds UTC.
    """

    cwd: str
    session_id: str | None
    fresh: bool = False
    at: int = 0
