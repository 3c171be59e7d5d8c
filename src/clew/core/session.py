"""Sessions: their row, what people may change about it, their state, lists, and retention.

A session is one straight line of messages with a stable id. Which session a key leads to, and how
rows are kept, is decided in the store.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from clew.core.names import recent_name
from clew.core.text import strip_controls
from clew.core.turn import Attachment, TurnStatus
from clew.core.usage import Usage

OWNER = "owner"
"""The person who owns this clew. Guests are `<channel>:<id>`."""

Kind = Literal[
    "main", "dm", "group", "channel", "thread", "cron", "hook", "node", "cli", "web", "sdk",
    "subagent",
]  # fmt: skip

TitleBy = Literal["user", "auto"]
SendPolicy = Literal["allow", "deny"]

MAX_TITLE = 200
"""Longest title, in characters."""

Status = Literal["waiting", "running", "interrupted", "open"]
"""The most urgent part of a state, see `status_of`."""

ListedState = Literal["waiting", "running", "interrupted", "open", "idle"]
"""A state by which lists are filtered. `idle`: nothing runs, waits or was interrupted.

`open` means that a terminal has the session open, whatever happens in it.
"""

MAX_FACETS = 200

RetentionAction = Literal["archive", "delete"]
DAY_MS = 86_400_000

NAME_TEXT = 200
"""Characters of a summary or a first prompt that a name uses."""


class NewSession(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is known of a session before its first message. `id` is for imports.

    `parent_id` is the session that a sub-agent worked for; it must exist.
    """

    key: str
    platform: str = "cli"
    kind: Kind = "cli"
    agent: str = "main"
    person: str = OWNER
    id: str | None = None
    title: str | None = None
    title_by: TitleBy | None = None
    cwd: str | None = None
    project: str | None = None
    model: str | None = None
    provider: str | None = None
    personality: str | None = None
    thinking: str | None = None
    service_tier: str | None = None
    mode: str | None = None
    display_name: str | None = None
    channel: str | None = None
    subject: str | None = None
    room: str | None = None
    space: str | None = None
    origin: dict[str, Any] = {}
    send_policy: SendPolicy | None = None
    reset_reason: str | None = None
    previous_id: str | None = None
    parent_id: str | None = None
    transcript_path: str | None = None
    metadata: dict[str, Any] = {}
    created_at: int | None = None


class Session(msgspec.Struct, frozen=True, omit_defaults=True):
    """One conversation. Times are milliseconds UTC.

    `revision` goes up only with what a person may edit (it is the ETag). `head` is the last seq.
    `message_count` counts the thread: with inherited messages, without undone turns.
    `content_bytes` counts what this session itself stores, scratchpad included.
    `last_interaction_at` is the reset clock: only a person's message moves it.
    """

    id: str
    key: str
    agent: str
    person: str
    platform: str
    kind: Kind
    title: str | None
    title_by: TitleBy | None
    revision: int
    cwd: str | None
    project: str | None
    model: str | None
    provider: str | None
    personality: str | None
    thinking: str | None
    service_tier: str | None
    mode: str | None
    parent_id: str | None
    forked_at_seq: int | None
    display_name: str | None
    channel: str | None
    subject: str | None
    room: str | None
    space: str | None
    origin: dict[str, Any]
    last_route: dict[str, Any] | None
    short_summary: str | None
    send_policy: SendPolicy | None
    pinned: bool
    usage: Usage
    compactions: int
    context_tokens: int | None
    message_count: int
    content_bytes: int
    preview: str | None
    head: int
    created_at: int
    updated_at: int
    last_interaction_at: int | None
    archived_at: int | None
    deleted_at: int | None
    reset_reason: str | None
    previous_id: str | None
    transcript_path: str | None
    metadata: dict[str, Any]

    @property
    def name(self) -> str:
        """The name that people see: its title, else its summary, its first prompt, its id."""
        return recent_name(self.title, self.short_summary, self.preview, self.id)

    @property
    def shown_directory(self) -> str | None:
        """The directory that people see: where it works, or where an imported one once did."""
        imported = self.origin.get("directory")
        return self.cwd or (imported if isinstance(imported, str) else None)

    @property
    def shown_model(self) -> str | None:
        """The model that people see: the chosen one, or that of an imported session."""
        imported = self.origin.get("model")
        return self.model or (imported if isinstance(imported, str) else None)

    @property
    def listed_name(self) -> str:
        """The name in a list: a fork without a title begins like its parent."""
        unmarked = self.parent_id is not None and self.title is None
        return f"{self.name}{' (fork)' if unmarked else ''}"


