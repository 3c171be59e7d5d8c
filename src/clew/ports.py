"""Every port on one page. The docstrings are the contract; `clew.testing` checks it.

A store implements most of these together as `Store`; what an agent, its models and its memory must
be for the runtime stands below it. Times are milliseconds UTC from the store's
own clock. Every method that writes returns after the commit, and a failed one has changed
nothing. Ids of turns, approvals, compactions, inbox and outbox rows are made by the caller. Text
comes back exactly as it went in, lone surrogates and NUL included.

Who a method answers: `list_sessions`, `list_names` and `search` always have a viewer; the others
take ids, and what a person may do with an id is decided above (`core.session.may_see`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import UNSET, UnsetType

from clew.core.turn import LEASE_MS

if TYPE_CHECKING:
    # Only the annotations need them: a process that lists sessions loads but a few.
    from clew.core.changes import Change, Recorded
    from clew.core.channels.incoming import Incoming, Receipt
    from clew.core.channels.people import Decided, NewPairing, Pairing
    from clew.core.channels.replies import Parcel
    from clew.core.context.size import ContextPart
    from clew.core.delivery import Inbound, NewInbound, NewOutbound, Outbound, OutboundStatus
    from clew.core.live_events import Signal
    from clew.core.memory import MemoryFile, MemoryName, MemoryVersion
    from clew.core.message import Draft, Message, ToolCall
    from clew.core.models import ModelInfo, Personality
    from clew.core.names import Title
    from clew.core.notes import Blob, Compaction, ScratchEntry, Todo
    from clew.core.search.hits import SearchFilter, SearchPage
    from clew.core.session import (
        NamePage,
        NewSession,
        Retained,
        Retention,
        RetentionAction,
        Session,
        SessionEdit,
        SessionFacts,
        SessionFilter,
        SessionPage,
        SessionState,
        StoreStats,
    )
    from clew.core.tokens import Token
    from clew.core.turn import (
        Approval,
        ApprovalScope,
        Attachment,
        Decision,
        Lease,
        Turn,
    )
    from clew.core.usage import Usage, UsageBy, UsageRow

Clock = Callable[[], int]
"""Milliseconds UTC."""


class Sessions(Protocol):
    """Sessions and the routes that lead to them."""

    async def open_session(self, new: NewSession) -> tuple[Session, bool]:
        """The session that `new.key` routes to, and whether it had to be made.

        A route whose session is gone (deleted, purged, or never there) is made anew. Two writers
        that meet a new key at once get one session.
        """
        ...

    async def create_session(
        self, new: NewSession, *, route: str | UnsetType | None = UNSET
    ) -> Session:
        """A new session, with zero usage; `new.key`, or `route` if given, leads to it from now on.

        With `route=None` no key does. The session that the route led to before stays as it is. An
        id that exists is refused with `Conflict`.
        """
        ...

    async def get_session(self, session_id: str) -> Session:
        """The session, archived or in the trash or not; `SessionNotFound` if there is none."""
        ...

    async def find_sessions(self, prefix: str, *, limit: int = 10) -> tuple[Session, ...]:
        """Sessions outside the trash whose id begins so, newest first (`core.keys.id_prefix`)."""
        ...

    async def find_titles(self, title: str, *, limit: int = 10) -> tuple[Session, ...]:
        """Sessions outside the trash with exactly this title, whatever its case, newest first."""
        ...

    async def find_endings(self, ending: str, *, limit: int = 10) -> tuple[Session, ...]:
        """Sessions outside the trash whose id ends so, at least four characters, newest first."""
        ...

    async def find_keys(self, key: str, *, limit: int = 10) -> tuple[Session, ...]:
        """Sessions outside the trash with exactly this key of their own, newest first."""
        ...

    async def shorten_ids(self, ids: Sequence[str]) -> dict[str, str]:
        """For each id the shortest beginning, at least 8 long, that no other session has."""
        ...

    async def list_sessions(
        self, where: SessionFilter, *, limit: int = 20, cursor: str | None = None
    ) -> SessionPage:
        """A page of sessions: pinned first, then by last update, newest first, then by id.

        A cursor continues where its page ended even if rows changed meanwhile: nothing that stays
        put is shown twice or left out. `InvalidCursor` for one that this list did not make. The
        cost does not depend on how many sessions there are.
        """
        ...

    async def count_sessions(self, where: SessionFilter) -> int:
        """How many sessions a list with this filter has in all."""
        ...

    async def list_names(
        self, where: SessionFilter, *, limit: int = 2000, cursor: str | None = None
    ) -> NamePage:
        """The same list as `list_sessions`, of names only: light enough to read all of it.

        Order and cursors are those of that list. One page has at most 5,000.
        """
        ...

    async def list_states(self, ids: Sequence[str]) -> dict[str, SessionState]:
        """The states of these sessions, by id; unknown ids are left out.

        Which processes live is what `find_lease` and `find_attachment` say. The cost depends on how
        many are asked about, not on how many there are.
        """
        ...

    async def edit_session(
        self, session_id: str, edit: SessionEdit, *, revision: int | None = None
    ) -> Session:
        """A person's change. Raises the revision if anything differs from what was there.

        With `revision`, `StaleRevision` if it is no longer the current one. Titles are trimmed;
        an empty one clears it. Unarchiving and editing never change `updated_at`.
        """
        ...

    async def describe_session(
        self, session_id: str, facts: SessionFacts, *, noted: dict[str, Any] | None = None
    ) -> Session:
        """What clew learned about the session. Never raises the revision or `updated_at`.

        With `noted`, `Conflict` if the session's metadata is no longer this.
        """
        ...

    async def find_route(self, key: str) -> Session | None:
        """The session that a key leads to, None when it leads nowhere (any more)."""
        ...

    async def set_route(self, key: str, session_id: str) -> None:
        """Let a key lead to a session from now on."""
        ...

    async def clear_route(self, key: str) -> None:
        """Let a key lead nowhere: its next message begins a session. No route is fine."""
        ...

    async def list_routes(self, session_id: str) -> tuple[str, ...]:
        """The keys that lead to a session, sorted."""
        ...

    async def fork_session(
        self, session_id: str, *, at: int | None = None, new_id: str | None = None
    ) -> Session:
        """A new session whose thread is this one's up to and with seq `at` (its head if None).

        Nothing is copied but scratchpad, todos, the compaction that holds there and which turns
        were undone; numbering goes on from the knot. Zero usage, title `<title> (fork)`, key
        `<key>:fork:<ms>`, no route. What the parent does later, undo and purge included, never
        changes the fork. `InvalidInput` for an `at` below 0 or beyond the head.
        """
        ...


class Log(Protocol):
    """Messages and turns, and the one call that writes them."""

    async def record(
        self,
        session_id: str,
        epoch: int,
        *changes: Change,
        idempotency_key: str | None = None,
    ) -> Recorded:
        """All of the changes, in order, or none. A message un-archives its session.

        `StaleLease` unless `epoch` is that of the lease that is held now. An idempotency key that
        this session has seen returns the first answer, whoever holds the lease, and changes
        nothing; keys are remembered for at least seven days.
        """
        ...

    async def append(
        self,
        session_id: str,
        epoch: int,
        draft: Draft,
        *,
        turn_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Message:
        """One message: `record` with a single `AddMessage`."""
        ...

    async def get_messages(
        self,
        session_id: str,
        limit: int | None = None,
        *,
        offset: int = 0,
        before: int | None = None,
        after: int | None = None,
        undone: bool = False,
    ) -> tuple[Message, ...]:
        """The newest `limit` messages of the thread (all if None), in chronological order.

        `offset` skips that many from the newest; `before` and `after` bound the seq, exclusively;
        with `after` and a limit it is still the newest that fit. `limit=0` is empty, a negative
        limit or offset a `ValueError`. A fork's inherited messages belong to its thread. Messages
        of undone turns are passed over unless `undone`.
        """
        ...

    async def get_turn(self, turn_id: str) -> Turn:
        """A turn, or `RecordNotFound`."""
        ...

    async def list_turns(
        self, session_id: str, *, limit: int = 20, unfinished: bool = False
    ) -> tuple[Turn, ...]:
        """The newest turns that were started in this session, in the order they began."""
        ...

    async def get_usage(self, *, since: int) -> Usage:
        """What the turns that began since then have spent, of all sessions."""
        ...

    async def list_usage(self, by: UsageBy, *, since: int) -> tuple[UsageRow, ...]:
        """What the turns that began since then have spent, summed up; sorted by name.

        By day, `name` is the beginning of a quarter of an hour in milliseconds: which day it
        belongs to depends on where the person is. By session it is the id, by model and platform
        their name, empty if unknown. Every session counts, in the trash too. Rows of sessions
        whose metadata says `estimated` say so.
        """
        ...

    async def interrupt_turns(self, session_id: str) -> tuple[Turn, ...]:
        """Mark unfinished turns as interrupted, if no living process holds the lease.

        Returns those that were; with a living lease, none. Their open approvals become a no.
        """
        ...

    async def decide_approval(
        self,
        approval_id: str,
        decision: Decision,
        *,
        by: str,
        scope: ApprovalScope = "once",
        reason: str | None = None,
    ) -> Approval:
        """Answer an approval. The first answer stays; after its time it is a no by `expired`.

        `reason` is what the owner says to a no, for the model. Returns the approval as it stands,
        so that a late answerer sees what was decided.
        """
        ...

    async def list_approvals(self, session_id: str | None = None) -> tuple[Approval, ...]:
        """The approvals that still wait for an answer, oldest first."""
        ...


class Processes(Protocol):
    """The processes that share the store."""

    @property
    def identity(self) -> str:
        """The name of this process as a holder of leases and a claimant of the inbox.

        A holder or claimant is such an identity, or one with `#` and more behind it; of any other
        name the store does not know whether it lives.
        """
        ...

    async def is_living(self, identity: str) -> bool:
        """Whether that holder still lives, as far as can be known; unknown ones count as living."""
        ...

    async def pulse(self) -> int:
        """A number that changes with every commit of any process. Asking is cheap."""
        ...


class Leases(Protocol):
    """The right to run the next turn. A lease is alive until it expires or its process dies."""

    async def acquire_lease(self, session_id: str, holder: str, *, ttl: int = LEASE_MS) -> Lease:
        """Take the lease; every taking raises the epoch. `LeaseHeld` while another's is alive.

        The holder of a living lease may take it again (a new epoch fences its own older self).
        """
        ...

    async def renew_lease(self, lease: Lease, *, ttl: int = LEASE_MS) -> Lease:
        """The same lease for longer; `StaleLease` if it was taken over or released."""
        ...

    async def release_lease(self, lease: Lease) -> None:
        """Release a lease; one that is no longer held is fine."""
        ...

    async def find_lease(self, session_id: str) -> Lease | None:
        """The lease that is alive now, if any."""
        ...


class Attachments(Protocol):
    """A terminal's exclusive hold on a session, kept by the process that has the store open."""

    async def attach(
        self, session_id: str, *, terminal: str | None = None
    ) -> tuple[Attachment, Attachment | None]:
        """Hold the session for this process. Returns the hold, and the dead one it took over.

        `SessionAttached` if another living process holds it. Alive on this host means that the
        process still holds its OS lock, on another that its last beat is younger than 30 s.
        Attaching never changes `updated_at`.
        """
        ...

    async def detach(self, session_id: str) -> None:
        """Let go, if this process holds it."""
        ...

    async def beat(self) -> None:
        """Tell other hosts that the attachments of this process are alive."""
        ...

    async def find_attachment(self, session_id: str) -> Attachment | None:
        """The living hold on a session, if any."""
        ...


