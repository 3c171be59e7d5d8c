"""A terminal's place: the session of its directory, and switching to another.

The terminal describes its place; the runtime decides which session it gets.
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
class TerminalPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place of a terminal (`core.keys.Place`), as a client sends it."""

    cwd: Directory
    project: Directory
    basename: Annotated[str, Meta(max_length=1_000)] = ""
    device: Number = -1
    inode: Number = -1
    born: Number | None = None
    scope: Literal["cwd", "git"] = "cwd"


class TerminalBreadcrumb(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The breadcrumb of a terminal (`core.resume.Breadcrumb`), as a client sends it."""

    cwd: Directory
    session: SessionId | None = None
    fresh: bool = False
    at: Moment = 0


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that a person chose before there is a session; the first message applies them."""

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
    """A terminal's place, and its own key if it has one. `continues`: resolve `--continue` too.

    `allows`: the person says whether the agent may work in this directory (`Located.doubt`). That
    is remembered. `asks`: `--continue` is that of a single question (`BeginSession.asks`), which
    goes on with the last one of this directory if that is newer than what a chat goes on with.
    """

    where: TerminalPlace
    key: Key | None = None
    continues: bool = False
    crumb: TerminalBreadcrumb | None = None
    allows: bool | None = None
    asks: bool = False


class Located(msgspec.Struct, frozen=True):
    """The place's key and its session; what `--continue` would resume, and why.

    `resets`: the configuration has a reset rule for terminals (`BeginSession.resets`).
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

    `resets`: begin it only if the reset rule ends `previous`, with the settings of that one;
    otherwise `previous` continues. `transcript_path`: the transcript file of the session, on the
    machine of the store. `yields`: the key led to no session when the terminal located it; if it
    leads to one by now, it stays there. `asks`: it is for a single question: its key is one of its
    own (`cli:api:ask:1773484320000`), no key leads to it, and a chat's `--continue` passes it over.
    """

    where: TerminalPlace
    key: Key
    yields: bool = False
    asks: bool = False
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

    `forks`: switch to a fork of it, with this title. `moves`: it belongs to this place from now on.
    `stops`: the running turn in `previous` is the caller's, and is aborted; `waiting` are the
    caller's queued messages, which then stay in the inbox. `returns`: the person named the session,
    so it is not reset, however old it is. `model` is the terminal's model so far: it stays if the
    session's own is no longer configured. `asks`: only for a single question, so keys lead where
    they did.
    """

    where: TerminalPlace
    key: Key
    asks: bool = False
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

    `model` answers next; `replacement` is its name if it replaces the session's own model, which is
    no longer configured. `taken_over`: the dead process that had the session open.
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

    where: TerminalPlace
    session: SessionId
    stops: bool = False
    waiting: Waiting = ()


class Left(msgspec.Struct, frozen=True):
    """Whether a turn was aborted."""

    stopped: bool


# --- the rows of the table ---------------------------------------------------------------------

CHOOSES: Final = "a directory that is not below `[gateway] workspaces` needs `admin`"

LOCATE: Final = row(
    "seats.locate", "POST", "seats/locate", "chat", LocateSeat, Located,
    "Find the session of a terminal's directory.",
    also=CHOOSES,
)  # fmt: skip
BEGIN: Final = row(
    "seats.begin", "POST", "seats/begin", "chat", BeginSession, SessionView,
    "Begin a session of a terminal's directory.", status=201,
    also=f"a key that others read needs `write`; {CHOOSES}",
)  # fmt: skip
SWITCH: Final = row(
    "seats.switch", "POST", "seats/switch", "chat", SwitchSeat, Seated,
    "Switch a terminal from one session to another.",
    also=f"a key that others read, a fork, or a move to another directory needs `write`; {CHOOSES}",
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
