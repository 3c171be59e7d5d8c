"""A running turn: what it records, what it shows, and whom it asks.

Every message is committed first and shown then. Every record carries the epoch of the lease, so a
turn whose session was taken over can't write. The lane decides how long a turn may run, and in
which order turns run.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from clew.core.changes import (
    AddMessage,
    AddUsage,
    Change,
    EndTurn,
    Recorded,
    ResumeTurn,
    WaitForApproval,
)
from clew.core.channels.replies import ReplyTo
from clew.core.live_events import (
    ApprovalAsked,
    ApprovalDecided,
    Committed,
    Notice,
    Retrying,
    Signal,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from clew.core.message import Message, ToolCall, number
from clew.core.rules import ALLOWED
from clew.core.session import OWNER, Session, SessionEdit
from clew.core.tokens import Scopes
from clew.core.turn import Approval, Lease, Turn, TurnEnd
from clew.core.usage import ESTIMATED, Usage
from clew.errors import ClewError, ContextTooLong, RecordNotFound, StaleLease
from clew.runtime.commits import Change as Noting
from clew.runtime.commits import heed_cancel, is_cancelled, note, unbroken, whole
from clew.runtime.lane.lease import Leasing
from clew.runtime.lane.parts import RuntimeParts

APPROVAL_MS = 600_000
"""Ten minutes; then an unanswered approval is denied."""

PATIENCE: Final = 1.0
"""Seconds that a cancelled turn has to stop before the lane continues without it."""

TAKEN_OVER: Final = (
    "Another process has taken this session over; the work of this one is not stored."
)
STOPPED: Final = "Another process stopped it."


def new_turn_id() -> str:
    """Sixteen hexadecimal characters: unique in a store, and short on disk."""
    return secrets.token_hex(8)


class Asker(Protocol):
    """Asks the owner: the turn itself, or the turn that spawned it."""

    async def ask(self, call: ToolCall, request: dict[str, Any]) -> Approval:
        """See `ports.LiveTurn.ask`."""
        ...


class RunningTurn:
    """`ports.LiveTurn` over a store and a bus."""

    def __init__(
        self,
        parts: RuntimeParts,
        session: Session,
        lease: Lease,
        turn_id: str,
        *,
        person: str,
        scopes: Scopes,
        attended: bool = True,
        memory: bool = True,
        asker: Asker | None = None,
        steer: Callable[[RunningTurn], Awaitable[bool]] | None = None,
    ) -> None:
        self._parts = parts
        self._session = session
        self._lease = lease
        self._id = turn_id
        self._person = person
        self._scopes = scopes
        # Only the owner approves tool calls, and not for what a guest asked for.
        self._attended = attended and person == OWNER
        self._writes_memory = memory
        self._asker = asker
        self._steer = steer
        self._began_at = parts.clock()
        self._one_question = asyncio.Lock()
        self._open = True
        self._head = session.head
        self.partial = ""
        """The text streamed since the last assistant message."""
        self.reply_to: ReplyTo | None = None
        """Where its answer goes, besides the thread."""
        self.answers: tuple[str, ...] = ()
        """The ids of the inbox messages that it answers."""

    @property
    def id(self) -> str:
        """See `ports.LiveTurn`."""
        return self._id

    @property
    def session(self) -> Session:
        """See `ports.LiveTurn`."""
        return self._session

    @property
    def person(self) -> str:
        """See `ports.LiveTurn`."""
        return self._person

    @property
    def scopes(self) -> Scopes:
        """See `ports.LiveTurn`."""
        return self._scopes

    @property
    def writes_memory(self) -> bool:
        """See `ports.LiveTurn`."""
        return self._writes_memory

    @property
    def is_open(self) -> bool:
        """Whether it can still record."""
        return self._open

    async def get_thread(self, limit: int) -> tuple[Message, ...]:
        """See `ports.LiveTurn`."""
        return await self._parts.store.get_messages(self._session.id, limit)

    async def record(self, *changes: Change) -> Recorded:
        """See `ports.LiveTurn`."""
        return await unbroken(self._record(changes))

    async def finish(self, *changes: Change) -> Recorded:
        """See `ports.LiveTurn`."""
        return await self.end(*changes, EndTurn(turn_id=self._id, status="done"))

    async def end(self, *changes: Change) -> Recorded:
        """The last record of the turn."""
        return await unbroken(self._record(changes, last=True))

    async def _record(self, changes: tuple[Change, ...], *, last: bool = False) -> Recorded:
        if not self._open:
            raise StaleLease(self._session.id, self._lease.epoch, self._lease.epoch)
        replies = self._parts.replies
        if self.reply_to is not None:
            changes = await replies.answer(
                self.reply_to,
                self._session.id,
                self._head,
                changes,
                asks=self._attended,
            )
        recorded = await self._parts.store.record(self._session.id, self._lease.epoch, *changes)
        self._head = recorded.head
        replies.ring(changes)
        if last:
            self._open = False
        self._show(changes, recorded)
        if _is_estimate(changes) and not self._session.metadata.get(ESTIMATED):
            with contextlib.suppress(ClewError):  # the record itself has succeeded
                await self._note(lambda before: before | {ESTIMATED: True})
        return recorded

    async def _note(self, change: Noting) -> None:
        noted = await note(self._parts.store, self._session.id, change)
        self._session = msgspec.structs.replace(self._session, metadata=noted.metadata)

    async def take_steering(self) -> bool:
        """See `ports.LiveTurn`."""
        return self._steer is not None and await self._steer(self)

    def as_cut_off(self, error: str) -> Turn:
        """The turn as watchers are told of it, if the store could not save its end.

        In the store it stays unfinished until a process finds that no process runs it.
        """
        return Turn(
            self._id,
            self._session.id,
            "interrupted",
            reply_to=None,
            model=self._session.model,
            usage=Usage(),
            error=error,
            partial=self.partial or None,
            started_at=self._began_at,
            ended_at=self._parts.clock(),
        )

    def close(self) -> None:
        """Refuse later writes, from a tool that was too slow to stop."""
        self._open = False

    def _show(self, changes: tuple[Change, ...], recorded: Recorded) -> None:
        added = [change for change in changes if isinstance(change, AddMessage)]
        for change, seq, row_id in zip(added, recorded.seqs, recorded.ids, strict=True):
            if change.draft.role == "assistant":
                self.partial = ""
            message = number(
                change.draft,
                row_id=row_id,
                session_id=self._session.id,
                seq=seq,
                turn_id=change.turn_id,
                at=recorded.at,
            )
            self._parts.bus.publish(self._session.id, Committed(message))

    def signal(self, signal: Signal) -> None:
        """See `ports.LiveTurn`."""
        if isinstance(signal, TextDelta):
            self.partial += signal.text
        elif isinstance(signal, Retrying):
            self.partial = ""  # the next attempt starts from the beginning
        self._parts.bus.publish(self._session.id, signal)

    async def ask(self, call: ToolCall, request: dict[str, Any]) -> Approval:
        """See `ports.LiveTurn`. One question at a time; unattended, the answer is no."""
        if self._asker is not None:
            return await self._asker.ask(call, request)
        async with self._one_question:
            approval = Approval(
                secrets.token_hex(8),
                self._session.id,
                self._id,
                call.id,
                call.name,
                request,
                asked_at=self._parts.clock(),
                expires_at=self._parts.clock() + APPROVAL_MS,
            )
            expecting = self._parts.questions.expecting
            try:
                # Before it is recorded, because the owner may answer on a channel at once.
                with expecting(approval.id) if self._attended else contextlib.nullcontext():
                    decided = await self._get_answer(approval)
            except asyncio.CancelledError:
                # The turn no longer waits for the answer, so the question is withdrawn.
                with contextlib.suppress(ClewError):
                    answer = self._parts.questions.decide(approval.id, "no", by="stopped")
                    self.signal(ApprovalDecided(await unbroken(answer)))
                raise
            self.signal(ApprovalDecided(decided))
            return decided

    async def _get_answer(self, approval: Approval) -> Approval:
        recorded = await self.record(
            WaitForApproval(
                approval_id=approval.id,
                turn_id=self._id,
                tool_call_id=approval.tool_call_id,
                tool_name=approval.tool_name,
                request=approval.request,
                expires_at=approval.expires_at,
            )
        )
        if self._attended:
            approval = msgspec.structs.replace(approval, asked_at=recorded.at)
            self.signal(ApprovalAsked(approval))
            decided = await self._parts.questions.wait(approval)
        else:
            decided = await self._parts.questions.decide(approval.id, "no", by="nobody")
        await self.record(ResumeTurn(self._id))
        return decided

    async def set_mode(self, mode: str) -> None:
        """See `ports.LiveTurn`."""
        self._session = await self._parts.store.edit_session(
            self._session.id, SessionEdit(mode=mode)
        )

    async def allow(self, rule: str, *, always: bool) -> None:
        """See `ports.LiveTurn`."""
        if always:
            await self._parts.remember(rule)
        if isinstance(self._asker, RunningTurn):
            # The person allowed it in their own conversation, not only in the sub-agent's session.
            await self._asker.allow(rule, always=False)
        await self._note(lambda before: before | {ALLOWED: _add(rule, before.get(ALLOWED, ()))})

    async def spawn(self, task: str, *, personality: str | None = None) -> str:
        """See `ports.LiveTurn`."""
        return await self._parts.spawn(self, task, personality)


def _add(rule: str, known: Sequence[str]) -> list[str]:
    return [*known] if rule in known else [*known, rule]


def _is_estimate(changes: tuple[Change, ...]) -> bool:
    """Whether the changes have an answer with usage that no provider has counted."""
    paid = any(isinstance(each, AddUsage) and each.usage.api_calls for each in changes)
    answers = (each.draft for each in changes if isinstance(each, AddMessage))
    return paid and any(each.role == "assistant" and each.usage is None for each in answers)


async def run_to_end(
    parts: RuntimeParts,
    turn: RunningTurn,
    leasing: Leasing,
    lease: Lease,
    *,
    is_closing: Callable[[], bool],
) -> Turn:
    """Run the agent, and store the end of the turn; watchers are always told of the end.

    `is_closing`: the process ends, and no person stopped the turn: the next process continues it.
    """
    bus, session_id = parts.bus, turn.session.id
    bus.publish(session_id, TurnStarted(turn.id, turn.session.model, turn.answers))
    status, error = await _let_work(parts, turn, leasing, lease)
    if status == "aborted" and is_closing() and turn.reply_to is not None:
        status = "interrupted"
    try:
        ended = await _end(parts, turn, status, error)
    except Exception as problem:
        cut_off = turn.as_cut_off(str(problem))
        bus.publish(session_id, TurnEnded(cut_off, turn.answers))
        parts.events.report_turn(cut_off)
        raise
    finally:
        turn.close()
    bus.publish(session_id, TurnEnded(ended, turn.answers))
    parts.events.report_turn(ended)
    return ended


async def _let_work(
    parts: RuntimeParts, turn: RunningTurn, leasing: Leasing, lease: Lease
) -> tuple[TurnEnd | None, str | None]:
    agent = asyncio.create_task(_answer(parts, turn), name=f"turn {turn.id}")
    keeper = asyncio.create_task(leasing.keep(lease))
    # A person's stop cancels this task: the end of the turn is still stored below.
    with contextlib.suppress(asyncio.CancelledError):
        if not is_cancelled():
            await asyncio.wait({agent, keeper}, return_when=asyncio.FIRST_COMPLETED)
    lost = keeper.done()
    keeper.cancel()
    agent.cancel()
    await whole(asyncio.wait({agent, keeper}, timeout=PATIENCE))
    return _verdict(agent, lost=lost)


async def _answer(parts: RuntimeParts, turn: RunningTurn) -> None:
    await parts.around_turns.turn_started(turn.session, turn.id)
    try:
        await parts.agent.run(turn)
    except ContextTooLong:
        if not await parts.around_turns.rescue(turn):
            raise
        heed_cancel()
        await parts.agent.run(turn)


async def _end(
    parts: RuntimeParts, turn: RunningTurn, status: TurnEnd | None, error: str | None
) -> Turn:
    try:
        if status is not None and turn.is_open:
            partial = turn.partial or None
            end = EndTurn(turn_id=turn.id, status=status, error=error, partial=partial)
            await whole(turn.end(end))
    except (StaleLease, RecordNotFound):
        status = None  # another process has already ended the turn
    ended = await whole(parts.store.get_turn(turn.id))
    if status is None:
        text = STOPPED if ended.status == "aborted" else TAKEN_OVER
        parts.bus.publish(turn.session.id, Notice(text))
    return ended


def _verdict(agent: asyncio.Task[None], *, lost: bool) -> tuple[TurnEnd | None, str | None]:
    """How the turn ended, and why; None if this process may not write the end."""
    if not agent.done():
        return "aborted", "It did not stop when it was told to."
    if agent.cancelled():
        return (None, None) if lost else ("aborted", None)
    match agent.exception():
        case None:
            return "done", None
        case StaleLease():
            return None, None
        case ClewError() as error:
            return "failed", str(error)
        case error:
            return "failed", f"{type(error).__name__}: {error} (this is a bug in clew)"
