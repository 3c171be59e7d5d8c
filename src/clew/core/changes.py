"""The typed changes that one `record` call consists of: all of them happen, or none.

`at` is for imports, which keep the original times; left out, the store's clock is used.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.core.delivery import NewOutbound
from clew.core.message import Draft
from clew.core.notes import Todo
from clew.core.session import SessionFacts
from clew.core.turn import TurnEnd
from clew.core.usage import Usage


class AddMessage(msgspec.Struct, frozen=True):
    """The next message of the thread. `from_person` moves the reset clock.

    A message with an `external_id` that the session has already is a `Conflict`; with `once` it is
    passed over, and the first one's number is returned.
    """

    draft: Draft
    turn_id: str | None = None
    from_person: bool = True
    once: bool = False


class StartTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn begins; `inbound` are the inbox rows that it answers."""

    turn_id: str
    model: str | None = None
    reply_to: dict[str, Any] | None = None
    inbound: tuple[str, ...] = ()
    at: int | None = None


class TakeInbound(msgspec.Struct, frozen=True, kw_only=True):
    """Inbox rows that arrived during a running turn and were added to it: it answers them too."""

    turn_id: str
    inbound: tuple[str, ...]


class WaitForApproval(msgspec.Struct, frozen=True, kw_only=True):
    """The turn asks the owner about a tool call and waits."""

    approval_id: str
    turn_id: str
    tool_call_id: str
    tool_name: str
    request: dict[str, Any]
    expires_at: int


class ResumeTurn(msgspec.Struct, frozen=True):
    """The approval is decided and the turn goes on."""

    turn_id: str


class EndTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn ends. `partial` is the text that a failed turn had produced so far."""

    turn_id: str
    status: TurnEnd
    error: str | None = None
    partial: str | None = None
    at: int | None = None


class AddUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and money spent: added to the session, and to the turn if there is one."""

    usage: Usage
    turn_id: str | None = None
    context_tokens: int | None = None


class UndoTurn(msgspec.Struct, frozen=True):
    """Undo a turn: this thread is read without it. Messages keep their numbers."""

    turn_id: str
    at: int | None = None


class RedoTurn(msgspec.Struct, frozen=True):
    """Bring back a turn that was undone."""

    turn_id: str


class EraseTurn(msgspec.Struct, frozen=True):
    """Undo a turn for good: what its messages said is removed from the store at once.

    Their numbers stay. A turn that a fork shares, or that was inherited, is undone here only: the
    other session still has it.
    """

    turn_id: str


class DescribeSession(msgspec.Struct, frozen=True):
    """What is learned about the session, see `Sessions.describe_session`."""

    facts: SessionFacts
    noted: dict[str, Any] | None = None


class AddCompaction(msgspec.Struct, frozen=True, kw_only=True):
    """From now on the model reads `summary` instead of what comes before `keep_from`."""

    compaction_id: str
    keep_from: int
    summary: str
    short_summary: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    at: int | None = None


class UndoCompaction(msgspec.Struct, frozen=True):
    """Undo a compaction; the previous one, if any, applies again."""

    compaction_id: str
    at: int | None = None


class WriteScratch(msgspec.Struct, frozen=True):
    """Write a scratchpad entry; replaces one of the same name."""

    name: str
    content: str
    at: int | None = None


class DeleteScratch(msgspec.Struct, frozen=True):
    """Delete a scratchpad entry; does nothing if there is none of that name."""

    name: str


class WriteTodos(msgspec.Struct, frozen=True):
    """Replace the whole todo list."""

    todos: tuple[Todo, ...]


class Send(msgspec.Struct, frozen=True):
    """A reply to deliver, durable with everything else in this record."""

    outbound: NewOutbound


Change = (
    AddMessage
    | StartTurn
    | TakeInbound
    | WaitForApproval
    | ResumeTurn
    | EndTurn
    | AddUsage
    | UndoTurn
    | RedoTurn
    | EraseTurn
    | DescribeSession
    | AddCompaction
    | UndoCompaction
    | WriteScratch
    | DeleteScratch
    | WriteTodos
    | Send
)


class Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a record: seqs and rows of its messages, in order, the head, and when.

    `repeated`: the idempotency key was already known, and this is the result of the first call.
    """

    seqs: tuple[int, ...]
    ids: tuple[int, ...]
    head: int
    at: int
    repeated: bool = False
