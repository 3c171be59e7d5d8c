"""Approvals that wait for an answer, from this process or another one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from clew.core.turn import Approval, ApprovalScope, Decision
from clew.ports import Clock, Store

LOOK = 0.5
"""Seconds between two checks for an answer from another process."""
MANY = 100
"""Questions to be asked twice that are remembered; some may never be answered."""


async def list_waiting(asking: Questions, session_id: str) -> tuple[Approval, ...]:
    """The questions of a session that a live process waits for, oldest first."""
    found = await asking.store.list_approvals(session_id)
    own = tuple(each for each in found if asking.is_asking(each.id))
    if own or not found:
        return own
    state = (await asking.store.list_states([session_id])).get(session_id)
    return found if state is not None and state.waiting else ()


class Questions:
    """The open questions of this process."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self._clock = clock
        self._answered: dict[str, asyncio.Event] = {}
        self._wished: set[str] = set()
        """Questions that were answered with "always" once, which has to be said twice."""

    @contextmanager
    def expecting(self, approval_id: str) -> Iterator[None]:
        """Inside the block, a turn of this process expects that answer."""
        self._answered[approval_id] = asyncio.Event()
        try:
            yield
        finally:
            del self._answered[approval_id]

    def is_asking(self, approval_id: str) -> bool:
        """Whether a turn of this process waits for that answer."""
        return approval_id in self._answered and not self._answered[approval_id].is_set()

    def insists(self, approval_id: str) -> bool:
        """Whether "always" was said before about this question; from now on it was."""
        if approval_id in self._wished:
            return True
        if len(self._wished) >= MANY:
            self._wished.clear()
        self._wished.add(approval_id)
        return False

    async def decide(
        self,
        approval_id: str,
        decision: Decision,
        *,
        by: str,
        scope: ApprovalScope = "once",
        reason: str | None = None,
    ) -> Approval:
        """Answer a question; the first answer stays. Returns the answer that counts."""
        decided = await self.store.decide_approval(
            approval_id, decision, by=by, scope=scope, reason=reason
        )
        self._wished.discard(approval_id)
        if approval_id in self._answered:
            self._answered[approval_id].set()
        return decided

    async def wait(self, approval: Approval) -> Approval:
        """Wait until an expected question is answered or expires."""
        answered = self._answered[approval.id]
        while not answered.is_set() and self._clock() < approval.expires_at:
            try:
                async with asyncio.timeout(LOOK):
                    await answered.wait()
            except TimeoutError:
                waiting = await self.store.list_approvals(approval.session_id)
                if all(each.id != approval.id for each in waiting):
                    break
        # The first answer stays: if there is one, this only reads it.
        return await self.store.decide_approval(approval.id, "no", by="expired")
