"""Sessions: their parameters, results and operations."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from clew.api.fields import (
    _LAST,
    WORDS,
    Cursor,
    Directory,
    Key,
    Moment,
    Query,
    RowId,
    Seq,
    SessionId,
    Value,
    Word,
)
from clew.api.operation import NoParams, Params, row
from clew.api.problems import Problem
from clew.core.keys import Purpose
from clew.core.message import Message, Role
from clew.core.models import Thinking
from clew.core.notes import Compacted, Compaction, Todo
from clew.core.rules import HeldRule
from clew.core.search.hits import SearchPage, Snippet
from clew.core.session import (
    MAX_TITLE,
    Kind,
    ListedState,
    NamePage,
    RetentionAction,
    SendPolicy,
    Session,
    SessionChange,
    SessionFacets,
    SessionState,
    Status,
)
from clew.core.turn import Turn

SeveralSessions = Annotated[tuple[SessionId, ...], Meta(min_length=1, max_length=10_000)]


MAX_TRANSCRIPT: Final = 20_000_000


# --- sessions ---------------------------------------------------------------------------------
class ListSessions(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`active`: updated within so many minutes. `archived` left out: only a search shows them.

    `since` and `until`: when a session was last updated, both inclusive. `person`: whose sessions.
    `state`: `waiting` for an approval, `running`, `interrupted`, `open` in a terminal, or `idle`,
    which is none of the first three. `named`: a fragment of the title or the first prompt; for
    lists, not for searches. `count`: say how many sessions the whole list has; for lists without
    `state`. `count_archived`: say how many a list leaves out because they are archived.
    """

    q: Query | None = None
    limit: Annotated[int, Meta(ge=0, le=200)] = 20
    cursor: Cursor | None = None
    platform: Word | None = None
    agent: Word | None = None
    kind: Kind | None = None
    person: Word | None = None
    cwd: Directory | None = None
    project: Directory | None = None
    named: Word | None = None
    state: ListedState | None = None
    active: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    since: Moment | None = None
    until: Moment | None = None
    pinned: bool | None = None
    archived: bool | None = None
    trashed: bool = False
    count: bool = False
    count_archived: bool = False


class GetSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session, and so many of its newest messages; with `render`, as HTML too."""

    id: SessionId
    messages: Annotated[int, Meta(ge=0, le=1_000)] = 200
    render: Literal["html"] | None = None


class GetMessages(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`before` and `after` are numbers of messages, and exclusive. `render` adds safe HTML.

    `around`: half of the page up to this number, the other half behind it.
    """

    id: SessionId
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 50
    before: Seq | None = None
    after: Seq | None = None
    around: Seq | None = None
    undone: bool = False
    render: Literal["html"] | None = None


class OneSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The id of a session."""

    id: SessionId


class StopSession(OneSession, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`queue`: whether waiting messages are dropped too; else the next one runs.

    `only`: of the waiting messages, these. `message`: only the turn that answers this message is
    aborted, and if it has not begun, the message is dropped. `anywhere`: also a turn that runs in
    another process than the one that is called.
    """

    queue: bool = True
    only: Annotated[tuple[RowId, ...], Meta(max_length=1_000)] | None = None
    message: RowId | None = None
    anywhere: bool = True


class UpdateSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change. `if_match` is the revision that the caller has seen."""

    id: SessionId
    title: Annotated[str, Meta(max_length=MAX_TITLE)] | UnsetType | None = UNSET
    pinned: bool | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    personality: Word | UnsetType | None = UNSET
    model: Word | UnsetType | None = UNSET
    thinking: Thinking | UnsetType | None = UNSET
    send_policy: SendPolicy | UnsetType | None = UNSET
    if_match: Annotated[int, Meta(ge=0, le=_LAST)] | None = None


class MarkSessions(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change about all of these sessions; fields that are left out stay as they are.

    `title`: null clears it. `trashed`: true deletes them, false restores them from the trash, and
    nothing else goes with it.
    """

    ids: SeveralSessions
    title: Annotated[str, Meta(max_length=MAX_TITLE)] | UnsetType | None = UNSET
    pinned: bool | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    trashed: bool | UnsetType = UNSET


