"""A terminal's place: which session belongs to its directory, and switching to another.

A terminal says where it is; the runtime decides.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from clew.api.fields import (
    Directory,
    Key,
    Line,
    Moment,
    Number,
    RowId,
    SessionId,
    Title,
    Word,
)
from clew.api.operation import Params, row
from clew.api.sessions import SessionView
from clew.core.delivery import Inbound
from clew.core.models import Mode, ModelInfo, Thinking
from clew.core.session import SendPolicy
from clew.core.turn import Attachment, Turn

Waiting = Annotated[tuple[RowId, ...], Meta(max_length=1_000)]


Reason = Literal["startup", "resume", "new", "fork"]


# --- where a terminal is ----------------------------------------------------------------------
class Standing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `Place`, as a terminal describes it."""

    cwd: Directory
    project: Directory
    basename: Annotated[str, Meta(max_length=1_000)] = ""
    device: Number = -1
    inode: Number = -1
    born: Number | None = None
    scope: Literal["cwd", "git"] = "cwd"


class Crumb(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A breadcrumb, as a terminal describes it."""

    cwd: Directory
    session: SessionId | None = None
    fresh: bool = False
    at: Moment = 0


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person has set before there is a session: the first message makes one like this."""

    title: Title | None = None
    pinned: bool = False
    personality: Word | None = None
    model: Word | None = None
    thinking: Thinking | None = None
    service_tier: Word | None = None
    mode: Mode | None = None
    send_policy: SendPolicy | None = None


# --- sitting down -----------------------------------------------------------------------------
class LocateSeat(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A terminal's place, its own key if it has one; `continues` looks for `--continue` too.

    `allows`: the person says whether the agent may work in this directory (`Located.doubt`). That
    is remembered.
    """

    where: Standing
    key: Key | None = None
    continues: bool = False
    crumb: Crumb | None = None
    allows: bool | None = None


class Located(msgspec.Struct, frozen=True):
    """The place's key and where it leads; what `--continue` would resume, and why.

    `resets`: sessions of terminals are reset there when it is time to (`BeginSession.resets`).
    `doubt`: what the directory is (the whole disk, a home), if it is no workspace until the person
    says so; `refused`: they have said no. The agent has no tools for files there.
    """

    key: str
    session: SessionView | None = None
    moved_from: str | None = None
    continued: SessionView | None = None
    note: str | None = None
    resets: bool = False
    doubt: str | None = None
    refused: bool = False


class BeginSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new session of a place, with the settings that were chosen before there was one.

    `resets`: only if it is time to reset `previous`, with what was chosen there; else that one goes
    on. `transcript_path`: the file, where the sessions are kept, that it is written to.
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
    transcript_path: Line | None = None


class SwitchSeat(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Switch from `previous` to `session`, or to a new one if that is left out.

    `forks`: to a fork of it, with this title. `moves`: it belongs to this place from now on.
    `stops`: the running turn in `previous` is the caller's, and is aborted; `waiting` are the
    caller's messages behind it, which then stay in the inbox. `returns`: the person has named the
    session, so it goes on, however old it is. `model` is the one that the terminal used until now:
    it stays where the session's own is not configured any more.
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
    model: Word | None = None


class Seated(msgspec.Struct, frozen=True):
    """The terminal's session, and the notices about it.

    `model` is the one that answers next; `replacement` its name, if it is used in place of the
    session's own, which is not configured any more. `taken_over`: the dead process that had the
    session open.
    """

    session: SessionView | None
    previous_id: str | None
    reason: Reason
    model: ModelInfo
    replacement: str | None = None
    taken_over: Attachment | None = None
    interrupted: tuple[Turn, ...] = ()
    unanswered: tuple[Inbound, ...] = ()
    notices: tuple[str, ...] = ()


class LeaveSeat(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`stops`: the running turn is the caller's, and is aborted; `waiting` as in a switch."""

    where: Standing
    session: SessionId
    stops: bool = False
    waiting: Waiting = ()


class Left(msgspec.Struct, frozen=True):
    """Whether a turn was aborted."""

    stopped: bool


# --- the rows of the table ---------------------------------------------------------------------

LOCATE: Final = row(
    "seats.locate", "POST", "seats/locate", "chat", LocateSeat, Located,
    "Find the session of a terminal's directory.",
)  # fmt: skip
BEGIN: Final = row(
    "seats.begin", "POST", "seats/begin", "chat", BeginSession, SessionView,
    "Begin a session of a terminal's directory.", status=201,
)  # fmt: skip
SWITCH: Final = row(
    "seats.switch", "POST", "seats/switch", "chat", SwitchSeat, Seated,
    "Switch a terminal from one session to another.",
)  # fmt: skip
LEAVE: Final = row(
    "seats.leave", "POST", "seats/leave", "chat", LeaveSeat, Left,
    "Let a terminal leave its session.",
)  # fmt: skip
ROWS: Final = (
    LOCATE,
    BEGIN,
    SWITCH,
    LEAVE,
)