class SessionEdit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person changes about a session. Left out: unchanged. None: cleared."""

    title: str | UnsetType | None = UNSET
    pinned: bool | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    personality: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    provider: str | UnsetType | None = UNSET
    thinking: str | UnsetType | None = UNSET
    service_tier: str | UnsetType | None = UNSET
    mode: str | UnsetType | None = UNSET
    send_policy: SendPolicy | UnsetType | None = UNSET


_When = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class SessionMarks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Some of what a person sees of a session in a list, and changes for many at once."""

    title: Annotated[str, Meta(max_length=MAX_TITLE)] | UnsetType | None = UNSET
    title_by: TitleBy | UnsetType | None = UNSET
    pinned: bool | UnsetType = UNSET
    archived_at: _When | UnsetType | None = UNSET
    deleted_at: _When | UnsetType | None = UNSET


class SessionChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a change of a session's marks did: those that differ, before and after it.

    It is all that is needed to undo it.
    """

    id: Annotated[str, Meta(max_length=36)]
    before: SessionMarks
    after: SessionMarks


class SessionFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What clew itself learns about a session. Never raises the revision.

    `title` is an automatic one: it gives way to a title that a person set. `origin` is merged:
    new non-empty values overwrite, absent ones never erase.
    """

    title: str | UnsetType = UNSET
    short_summary: str | UnsetType | None = UNSET
    context_tokens: int | UnsetType | None = UNSET
    display_name: str | UnsetType | None = UNSET
    channel: str | UnsetType | None = UNSET
    subject: str | UnsetType | None = UNSET
    room: str | UnsetType | None = UNSET
    space: str | UnsetType | None = UNSET
    origin: dict[str, Any] | UnsetType = UNSET
    last_route: dict[str, Any] | UnsetType | None = UNSET
    cwd: str | UnsetType | None = UNSET
    project: str | UnsetType | None = UNSET
    transcript_path: str | UnsetType | None = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list. A list always has a viewer: the person who asks.

    `archived`: False leaves archived sessions out, True shows only those, None both. `trashed`
    lists the trash instead, most recently deleted first. `text` is a fragment of the title or
    of the first prompt; case is ignored. `active_since` and `active_until` bound the time of the
    last update, both inclusive. `state` is for `list_sessions` only. `key_prefix` is the beginning
    of the session's own key: the cost depends on how many sessions share it.
    """

    viewer: str
    platform: str | None = None
    agent: str | None = None
    kind: Kind | None = None
    person: str | None = None
    cwd: str | None = None
    project: str | None = None
    active_since: int | None = None
    active_until: int | None = None
    pinned: bool | None = None
    archived: bool | None = False
    trashed: bool = False
    text: str | None = None
    state: ListedState | None = None
    key_prefix: str | None = None
    parent_id: str | None = None


class SessionFacets(msgspec.Struct, frozen=True):
    """The values by which a list can be filtered, sorted; at most `MAX_FACETS` of each."""

    platforms: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    people: tuple[str, ...] = ()


class SessionPage(msgspec.Struct, frozen=True):
    """One page of a list; `cursor` asks for the next one, None at the end."""

    sessions: tuple[Session, ...]
    cursor: str | None = None


def may_see(viewer: str, person: str) -> bool:
    """Whether a viewer may see what belongs to a person: the owner sees all, a guest their own."""
    return viewer in (OWNER, person)


def word_reader(session: Session, viewer: str) -> str | None:
    """Tell the owner who reads what they say in a guest's session; None for one of their own."""
    if session.person in (OWNER, viewer):
        return None
    name = strip_controls(session.display_name or "", keep_newlines=False).strip()[:40]
    person = strip_controls(session.person, keep_newlines=False)
    who = f"{name} ({person})" if name else person
    told = f"This session is {who}'s, who can read what you say here."
    return f"{told} /fork goes on in one of your own."


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The retention policy: idle days, then bytes of content. 0 or less switches either off."""

    retention_days: int = 90
    max_storage_bytes: int = 52_428_800
    action: RetentionAction = "archive"

    def idle_cutoff(self, now: int) -> int | None:
        """Sessions not updated since this time have expired; None if idle days are switched off."""
        return now - self.retention_days * DAY_MS if self.retention_days > 0 else None


class Retained(msgspec.Struct, frozen=True):
    """What a retention pass did, or would do: ids, oldest first, by reason."""

    action: RetentionAction
    idle: tuple[str, ...] = ()
    oversize: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """Every session that was, or would be, archived or deleted."""
        return self.idle + self.oversize


class SessionName(msgspec.Struct, frozen=True, gc=False):
    """The fields of a `Session` that are needed to find it by name.

    `short_summary` and `preview` (the first prompt) are cut to `NAME_TEXT` characters.
    """

    id: str
    title: str | None
    short_summary: str | None
    preview: str | None
    cwd: str | None
    project: str | None
    platform: str
    kind: Kind
    person: str
    updated_at: int
    pinned: bool
    message_count: int
    archived: bool


def name_of(session: Session) -> SessionName:
    """Make the name of a session from its row."""
    return SessionName(
        id=session.id,
        title=session.title,
        short_summary=_cut(session.short_summary),
        preview=_cut(session.preview),
        cwd=session.cwd,
        project=session.project,
        platform=session.platform,
        kind=session.kind,
        person=session.person,
        updated_at=session.updated_at,
        pinned=session.pinned,
        message_count=session.message_count,
        archived=session.archived_at is not None,
    )


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:NAME_TEXT]


class NamePage(msgspec.Struct, frozen=True):
    """One page of names; `cursor` asks for the next one, None at the end."""

    names: tuple[SessionName, ...]
    cursor: str | None = None


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a session at this moment; the defaults mean idle.

    `running`: a live process runs a turn. `waiting`: that turn waits for an approval.
    `interrupted`: the newest turn was cut off, by a crash for example, and has not been undone.
    `attachment`: the terminal that has the session open, possibly this one.
    """

    running: bool = False
    waiting: bool = False
    interrupted: bool = False
    attachment: Attachment | None = None