class UndoMarks(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `changes` of an answer to `sessions.mark`, or some of them."""

    changes: Annotated[tuple[SessionChange, ...], Meta(min_length=1, max_length=10_000)]


class PruneSessions(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`older_than`: milliseconds since a session was used; left out, the retention policy.

    `action`: left out, that of the policy. With `dry_run` nothing is changed.
    """

    older_than: Annotated[int, Meta(ge=0, le=_LAST)] | None = None
    action: RetentionAction | None = None
    dry_run: bool = False


class LinkKey(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The session that a key leads to from now on; null: none, so its next message begins one."""

    key: Key
    session: SessionId | None


class ImportSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`content` is a transcript in JSON lines, as `sessions.export` gives it; base64 in JSON.

    It brings what was said, and no rules, directory, keys or reply addresses. `cwd` is the
    directory of the session, on the machine of the store. `as_new` gives the session a new id.
    With `dry_run` nothing is changed.
    """

    content: Annotated[bytes, Meta(max_length=MAX_TRANSCRIPT)]
    as_new: bool = False
    dry_run: bool = False
    cwd: Directory | None = None


class ForkSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`at` is the last message of the fork; all messages if left out."""

    id: SessionId
    at: Seq | None = None


class CompactSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`instructions` for the summary."""

    id: SessionId
    instructions: Annotated[str, Meta(max_length=4_000)] | None = None


ExportFormat: TypeAlias = Literal["md", "html", "jsonl", "claude-code", "codex"]


class ExportSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`masked`: whether secrets are masked; left out: in all formats but `jsonl`.

    `thinking`: include what the model thought, in `md` and `html`; `jsonl` always has it.
    `claude-code` and `codex` are files of those agents, never masked.
    """

    id: SessionId
    format: ExportFormat = "md"
    masked: bool | None = None
    thinking: bool = False


class ResolveSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person typed, and for which purpose the session is looked for.

    `resume`: by its id, title, a part of its id, its key, or a part of its title. `read`: the same
    without a part of a title. `change`: only by its id, title, or a beginning or end of its id.
    `trashed`: one in the trash, by its title or the beginning of its id.
    """

    value: Annotated[str, Meta(max_length=10_000)]
    purpose: Purpose = "resume"
    trashed: bool = False


class PreviewSession(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many messages, and how many characters of each."""

    id: SessionId
    limit: Annotated[int, Meta(ge=1, le=50)] = 10
    characters: Annotated[int, Meta(ge=10, le=2_000)] = 200


class GetLineage(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With `render`, the summaries of compactions are HTML too."""

    id: SessionId
    render: Literal["html"] | None = None


# --- sessions ---------------------------------------------------------------------------------
class SessionView(Session, frozen=True, omit_defaults=True, kw_only=True):
    """A session with its short id, its state, and the sum of its tokens."""

    short_id: str
    status: Status | None
    total_tokens: int


class Hit(msgspec.Struct, frozen=True):
    """The best message that a search found in a session. Higher scores are better."""

    seq: int
    role: Role
    at: int
    snippet: Snippet
    score: float


class ListedSession(SessionView, frozen=True, omit_defaults=True, kw_only=True):
    """A session in a list. `label` is the name that people see; a search adds its best hit."""

    label: str = ""
    hit: Hit | None = None


class SessionList(msgspec.Struct, frozen=True):
    """A page of sessions; `cursor` asks for the next one, None at the end.

    `cut`: a search had more matches than it looked at. `total`, if asked for: how many sessions the
    whole list has. `archived`, if asked for: how many archived sessions it leaves out.
    """

    sessions: tuple[ListedSession, ...]
    cursor: str | None = None
    cut: bool = False
    archived: int | None = None
    total: int | None = None


class MessageHtml(msgspec.Struct, frozen=True, omit_defaults=True):
    """The text of a message as HTML that a page may show as it is.

    The assistant's text is rendered as Markdown (code coloured by classes, images as links); a
    person's text stays as typed, line by line; a tool's result is `<pre>`. `thinking` is what the
    model thought, if known. There are no scripts or styles, nothing is loaded, and links lead to
    the web or to mail. Very long or deeply nested text is shown unrendered.
    """

    seq: int
    html: str
    thinking: str | None = None


class StateView(SessionState, frozen=True, omit_defaults=True):
    """The state of a session. `elsewhere`: a terminal of another process has it open.

    `runs_elsewhere`: the turn runs in another process than the one that is called.
    """

    elsewhere: bool = False
    runs_elsewhere: bool = False


class SessionDetail(msgspec.Struct, frozen=True):
    """A session, its state, and its newest messages. `more`: there are older ones.

    `html`, if asked for: one for each message, in the same order.
    """

    session: SessionView
    state: StateView
    messages: tuple[Message, ...]
    more: bool = False
    html: tuple[MessageHtml, ...] | None = None


class MessagePage(msgspec.Struct, frozen=True):
    """The newest messages between two numbers, in order.

    `more`: there are older ones too; ask again with `before`. `unfinished`: turns among these
    messages that ended without an answer, with their text so far. `html`, if asked for: one for
    each message, in the same order. `undone`: the numbers of undone messages.
    """

    messages: tuple[Message, ...]
    head: int
    more: bool = False
    unfinished: tuple[Turn, ...] = ()
    html: tuple[MessageHtml, ...] | None = None
    undone: tuple[int, ...] = ()


class Relative(msgspec.Struct, frozen=True):
    """Another session of a lineage; `at` is the last message that a fork and its parent share."""

    id: str
    name: str
    at: int | None = None


class CompactionView(Compaction, frozen=True, omit_defaults=True):
    """A compaction; `html`, if asked for, is its summary as `MessageHtml` has it."""

    html: str | None = None


class Lineage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a session comes from and goes on, and the summaries of its earlier part.

    `parent`: the session that it is a fork of; `forks`: those of it. `previous`: the one before a
    reset. `now`: the one that its key leads to, if that is another. `keys`: those that lead to it.
    Sessions that the caller may not see are left out. `compactions`: those in effect, oldest first.
    """

    parent: Relative | None = None
    forks: tuple[Relative, ...] = ()
    previous: Relative | None = None
    now: Relative | None = None
    keys: tuple[str, ...] = ()
    compactions: tuple[CompactionView, ...] = ()


class PreviewLine(msgspec.Struct, frozen=True):
    """One message, shortened to a line."""

    seq: int
    role: Role
    text: str


class SessionPreview(msgspec.Struct, frozen=True):
    """A session at a glance: its last messages, a line each."""

    session: SessionView
    lines: tuple[PreviewLine, ...]


DAMAGED: Final = "x-clew-damaged"
"""The header of an exported file that names its damaged messages, with spaces between them."""

MOST_DAMAGED: Final = 500
"""How many that header names at most."""


class Exported(msgspec.Struct, frozen=True):
    """A session as a file. `damaged` are the numbers of messages that are not what was stored."""

    name: str
    media_type: str
    content: str
    damaged: tuple[int, ...] = ()


class Failed(msgspec.Struct, frozen=True):
    """A session that was not changed, and why."""

    id: str
    problem: Problem


class Changed(msgspec.Struct, frozen=True):
    """Several sessions as they are after a change, and those that could not be changed.

    `changes`, given to `sessions.undo`, takes it back.
    """

    sessions: tuple[SessionView, ...]
    failed: tuple[Failed, ...] = ()
    changes: tuple[SessionChange, ...] = ()


class Pruned(msgspec.Struct, frozen=True):
    """The sessions that were archived or deleted, or would be, oldest first."""

    sessions: tuple[SessionView, ...]
    action: RetentionAction
    dry_run: bool


class Linked(msgspec.Struct, frozen=True):
    """A whole key, the session that it leads to now, and the one that it led to before."""

    key: str
    session: SessionView | None
    before: SessionView | None


class Imported(msgspec.Struct, frozen=True):
    """What an import did, or would do.

    `skipped` are the numbers of lines that could not be read. `whole` is False for a file that
    has fewer messages than its last line says, or was cut off before that line. A cut file gives
    all its messages but the last, and the whole one can still add the rest. `revoked` are the
    rules about tools that held in the session, and no longer do because the file added to it.
    """

    session_id: str
    outcome: Literal["created", "extended", "unchanged"]
    messages: int
    skipped: tuple[int, ...] = ()
    whole: bool = True
    revoked: tuple[str, ...] = ()


class Stopped(msgspec.Struct, frozen=True):
    """Whether a turn was aborted, how many of its sub-agents, and which messages were dropped."""

    session: str
    stopped: bool
    dropped: tuple[str, ...] = ()
    agents: int = 0


# --- looking ----------------------------------------------------------------------------------
SessionIds = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f,-]+$",
        min_length=36,
        max_length=37 * 200,
        extra={WORDS: "whole session ids with commas between them"},
    ),
]


class ListNames(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The list of sessions, with names only.

    `ids`: only these sessions, in this order, archived ones too; allows no other parameter.
    """

    ids: SessionIds | None = None
    limit: Annotated[int, Meta(ge=1, le=5_000)] = 500
    cursor: Cursor | None = None
    platform: Word | None = None
    cwd: Directory | None = None
    project: Directory | None = None


class SearchMessages(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to search for, where, by whom and when; both times inclusive.

    `typing`: the last word may be unfinished.
    """

    q: Query
    limit: Annotated[int, Meta(ge=0, le=200)] = 20
    cursor: Cursor | None = None
    platform: Word | None = None
    cwd: Directory | None = None
    project: Directory | None = None
    session: SessionId | None = None
    role: Role | None = None
    since: Moment | None = None
    until: Moment | None = None
    typing: bool = False
    per_session: bool = False


class FoundMessages(SearchPage, frozen=True, omit_defaults=True):
    """Hits, best first, and the short ids of their sessions."""

    short_ids: dict[str, str] = msgspec.field(default_factory=dict)


class ListStates(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whole ids, separated by commas."""

    ids: SessionIds


class StateList(msgspec.Struct, frozen=True):
    """States of sessions, by id."""

    states: dict[str, StateView]


class TodoList(msgspec.Struct, frozen=True):
    """A session's todo list."""

    todos: tuple[Todo, ...]


class RuleList(msgspec.Struct, frozen=True):
    """The rules about tools that hold in a session; those that deny come first, and win."""

    rules: tuple[HeldRule, ...]


class FindSessions(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person typed; sessions of the given directory come first.

    `purpose` as in `resolve`.
    """

    value: Value
    purpose: Purpose = "resume"
    cwd: Directory | None = None
    project: Directory | None = None
    scope: Literal["cwd", "git"] = "cwd"


class Found(msgspec.Struct, frozen=True):
    """The sessions that may be meant, newest first."""

    sessions: tuple[SessionView, ...]


def _session_etag(answer: Any) -> str:
    return str(getattr(answer, "session", answer).revision)


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "sessions.list", "GET", "sessions", "read", ListSessions, SessionList,
    "List sessions, newest first; with `q` search their messages, best first.",
    who="guest",
)  # fmt: skip
GET: Final = row(
    "sessions.get", "GET", "sessions/{id}", "read", GetSession, SessionDetail,
    "Get a session and its newest messages.", etag=_session_etag,
    who="guest",
)  # fmt: skip
MESSAGES: Final = row(
    "sessions.messages", "GET", "sessions/{id}/messages", "read", GetMessages, MessagePage,
    "Get a page of a session's messages.",
    who="guest",
)  # fmt: skip
UPDATE: Final = row(
    "sessions.update", "PATCH", "sessions/{id}", "write", UpdateSession, SessionView,
    "Change a session: what is left out stays, null clears.", etag=_session_etag,
    who="guest", also="`send_policy`, `model`, `thinking` and `personality` are the owner's",
)  # fmt: skip
DELETE: Final = row(
    "sessions.delete", "DELETE", "sessions/{id}", "write", OneSession, SessionView,
    "Put a session in the trash.",
    who="guest",
)  # fmt: skip
RESTORE: Final = row(
    "sessions.restore", "POST", "sessions/{id}/restore", "write", OneSession, SessionView,
    "Bring a session back from the trash.",
    who="guest",
)  # fmt: skip
FORK: Final = row(
    "sessions.fork", "POST", "sessions/{id}/fork", "write", ForkSession, SessionView,
    "Fork a session: a new one that shares its beginning.", status=201,
    who="guest", also="the fork belongs to the one who forks",
)  # fmt: skip
COMPACT: Final = row(
    "sessions.compact", "POST", "sessions/{id}/compact", "write", CompactSession, Compacted,
    "Compact a session: the model reads a summary in place of the older messages.",
    who="guest",
)  # fmt: skip
STOP: Final = row(
    "sessions.stop", "POST", "sessions/{id}/stop", "chat", StopSession, Stopped,
    "Abort the running turn, and drop the messages that wait.",
    who="guest",
)  # fmt: skip
EXPORT: Final = row(
    "sessions.export", "GET", "sessions/{id}/export", "read", ExportSession, Exported,
    "Export a session as a file.", answer="file",
    who="guest",
)  # fmt: skip
RESOLVE: Final = row(
    "sessions.resolve", "GET", "resolve", "read", ResolveSession, SessionView,
    "Find the session that a person means by what they typed.",
    who="guest",
)  # fmt: skip
PREVIEW: Final = row(
    "sessions.preview", "GET", "sessions/{id}/preview", "read", PreviewSession, SessionPreview,
    "Get the last messages of a session, a line each.",
    who="guest",
)  # fmt: skip
NAMES: Final = row(
    "sessions.names", "GET", "names", "read", ListNames, NamePage,
    "List the names of sessions, many at once, for a screen to choose from.",
    who="guest",
)  # fmt: skip
FACETS: Final = row(
    "sessions.facets", "GET", "facets", "read", NoParams, SessionFacets,
    "List the values by which sessions can be filtered: platforms, agents, projects, people.",
    who="guest",
)  # fmt: skip
SEARCH: Final = row(
    "sessions.search", "GET", "search", "read", SearchMessages, FoundMessages,
    "Search messages, best first, also while a person types.",
    who="guest",
)  # fmt: skip
STATES: Final = row(
    "sessions.states", "GET", "states", "read", ListStates, StateList,
    "Get the states of sessions.",
    who="guest",
)  # fmt: skip
TODOS: Final = row(
    "sessions.todos", "GET", "sessions/{id}/todos", "read", OneSession, TodoList,
    "Get a session's todo list.",
    who="guest",
)  # fmt: skip
LINEAGE: Final = row(
    "sessions.lineage", "GET", "sessions/{id}/lineage", "read", GetLineage, Lineage,
    "Get the sessions that a session comes from and leads to, and its compactions.",
    who="guest",
)  # fmt: skip
RULES: Final = row(
    "sessions.rules", "GET", "sessions/{id}/rules", "read", OneSession, RuleList,
    "List the rules about tools that hold in a session, with where they come from.",
)  # fmt: skip
FIND: Final = row(
    "sessions.find", "GET", "find", "read", FindSessions, Found,
    "Find all sessions that a person may mean.",
    who="guest",
)  # fmt: skip
MARK: Final = row(
    "sessions.mark", "POST", "marks", "write", MarkSessions, Changed,
    "Rename, pin, archive, delete or restore several sessions, or take that back, in one step.",
    who="guest",
)  # fmt: skip
UNDO: Final = row(
    "sessions.undo", "POST", "marks/undo", "write", UndoMarks, Changed,
    "Undo a `sessions.mark` exactly. Sessions that were changed since are left as they are.",
    who="guest",
)  # fmt: skip
PRUNE: Final = row(
    "sessions.prune", "POST", "prune", "write", PruneSessions, Pruned,
    "Archive or delete sessions that were not used for a long time.",
)  # fmt: skip
LINK: Final = row(
    "sessions.link", "POST", "routes", "write", LinkKey, Linked,
    "Link a key to a session: messages under it continue there.",
)  # fmt: skip
IMPORT: Final = row(
    "sessions.import", "POST", "import", "admin", ImportSession, Imported,
    "Import a transcript as a new session. An existing session is never added to.",
    uploads=True,
)  # fmt: skip
ROWS: Final = (
    LIST,
    GET,
    MESSAGES,
    UPDATE,
    DELETE,
    RESTORE,
    FORK,
    COMPACT,
    STOP,
    EXPORT,
    RESOLVE,
    PREVIEW,
    NAMES,
    FACETS,
    SEARCH,
    STATES,
    TODOS,
    LINEAGE,
    RULES,
    FIND,
    MARK,
    UNDO,
    PRUNE,
    LINK,
    IMPORT,
)
