"""Every port on one page. The docstrings are the contract; `clew.testing` checks it.

A store implements most of these together as `Store`; the ports of the agent, its models and its
memory are below it. Times are milliseconds UTC from the store's own clock. Every method that writes
returns after the commit, and a failed one has changed nothing. Ids of turns, approvals,
compactions, inbox and outbox rows are made by the caller. Text comes back exactly as it was stored,
lone surrogates and NUL included.

`list_sessions`, `list_names` and `search` always have a viewer. The other methods take ids; their
callers check what a person may do with an id (`core.session.may_see`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from msgspec import UNSET, UnsetType

from clew.core.session import OWNER
from clew.core.turn import LEASE_MS

if TYPE_CHECKING:
    # Needed only for annotations: a process that lists sessions loads few of these modules.
    from clew.core.changes import Change, Recorded
    from clew.core.channels.incoming import Event, Receipt
    from clew.core.channels.kinds import ChannelCheck
    from clew.core.channels.people import Decided, NewPairing, Pairing
    from clew.core.channels.replies import Choice, Parcel, Piece
    from clew.core.chunks import Chunks, Recollection
    from clew.core.context.size import ContextPart
    from clew.core.delivery import (
        ContextLine,
        Inbound,
        InboundStatus,
        NewInbound,
        NewOutbound,
        Outbound,
        OutboundStatus,
    )
    from clew.core.live_events import Signal
    from clew.core.memory import MemoryFile, MemoryName, MemoryVersion
    from clew.core.message import Draft, Message, ToolCall
    from clew.core.models import LocalServer, ModelInfo, Personality, PersonalityEdit
    from clew.core.names import Title
    from clew.core.notes import Blob, Compaction, ImportNote, ScratchEntry, Todo
    from clew.core.search.hits import SearchFilter, SearchPage
    from clew.core.session import (
        NamePage,
        NewSession,
        Retained,
        Retention,
        RetentionAction,
        Session,
        SessionChange,
        SessionEdit,
        SessionFacets,
        SessionFacts,
        SessionFilter,
        SessionPage,
        SessionState,
        StoreStats,
    )
    from clew.core.tokens import Scopes, Token
    from clew.core.turn import (
        Approval,
        ApprovalScope,
        Attachment,
        Decision,
        Lease,
        Turn,
    )
    from clew.core.usage import Usage, UsageBy, UsageRanking, UsageRow

Clock = Callable[[], int]
"""Milliseconds UTC."""


class Sessions(Protocol):
    """Sessions and the routes that lead to them."""

    async def open_session(self, new: NewSession) -> tuple[Session, bool]:
        """The session that `new.key` leads to, and whether it had to be made.

        A route whose session is gone (deleted, purged, or never there) gets a new session. Two
        writers that open a new key at the same time get the same session.
        """
        ...

    async def create_session(
        self, new: NewSession, *, route: str | UnsetType | None = UNSET, yields: bool = False
    ) -> Session:
        """Make a session, with zero usage; `new.key`, or `route` if given, leads to it from now on.

        With `route=None` no key does; nor with `yields`, if it leads to a session already: of two
        that are made at the same time, the route leads to one. The session that the route led to
        before is not changed. `Conflict` if the id exists, `SessionNotFound` if the parent does
        not.
        """
        ...

    async def get_session(self, session_id: str) -> Session:
        """The session, also if archived or in the trash; `SessionNotFound` if there is none."""
        ...

    async def find_sessions(self, prefix: str, *, limit: int = 10) -> tuple[Session, ...]:
        """Sessions outside the trash by prefix of the id (`core.keys.id_prefix`), newest first."""
        ...

    async def find_titles(self, title: str, *, limit: int = 10) -> tuple[Session, ...]:
        """Sessions outside the trash with exactly this title, ignoring case, newest first."""
        ...

    async def find_endings(self, ending: str, *, limit: int = 10) -> tuple[Session, ...]:
        """Sessions outside the trash by the end of the id (at least 4 characters), newest first."""
        ...

    async def find_keys(self, key: str, *, limit: int = 10) -> tuple[Session, ...]:
        """Sessions outside the trash whose own key is exactly this, newest first."""
        ...

    async def shorten_ids(self, ids: Sequence[str]) -> dict[str, str]:
        """For each id its shortest unique prefix, at least 8 characters long."""
        ...

    async def get_names(self, ids: Sequence[str]) -> dict[str, str]:
        """The names of these sessions that people see, by id, also of those in the trash.

        Unknown and purged ones are left out.
        """
        ...

    async def list_sessions(
        self, where: SessionFilter, *, limit: int = 20, cursor: str | None = None
    ) -> SessionPage:
        """A page of sessions: pinned first, then by last update, newest first, then by id.

        A cursor continues where its page ended, even if rows have changed: a session that did not
        move is neither shown twice nor left out. `InvalidCursor` for a cursor of another list. The
        cost does not depend on how many sessions there are, but where several filters are given,
        on how many the most selective of them leaves. With `state`, sessions are in that state at
        the moment of the call.
        """
        ...

    async def count_sessions(self, where: SessionFilter) -> int:
        """How many sessions a list with this filter has in all; `InvalidInput` with `state`."""
        ...

    async def list_facets(self, viewer: str) -> SessionFacets:
        """The values that sessions outside the trash have, archived ones too.

        For the owner, the cost does not depend on how many sessions there are.
        """
        ...

    async def list_names(
        self, where: SessionFilter, *, limit: int = 2000, cursor: str | None = None
    ) -> NamePage:
        """The same list as `list_sessions`, with names only: cheap enough to read completely.

        Order and cursors are those of that list. One page has at most 5,000. `InvalidInput` with
        `state`.
        """
        ...

    async def list_states(self, ids: Sequence[str]) -> dict[str, SessionState]:
        """The states of these sessions, by id; unknown ids are left out.

        A process counts as alive by the same rules as in `find_lease` and `find_attachment`. The
        cost depends on the number of ids, not on the number of sessions.
        """
        ...

    async def edit_session(
        self, session_id: str, edit: SessionEdit, *, revision: int | None = None
    ) -> Session:
        """Apply a person's change. Raises the revision if anything is different then.

        With `revision`, `StaleRevision` if it is no longer the current one. Titles are trimmed;
        an empty one clears it. Unarchiving and editing never change `updated_at`.
        """
        ...

    async def mark_sessions(
        self,
        ids: Sequence[str],
        *,
        title: str | UnsetType | None = UNSET,
        pinned: bool | UnsetType = UNSET,
        archived: bool | UnsetType = UNSET,
        trashed: bool | UnsetType = UNSET,
    ) -> tuple[SessionChange, ...]:
        """Rename, pin, archive, delete or restore sessions, or take that back, in one commit.

        Returns what was changed, in the order of the ids, for `undo_marks`; unknown ids, and
        sessions that are so already, are left out. Raises the revision of what was edited.
        """
        ...

    async def undo_marks(self, changes: Sequence[SessionChange]) -> tuple[str, ...]:
        """Undo changes of `mark_sessions`, in one commit, exactly, times included.

        Returns the sessions that are as before now. One whose marks are no longer as its change
        left them is left alone: it was changed since. `InvalidInput` for times in the future, and
        for a session that is named twice.
        """
        ...

    async def describe_session(
        self, session_id: str, facts: SessionFacts, *, noted: dict[str, Any] | None = None
    ) -> Session:
        """Store what clew learned about the session. Never changes the revision or `updated_at`.

        With `noted`, `Conflict` if the session's metadata is no longer equal to it.
        """
        ...

    async def find_route(self, key: str) -> Session | None:
        """The session that a key leads to; None if it leads nowhere."""
        ...

    async def set_route(self, key: str, session_id: str) -> None:
        """Let a key lead to a session from now on."""
        ...

    async def clear_route(self, key: str) -> None:
        """Let a key lead nowhere: its next message begins a session. Fine if there is no route."""
        ...

    async def list_routes(self, session_id: str) -> tuple[str, ...]:
        """The keys that lead to a session, sorted."""
        ...

    async def fork_session(
        self,
        session_id: str,
        *,
        at: int | None = None,
        new_id: str | None = None,
        person: str | None = None,
    ) -> Session:
        """A new session with the thread of this one up to and including seq `at` (None: its head).

        Only scratchpad, todos, the compaction in effect there and the undone marks are copied;
        messages are shared, and numbering continues after `at`. Zero usage, title `<title> (fork)`,
        key `<key>:fork:<ms>`, no route. Later changes of the parent, undo and purge included, never
        change the fork. It belongs to `person` (None: to the parent's); another person than the
        parent's gets neither its `last_route` nor its `send_policy`. `InvalidInput` for an `at`
        below 0 or beyond the head.
        """
        ...

    async def list_forks(self, session_id: str, *, limit: int = 100) -> tuple[Session, ...]:
        """The forks of a session that are not in the trash, in the order of their knots."""
        ...


class Log(Protocol):
    """Messages and turns, and the one call that writes them."""

    async def record(
        self,
        session_id: str,
        epoch: int | None,
        *changes: Change,
        idempotency_key: str | None = None,
    ) -> Recorded:
        """Apply all of the changes, in order, or none. A message un-archives its session.

        `StaleLease` unless `epoch` is that of the current lease. With None the record takes the
        lease and releases it in its own commit: `LeaseHeld` while anybody's is alive. If this
        session has seen the idempotency key before, the first result is returned, whoever holds the
        lease, and nothing changes; keys are remembered for at least seven days.
        """
        ...

    async def append(
        self,
        session_id: str,
        epoch: int | None,
        draft: Draft,
        *,
        turn_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Message:
        """Add one message: `record` with a single `AddMessage`."""
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
        notes: bool = False,
    ) -> tuple[Message, ...]:
        """The newest `limit` messages of the thread (all if None), in chronological order.

        `offset` skips that many from the newest; `before` and `after` bound the seq, exclusively;
        with `after` and a limit, the newest of them are returned. `limit=0` returns nothing; a
        negative limit or offset is a `ValueError`. Inherited messages belong to a fork's thread.
        Messages of undone turns are left out unless `undone`, and notes unless `notes`.
        """
        ...

    async def list_external(
        self, session_id: str, prefix: str, *, before: str | None = None, limit: int = 100
    ) -> tuple[Message, ...]:
        """Messages and notes of the thread whose external id begins with `prefix`, in its order.

        The greatest id comes first, by code points; `before` goes on after it. Those of undone
        turns are left out; if a fork has an id that its parent has too, its own one is returned.
        The cost does not depend on the length of the thread.
        """
        ...

    async def find_message(self, session_id: str, external_id: str) -> Message | None:
        """The message of the thread that another program knows by this id, if there is one.

        Also one of an undone turn, or of a parent before the knot. The cost is constant.
        """
        ...

    async def list_damaged(self, session_id: str) -> tuple[int, ...]:
        """The numbers of the messages of a thread whose text is not the one that was stored.

        It reads the whole thread. A message that was changed by hand is not damaged.
        """
        ...

    async def get_turn(self, turn_id: str) -> Turn:
        """A turn, or `RecordNotFound`."""
        ...

    async def list_turns(
        self, session_id: str, *, limit: int = 20, unfinished: bool = False
    ) -> tuple[Turn, ...]:
        """The newest turns that began in this session, in the order in which they began."""
        ...

    async def get_usage(self, *, since: int) -> Usage:
        """The usage of all turns, of all sessions, that began since then."""
        ...

    async def list_usage(self, by: UsageBy, *, since: int) -> tuple[UsageRow, ...]:
        """The usage of the turns that began since then, grouped; sorted by name.

        By day, `name` is the beginning of a quarter of an hour in milliseconds: its day depends on
        the reader's time zone. By session and person it is their id, by model and platform their
        name, empty if unknown. All sessions count, also those in the trash. A row is `estimated` if
        the metadata of one of its sessions says so.
        """
        ...

    async def rank_usage(self, *, since: int, limit: int) -> UsageRanking:
        """The same by session, the dearest first: by cost, then by tokens, unknown costs last.

        At most `limit` of them, and what all of them have spent.
        """
        ...

    async def interrupt_turns(self, session_id: str) -> tuple[Turn, ...]:
        """Mark unfinished turns as interrupted, if no live process holds the lease.

        Returns the turns that were marked; with a live lease, none. Their open approvals are
        denied.
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
        """Answer an approval. The first answer stays; an expired one is denied, by `expired`.

        `reason` is what the owner says to a no, for the model. Returns the approval as it is now,
        so that a late caller sees what was decided.
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

        A holder or claimant is such an identity, or an identity followed by `#` and more. For any
        other name the store can't know whether it is alive.
        """
        ...

    async def is_living(self, identity: str) -> bool:
        """Whether that holder is alive, as far as can be known; unknown ones count as alive."""
        ...

    async def pulse(self) -> int:
        """A number that changes with every commit of any process. Cheap to read."""
        ...


class Leases(Protocol):
    """The right to run the next turn. A lease is alive until it expires or its process dies."""

    async def acquire_lease(self, session_id: str, holder: str, *, ttl: int = LEASE_MS) -> Lease:
        """Take the lease, with a higher epoch each time. `LeaseHeld` while another's is alive.

        The holder of a live lease may take it again (the new epoch fences its own older turn). It
        lasts an hour at most: one that would last longer counts as expired, for it was made before
        the clock was set back.
        """
        ...

    async def renew_lease(self, lease: Lease, *, ttl: int = LEASE_MS) -> Lease:
        """Extend the lease; `StaleLease` if it was taken over or released."""
        ...

    async def release_lease(self, lease: Lease) -> None:
        """Release a lease; does nothing if it is no longer held."""
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

        `SessionAttached` if another live process holds it. On this host a process is alive while it
        holds its OS lock, on another host if its last beat is younger than 30 s.
        Attaching never changes `updated_at`.
        """
        ...

    async def detach(self, session_id: str) -> None:
        """Release the session, if this process holds it."""
        ...

    async def beat(self) -> None:
        """Tell other hosts that the attachments of this process are alive."""
        ...

    async def find_attachment(self, session_id: str) -> Attachment | None:
        """The live attachment of a session, if any."""
        ...


class Search(Protocol):
    """Full-text search of every message."""

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
        matches only, and a search that reaches its deadline (200 ms) returns what it has: both set
        `cut`. Filters are applied before candidates are chosen. A message that forks share is one
        hit. `SessionNotFound` if the given session does not exist or the viewer may not see it.
        Trashed sessions never appear; archived ones do, marked, and so do undone turns.
        `per_session` keeps the best hit of each session. A cursor stays within the candidates of
        its first page.
        """
        ...


class Trash(Protocol):
    """Deleting sessions, and restoring them."""

    async def delete_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Put sessions in the trash, in one commit: they leave lists, search and routes at once.

        Returns those that were put there, without ids that are unknown or already there.
        """
        ...

    async def restore_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Restore sessions from the trash; returns those that were there."""
        ...

    async def restore_last(self) -> tuple[str, ...]:
        """Restore the sessions of the latest delete; called again, those of the one before it."""
        ...

    async def purge_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Remove trashed sessions for good and return them. Sessions outside the trash stay.

        `Locked`, and nothing is removed, while any of them is attached or leased. Messages that a
        fork still reads stay, visible only there, until the last such fork is purged. Blobs are
        removed with the last message that needs them.
        """
        ...

    async def purge_trash(self, deleted_before: int) -> tuple[str, ...]:
        """Purge sessions that were trashed before that time."""
        ...

    async def sweep(self) -> None:
        """Remove, in small steps, what is kept for a while only, and what purges have left.

        Messages of the inbox go seven days after they were answered or dropped, idempotency keys a
        day later, replies that belong to no session thirty days after the last attempt. `Inbox`
        remembers how far each channel's messages were removed.
        """
        ...

    async def prune_old_sessions(
        self, older_than: int, *, action: RetentionAction = "archive", dry_run: bool = False
    ) -> tuple[str, ...]:
        """Archive (or trash) sessions last updated before that time; returns their ids.

        Pinned, attached and leased sessions and the newest one are kept, and those that have
        nothing but what was imported (`Imports`).
        """
        ...

    async def retain(self, policy: Retention, *, dry_run: bool = False) -> Retained:
        """The retention pass: idle sessions, then the oldest until the content fits.

        Sessions that have nothing but what was imported are kept, and their content is not counted.
        """
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
        """The compaction that is in effect now."""
        ...

    async def list_compactions(self, session_id: str) -> tuple[Compaction, ...]:
        """All compactions, undone ones too, oldest first."""
        ...

    async def put_blob(self, data: bytes, media_type: str) -> str:
        """Store bytes; the same bytes are stored once. Returns their SHA-256."""
        ...

    async def get_blob(self, blob_hash: str) -> Blob:
        """The bytes, or `BlobNotFound`."""
        ...

    async def has_blob(self, session_id: str, blob_hash: str) -> bool:
        """Whether a message of the session's thread has this blob; undone ones count too.

        `SessionNotFound` if there is no such session.
        """
        ...


class Inbox(Protocol):
    """Incoming messages, until a turn answers them."""

    async def accept(self, new: NewInbound, *, claimant: str | None = None) -> tuple[Inbound, bool]:
        """Store an incoming message; a second delivery returns the first row and False.

        With a claimant it is claimed at once. Identities are remembered for at least seven days
        after the answer. If the channel orders its messages (`position`), one from before those
        that were removed is stored as `dropped`, and False is returned, however late it comes.
        """
        ...

    async def claim_inbound(
        self, claimant: str, *, session_id: str | None = None, limit: int = 20
    ) -> tuple[Inbound, ...]:
        """Claim queued messages of one session, or of any, oldest first; each for one claimant."""
        ...

    async def release_inbound(self, claimant: str) -> int:
        """Put messages that a dead claimant had claimed, and no turn has, back in the queue."""
        ...

    async def find_inbound(self, channel: str, account: str, external_id: str) -> Inbound | None:
        """The message with this identity, whatever its status; None if there is none."""
        ...

    async def revise_inbound(self, inbound_id: str, payload: dict[str, object]) -> Inbound | None:
        """Replace what a message says, if it is queued or claimed; otherwise None."""
        ...

    async def add_line(self, line: ContextLine) -> None:
        """Keep a line that the next message under its key takes along (`NewInbound.takes`).

        A second delivery does nothing, unless it is an edit: then its text replaces the first. Of
        each key the newest 50 are kept, for a day. They are purged with their session, and never
        searched.
        """
        ...

    async def list_lines(self, key: str) -> tuple[ContextLine, ...]:
        """The lines of the last 24 hours that no message has taken yet, oldest first."""
        ...

    async def drop_inbound(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Drop queued messages and return them. The rows stay, as `dropped`."""
        ...

    async def list_inbound(
        self, session_id: str | None = None, *, key: str | None = None, limit: int = 100
    ) -> tuple[Inbound, ...]:
        """Queued and claimed messages, oldest first, of one session or of all.

        With a key, also those that came under that key, whatever their session.
        """
        ...

    async def count_inbound(self) -> dict[InboundStatus, int]:
        """How many messages are queued and how many are claimed, if there are any."""
        ...

    async def list_taken_inbound(self, turn_id: str) -> tuple[Inbound, ...]:
        """The messages that a turn answers, oldest first; none if there is no such turn.

        The cost depends on the number of these messages, not on the size of the inbox.
        """
        ...

    async def get_inbound(self, inbound_id: str) -> Inbound:
        """One message of the inbox, whatever its status; `RecordNotFound` if there is none."""
        ...


class Outbox(Protocol):
    """Replies, until a receipt says that they arrived. `Log.record` adds those of turns."""

    async def add_outbound(self, session_id: str | None, new: NewOutbound) -> Outbound:
        """Add a reply that belongs to no turn. Needs no lease.

        Does nothing if the id is known. `SessionNotFound` if there is no such session; a reply
        without a session has None.
        """
        ...

    async def claim_outbound(
        self,
        claimant: str,
        *,
        places: Sequence[tuple[str, str]] | None = None,
        limit: int = 20,
    ) -> tuple[Outbound, ...]:
        """Claim due replies, oldest first, as `sending`; in strict order in each conversation.

        `places` are the (channel, account) pairs that the claimant sends for; None means all. A
        conversation is a key of one account: those of two accounts never wait for each other.

        A reply that waits behind another may get a later `due_at`, until that one is settled.
        """
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
        """Mark the replies that a dead claimant was sending as `uncertain`."""
        ...

    async def list_outbound(
        self, *, session_id: str | None = None, status: OutboundStatus | None = None,
        limit: int = 100,
    ) -> tuple[Outbound, ...]:  # fmt: skip
        """Deliveries, newest first."""
        ...

    async def count_outbound(self) -> dict[OutboundStatus, int]:
        """How many deliveries there are of each status; none of those that arrived are counted.

        A status without any is left out.
        """
        ...

    async def list_stranded(
        self, places: Sequence[tuple[str, str]], *, limit: int = 100
    ) -> tuple[Outbound, ...]:
        """Replies that are pending for other (channel, account) pairs than these, oldest first."""
        ...

    async def get_outbound(self, outbound_id: str) -> Outbound:
        """One delivery, whatever its status; `RecordNotFound` if there is none."""
        ...


class Tokens(Protocol):
    """Tokens of the gateway. Only the hashes of their secrets are stored."""

    async def add_token(self, token: Token, digest: bytes) -> None:
        """Add a token."""
        ...

    async def find_token(self, digest: bytes) -> Token | None:
        """The token with this digest, also if revoked or expired."""
        ...

    async def list_tokens(self) -> tuple[Token, ...]:
        """All tokens, oldest first."""
        ...

    async def revoke_token(self, token_id: str) -> Token:
        """Revoke a token for good; the time of the first revocation stays."""
        ...


class Pairings(Protocol):
    """People who were paired or refused, and strangers who ask to be paired."""

    async def ask_pairing(self, new: NewPairing, *, most: int) -> Pairing | None:
        """Give a stranger a code for an hour, or return the one that they still have.

        `told` says how often they asked with it. A decision about them is not changed. None if
        `most` others of that channel are waiting. Also removes expired codes.
        """
        ...

    async def find_pairing(self, person: str) -> Pairing | None:
        """The pairing of a person, if there is one."""
        ...

    async def list_pairings(self) -> tuple[Pairing, ...]:
        """All pairings: first those who wait, expired ones too; newest first."""
        ...

    async def redeem_pairing(self, code: str, *, by: str) -> Pairing:
        """Pair the person who has this code, once; `RecordNotFound` if it is not valid."""
        ...

    async def decide_pairing(
        self, person: str, channel: str, status: Decided, *, by: str
    ) -> Pairing:
        """Pair or refuse a person, whether they have asked or not."""
        ...


class Imports(Protocol):
    """Which sessions came from another agent's history or from a file, and how far."""

    async def note_import(self, note: ImportNote) -> None:
        """Note where a session came from; replaces an earlier note about it.

        The note stays when the session is purged.
        """
        ...

    async def list_imports(self, agent: str) -> tuple[ImportNote, ...]:
        """All notes about sessions of this agent, by the id of the session."""
        ...

    async def find_imports(self, native_id: str, *, limit: int = 10) -> tuple[Session, ...]:
        """Sessions outside the trash that their agent knows by this id, newest first."""
        ...


class Vectors(Protocol):
    """What the chunks of memory files mean: vectors that can be made again.

    A `source` is a file, a `hash` what was embedded (`core.chunks`). Text is never kept here.
    """

    async def find_vectors(
        self, source: str, model: str, hashes: Collection[str]
    ) -> dict[str, bytes]:
        """The vectors of these hashes, as far as they are there."""
        ...

    async def put_vectors(self, source: str, model: str, vectors: Mapping[str, bytes]) -> None:
        """Keep vectors by their hashes, over older ones. Two writers at once are fine."""
        ...

    async def keep_vectors(self, source: str, model: str, hashes: Collection[str]) -> int:
        """Forget all of the source and model but these; returns how many.

        Vectors of other models that are a week old go too.
        """
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
    Imports,
    Vectors,
    Protocol,
):
    """A session store. Open one with `clew.open_store(url)`, and use it as `async with`."""

    async def stats(self) -> StoreStats:
        """Counts and sizes of the whole store."""
        ...

    async def close(self) -> None:
        """Finish writes in progress and close. Later calls raise `StoreClosed`."""
        ...