def state_of(
    newest: TurnStatus | None,
    *,
    is_leased: bool,
    is_asking: bool,
    is_undone: bool,
    attachment: Attachment | None,
) -> SessionState:
    """The state of a session, from its newest turn, its open questions and the living processes.

    A turn whose process has died counts as interrupted, even before recovery has marked it; a
    question of such a turn does not wait for an answer.
    """
    is_unfinished = newest in ("running", "waiting")
    running = is_unfinished and is_leased
    return SessionState(
        running=running,
        waiting=running and is_asking,
        interrupted=not running and not is_undone and (is_unfinished or newest == "interrupted"),
        attachment=attachment,
    )


def status_of(state: SessionState) -> Status | None:
    """The most urgent part of a state; `open` means that a terminal has the session open."""
    if state.waiting:
        return "waiting"
    if state.running:
        return "running"
    if state.interrupted:
        return "interrupted"
    return None if state.attachment is None else "open"


def is_in_state(state: SessionState, wanted: ListedState) -> bool:
    """Whether a session belongs into the list of a state."""
    if wanted == "open":
        return state.attachment is not None
    status = status_of(state)
    return status in (None, "open") if wanted == "idle" else status == wanted


class StoreStats(msgspec.Struct, frozen=True):
    """Counts of rows and bytes. `file_bytes` is what the store takes on its disk."""

    sessions: int
    archived: int
    trashed: int
    messages: int
    content_bytes: int
    file_bytes: int
    platforms: dict[str, int]
    oldest_at: int | None
    newest_at: int | None
