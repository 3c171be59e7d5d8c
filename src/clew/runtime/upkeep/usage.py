"""What was spent beside the turns, until it is in the store: titles, summaries, silent turns.

A provider is paid for what it answered, whatever came of it. So that a session's totals are always
the sum of its turns, such spending counts to the newest turn of the session; one that has no turn
of its own yet, as a fork that is compacted first, gets one without messages. When it is booked is
decided by the caller.
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
from clew.runtime.cancellation import unbroken
from clew.runtime.lane.lease import hold
from clew.runtime.lane.turn import new_turn_id

Record = Callable[..., Awaitable[Recorded]]
"""The store's `record` under a lease that is held."""


class UsageLedger:
    """What each session still owes to its own totals."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owed: dict[str, Usage] = {}

    def add(self, session_id: str, usage: Usage) -> None:
        """Something was spent; it is booked with the next `settle`."""
        self._owed[session_id] = self._owed.get(session_id, Usage()) + usage

    async def settle(
        self, session_id: str, record: Record, *changes: Change, turn_id: str | None = None
    ) -> None:
        """Record the changes and what is owed, in one commit, to this turn or to the newest one.

        If that fails, it is still owed.
        """
        await unbroken(self._settle(session_id, record, changes, turn_id))

    async def settle_under(self, lease: Lease) -> None:
        """Record what is owed under a lease that the caller holds."""
        record = partial(self._store.record, lease.session_id, lease.epoch)
        await self.settle(lease.session_id, record)

    async def settle_all(self) -> None:
        """Record all that is owed, before the end."""
        for session_id in tuple(self._owed):
            # What another process holds now can't be told any more.
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