def list_missing(store: object) -> list[str]:
    """The names of `Store` that an object does not have, in the order of this page."""
    wanted = (name for port in reversed(Store.__mro__) for name in vars(port))
    public = dict.fromkeys(each for each in wanted if not each.startswith("_"))
    kind = type(store)  # a property is not asked for: it may need an open store
    return [each for each in public if not hasattr(kind, each) and each not in vars(store)]


class LiveTurn(Protocol):
    """A running turn, as the agent sees it. Everything it records is fenced by the lease."""

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
        """The person who asked: tools run with this person's rights."""
        ...

    @property
    def scopes(self) -> Scopes:
        """What it was accepted with: it decides, with the person, which tools there are."""
        ...

    @property
    def writes_memory(self) -> bool:
        """Whether it may write memory, if the person may.

        A turn of a job or a webhook may not, unless that is configured so.
        """
        ...

    async def get_thread(self, limit: int) -> tuple[Message, ...]:
        """The newest messages, including those that this turn has recorded."""
        ...

    async def record(self, *changes: Change) -> Recorded:
        """Commit changes, then show them. `StaleLease` if another process has taken over."""
        ...

    async def take_steering(self) -> bool:
        """Record new messages of the person as part of this turn; False if there are none.

        Call it between two requests, when every tool call has its result.
        """
        ...

    async def finish(self, *changes: Change) -> Recorded:
        """Record the last changes and end the turn as done, in one commit."""
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
    """Answers messages. It gets a turn and knows nothing about lanes, surfaces and keys."""

    async def warm(self, model: str | None = None) -> None:
        """Load what the first turn needs, so that it does not wait. Never raises."""
        ...

    async def run(self, turn: LiveTurn) -> None:
        """Do what the turn's user message asks; ends with `turn.finish`.

        `TurnFailed`, with a message for the person, if that can't be done. Cancelling the task
        stops it, its tools included, within 200 ms.
        """
        ...

    async def make_title(self, model: str | None, thread: Sequence[Message]) -> Title:
        """A short title for a conversation; its text is None if the model makes none. May raise."""
        ...