class Search(Protocol):
    """Full text of every message."""

    async def search(
        self,
        query: str,
        where: SearchFilter,
        *,
        limit: int = 20,
        cursor: str | None = None,
        typing: bool = False,
        per_session: bool = False,
    ) -> SearchPage:
        """Messages that match, best first: bm25 with recency, higher scores are better.

        Any text is a valid query (see `core.search.query`); one without a word finds nothing.
        `typing` takes the last word as a beginning. Very common words are ranked among their newest
        matches only, and a search that meets its deadline (200 ms) returns what it has: both say
        `cut`. Filters narrow the candidates themselves. A message that forks share is one hit.
        `SessionNotFound` for one session that is not there, or that the viewer may not see.
        Trashed sessions never appear, archived ones do, marked; undone turns do too, for they
        were said. `per_session` keeps the best hit of each session. A cursor stays within the
        candidates of its first page.
        """
        ...


class Trash(Protocol):
    """Putting sessions away, and getting them back."""

    async def delete_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Put sessions in the trash, in one go: gone from lists, search and routes at once.

        Returns those that were put there; ids that are unknown or already there are not.
        """
        ...

    async def restore_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Bring sessions back from the trash; returns those that were there."""
        ...

    async def restore_last(self) -> tuple[str, ...]:
        """Bring back what was deleted last, in one go; called again, what was deleted before."""
        ...

    async def purge_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Remove trashed sessions for good; returns those that were. Others are left alone.

        `Locked`, and nothing removed, while any of them is attached or leased.

        Messages that a fork still reads stay until the last such fork is purged, unseen but for
        those forks. Blobs go with the last message that needs them.
        """
        ...

    async def purge_trash(self, deleted_before: int) -> tuple[str, ...]:
        """Purge what was trashed before that time."""
        ...

    async def prune_old_sessions(
        self, older_than: int, *, action: RetentionAction = "archive", dry_run: bool = False
    ) -> tuple[str, ...]:
        """Archive (or trash) sessions last updated before that time; returns their ids.

        Pinned, attached, leased and the newest session are spared.
        """
        ...

    async def retain(self, policy: Retention, *, dry_run: bool = False) -> Retained:
        """The retention pass: idle sessions, then the oldest until the content fits."""
        ...


class Notes(Protocol):
    """Scratchpad, todo list, compactions and blobs. Their writes go through `Log.record`."""

    async def list_scratch(self, session_id: str) -> tuple[ScratchEntry, ...]:
        """Names, sizes and times, without content, by name."""
        ...

    async def find_scratch(self, session_id: str, name: str) -> ScratchEntry | None:
        """One entry with its content."""
        ...

    async def get_todos(self, session_id: str) -> tuple[Todo, ...]:
        """The todo list, in its order."""
        ...

    async def find_compaction(self, session_id: str) -> Compaction | None:
        """The compaction that holds now."""
        ...

    async def list_compactions(self, session_id: str) -> tuple[Compaction, ...]:
        """All of them, undone ones too, oldest first."""
        ...

    async def put_blob(self, data: bytes, media_type: str) -> str:
        """Keep bytes; the same bytes are kept once. Returns their SHA-256."""
        ...

    async def get_blob(self, blob_hash: str) -> Blob:
        """The bytes, or `BlobNotFound`."""
        ...


class Inbox(Protocol):
    """Messages that came in, until a turn has them."""

    async def accept(self, new: NewInbound, *, claimant: str | None = None) -> tuple[Inbound, bool]:
        """Keep an inbound message; a second delivery returns the first row and False.

        With a claimant it is that one's from the beginning. Identities are remembered for at
        least seven days.
        """
        ...

    async def claim_inbound(
        self, claimant: str, *, session_id: str | None = None, limit: int = 20
    ) -> tuple[Inbound, ...]:
        """Take queued messages of one session, or of any, oldest first: each goes to one."""
        ...

    async def release_inbound(self, claimant: str) -> int:
        """Put back in the queue what a dead claimant had taken and no turn has."""
        ...

    async def drop_inbound(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Drop queued messages; returns those that were. The rows stay, as `dropped`."""
        ...

    async def list_inbound(
        self, session_id: str | None = None, *, key: str | None = None, limit: int = 100
    ) -> tuple[Inbound, ...]:
        """What is queued or claimed, oldest first: of one session, or of any.

        With a key, what came under that key too, whatever session it was for.
        """
        ...

    async def list_taken_inbound(self, turn_id: str) -> tuple[Inbound, ...]:
        """The messages that a turn has taken, oldest first; none if there is no such turn.

        The cost depends on how many the turn has, not on how many there are.
        """
        ...

    async def get_inbound(self, inbound_id: str) -> Inbound:
        """One message of the inbox, whatever its status; `RecordNotFound` if there is none."""
        ...


