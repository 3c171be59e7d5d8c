"""Approvals that wait for an answer, whoever gives it: here, or in another process."""

from __future__ import annotations

import asyncio

from clew.core.turn import Approval, ApprovalScope, Decision
from clew.ports import Clock, Store

LOOK = 0.5
"""Seconds between two looks for an answer that another process gave."""


class Questions:
    """The open questions of this process."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._answered: dict[str, asyncio.Event] = {}

    async def decide(
        self, approval_id: str, decision: Decision, *, by: str, scope: ApprovalScope = "once"
    ) -> Approval:
        """Answer; the first answer stays. Returns what holds."""
        decided = await self._store.decide_approval(approval_id, decision, by=by, scope=scope)
        if approval_id in self._answered:
            self._answered[approval_id].set()
        return decided

    async def wait(self, approval: Approval) -> Approval:
        """Wait until somebody has answered, or until the time for it is over."""
        answered = self._answered.setdefault(approval.id, asyncio.Event())
        try:
            while not answered.is_set() and self._clock() < approval.expires_at:
                try:
                    await asyncio.wait_for(answered.wait(), LOOK)
                except TimeoutError:
                    waiting = await self._store.list_approvals(approval.session_id)
                    if all(each.id != approval.id for each in waiting):
                        break
            # The first answer stays: where there is one, this only reads it.
            return await self._store.decide_approval(approval.id, "no", by="expired")
        finally:
            del self._answered[approval.id]