Receive: TypeAlias = "Callable[[Event], Awaitable[Receipt]]"
"""Accepts what a channel reports. Durable when it returns: then it can be acknowledged.

It raises only if it has to be reported again: the store is away. What is refused has a receipt,
whose `note` says why.
"""


class Channel(Protocol):
    """A connection to a platform. It knows nothing about sessions, keys and turns.

    What only some platforms can do has a protocol of its own below: `SendsFiles`, `ShowsTyping`,
    `EditsMessages`, `AsksWithButtons`, `HoldsConnections`, `IsTestable`. A channel that has the
    method is asked to.
    """

    @property
    def name(self) -> str:
        """Its name in keys and in the outbox."""
        ...

    @property
    def account(self) -> str:
        """The account of the platform that it uses."""
        ...

    async def run(self, receive: Receive) -> None:
        """Listen until cancelled. What is reported is acknowledged when `receive` has returned.

        Messages of one chat are reported in order. It is restarted when it raises or returns.
        """
        ...

    def render(self, text: str) -> str:
        """A Markdown text in the platform's own markup."""
        ...

    def split(self, text: str) -> Iterable[Piece]:
        """Cut a reply into messages that are short enough, in the platform's units, as sent.

        Always the same pieces for the same text; their sources, joined, are the whole text. See
        `core.channels.replies.cut_pieces`.
        """
        ...

    async def send(self, parcel: Parcel) -> dict[str, Any]:
        """Deliver one message; returns the receipt of the platform.

        `ReplyRefused` and `ReplyDelayed` mean that it certainly did not arrive: the first is final,
        the second can be retried, and says whether the whole chat or account has to wait.
        `FormatRefused`: the markup can't be read, so it is sent again as plain text. After any
        other error or a cancel it may have arrived.
        """
        ...

    def may_repeat(self, outbound: Outbound) -> bool:
        """Whether a reply that may have arrived is sent again without asking the owner.

        True only if the receiver recognises a second delivery by its id.
        """
        ...


