"""What the public operations answer, where that is more than a row of the store.

Values only: the same over HTTP, over a socket and in process. Who may see them is decided above.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from clew.core.cron import CronJob
from clew.core.delivery import Inbound, Outbound
from clew.core.guests import Pairing
from clew.core.memory import MemoryName, MemoryVersion
from clew.core.message import Message, Role
from clew.core.overview import SessionState, Status, status_of
from clew.core.personality import MemoryScope, Personality
from clew.core.session import Session
from clew.core.snippets import Snippet
from clew.core.stats import StoreStats
from clew.core.tokens import Token
from clew.core.turn import Approval, Turn
from clew.core.usage import UsageBy, UsageRow

# --- sessions ---------------------------------------------------------------------------------


class SessionView(Session, frozen=True, omit_defaults=True, kw_only=True):
    """A session with the id that people type, what goes on in it, and all its tokens."""

    short_id: str
    status: Status | None
    total_tokens: int


class Hit(msgspec.Struct, frozen=True):
    """The message that a search found in a session: the best of it. Higher scores are better."""

    seq: int
    role: Role
    at: int
    snippet: Snippet
    score: float


class ListedSession(SessionView, frozen=True, omit_defaults=True, kw_only=True):
    """A session in a list; with a search, why it is there."""

    hit: Hit | None = None


class SessionList(msgspec.Struct, frozen=True):
    """A page of sessions; `cursor` asks for the next one, None at the end.

    `cut` tells that a search had more matches than were looked at.
    """

    sessions: tuple[ListedSession, ...]
    cursor: str | None = None
    cut: bool = False


class MessageHtml(msgspec.Struct, frozen=True, omit_defaults=True):
    """The text of a message as HTML that a page may show as it is.

    What the assistant said is read as Markdown (code coloured by classes, images as links); what a
    person said is kept as typed, line by line; what a tool answered is `<pre>`. `thinking` is what
    the model thought, if it told. No scripts, no styles, nothing loads, and links lead to the web
    or to mail. A text that is very long, or nested very deeply, is shown as it was written.
    """

    seq: int
    html: str
    thinking: str | None = None


class SessionDetail(msgspec.Struct, frozen=True):
    """A session and its newest messages. `more`: there are older ones.

    `html`, if asked for: one for each message, in the same order.
    """

    session: SessionView
    messages: tuple[Message, ...]
    more: bool = False
    html: tuple[MessageHtml, ...] | None = None


class MessagePage(msgspec.Struct, frozen=True):
    """The newest messages between two numbers, in order.

    `more`: there are others, older than these, that fit; ask again with `before`. `unfinished`:
    turns among these messages that were stopped while they answered, with what they had said.
    `html`, if asked for: one for each message, in the same order.
    """

    messages: tuple[Message, ...]
    head: int
    more: bool = False
    unfinished: tuple[Turn, ...] = ()
    html: tuple[MessageHtml, ...] | None = None


class PreviewLine(msgspec.Struct, frozen=True):
    """One message, shortened to a line."""

    seq: int
    role: Role
    text: str


class SessionPreview(msgspec.Struct, frozen=True):
    """A session at a glance: its last messages, a line each."""

    session: SessionView
    lines: tuple[PreviewLine, ...]


class Exported(msgspec.Struct, frozen=True):
    """A session as a file."""

    name: str
    media_type: str
    content: str


class Stopped(msgspec.Struct, frozen=True):
    """What a stop has done: whether a turn was aborted, with how many sub-agents of it, and which
    messages were taken back.
    """

    session: str
    stopped: bool
    dropped: tuple[str, ...] = ()
    agents: int = 0


def view_session(session: Session, short_id: str, state: SessionState) -> SessionView:
    """A session as it is shown."""
    return SessionView(**_facts(session, short_id, state))


def list_session(
    session: Session, short_id: str, state: SessionState, hit: Hit | None = None
) -> ListedSession:
    """A session as it is listed."""
    return ListedSession(**_facts(session, short_id, state), hit=hit)


def _facts(session: Session, short_id: str, state: SessionState) -> dict[str, Any]:
    usage = session.usage
    return {name: getattr(session, name) for name in Session.__struct_fields__} | {
        "short_id": short_id,
        "status": status_of(state),
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


# --- talking ----------------------------------------------------------------------------------


class Accepted(msgspec.Struct, frozen=True):
    """A message that was kept: its turn runs now or comes. `is_new`: it was not known before.

    The turn may answer several messages at once; `turn_id` is it, if it has begun.
    """

    session: str
    inbound: str
    is_new: bool = True
    turn_id: str | None = None


class QueuedView(msgspec.Struct, frozen=True):
    """A message that waits for its turn."""

    id: str
    session: str | None
    channel: str
    person: str
    text: str
    status: str
    received_at: int


class QueueList(msgspec.Struct, frozen=True):
    """What waits, oldest first."""

    messages: tuple[QueuedView, ...]


class Dropped(msgspec.Struct, frozen=True):
    """Messages that were taken back."""

    dropped: tuple[str, ...]


class ApprovalList(msgspec.Struct, frozen=True):
    """What waits for the owner's word, oldest first."""

    approvals: tuple[Approval, ...]