class Outbox(Protocol):
    """Replies, until a receipt says that they arrived. A turn's are made by `Log.record`."""

    async def add_outbound(self, session_id: str | None, new: NewOutbound) -> Outbound:
        """A reply that belongs to no turn, whoever is busy with the session at the moment.

        One whose id is known stays as it is. `SessionNotFound` if there is no such session; what
        belongs to none has None.
        """
        ...

    async def claim_outbound(
        self, claimant: str, *, channels: Sequence[str] | None = None, limit: int = 20
    ) -> tuple[Outbound, ...]:
        """Take due replies, oldest first, as `sending`; per key never one before an earlier one."""
        ...

    async def settle_outbound(
        self,
        outbound_id: str,
        status: OutboundStatus,
        *,
        receipt: dict[str, object] | None = None,
        error: str | None = None,
        due_at: int | None = None,
    ) -> Outbound:
        """Record the result of a delivery; `pending` with `due_at` tries again then."""
        ...

    async def doubt_outbound(self, claimant: str) -> tuple[Outbound, ...]:
        """Mark what a dead claimant was sending as `uncertain`."""
        ...

    async def list_outbound(
        self, *, session_id: str | None = None, status: OutboundStatus | None = None,
        limit: int = 100,
    ) -> tuple[Outbound, ...]:  # fmt: skip
        """Deliveries, newest first."""
        ...

    async def get_outbound(self, outbound_id: str) -> Outbound:
        """One delivery, whatever its status; `RecordNotFound` if there is none."""
        ...