@runtime_checkable
class SendsFiles(Protocol):
    """A channel that can send files."""

    async def send_file(self, parcel: Parcel) -> dict[str, Any]:
        """Deliver `parcel.file`; errors as in `Channel.send`. Its text is a caption, or empty."""
        ...


@runtime_checkable
class ShowsTyping(Protocol):
    """A channel that can show that the agent is at work."""

    async def typing(self, address: dict[str, Any], on: bool) -> None:
        """Show it for a few seconds; it is repeated while the turn runs. Off: stop showing it."""
        ...


@runtime_checkable
class EditsMessages(Protocol):
    """A channel that can change what it has sent: so an answer can be read as it comes."""

    async def edit(self, receipt: dict[str, Any], text: str, *, is_plain: bool = False) -> None:
        """Replace the text of a message; `receipt` is what `send` returned. Errors as in `send`.

        The same text again does nothing.
        """
        ...


@runtime_checkable
class AsksWithButtons(Protocol):
    """A channel that can show buttons. A press is reported as `Pressed`."""

    async def ask(self, parcel: Parcel, choices: Sequence[Choice]) -> dict[str, Any]:
        """Deliver a question with its choices as buttons; errors as in `Channel.send`."""
        ...


@runtime_checkable
class HoldsConnections(Protocol):
    """A channel that keeps connections for sending, also while it does not listen."""

    async def close(self) -> None:
        """Close them, after the last reply. A later `send` opens new ones."""
        ...


