"""The public operations, in one table: from it come HTTP, RPC, the OpenAPI document and the SDK.

An operation is a name, a path, the least scope that may call it, one struct of parameters and the
type of its answer. What an operation does is `client.calls`; how it travels is the gateway's. No
operation writes a message into a session but `chat.send`, through a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from clew.core.compaction import Compacted
from clew.core.complaints import explain
from clew.core.cron import CronJob
from clew.core.delivery import Outbound
from clew.core.guests import Pairing
from clew.core.overview import NamePage
from clew.core.params import (
    AddJob,
    CompactSession,
    CreateToken,
    DecideApproval,
    DecidePairing,
    DropQueue,
    ExportSession,
    ForkSession,
    GetMemory,
    GetMessages,
    GetSession,
    GetUsage,
    ListApprovals,
    ListOutbox,
    ListQueue,
    ListSessions,
    NoParams,
    OneJob,
    OneSession,
    OneToken,
    Params,
    PreviewSession,
    ResolveSession,
    RetryOutbound,
    SendChat,
    StopSession,
    UpdateSession,
    WriteMemory,
)
from clew.core.search import SearchPage
from clew.core.terminals import (
    BeginSession,
    CommandReply,
    FindSessions,
    Found,
    LeaveSeat,
    Left,
    ListNames,
    ListStates,
    Located,
    LocateSeat,
    ModelList,
    RunCommand,
    SearchMessages,
    Seated,
    StateList,
    SwitchSeat,
    TodoList,
)
from clew.core.tokens import Scope, Token
from clew.core.turn import Approval
from clew.core.views import (
    Accepted,
    ApprovalList,
    Dropped,
    Exported,
    JobList,
    MemoryHistory,
    MemoryView,
    MessagePage,
    NewToken,
    OutboxList,
    PairingList,
    PersonalityList,
    QueueList,
    SessionDetail,
    SessionList,
    SessionPreview,
    SessionView,
    StatusReport,
    Stopped,
    TokenList,
    UsageReport,
)
from clew.errors import InvalidInput

# --- the table --------------------------------------------------------------------------------

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Answer = Literal["json", "file", "events"]
"""`file`: an `Exported`, sent as the file itself. `events`: JSON, or a stream if asked for."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One public operation. `etag` reads the version of an answer, where it has one."""

    name: str
    method: Method
    path: str
    scope: Scope
    takes: type[Params]
    gives: Any
    help: str
    status: int = 200
    answer: Answer = "json"
    etag: Callable[[Any], str] | None = None

    @property
    def path_fields(self) -> tuple[str, ...]:
        """The parameters that stand in the path."""
        parts = self.path.split("/")
        return tuple(part[1:-1] for part in parts if part.startswith("{"))

    @property
    def header_fields(self) -> tuple[str, ...]:
        """The parameters that stand in a header: `if_match` in `If-Match`."""
        return ("if_match",) if "if_match" in self.takes.__struct_fields__ else ()

    @property
    def other_fields(self) -> tuple[str, ...]:
        """The others: of the query for GET and DELETE, else of the body."""
        elsewhere = (*self.path_fields, *self.header_fields)
        return tuple(each for each in self.takes.__struct_fields__ if each not in elsewhere)

    @property
    def has_body(self) -> bool:
        """Whether the other parameters come as a JSON body."""
        return self.method not in ("GET", "DELETE")


def _session_etag(answer: Any) -> str:
    return str(getattr(answer, "session", answer).revision)


def _memory_etag(answer: MemoryView) -> str:
    return answer.etag


def _operation(  # noqa: PLR0917  # a row of the table
    name: str,
    method: Method,
    path: str,
    scope: Scope,
    takes: type[Params],
    gives: Any,
    help: str,  # noqa: A002  # as the field is called
    **more: Any,
) -> Operation:
    return Operation(
        name=name,
        method=method,
        path=f"/v1/{path}",
        scope=scope,
        takes=takes,
        gives=gives,
        help=help,
        **more,
    )


