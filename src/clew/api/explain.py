"""Explain decisions: the functions that decide, called without a message.

They run where the configuration is, and change nothing.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from clew.api.fields import Directory, Key, Number, SessionId, Value, Word, Zone
from clew.api.operation import Params, row
from clew.api.sessions import SessionView
from clew.core.channels.resets import ResetPolicy, ResetType
from clew.core.channels.routing import Route
from clew.core.channels.send_policy import ChatType, Verdict
from clew.core.channels.triggers import Triggered
from clew.core.resume import Step
from clew.errors import Candidate

Time = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        description="ISO; without an offset, the wall time of the time zone.",
    ),
]


# --- what is asked ----------------------------------------------------------------------------
class ExplainRoute(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a message comes from. `peer` is `dm:ID`, `group:ID` or `channel:ID`."""

    channel: Word
    account: Word = "default"
    peer: Word | None = None
    guild: Word | None = None
    team: Word | None = None
    thread: Word | None = None
    is_forum: bool = False
    is_owner: bool = True


class ExplainReset(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation, when a person last wrote in it, and when the next message comes."""

    key: Key
    updated_at: Time
    now: Time | None = None
    channel: Word | None = None
    thread: Word | None = None
    timezone: Zone | None = None


class ExplainSend(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation. Missing fields are read from its key; `override` is `/send`'s setting."""

    key: Key
    channel: Word | None = None
    chat_type: ChatType | None = None
    override: Verdict | None = None


class ExplainTrigger(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text of a message; `mention` is the bot's name, with which it may begin."""

    message: Annotated[str, Meta(max_length=10_000)]
    mention: Word | None = None
    is_owner: bool = True


class ExplainResume(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `--resume VALUE` would find in a directory. Files are looked for by the caller."""

    value: Value
    cwd: Directory
    project: Directory
    scope: Literal["cwd", "git"] = "cwd"


class ExplainPlace(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a terminal is: the fields of `TerminalPlace`."""

    cwd: Directory
    project: Directory
    basename: Annotated[str, Meta(max_length=1_000)] = ""
    device: Number = -1
    inode: Number = -1
    born: Number | None = None
    scope: Literal["cwd", "git"] = "cwd"


class ExplainContinue(ExplainPlace, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `--continue` would resume, in a terminal with this breadcrumb.

    `crumb_cwd` and `crumb_session`: the directory and session it was last used for. `crumb_fresh`:
    the last command there was `/new`. `key` is one that was given in place of the directory's.
    """

    key: Key | None = None
    crumb_cwd: Directory | None = None
    crumb_session: SessionId | None = None
    crumb_fresh: bool = False


class ExplainKey(ExplainPlace, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which session a directory, or a given key, leads to."""

    key: Key | None = None


class ExplainSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The id of a session."""

    id: SessionId


# --- what is answered -------------------------------------------------------------------------
class ResetExplained(msgspec.Struct, frozen=True):
    """Whether a conversation continues (`fresh`) or is reset, why, and by which policy."""

    key: str
    type: ResetType
    channel: str | None
    policy: ResetPolicy
    fresh: bool
    reason: Literal["daily", "idle"] | None
    boundary: str | None
    idle_until: str | None
    updated_at: str
    now: str


class SendExplained(msgspec.Struct, frozen=True):
    """Whether replies in a conversation are delivered, and by which rule."""

    key: str
    channel: str | None
    chat_type: ChatType | None
    decision: Verdict
    rule: str
    considered: tuple[tuple[str, str], ...] = ()


class RejectedSession(msgspec.Struct, frozen=True):
    """A session that was considered, at which step, and why it was rejected."""

    session: Candidate
    step: Step
    why: str


class ResumeExplained(msgspec.Struct, frozen=True):
    """The step that decided (None: nothing was found), its sessions, and the rejected ones."""

    value: str
    step: Step | None
    matches: tuple[SessionView, ...] = ()
    rejected: tuple[RejectedSession, ...] = ()


class ContinueExplained(msgspec.Struct, frozen=True):
    """The session (None: a new one), the reason, and the notice that a chat would show."""

    session: SessionView | None
    why: Literal["breadcrumb", "directory", "anywhere", "fresh", "none"]
    note: str | None = None


class KeyExplained(msgspec.Struct, frozen=True):
    """The key, the reason, and the session that it leads to (None: a new one).

    `moved_from`: where the directory was before, with its sessions.
    """

    key: str
    rule: Literal["explicit", "ours", "moved", "free"]
    session: SessionView | None = None
    moved_from: str | None = None


class SessionExplained(msgspec.Struct, frozen=True):
    """Why a session is what it is, and what becomes of its next message.

    `key` is the one that it was made under, `leading` the keys that lead to it now: without any, no
    message of a channel comes here. `reset_reason`: why it began anew, in place of `previous`.
    `reset`: whether a message that came now would continue here (None: nobody has written yet).
    `send`: whether replies are delivered.
    """

    key: str
    leading: tuple[str, ...]
    reset_reason: str | None
    previous: SessionView | None
    parent: SessionView | None
    reset: ResetExplained | None
    send: SendExplained


# --- the rows of the table ---------------------------------------------------------------------

ROUTE: Final = row(
    "explain.route", "GET", "explain/route", "read", ExplainRoute, Route,
    "Explain which agent and which session key a message would get.",
)  # fmt: skip
RESET: Final = row(
    "explain.reset", "GET", "explain/reset", "read", ExplainReset, ResetExplained,
    "Explain whether a conversation would go on or be reset.",
)  # fmt: skip
SEND: Final = row(
    "explain.send", "GET", "explain/send", "read", ExplainSend, SendExplained,
    "Explain whether replies in a conversation would be delivered.",
)  # fmt: skip
TRIGGER: Final = row(
    "explain.trigger", "GET", "explain/trigger", "read", ExplainTrigger, Triggered,
    "Explain whether a message begins a new conversation.",
)  # fmt: skip
RESUME: Final = row(
    "explain.resume", "GET", "explain/resume", "read", ExplainResume, ResumeExplained,
    "Explain which session `--resume VALUE` would find.",
)  # fmt: skip
CONTINUE: Final = row(
    "explain.continue", "GET", "explain/continue", "read", ExplainContinue, ContinueExplained,
    "Explain which session `--continue` would resume.",
)  # fmt: skip
KEY: Final = row(
    "explain.key", "GET", "explain/key", "read", ExplainKey, KeyExplained,
    "Explain which key a directory has, and which session it leads to.",
)  # fmt: skip
SESSION: Final = row(
    "explain.session", "GET", "explain/session", "read", ExplainSession, SessionExplained,
    "Explain a session: its keys, its resets, and whether its replies are delivered.",
)  # fmt: skip
ROWS: Final = (ROUTE, RESET, SEND, TRIGGER, RESUME, CONTINUE, KEY, SESSION)
