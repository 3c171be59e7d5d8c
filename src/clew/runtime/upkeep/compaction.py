"""Runs compactions: between turns, under the session's lease, each in one commit.

`core.context.compaction` decides whether it is due, what stays and what a summary consists of; the
two protocols here write the summary. If anything fails, even by a kill, the session stays as it
was.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from clew.core.changes import AddCompaction, AddUsage, UndoCompaction
from clew.core.channels.replies import NO_MEMORY, read_reply_to
from clew.core.context.compaction import (
    NOTHING,
    UNKNOWN_WINDOW,
    Digest,
    Plan,
    count_after,
    estimate_summary,
    is_due,
    is_pressing,
    last_input,
    plan,
    show,
    wants_flush,
)
from clew.core.context.size import estimate_text, estimate_thread
from clew.core.context.thread import Pruning, prune
from clew.core.live_events import Notice, Signal
from clew.core.message import Draft, Message
from clew.core.models import ModelInfo
from clew.core.names import format_count
from clew.core.notes import Compacted, Compaction
from clew.core.session import OWNER, Session
from clew.core.tokens import has_own_tools
from clew.core.turn import HEARTBEAT_MS, LEASE_MS, Lease, Turn
from clew.core.usage import Usage
from clew.errors import ClewError, InvalidInput, RecordNotFound, StaleLease
from clew.ports import LiveTurn, Store
from clew.runtime.commits import unbroken, whole
from clew.runtime.lane.lease import hold
from clew.runtime.upkeep.usage import Record, UsageLedger
from clew.runtime.watch import Bus

MOST_MESSAGES = 5_000
"""How many messages one compaction reads: the newest ones of a long imported thread."""

RECENT = 20
"""How many messages are searched for the last answer's count."""

log = logging.getLogger(__name__)


class Summariser(Protocol):
    """Writes summaries."""

    def get_model(self, session: Session) -> ModelInfo:
        """The model that the session's next turn uses."""
        ...

    async def summarise(
        self,
        session: Session,
        messages: Sequence[Message],
        *,
        previous: str | None,
        instructions: str | None,
        signal: Callable[[Signal], None],
        spend: Callable[[Usage], None],
    ) -> Digest:
        """Summarise the messages together with the previous summary; `TurnFailed` like a turn.

        `spend` gets the usage of every answer, also of a summary that fails.
        """
        ...


class Flusher(Protocol):
    """Lets the model write its memory before a thread is compacted."""

    async def flush(
        self, session: Session, thread: Sequence[Message], *, spend: Callable[[Usage], None]
    ) -> None:
        """Run a silent turn over this thread, if it is useful."""
        ...


