"""Usage outside of turns (titles, summaries, silent turns), until it is recorded.

A provider is paid for an answer, even if it is not used. So that a session's totals are always the
sum of its turns, such usage is added to the newest turn of the session; a session without a turn of
its own (a fork that is compacted first) gets one without messages. The caller decides when it is
recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial

from clew.core.changes import AddUsage, Change, EndTurn, Recorded, StartTurn
from clew.core.turn import Lease
from clew.core.usage import Usage
from clew.errors import ClewError
from clew.ports import Store
from clew.runtime.commits import unbroken
from clew.runtime.lane.lease import hold
from clew.runtime.lane.turn import new_turn_id

Record = Callable[..., Awaitable[Recorded]]
"""The store's `record`, under a lease that the caller holds."""


class UsageLedger:
    """The usage of each session that is not recorded yet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owed: dict[str, Usage] = {}

    def add(self, session_id: str, usage: Usage) -> None:
        """Add usage; the next `settle` records it."""
        self._owed[session_id] = self._owed.get(session_id, Usage()) + usage

    async def settle(
        self, session_id: str, record: Record, *changes: Change, turn_id: str | None = None
    ) -> None:
        """Record the changes and the pending usage in one commit, for this turn or the newest.

        If that fails, the usage stays pending.
        """
        await unbroken(self._settle(session_id, record, changes, turn_id))

    async def settle_under(self, lease: Lease) -> None:
        """Record the pending usage under a lease that the caller holds."""
        record = partial(self._store.record, lease.session_id, lease.epoch)
        await self.settle(lease.session_id, record)

    async def settle_all(self) -> None:
        """Record all pending usage, before the process ends."""
        for session_id in tuple(self._owed):
            # Usage of a session that another process holds now can't be recorded any more.
            with contextlib.suppress(ClewError):
                async with hold(self._store, session_id, "settle") as lease:
                    await self.settle_under(lease)

    async def _settle(
        self, session_id: str, record: Record, changes: tuple[Change, ...], turn_id: str | None
    ) -> None:
        owed = self._owed.pop(session_id, None)
        try:
            bill = () if owed is None else await self._bill(session_id, owed, turn_id)
            if bill or changes:
                await record(*bill, *changes)
        except BaseException:
            if owed is not None:
                self.add(session_id, owed)
            raise

    async def _bill(self, session_id: str, owed: Usage, turn_id: str | None) -> tuple[Change, ...]:
        if turn_id is None:
            turns = await self._store.list_turns(session_id, limit=1)
            turn_id = turns[-1].id if turns else None
        if turn_id is not None:
            return (AddUsage(usage=owed, turn_id=turn_id),)
        turn_id = new_turn_id()
        session = await self._store.get_session(session_id)
        return (
            StartTurn(turn_id=turn_id, model=session.model),
            AddUsage(usage=owed, turn_id=turn_id),
            EndTurn(turn_id=turn_id, status="done"),
        )
