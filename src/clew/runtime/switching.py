"""The switch from one session to another: attach that, get up from this, and sit down there.

Every step leaves its way back in the `journey`. Asking the hooks, turning back and telling others
is the seat's affair; who may go where was decided before.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import msgspec

from clew.core.keys import Place
from clew.core.placing import RETURNED, Judge
from clew.core.session import Session
from clew.core.turn import Attachment
from clew.ports import Models
from clew.runtime.attaching import Holds
from clew.runtime.following import Tickets
from clew.runtime.journey import Journey, clear_way, make_current
from clew.runtime.noting import note
from clew.runtime.recovery import Recovered, recover
from clew.runtime.runtime import Runtime
from clew.runtime.sitting import Sitting, find_model, sit_at, sit_at_nothing

Reason = Literal["startup", "resume", "new", "fork"]


class Switched(msgspec.Struct, frozen=True, kw_only=True):
    """Where the seat is now, and what there is to say about it."""

    session: Session | None
    previous_id: str | None
    reason: Reason
    taken_over: Attachment | None = None
    recovered: Recovered = Recovered()
    notices: tuple[str, ...] = ()


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """A way to go, and what a seat has with it: what it holds, and the turns that began there."""

    target: Session | None
    reason: Reason
    read_only: bool
    runtime: Runtime
    models: Models
    place: Place
    key: str
    holds: Holds
    tickets: Tickets

    async def go(self, before: Sitting, journey: Journey) -> tuple[Sitting, Switched]:
        """From the one to the other; where one sits then, and what there is to say."""
        current, store, target = find_model(before, self.models), self.runtime.store, self.target
        previous, read_only = before.session, self.read_only
        dead, recovered = None, Recovered()
        notices: tuple[str, ...] = ()
        if target is not None:
            target = await store.get_session(target.id)
        if target is not None and not read_only:
            if not self.holds.has(target):
                journey.back(partial(self.holds.release, target))
            dead = await self.holds.take(target)
            recovered = await recover(store, target.id)
        if previous is not None:
            await self._get_up(previous, journey)
        if target is None:
            if self.reason == "new":
                await clear_way(store, self.key, journey)
            after = sit_at_nothing(before)
        else:
            if not read_only:
                target = await make_current(store, target, self.key, self.place, journey)
            after, notices = sit_at(before, target, self.models, current, read_only=read_only)
        return after, Switched(
            session=after.session,
            previous_id=previous.id if previous else None,
            reason=self.reason,
            taken_over=dead,
            recovered=recovered,
            notices=notices,
        )

    async def _get_up(self, previous: Session, journey: Journey) -> None:
        """Abort the turn that began here, keep what waits from beginning, and detach.

        Reloading the own session disturbs nothing; it is only let go, if it is to be looked at.
        """
        again = self.target is not None and self.target.id == previous.id
        if self.tickets.is_busy and not again:
            journey.back(partial(self.runtime.let_go_on, previous.id))
            journey.onward(partial(self.runtime.let_go_on, previous.id, without_queue=True))
            await self.runtime.hold_back(previous.id)
            await self.runtime.stop(previous.id)
        if self.holds.has(previous) and (self.read_only or not again):
            journey.back(partial(self.holds.take, previous))
            await self.holds.release(previous)


async def come_back(runtime: Runtime, session: Session, judge: Judge) -> Session:
    """A person is at a session on purpose, which counts like having said something there."""
    now = runtime.clock()
    if judge(session, now).fresh:
        return session
    return await note(runtime.store, session.id, lambda noted: noted | {RETURNED: now})