class Tokens(Protocol):
    """Credentials of the gateway. Only their hashes are kept."""

    async def add_token(self, token: Token, digest: bytes) -> None:
        """Keep a credential."""
        ...

    async def find_token(self, digest: bytes) -> Token | None:
        """The credential with this digest, revoked and expired ones too."""
        ...

    async def list_tokens(self) -> tuple[Token, ...]:
        """All credentials, oldest first."""
        ...

    async def revoke_token(self, token_id: str) -> Token:
        """End a credential for good; the first revocation's time stays."""
        ...


class Pairings(Protocol):
    """Who was let in to talk, or refused, and who asks to be let in."""

    async def ask_pairing(self, new: NewPairing, *, most: int) -> Pairing | None:
        """A stranger asks to be paired: a code for an hour, or the one that they still have.

        `told` says how often they asked with it. A decision about them stays as it is. None if
        `most` others of that channel wait already. Codes that were not approved are forgotten, and
        after a day deliveries that are over and belong to no session.
        """
        ...

    async def find_pairing(self, person: str) -> Pairing | None:
        """The pairing of a person, if there is one."""
        ...

    async def list_pairings(self) -> tuple[Pairing, ...]:
        """All of them: first those who wait, expired ones too; newest first."""
        ...

    async def redeem_pairing(self, code: str, *, by: str) -> Pairing:
        """Pair the person who has this code, once; `RecordNotFound` if it is not valid."""
        ...

    async def decide_pairing(
        self, person: str, channel: str, status: Decided, *, by: str
    ) -> Pairing:
        """Pair a person, or refuse them, whether they have asked or not."""
        ...