@runtime_checkable
class IsTestable(Protocol):
    """A channel that can say who it is, and which rights it lacks."""

    async def check(self) -> ChannelCheck:
        """Ask the platform; `ChannelRefused` if it does not accept the token."""
        ...


class Context(Protocol):
    """What a turn's request contains besides the thread."""

    async def list_parts(
        self, session: Session, person: str, scopes: Scopes
    ) -> tuple[ContextPart, ...]:
        """The parts of the system prompt and the tools, in the order in which they are sent."""
        ...


class Models(Protocol):
    """The models of this configuration."""

    def list_models(self) -> tuple[ModelInfo, ...]:
        """All models that can be named here; `problem` says why one can't be used."""
        ...

    def get_model(self, name: str | None = None) -> ModelInfo:
        """The model of a typed name, the default if None; `ModelNotFound` with similar names."""
        ...

    async def find_servers(self) -> tuple[LocalServer, ...]:
        """Servers of models that answer at the configured addresses of this machine."""
        ...


class Personalities(Protocol):
    """The personalities of the agent."""

    def list_personalities(self) -> tuple[Personality, ...]:
        """All personalities, `default` first, then by id."""
        ...

    def get_personality(self, personality_id: str | None = None) -> Personality:
        """A personality, the default if None; `PersonalityNotFound` with the list."""
        ...

    def choose_personality(self, session: Session) -> Personality:
        """The personality of a session, as its agent has it; the default if it is gone.

        What a person chose comes first, then the agent's own.
        """
        ...

    def update_personality(self, personality_id: str, edit: PersonalityEdit) -> Personality:
        """Change a personality, or make it. What is built in stays: the person's own goes before.

        `InvalidInput` for an id or a value that can't be. Waits for the disk.
        """
        ...


