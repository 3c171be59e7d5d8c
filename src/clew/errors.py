"""Every error clew raises on purpose.

    ClewError
    ├── InvalidInput              bad value from a caller: nothing was changed
    │   ├── InvalidCursor         a page cursor that this store did not make
    │   └── InvalidConfig         a config file, variable or flag that can't be used
    ├── NotFound
    │   ├── SessionNotFound
    │   ├── BlobNotFound
    │   ├── RecordNotFound        a turn, approval, inbox or outbox row, compaction, token
    │   ├── ModelNotFound         a model that is not configured
    │   └── PersonalityNotFound
    ├── Forbidden                 this caller may not do this
    ├── Unauthorized              no token, or one that is wrong, revoked or expired
    ├── TooManyRequests           asked too often; later it works again
    ├── GatewayUnavailable        no gateway answers at that address
    ├── Draining                  the gateway is about to end: it takes no new messages
    ├── AmbiguousId               several sessions fit what was typed
    ├── Conflict                  the object is not in the state that the caller expected
    │   ├── StaleRevision         the session was edited meanwhile
    │   ├── StaleLease            another process took the lease: this one may not write
    │   ├── Diverged              an import whose messages differ from the stored ones
    │   ├── StaleMemory           the memory file was written meanwhile
    │   ├── SwitchRefused         a hook refused the switch to another session
    │   └── TargetNotEmpty        a restore or copy over a store that has sessions
    ├── Locked                    another process holds it
    │   ├── LeaseHeld             another process runs a turn of this session
    │   ├── SessionAttached       open in another terminal
    │   ├── StoreInUse            another process has the store open
    │   └── StoreBusy             other writers took too long
    ├── TurnFailed                the turn ended without an answer; the thread is as before it
    │   ├── ModelUnavailable      no network, a server that is down or busy, weights not here
    │   ├── ModelRefused          wrong key, no permission, no money left
    │   └── ContextTooLong        more than the model can read
    ├── HookFailed                a hook that could not be run
    ├── NotDelivered              a reply that certainly was not delivered
    │   ├── ReplyRefused          the channel will never accept it
    │   │   └── FormatRefused     it can't be read as the platform's markup
    │   └── ReplyDelayed          it can be tried again later
    ├── ChannelRefused            a platform that does not accept the account's token
    ├── NotATranscript            a file that is not a clew transcript
    └── StoreUnusable
        ├── StoreTooNew           made by a newer clew
        ├── StoreDamaged          the file is corrupt
        ├── StoreForeign          a file that is not clew's
        ├── StoreFull             no space left
        ├── StoreMoved            its file was moved, replaced or deleted while it was open
        ├── StoreReadOnly         no permission to write
        ├── StoreUnavailable      can't be opened or read
        │   └── FateUnknown       lost in a commit: it may be written, or not
        └── StoreClosed           used after close()

The message says what happened and what to do next. `code` is stable and meant for programs,
`exit_code` is what the command line ends with. Errors of the drivers never leave the stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec


class ClewError(Exception):
    """Anything clew refuses to do, or can't."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1


class InvalidInput(ClewError, ValueError):
    """A value that can't be used. Nothing was changed."""

    code = "invalid_input"
    exit_code = 2


class InvalidCursor(InvalidInput):
    """A page cursor that did not come from this list."""

    code = "invalid_cursor"


class InvalidConfig(InvalidInput):
    """A configuration value that can't be used."""

    code = "invalid_config"


class NotFound(ClewError, LookupError):
    """Something that does not exist."""

    code = "not_found"


class SessionNotFound(NotFound):
    """No such session, or it is in the trash, or the viewer may not see it."""

    code = "session_not_found"

    def __init__(self, session_id: str, advice: str = "`clew list` shows the sessions.") -> None:
        super().__init__(f'Session "{session_id}" not found. {advice}')
        self.session_id = session_id


class BlobNotFound(NotFound):
    """No blob with this hash."""

    code = "blob_not_found"

    def __init__(self, blob_hash: str) -> None:
        super().__init__(f"Blob {blob_hash} not found.")
        self.blob_hash = blob_hash


