"""What a terminal asks of a gateway beside the rest of the API, and what it hears.

A terminal says where it stands; the gateway sits it down. These are values only: what is decided is
`runtime.seat`'s, who may see what is decided by whoever is called.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from clew.core.complaints import WORDS
from clew.core.delivery import Inbound
from clew.core.keys import Identity, Place
from clew.core.models import Mode, ModelInfo, Thinking
from clew.core.notes import Todo
from clew.core.overview import SessionState
from clew.core.params import Cursor, Key, Moment, Params, RowId, SessionId, Word
from clew.core.session import MAX_TITLE, SendPolicy
from clew.core.turn import Turn
from clew.core.views import SessionView

_WHOLE: Final = 2**63 - 1

Directory = Annotated[str, Meta(min_length=1, max_length=4_096)]
Number = Annotated[int, Meta(ge=-1, le=_WHOLE)]
Value = Annotated[str, Meta(min_length=1, max_length=1_000)]
Title = Annotated[str, Meta(max_length=MAX_TITLE)]
Waiting = Annotated[tuple[RowId, ...], Meta(max_length=1_000)]
Reason = Literal["startup", "resume", "new", "fork"]

# --- where a terminal is ----------------------------------------------------------------------


class Standing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `Place`, as a terminal tells of it."""

    cwd: Directory
    project: Directory
    basename: Annotated[str, Meta(max_length=1_000)] = ""
    device: Number = -1
    inode: Number = -1
    born: Number | None = None
    scope: Literal["cwd", "git"] = "cwd"


class Crumb(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A breadcrumb, as a terminal tells of it."""

    cwd: Directory
    session: SessionId | None = None
    fresh: bool = False
    at: Moment = 0


def tell_place(place: Place) -> Standing:
    """A place for the wire; numbers that JSON readers can't hold are cut."""
    identity = place.identity
    return Standing(
        cwd=place.cwd,
        project=place.project,
        basename=place.basename,
        device=_cut(identity.device),
        inode=_cut(identity.inode),
        born=None if identity.born is None else _cut(identity.born),
        scope=place.scope,
    )


def read_place(at: Standing) -> Place:
    """The place that a terminal tells of."""
    identity = Identity(at.device, at.inode, at.born)
    return Place(at.cwd, at.project, at.basename, identity, at.scope)


def _cut(number: int) -> int:
    return number if -1 <= number <= _WHOLE else number & _WHOLE


# --- sitting down -----------------------------------------------------------------------------


class LocateSeat(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A terminal's place, its own key if it has one; `continues` looks for `--continue` too."""

    where: Standing
    key: Key | None = None
    continues: bool = False
    crumb: Crumb | None = None


class Located(msgspec.Struct, frozen=True):
    """The place's key and where it leads; what `--continue` would go on with, and why.

    `resets`: sessions of terminals begin afresh there when it is time to (`BeginSession.resets`).
    """

    key: str
    session: SessionView | None = None
    moved_from: str | None = None
    continued: SessionView | None = None
    note: str | None = None
    resets: bool = False


class BeginSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new session of a place, with what was chosen for it before there was one.

    `resets`: only if it is time to begin afresh after `previous`, with what was chosen there; else
    that one goes on.
    """

    where: Standing
    key: Key
    title: Title | None = None
    pinned: bool = False
    personality: Word | None = None
    model: Word | None = None
    thinking: Thinking | None = None
    service_tier: Word | None = None
    mode: Mode | None = None
    send_policy: SendPolicy | None = None
    previous: SessionId | None = None
    resets: bool = False


class SwitchSeat(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From `previous` to `session`, or to a new one if that is left out.

    `forks`: to a branch of it, with this title. `moves`: it belongs to this place from now on.
    `stops`: the turn that runs in `previous` is the caller's, and is aborted; `waiting` are the
    caller's messages behind it, which then stay in the inbox. `returns`: the person has named the
    session, so it goes on, however old it is.
    """

    where: Standing
    key: Key
    session: SessionId | None = None
    previous: SessionId | None = None
    reason: Reason = "resume"
    read_only: bool = False
    forks: bool = False
    moves: bool = False
    returns: bool = False
    stops: bool = False
    waiting: Waiting = ()
    title: Title | None = None


class Seated(msgspec.Struct, frozen=True):
    """Where the terminal is now, and what there is to say about it."""

    session: SessionView | None
    previous_id: str | None
    reason: Reason
    interrupted: tuple[Turn, ...] = ()
    unanswered: tuple[Inbound, ...] = ()
    notices: tuple[str, ...] = ()


class LeaveSeat(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`stops`: the turn that runs is the caller's, and is aborted; `waiting` as in a switch."""

    where: Standing
    session: SessionId
    stops: bool = False
    waiting: Waiting = ()


class Left(msgspec.Struct, frozen=True):
    """Whether a turn was aborted."""

    stopped: bool


# --- commands ---------------------------------------------------------------------------------


class RunCommand(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line that begins with a slash, the session it is about, and where it was typed."""

    line: Annotated[str, Meta(min_length=1, max_length=100_000)]
    session: SessionId | None = None
    key: Key | None = None
    where: Standing | None = None


class CommandReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a command says, and what else there is to do.

    `session` is the one that the caller is at now; `switched` if that is another than before (None:
    a new one, with the next message). `pick`: choose one of these, or of all if it is empty.
    `open`: this one was meant; switch to it. `begins`: a turn comes of it.
    """

    text: str = ""
    is_error: bool = False
    session: SessionView | None = None
    switched: bool = False
    pick: tuple[SessionView, ...] | None = None
    open: SessionView | None = None
    begins: bool = False


# --- looking ----------------------------------------------------------------------------------


class ListNames(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same list as that of sessions, of names only."""

    limit: Annotated[int, Meta(ge=1, le=5_000)] = 500
    cursor: Cursor | None = None
    platform: Word | None = None
    cwd: Directory | None = None
    project: Directory | None = None


class SearchMessages(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to look for, and where. `typing`: the last word may be only begun."""

    q: Value
    limit: Annotated[int, Meta(ge=1, le=200)] = 20
    cursor: Cursor | None = None
    platform: Word | None = None
    cwd: Directory | None = None
    project: Directory | None = None
    session: SessionId | None = None
    typing: bool = False
    per_session: bool = False


class ListStates(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whole ids, parted by commas."""

    ids: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f,-]+$",
            min_length=36,
            max_length=37 * 200,
            extra={WORDS: "whole session ids with commas between them"},
        ),
    ]


class StateList(msgspec.Struct, frozen=True):
    """What goes on in sessions, by id."""

    states: dict[str, SessionState]


class TodoList(msgspec.Struct, frozen=True):
    """A session's todo list."""

    todos: tuple[Todo, ...]


class FindSessions(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person typed; with a directory, its sessions come first."""

    value: Value
    cwd: Directory | None = None
    project: Directory | None = None
    scope: Literal["cwd", "git"] = "cwd"


class Found(msgspec.Struct, frozen=True):
    """The sessions that may be meant, newest first."""

    sessions: tuple[SessionView, ...]


class ModelList(msgspec.Struct, frozen=True):
    """The models that can be named there; `current` is the one that answers if nobody chooses."""

    models: tuple[ModelInfo, ...]
    current: ModelInfo