class CompactingRules(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of compaction."""

    auto: bool = True
    flush: bool = True
    context_messages: int = 200
    pruning: Pruning = Pruning()


class Compactor:
    """Compacts sessions, and undoes compactions."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        summariser: Summariser,
        *,
        flusher: Flusher | None = None,
        rules: CompactingRules | None = None,
        ledger: UsageLedger | None = None,
        lease_ms: int = LEASE_MS,
        renew_ms: int = HEARTBEAT_MS,
    ) -> None:
        self._store = store
        self._bus = bus
        self._summariser = summariser
        self._flusher = flusher
        self._rules = rules or CompactingRules()
        self._ledger = ledger or UsageLedger(store)
        self._hold = partial(hold, store, purpose="compact", lease_ms=lease_ms, renew_ms=renew_ms)
        self._flushed: dict[str, int] = {}

    # --- when a person asks ---------------------------------------------------------------------

    async def compact(self, session_id: str, *, instructions: str | None = None) -> Compacted:
        """Compact a session now. `LeaseHeld` while a turn runs, `InvalidInput` if it is short."""
        async with self._hold(session_id) as lease:
            made = await self.compact_under(lease, instructions=instructions)
        if made is None:
            raise InvalidInput(NOTHING)
        return made

    async def uncompact(self, session_id: str) -> Compaction:
        """Undo the latest compaction and return it; the previous one, if any, applies again."""
        async with self._hold(session_id) as lease:
            found = await self._store.find_compaction(session_id)
            if found is None:
                raise InvalidInput("There is no compaction to take back in this session.")
            session = await self._store.get_session(session_id)
            gone = (found.tokens_before or 0) - (found.tokens_after or 0)
            tokens = max(0, (session.context_tokens or 0) + gone)
            changes = (
                UndoCompaction(found.id),
                AddUsage(usage=Usage(), context_tokens=tokens),
            )
            await unbroken(self._store.record(session_id, lease.epoch, *changes))
        return found

    # --- around the turns -----------------------------------------------------------------------

    async def compact_under(
        self, lease: Lease, *, instructions: str | None = None
    ) -> Compacted | None:
        """Compact under a lease that the caller holds; None if there is too little to summarise."""
        session = await self._store.get_session(lease.session_id)
        record = partial(self._store.record, session.id, lease.epoch)
        return await self._compact(session, record, instructions=instructions)

    async def is_due(self, session: Session, coming: Sequence[Draft] = ()) -> bool:
        """Whether the session should be compacted before its next turn, by itself.

        `coming` are the messages that the turn begins with. In most cases the session row is enough
        to decide.
        """
        if not self._rules.auto or session.message_count == 0:
            return False
        said = sum(estimate_text(draft.content) for draft in coming)
        size = self._summariser.get_model(session).context_window
        used = session.context_tokens
        if not is_due((used or 0) + said, size):
            return False
        if is_pressing(used, said, size):
            return True
        made = await self._store.list_compactions(session.id)
        held = bool(made) and made[-1].undone_at is not None
        recent = await self._store.get_messages(session.id, RECENT)
        current = await self._store.find_compaction(session.id)
        return is_due(last_input(recent, current) or used, size, held=held)

    async def prepare(self, lease: Lease, coming: Sequence[Draft] = ()) -> None:
        """Compact before or after a turn, if it is due. A failure is reported, not raised."""
        session = await self._store.get_session(lease.session_id)
        try:
            if await self.is_due(session, coming):
                await self.compact_under(lease)
        except StaleLease:
            raise
        except ClewError as error:
            self._say(session.id, f"Compacting failed; the conversation stays as it is. {error}")

    async def rescue(self, turn: LiveTurn) -> bool:
        """Make room for a turn whose thread is too long for the model; False if not possible."""
        if not self._rules.auto:
            return False
        fresh = await self._store.get_session(turn.session.id)
        session = msgspec.structs.replace(fresh, model=turn.session.model)
        try:
            return await self._compact(session, turn.record, turn_id=turn.id) is not None
        except StaleLease:
            raise
        except ClewError as error:
            self._say(session.id, f"Compacting failed; the conversation stays as it is. {error}")
            return False

    # --- one compaction -------------------------------------------------------------------------

    async def _compact(
        self,
        session: Session,
        record: Record,
        *,
        instructions: str | None = None,
        turn_id: str | None = None,
    ) -> Compacted | None:
        previous = await self._store.find_compaction(session.id)
        after = None if previous is None else previous.keep_from - 1
        rows = await self._store.get_messages(session.id, MOST_MESSAGES, after=after)
        size = self._get_window(session, refused=rows if turn_id is not None else ())
        found = plan(rows, size)
        if found is None:
            return None
        self._say(session.id, "Compacting the conversation …")
        seen = prune(
            show(rows, previous, self._rules.context_messages),
            window=size,
            rules=self._rules.pruning,
        )
        settle = partial(self._ledger.settle, session.id, record, turn_id=turn_id)
        try:
            await self._flush(session, seen, size)
            digest = await self._summariser.summarise(
                session,
                found.old,
                previous=None if previous is None else previous.summary,
                instructions=instructions or None,
                signal=partial(self._bus.publish, session.id),
                spend=partial(self._ledger.add, session.id),
            )
            made = _measure(found, digest, seen, session.context_tokens)
            # The one commit. A stop that comes now is too late: the compaction is stored.
            await whole(settle(_change(made, found, digest)))
        except BaseException:
            # Nothing has changed but the usage. If it can't be recorded now, it is recorded later.
            with contextlib.suppress(ClewError):
                await settle()
            raise
        sizes = f"{format_count(made.tokens_before)} → ~{format_count(made.tokens_after)} tokens"
        self._say(session.id, f"Compacted: {sizes}. /uncompact takes it back.")
        return made

    def _get_window(self, session: Session, *, refused: Sequence[Message]) -> int | None:
        """The model's window; smaller than a request that its provider has just refused."""
        size = self._summariser.get_model(session).context_window
        return min(size or UNKNOWN_WINDOW, estimate_thread(refused)) if refused else size

    async def _flush(self, session: Session, seen: Sequence[Message], size: int | None) -> None:
        """Let the model write its memory, once per compaction; a failure does not stop this."""
        if self._flusher is None or not self._rules.flush:
            return
        if self._flushed.get(session.id) == session.compactions:
            return
        if not wants_flush(session.context_tokens, size):
            return
        self._flushed[session.id] = session.compactions
        try:
            thread = await self._list_writers(seen)
            await self._flusher.flush(session, thread, spend=partial(self._ledger.add, session.id))
        except Exception:  # a turn catches everything, a silent one too
            log.exception("The memory could not be written before a compaction")

    async def _list_writers(self, seen: Sequence[Message]) -> list[Message]:
        """The messages without the turns that could not write the memory themselves."""
        writers: set[str | None] = {None}  # a summary has no turn
        for turn_id in {each.turn_id for each in seen}:
            with contextlib.suppress(RecordNotFound):
                if turn_id is not None and _may_write(await self._store.get_turn(turn_id)):
                    writers.add(turn_id)
        return [each for each in seen if each.turn_id in writers]

    def _say(self, session_id: str, text: str) -> None:
        self._bus.publish(session_id, Notice(text))


def _may_write(turn: Turn) -> bool:
    """Whether a turn had the tool that writes the memory."""
    reply_to = read_reply_to(turn.reply_to)
    if reply_to is None:  # a line of the owner's own terminal, or a job without an address
        return turn.reply_to != NO_MEMORY
    person = reply_to.person or OWNER
    return reply_to.memory and has_own_tools(person, reply_to.find_scopes(person))


def _measure(
    found: Plan, digest: Digest, seen: Sequence[Message], counted: int | None
) -> Compacted:
    estimated = estimate_thread(seen)
    before = counted or estimated
    shown = estimate_summary(digest.summary) + estimate_thread(found.kept)
    return Compacted(
        compaction_id=secrets.token_hex(8),
        summarised=len(found.old),
        kept=len(found.kept),
        tokens_before=before,
        tokens_after=count_after(before, estimated, shown),
    )


def _change(made: Compacted, found: Plan, digest: Digest) -> AddCompaction:
    return AddCompaction(
        compaction_id=made.compaction_id,
        keep_from=found.keep_from,
        summary=digest.summary,
        short_summary=digest.short,
        tokens_before=made.tokens_before,
        tokens_after=made.tokens_after,
    )