class RecordNotFound(NotFound):
    """A turn, approval, inbox or outbox row, compaction or token that is not there."""

    code = "record_not_found"

    def __init__(self, kind: str, record_id: str) -> None:
        super().__init__(f"No {kind} with the id {record_id}.")
        self.kind = kind
        self.record_id = record_id


class ModelNotFound(NotFound):
    """A model that this configuration does not know."""

    code = "model_not_found"


class PersonalityNotFound(NotFound):
    """No personality with this id."""

    code = "personality_not_found"


class Forbidden(ClewError):
    """This person, or this token, may not do this. Nothing was changed."""

    code = "forbidden"


class Unauthorized(ClewError):
    """No token, or one that is wrong, revoked or expired."""

    code = "unauthorized"


class TooManyRequests(ClewError):
    """Asked too often from one place. Nothing was changed."""

    code = "too_many_requests"


class GatewayUnavailable(ClewError):
    """No gateway answers at the address."""

    code = "gateway_unavailable"


class Draining(ClewError):
    """The gateway is about to end and takes no new messages."""

    code = "draining"

    def __init__(self) -> None:
        super().__init__(
            "This gateway is about to end and takes no new messages. Nothing was stored: send it "
            "again in a moment, when its successor runs."
        )


class Candidate(msgspec.Struct, frozen=True):
    """A session that fits what was typed, with what a person needs to choose."""

    id: str
    short_id: str
    name: str
    cwd: str | None
    updated_at: int


class AmbiguousId(ClewError):
    """Several sessions fit what was typed: `sessions` are the newest, `candidates` their ids."""

    SHOWN: ClassVar[int] = 10
    code = "ambiguous_id"
    exit_code = 2
    sessions: tuple[Candidate, ...] = ()

    def __init__(self, typed: str, found: Sequence[Candidate]) -> None:
        """`found`: newest first; more than ten of them are not counted."""
        count = len(found) if len(found) <= self.SHOWN else f"more than {self.SHOWN}"
        super().__init__(f'"{typed}" fits {count} sessions. Type more of the id.')
        self.typed = typed
        self.sessions = tuple(found[: self.SHOWN])
        self.candidates = tuple(each.id for each in self.sessions)


class Conflict(ClewError):
    """The object is not in the state that the caller expected. Nothing was changed."""

    code = "conflict"


class StaleRevision(Conflict):
    """The session was edited since the caller read it."""

    code = "stale_revision"

    def __init__(self, session_id: str, expected: int, actual: int) -> None:
        super().__init__(
            f"Session {session_id} was changed meanwhile (revision {actual}, not {expected}). "
            "Read it again and repeat the change."
        )
        self.session_id = session_id
        self.expected = expected
        self.actual = actual


class StaleLease(Conflict):
    """The writer's lease is over: it was taken over, released, or never held."""

    code = "stale_lease"

    def __init__(self, session_id: str, epoch: int, current: int) -> None:
        super().__init__(
            f"The lease on session {session_id} is no longer yours (epoch {epoch}, now {current}). "
            "Nothing was written."
        )
        self.session_id = session_id
        self.epoch = epoch
        self.current = current


class Diverged(Conflict):
    """The stored thread and the imported one differ; `found` is the first message that does."""

    code = "diverged"

    def __init__(self, session_id: str, seq: int, *, found: object = None) -> None:
        super().__init__(
            f"Session {session_id} is already here and differs from message {seq} on. "
            "Nothing was changed; use --as-new to import it as a session of its own."
        )
        self.session_id = session_id
        self.seq = seq
        self.found = found


class StaleMemory(Conflict):
    """A memory file was written since the caller read it."""

    code = "stale_memory"


class SwitchRefused(Conflict):
    """A hook refused the switch to another session. Nothing was changed."""

    code = "switch_refused"


class TargetNotEmpty(Conflict):
    """A restore or a copy would overwrite a store that has sessions."""

    code = "target_not_empty"

    def __init__(self, target: str, advice: str | None = None) -> None:
        super().__init__(
            f"{target} already has sessions. "
            + (
                advice
                or "Use --replace to put the backup in its place "
                "(the present store is kept beside it)."
            )
        )
        self.target = target


class Locked(ClewError):
    """Another process holds it."""

    code = "locked"
    exit_code = 3


