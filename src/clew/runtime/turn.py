"""A turn while it runs: what it records, what it shows, and whom it asks.

The way of a message through here is: commit, then show. Every record carries the epoch of the
lease, so a turn whose session was taken over can't write. How long the turn may run, and in which
order turns run, is the lane's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import msgspec

from clew.core.changes import (
    AddMessage,
    Change,
    EndTurn,
    Recorded,
    ResumeTurn,
    WaitForApproval,
)
from clew.core.message import Message, ToolCall, number
from clew.core.session import Session, SessionEdit, SessionFacts
from clew.core.signals import (
    ApprovalAsked,
    ApprovalDecided,
    Committed,
    Retrying,
    Signal,
    TextDelta,
)
from clew.core.turn import Approval, Lease
from clew.errors import ClewError, StaleLease
from clew.ports import Clock, Store
from clew.runtime.bus import Bus
from clew.runtime.questions import Questions

T = TypeVar("T")

APPROVAL_MS = 600_000
"""Ten minutes; after that the answer is no."""


def new_turn_id() -> str:
    """Sixteen hexadecimal characters: unique in a store, and short on disk."""
    return secrets.token_hex(8)


class Asker(Protocol):
    """Somebody who can ask the owner: the turn itself, or the one that spawned it."""

    async def ask(self, call: ToolCall, request: dict[str, Any]) -> Approval:
        """See `ports.LiveTurn.ask`."""
        ...


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What every turn of a runtime needs."""

    store: Store
    bus: Bus
    clock: Clock
    questions: Questions
    remember: Callable[[str], Awaitable[None]]
    spawn: Callable[[RunningTurn, str, str | None], Awaitable[str]]


class RunningTurn:
    """`ports.LiveTurn` over a store and a bus."""

    def __init__(
        self,
        around: Surroundings,
        session: Session,
        lease: Lease,
        turn_id: str,
        *,
        person: str,
        attended: bool = True,
        asker: Asker | None = None,
    ) -> None:
        self._around = around
        self._session = session
        self._lease = lease
        self._id = turn_id
        self._person = person
        self._attended = attended
        self._asker = asker
        self._one_question = asyncio.Lock()
        self._open = True
        self.partial = ""
        """What was streamed since the last assistant message."""

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
    def is_open(self) -> bool:
        """Whether it can still record."""
        return self._open

    async def get_thread(self, limit: int) -> tuple[Message, ...]:
        """See `ports.LiveTurn`."""
        return await self._around.store.get_messages(self._session.id, limit)

    async def record(self, *changes: Change) -> Recorded:
        """See `ports.LiveTurn`."""
        return await _unbroken(self._record(changes))

    async def finish(self, *changes: Change) -> Recorded:
        """See `ports.LiveTurn`."""
        return await self.end(*changes, EndTurn(turn_id=self._id, status="done"))

    async def end(self, *changes: Change) -> Recorded:
        """A record after which there is none."""
        return await _unbroken(self._record(changes, last=True))

    async def _record(self, changes: tuple[Change, ...], *, last: bool = False) -> Recorded:
        if not self._open:
            raise StaleLease(self._session.id, self._lease.epoch, self._lease.epoch)
        recorded = await self._around.store.record(self._session.id, self._lease.epoch, *changes)
        if last:
            self._open = False
        self._show(changes, recorded)
        return recorded

    def close(self) -> None:
        """Refuse what a tool that was too slow to stop may still want to write."""
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
            self._around.bus.publish(self._session.id, Committed(message))

    def signal(self, signal: Signal) -> None:
        """See `ports.LiveTurn`."""
        if isinstance(signal, TextDelta):
            self.partial += signal.text
        elif isinstance(signal, Retrying):
            self.partial = ""  # the next attempt begins anew
        self._around.bus.publish(self._session.id, signal)

    async def ask(self, call: ToolCall, request: dict[str, Any]) -> Approval:
        """See `ports.LiveTurn`. One question at a time; where nobody is, the answer is no."""
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
                asked_at=self._around.clock(),
                expires_at=self._around.clock() + APPROVAL_MS,
            )
            try:
                decided = await self._get_answer(approval)
            except asyncio.CancelledError:
                # Nobody waits for the answer any more, so nobody may be asked for it.
                with contextlib.suppress(ClewError):
                    answer = self._around.questions.decide(approval.id, "no", by="stopped")
                    self.signal(ApprovalDecided(await _unbroken(answer)))
                raise
            self.signal(ApprovalDecided(decided))
            return decided

    async def _get_answer(self, approval: Approval) -> Approval:
        await self.record(
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
            self.signal(ApprovalAsked(approval))
            decided = await self._around.questions.wait(approval)
        else:
            decided = await self._around.questions.decide(approval.id, "no", by="nobody")
        await self.record(ResumeTurn(self._id))
        return decided

    async def set_mode(self, mode: str) -> None:
        """See `ports.LiveTurn`."""
        self._session = await self._around.store.edit_session(
            self._session.id, SessionEdit(mode=mode)
        )

    async def allow(self, rule: str, *, always: bool) -> None:
        """See `ports.LiveTurn`."""
        if always:
            await self._around.remember(rule)
        if isinstance(self._asker, RunningTurn):
            # The person answered for the conversation they are in, not for this part of it.
            await self._asker.allow(rule, always=False)
        session = await self._around.store.get_session(self._session.id)
        known = session.metadata.get("allow", [])
        if rule not in known:
            metadata = session.metadata | {"allow": [*known, rule]}
            self._session = await self._around.store.describe_session(
                session.id, SessionFacts(metadata=metadata)
            )

    async def spawn(self, task: str, *, personality: str | None = None) -> str:
        """See `ports.LiveTurn`."""
        return await self._around.spawn(self, task, personality)


async def _unbroken(work: Coroutine[Any, Any, T]) -> T:
    """Finish a commit that has begun, and only then heed a cancel: what is stored is shown."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