class Store(
    Sessions,
    Log,
    Processes,
    Leases,
    Attachments,
    Search,
    Trash,
    Notes,
    Inbox,
    Outbox,
    Tokens,
    Pairings,
    Protocol,
):
    """A session store. Open one with `clew.open_store(url)`, and use it as `async with`."""

    async def stats(self) -> StoreStats:
        """Counts and sizes of the whole store."""
        ...

    async def close(self) -> None:
        """Finish what is being written and close. Using the store afterwards is `StoreClosed`."""
        ...


class LiveTurn(Protocol):
    """A turn while it runs, as the agent sees it. Everything it records is fenced by the lease."""

    @property
    def id(self) -> str:
        """The turn's id."""
        ...

    @property
    def session(self) -> Session:
        """The session as it was when the turn began."""
        ...

    @property
    def person(self) -> str:
        """Who asked: what the tools may see and do is this person's right."""
        ...

    async def get_thread(self, limit: int) -> tuple[Message, ...]:
        """The newest messages, with everything that this turn has recorded."""
        ...

    async def record(self, *changes: Change) -> Recorded:
        """Commit, then show. `StaleLease` when another process has taken the session over."""
        ...

    async def take_steering(self) -> bool:
        """Record what the person has said meanwhile, as messages of this turn; False if nothing.

        To be called between two requests, when every tool call has its result.
        """
        ...

    async def finish(self, *changes: Change) -> Recorded:
        """The last record: with it, in one commit, the turn is done."""
        ...

    def signal(self, signal: Signal) -> None:
        """Send a live event to those who watch the session."""
        ...

    async def ask(self, call: ToolCall, request: dict[str, Any]) -> Approval:
        """Ask the owner about a tool call, and wait: returns the decided approval."""
        ...

    async def set_mode(self, mode: str) -> None:
        """Change the session's mode, for the rest of this turn too."""
        ...

    async def allow(self, rule: str, *, always: bool) -> None:
        """Remember a rule that the owner approved: for this session, or always."""
        ...

    async def spawn(self, task: str, *, personality: str | None = None) -> str:
        """Run a task in a session of its own, with this turn's rights; returns its last answer."""
        ...