class LeaseHeld(Locked):
    """Another process runs a turn of this session."""

    code = "lease_held"

    def __init__(self, session_id: str, holder: str, expires_at: int) -> None:
        super().__init__(f"Session {session_id} is being worked on by {holder}. Try again shortly.")
        self.session_id = session_id
        self.holder = holder
        self.expires_at = expires_at


class SessionAttached(Locked):
    """The session is open in another, living terminal."""

    code = "session_attached"

    def __init__(
        self, session_id: str, *, pid: int, host: str, since: int, local_time: str
    ) -> None:
        super().__init__(
            f"Session {session_id} is open in another terminal "
            f"(pid {pid}, host {host}, since {local_time}). "
            "Use --fork to branch it, or --read-only to look."
        )
        self.session_id = session_id
        self.pid = pid
        self.host = host
        self.since = since


class StoreInUse(Locked):
    """Another process has the store open, and this needs exclusive use."""

    code = "store_in_use"

    def __init__(self, purpose: str, holders: tuple[str, ...]) -> None:
        who = "; ".join(holders) or "another process"
        super().__init__(
            f"{purpose} needs the store alone, but it is open in: {who}. "
            "Close that and try again. Nothing was changed."
        )
        self.holders = holders


class StoreBusy(Locked):
    """Other writers took longer than clew waits."""

    code = "store_busy"


class TurnFailed(ClewError):
    """A turn that ended without an answer. Its user message stays; `/retry` tries again."""

    code = "turn_failed"


class ModelUnavailable(TurnFailed):
    """The model can't be reached, or is not here."""

    code = "model_unavailable"


class ModelRefused(TurnFailed):
    """The provider refuses this key, or this use of it."""

    code = "model_refused"


class ContextTooLong(TurnFailed):
    """The thread is longer than the model can read."""

    code = "context_too_long"


class HookFailed(ClewError):
    """A hook that could not be run."""

    code = "hook_failed"


class NotDelivered(ClewError):
    """A reply that certainly was not delivered. After any other error that is uncertain."""

    code = "not_delivered"


class ReplyRefused(NotDelivered):
    """The channel will never accept this reply."""

    code = "reply_refused"


class FormatRefused(ReplyRefused):
    """The platform can't read the markup of this reply; as plain text it may accept it."""

    code = "format_refused"


class ReplyDelayed(NotDelivered):
    """Not now. `after` are the seconds that the channel asks to wait, None if it did not say.

    `stops` is what has to wait: this reply only, every reply to its chat, or all of the account.
    """

    code = "reply_delayed"

    def __init__(
        self,
        why: str,
        *,
        after: float | None = None,
        stops: Literal["reply", "chat", "account"] = "reply",
    ) -> None:
        super().__init__(why)
        self.after = after
        self.stops = stops


class ChannelRefused(ClewError):
    """The platform does not accept this account: its token is wrong or was revoked."""

    code = "channel_refused"


class NotATranscript(ClewError):
    """A file that is not a clew transcript."""

    code = "not_a_transcript"


class StoreUnusable(ClewError):
    """The store can't be used."""

    code = "store_unusable"
    exit_code = 4


class StoreTooNew(StoreUnusable):
    """The store was made by a newer clew. It was not touched."""

    code = "store_too_new"


class StoreDamaged(StoreUnusable):
    """The file is corrupt. It was not touched."""

    code = "store_damaged"


class StoreForeign(StoreUnusable):
    """The file is not a clew store. It was not touched."""

    code = "store_foreign"


class StoreFull(StoreUnusable):
    """There is no space left where the store is."""

    code = "store_full"


class StoreMoved(StoreUnusable):
    """The file was moved, replaced or deleted while it was open. Nothing more is written.

    `rescue` is a copy of all that was acknowledged, if one could be written.
    """

    code = "store_moved"

    def __init__(self, why: str, rescue: str | None = None) -> None:
        super().__init__(why)
        self.rescue = rescue


class StoreReadOnly(StoreUnusable):
    """The store can't be written to."""

    code = "store_read_only"


class StoreUnavailable(StoreUnusable):
    """The store can't be opened or read."""

    code = "store_unavailable"


class FateUnknown(StoreUnavailable):
    """The connection was lost in a commit: whether that was written is not known."""

    code = "fate_unknown"


class StoreClosed(StoreUnusable):
    """The store was used after it was closed."""

    code = "store_closed"