class OutboxList(msgspec.Struct, frozen=True):
    """Deliveries, newest first."""

    deliveries: tuple[Outbound, ...]


def view_queued(inbound: Inbound) -> QueuedView:
    """A message of the inbox as it is shown."""
    text = str(inbound.payload.get("text", ""))
    return QueuedView(
        inbound.id,
        inbound.session_id,
        inbound.channel,
        inbound.person,
        text,
        inbound.status,
        inbound.received_at,
    )


# --- memory and people ------------------------------------------------------------------------


class MemoryView(msgspec.Struct, frozen=True):
    """A memory file. `scope` is what was resolved: everybody's, or this personality's own."""

    store: MemoryName
    content: str
    etag: str
    scope: MemoryScope
    personality: str | None = None


class MemoryHistory(msgspec.Struct, frozen=True):
    """What was written before, newest first."""

    store: MemoryName
    scope: MemoryScope
    versions: tuple[MemoryVersion, ...]


class PersonalityList(msgspec.Struct, frozen=True):
    """The hats, `default` first."""

    personalities: tuple[Personality, ...]


class TokenList(msgspec.Struct, frozen=True):
    """All credentials, oldest first."""

    tokens: tuple[Token, ...]


class NewToken(msgspec.Struct, frozen=True):
    """A credential and its secret, which is never shown again."""

    token: Token
    secret: str


class PairingList(msgspec.Struct, frozen=True):
    """Guests: first those who wait to be let in; newest first."""

    pairings: tuple[Pairing, ...]


class JobList(msgspec.Struct, frozen=True):
    """The jobs that run by the clock, by name."""

    jobs: tuple[CronJob, ...]


# --- the whole --------------------------------------------------------------------------------


class UsageReport(msgspec.Struct, frozen=True):
    """What was spent, summed up. By day, names are dates where the gateway is.

    By session there are as many rows as were asked for, the dearest first; `count` says how many
    there are, and `total` is what all of them have spent.
    """

    by: UsageBy
    since: int
    rows: tuple[UsageRow, ...]
    count: int
    total: UsageRow


class StoreView(msgspec.Struct, frozen=True):
    """What kind of store it is."""

    url: str
    engine: str
    schema: int


class ChannelView(msgspec.Struct, frozen=True):
    """A channel, and whether it works."""

    name: str
    account: str
    state: Literal["up", "down", "off"]
    detail: str | None = None


class CronView(msgspec.Struct, frozen=True):
    """The jobs: how many, when the next one is due, and what went wrong with which."""

    jobs: int
    due_at: int | None = None
    problems: dict[str, str] = {}


class ErrandView(msgspec.Struct, frozen=True):
    """What a gateway does beside the turns (`replies`, `jobs`, `channels`), and whether it works.

    `others` takes up what other gateways leave when they die. What is down is started again by
    itself; `detail` says why it is.
    """

    name: str
    state: Literal["up", "down", "off"]
    detail: str | None = None


class LeaseView(msgspec.Struct, frozen=True):
    """A session that somebody is at work in, and who."""

    session: str
    holder: str
    expires_at: int
    status: Status | None


class StatusReport(msgspec.Struct, frozen=True):
    """How this clew is doing. A guest hears its version and the time, and nothing else."""

    version: str
    at: int
    stats: StoreStats | None = None
    store: StoreView | None = None
    channels: tuple[ChannelView, ...] = ()
    cron: CronView | None = None
    queued: int = 0
    waiting: int = 0
    leases: tuple[LeaseView, ...] = ()
    uncertain: int = 0
    asking: int = 0
    errands: tuple[ErrandView, ...] = ()
