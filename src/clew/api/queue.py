"""Messages that wait for their turn."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.chat import Accepted
from clew.api.fields import RowId, SessionId, Word
from clew.api.operation import Params, row
from clew.core.decision import read_decision
from clew.core.delivery import Inbound
from clew.core.turn import Turn


class ListQueue(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All queued messages, or those of one session."""

    session: SessionId | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class DropQueue(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Take back the queued messages of a session; with `id`, only that message."""

    session: SessionId
    id: RowId | None = None


class WaitForAnswer(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message, and for how many seconds to wait at most."""

    id: RowId
    seconds: Annotated[int, Meta(ge=1, le=25)] = 20


class QueuedView(msgspec.Struct, frozen=True):
    """A message that waits for its turn."""

    id: str
    session: str | None
    channel: str
    person: str
    text: str
    status: str
    received_at: int


class GetQueued(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The message that `chat.send` has accepted."""

    id: RowId


class RunQueued(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A waiting message that no process has claimed: a terminal's, after a crash.

    `attended` and `model` as for `chat.send`.
    """

    id: RowId
    attended: bool = True
    model: Word | None = None


class Outcome(msgspec.Struct, frozen=True):
    """A message and its `turn`, running or ended.

    If a restart cut the turn off, `turn` is the one that continues it.
    """

    message: QueuedView
    turn: Turn | None = None


class QueueList(msgspec.Struct, frozen=True):
    """The queued messages, oldest first."""

    messages: tuple[QueuedView, ...]


class Dropped(msgspec.Struct, frozen=True):
    """Messages that were taken back."""

    dropped: tuple[str, ...]


class Waited(msgspec.Struct, frozen=True):
    """The result of waiting. Without `turn` the message is not answered yet: ask again.

    `answer` is the last text of the assistant in the turn.
    """

    session: str
    turn: Turn | None = None
    answer: str | None = None


def view_queued(inbound: Inbound) -> QueuedView:
    """A message of the inbox as it is shown."""
    decision = read_decision(inbound)
    return QueuedView(
        inbound.id,
        inbound.session_id,
        decision.platform or inbound.channel,
        inbound.person,
        decision.text,
        inbound.status,
        inbound.received_at,
    )


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "queue.list", "GET", "queue", "read", ListQueue, QueueList,
    "List messages that wait for their turn.",
    who="guest",
)  # fmt: skip
DROP: Final = row(
    "queue.drop", "POST", "queue", "write", DropQueue, Dropped,
    "Take back the messages that wait in a session.",
    who="guest",
)  # fmt: skip
GET: Final = row(
    "queue.get", "GET", "queue/{id}", "read", GetQueued, Outcome,
    "Get a message that was sent, and the turn that answers it.",
    who="guest",
)  # fmt: skip
RUN: Final = row(
    "queue.run", "POST", "queue/{id}/run", "chat", RunQueued, Accepted,
    "Run a waiting message that no process has claimed.", status=202,
    also="the scopes that the message was accepted with",
)  # fmt: skip
WAIT: Final = row(
    "queue.wait", "GET", "queue/{id}/answer", "read", WaitForAnswer, Waited,
    "Wait until the turn that answers a message is over.",
    who="guest",
)  # fmt: skip
ROWS: Final = (
    LIST,
    DROP,
    GET,
    RUN,
    WAIT,
)