class Memory(Protocol):
    """The memory files. Callers name the file, the personality and the person, never a path."""

    async def read(
        self, name: MemoryName, personality: Personality | None = None, *, person: str = OWNER
    ) -> MemoryFile:
        """The file as it is now; a missing file is empty."""
        ...

    async def read_archive(self, personality: Personality | None = None) -> MemoryFile:
        """What no longer fitted into both files, as far as it is searched."""
        ...

    async def write(
        self,
        name: MemoryName,
        text: str,
        personality: Personality | None = None,
        *,
        by: str,
        etag: str | None = None,
        person: str = OWNER,
    ) -> MemoryFile:
        """Replace the whole file, in one step. `StaleMemory` if `etag` is not the current one."""
        ...

    async def list_versions(
        self, name: MemoryName, personality: Personality | None = None, *, person: str = OWNER
    ) -> tuple[MemoryVersion, ...]:
        """The versions, newest first, including the current text if clew wrote it."""
        ...

    async def get_version(
        self,
        name: MemoryName,
        number: int,
        personality: Personality | None = None,
        *,
        person: str = OWNER,
    ) -> str:
        """The text of a version, or `RecordNotFound`."""
        ...


class Embedder(Protocol):
    """A model that says what texts mean. It fetches nothing by itself."""

    @property
    def model(self) -> str:
        """Its name: vectors of different models have nothing in common."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """For each text a vector of length one, as 32-bit floats (little-endian), all equally long.

        Raises `ModelUnavailable` with what to do; also for an answer that makes no sense.
        """
        ...

    async def close(self) -> None:
        """Free what it holds."""
        ...


class Recall(Protocol):
    """The memory, searched by words and, if there is an embedder, by meaning."""

    @property
    def model(self) -> str | None:
        """The model that embeds, None if words alone are compared."""
        ...

    async def search(
        self,
        question: str,
        personality: Personality | None = None,
        *,
        person: str = OWNER,
        limit: int = 8,
    ) -> Recollection:
        """The chunks of the person's files nearest to the question, best first.

        What a prompt gets of them is marked and written out, whatever the limit. Never fails
        because of the embedder: then words alone decide, and `notice` says why.
        """
        ...

    async def list_chunks(
        self, personality: Personality | None = None, *, person: str = OWNER
    ) -> Chunks:
        """All chunks in their order, each with whether its vector is there.

        What is missing is embedded in the background; it waits for that only shortly.
        """
        ...