OPERATIONS: Final[tuple[Operation, ...]] = (
    _operation(
        "sessions.list", "GET", "sessions", "read", ListSessions, SessionList,
        "List sessions, newest first; with `q` search their messages, best first.",
    ),
    _operation(
        "sessions.get", "GET", "sessions/{id}", "read", GetSession, SessionDetail,
        "Get a session and its newest messages.", etag=_session_etag,
    ),
    _operation(
        "sessions.messages", "GET", "sessions/{id}/messages", "read", GetMessages, MessagePage,
        "Get a page of a session's messages.",
    ),
    _operation(
        "sessions.update", "PATCH", "sessions/{id}", "write", UpdateSession, SessionView,
        "Change a session: what is left out stays, null clears.", etag=_session_etag,
    ),
    _operation(
        "sessions.delete", "DELETE", "sessions/{id}", "write", OneSession, SessionView,
        "Put a session in the trash.",
    ),
    _operation(
        "sessions.restore", "POST", "sessions/{id}/restore", "write", OneSession, SessionView,
        "Bring a session back from the trash.",
    ),
    _operation(
        "sessions.fork", "POST", "sessions/{id}/fork", "write", ForkSession, SessionView,
        "Begin a new session that shares the beginning of this one.", status=201,
    ),
    _operation(
        "sessions.compact", "POST", "sessions/{id}/compact", "write", CompactSession, Compacted,
        "Put a summary in the place of the older messages, for the model.",
    ),
    _operation(
        "sessions.stop", "POST", "sessions/{id}/stop", "chat", StopSession, Stopped,
        "Abort the turn that runs, and take back what waits.",
    ),
    _operation(
        "sessions.export", "GET", "sessions/{id}/export", "read", ExportSession, Exported,
        "Get a session as a file.", answer="file",
    ),
    _operation(
        "sessions.resolve", "GET", "resolve", "read", ResolveSession, SessionView,
        "Find the session that a person means.",
    ),
    _operation(
        "sessions.preview", "GET", "sessions/{id}/preview", "read", PreviewSession, SessionPreview,
        "Get the last messages of a session, a line each.",
    ),
    _operation(
        "sessions.names", "GET", "names", "read", ListNames, NamePage,
        "List the names of sessions, many at once, for a screen to choose from.",
    ),
    _operation(
        "sessions.search", "GET", "search", "read", SearchMessages, SearchPage,
        "Find messages, best first, also while somebody types.",
    ),
    _operation(
        "sessions.states", "GET", "states", "read", ListStates, StateList,
        "Tell what goes on in sessions.",
    ),
    _operation(
        "sessions.todos", "GET", "sessions/{id}/todos", "read", OneSession, TodoList,
        "Get a session's todo list.",
    ),
    _operation(
        "sessions.find", "GET", "find", "read", FindSessions, Found,
        "Find the sessions that a person may mean, all of them.",
    ),
    _operation(
        "seats.locate", "POST", "seats/locate", "chat", LocateSeat, Located,
        "Find the session of a terminal's directory.",
    ),
    _operation(
        "seats.begin", "POST", "seats/begin", "chat", BeginSession, SessionView,
        "Begin a session of a terminal's directory.", status=201,
    ),
    _operation(
        "seats.switch", "POST", "seats/switch", "chat", SwitchSeat, Seated,
        "Take a terminal from one session to another.",
    ),
    _operation(
        "seats.leave", "POST", "seats/leave", "chat", LeaveSeat, Left,
        "Let a terminal leave its session.",
    ),
    _operation(
        "commands.run", "POST", "commands", "chat", RunCommand, CommandReply,
        "Run a slash command, as in a chat.",
    ),
    _operation(
        "models.list", "GET", "models", "read", NoParams, ModelList, "List the models.",
    ),
    _operation(
        "chat.send", "POST", "chat", "chat", SendChat, Accepted,
        "Say something. Answers when it is kept; its turn comes.", status=202, answer="events",
    ),
    _operation(
        "chat.abort", "POST", "sessions/{id}/abort", "chat", StopSession, Stopped,
        "The same as sessions.stop.",
    ),
    _operation(
        "queue.list", "GET", "queue", "read", ListQueue, QueueList,
        "List messages that wait for their turn.",
    ),
    _operation(
        "queue.drop", "POST", "queue", "write", DropQueue, Dropped,
        "Take back the messages that wait in a session.",
    ),
    _operation(
        "approvals.list", "GET", "approvals", "read", ListApprovals, ApprovalList,
        "List the tool calls that wait for the owner's word.",
    ),
    _operation(
        "approvals.decide", "POST", "approvals/{id}", "write", DecideApproval, Approval,
        "Say yes or no to a tool call. The first answer stays.",
    ),
    _operation(
        "outbox.list", "GET", "outbox", "read", ListOutbox, OutboxList,
        "List replies to channels, and what became of them.",
    ),
    _operation(
        "outbox.retry", "POST", "outbox/{id}/retry", "write", RetryOutbound, Outbound,
        "Send a reply again that failed or is uncertain.",
    ),
    _operation(
        "memory.get", "GET", "memory/{store}", "read", GetMemory, MemoryView,
        "Read a memory file.", etag=_memory_etag,
    ),
    _operation(
        "memory.write", "PUT", "memory/{store}", "write", WriteMemory, MemoryView,
        "Write a memory file whole.", etag=_memory_etag,
    ),
    _operation(
        "memory.history", "GET", "memory/{store}/history", "read", GetMemory, MemoryHistory,
        "List the versions of a memory file.",
    ),
    _operation(
        "personalities.list", "GET", "personalities", "read", NoParams, PersonalityList,
        "List the personalities.",
    ),
    _operation(
        "tokens.list", "GET", "tokens", "admin", NoParams, TokenList, "List the credentials.",
    ),
    _operation(
        "tokens.create", "POST", "tokens", "admin", CreateToken, NewToken,
        "Make a credential. Its secret is shown once.", status=201,
    ),
    _operation(
        "tokens.revoke", "DELETE", "tokens/{id}", "admin", OneToken, Token,
        "End a credential for good.",
    ),
    _operation(
        "pairings.list", "GET", "pairings", "admin", NoParams, PairingList,
        "List guests, and those who ask to be let in.",
    ),
    _operation(
        "pairings.decide", "POST", "pairings", "admin", DecidePairing, Pairing,
        "Let a person in to talk, by their code or their name, or refuse them.",
    ),
    _operation(
        "cron.list", "GET", "cron", "read", NoParams, JobList, "List the jobs.",
    ),
    _operation(
        "cron.add", "POST", "cron", "write", AddJob, CronJob, "Add a job.", status=201,
    ),
    _operation(
        "cron.remove", "DELETE", "cron/{name}", "write", OneJob, CronJob,
        "Take a job away. Its sessions stay.",
    ),
    _operation(
        "cron.run", "POST", "cron/{name}/run", "write", OneJob, Accepted,
        "Begin a run of a job now.", status=202,
    ),
    _operation(
        "usage", "GET", "usage", "read", GetUsage, UsageReport,
        "Sum up tokens and money.",
    ),
    _operation(
        "status", "GET", "status", "read", NoParams, StatusReport,
        "How this clew is doing.",
    ),
)  # fmt: skip

_BY_NAME: Final = {each.name: each for each in OPERATIONS}


def get_operation(name: str) -> Operation:
    """The operation of this name, or `InvalidInput`."""
    operation = _BY_NAME.get(name)
    if operation is None:
        raise InvalidInput(f'There is no operation "{name[:100]}". The API reference lists them.')
    return operation


def read_params(operation: Operation, values: Mapping[str, Any], *, strict: bool = True) -> Params:
    """The parameters as values; `InvalidInput` says which one is wrong.

    Not `strict` where everything came as text, as in a query.
    """
    try:
        return msgspec.convert(dict(values), operation.takes, strict=strict)
    except msgspec.ValidationError as error:
        told = explain(error, operation.takes, values)
        raise InvalidInput(f"{told}. Nothing was changed.") from error