class Agent(Protocol):
    """What answers. It is given a turn and knows nothing of lanes, surfaces and keys."""

    async def warm(self, model: str | None = None) -> None:
        """Load what the first turn would wait for, at any time. Never raises."""
        ...

    async def run(self, turn: LiveTurn) -> None:
        """Do what the turn's user message asks; ends with `turn.finish`.

        `TurnFailed` with words for the person if that can't be done. Cancelling the task stops it,
        its tools included, within 200 ms.
        """
        ...

    async def make_title(self, model: str | None, thread: Sequence[Message]) -> Title:
        """A short title for a conversation, without a text if this model has none. May raise."""
        ...


Receive: TypeAlias = "Callable[[Incoming], Awaitable[Receipt]]"
"""Keep a message that came in. Durable when it returns: then the platform is told so."""


class Channel(Protocol):
    """A way to people. It knows its platform, and nothing of sessions, keys and turns."""

    @property
    def name(self) -> str:
        """What it is called in keys, and in the outbox."""
        ...

    @property
    def account(self) -> str:
        """Which of its accounts this is."""
        ...

    async def run(self, receive: Receive) -> None:
        """Listen until cancelled. A message is acknowledged when `receive` has returned.

        What it raises, and returning, means that it has to be started again.
        """
        ...

    def split(self, text: str) -> Sequence[str]:
        """A reply as the messages that it needs, in order; together they are the text."""
        ...

    async def send(self, parcel: Parcel) -> dict[str, Any]:
        """Deliver one message; returns the receipt of the platform.

        `ReplyRefused` and `ReplyDelayed` say that it certainly did not arrive, for good or for now.
        After any other error, and after a cancel, it is unknown whether it arrived.
        """
        ...

    def may_repeat(self, outbound: Outbound) -> bool:
        """Whether a reply that may have arrived is sent again without asking the owner.

        Only where the other side recognises a second delivery by its id.
        """
        ...


class Context(Protocol):
    """What a turn's request consists of, beside the thread."""

    async def list_parts(self, session: Session, person: str) -> tuple[ContextPart, ...]:
        """The parts of the system prompt and the tools, in the order in which they are sent."""
        ...


class Models(Protocol):
    """The models of this configuration."""

    def list_models(self) -> tuple[ModelInfo, ...]:
        """All that can be named here; those that can't be used say why in `problem`."""
        ...

    def get_model(self, name: str | None = None) -> ModelInfo:
        """A model by what a person typed, the default if None; `ModelNotFound` with near names."""
        ...


class Personalities(Protocol):
    """The personalities of the agent."""

    def list_personalities(self) -> tuple[Personality, ...]:
        """All of them, `default` first, then by id."""
        ...

    def get_personality(self, personality_id: str | None = None) -> Personality:
        """One of them, the default if None; `PersonalityNotFound` with the list."""
        ...


class Memory(Protocol):
    """The two files. Callers name the file and the personality, never a path."""

    async def read(self, name: MemoryName, personality: Personality | None = None) -> MemoryFile:
        """The file as it is now; one that is not there is empty."""
        ...

    async def write(
        self,
        name: MemoryName,
        text: str,
        personality: Personality | None = None,
        *,
        by: str,
        etag: str | None = None,
    ) -> MemoryFile:
        """The whole file anew, in one step. `StaleMemory` if `etag` is not the present one's."""
        ...

    async def list_versions(
        self, name: MemoryName, personality: Personality | None = None
    ) -> tuple[MemoryVersion, ...]:
        """What was written before, newest first, the present text included if clew wrote it."""
        ...

    async def get_version(
        self, name: MemoryName, number: int, personality: Personality | None = None
    ) -> str:
        """The text of a version, or `RecordNotFound`."""
        ...
