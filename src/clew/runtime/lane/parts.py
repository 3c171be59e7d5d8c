"""The parts that every lane and every turn of a runtime uses, made by the runtime."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from clew.core.message import Draft
from clew.core.session import Session
from clew.core.turn import HEARTBEAT_MS, LEASE_MS, Lease, Turn
from clew.ports import Agent, Clock, Store
from clew.runtime.event_log import EventLog
from clew.runtime.lane.questions import Questions
from clew.runtime.outbound import Replies
from clew.runtime.watch import Bus

if TYPE_CHECKING:  # they work with these parts
    from clew.core.delivery import Inbound
    from clew.runtime.lane.queue import Attempt
    from clew.runtime.lane.turn import RunningTurn


class AroundTurns(Protocol):
    """Called before and after every turn (`upkeep.after_turn`)."""

    async def prepare(self, lease: Lease, coming: Sequence[Draft]) -> None:
        """Before a turn: make room for the messages that it begins with."""
        ...

    async def turn_started(self, session: Session, turn_id: str) -> None:
        """A turn has begun."""
        ...

    async def rescue(self, turn: RunningTurn) -> bool:
        """Make room for a turn whose thread is too long for its model; False if there is none."""
        ...

    async def turn_ended(self, session: Session, turn: Turn) -> None:
        """A turn has ended."""
        ...


class RuntimeParts(msgspec.Struct, frozen=True, kw_only=True):
    """Store, agent, clock and what else lanes and turns need.

    `adopt`: put a message that no live process has into its lane; False if another process was
    first, None if this process takes over nothing. `find_cut_off`: the attempt that continues a
    session's newest turn, which was cut off; None to leave it. `remember`: store a rule that the
    owner has allowed for good. `spawn`: let a sub-agent do a task; returns its answer. `is_held`:
    whether this process works on a message. `leases_left` could not be given back, because the
    store failed.
    """

    store: Store
    agent: Agent
    bus: Bus
    events: EventLog
    clock: Clock
    questions: Questions
    replies: Replies
    around_turns: AroundTurns
    adopt: Callable[[Inbound], Awaitable[bool | None]]
    find_cut_off: Callable[[Turn], Awaitable[Attempt | None]]
    remember: Callable[[str], Awaitable[None]]
    spawn: Callable[[RunningTurn, str, str | None], Awaitable[str]]
    is_held: Callable[[str], bool]
    leases_left: list[Lease] = msgspec.field(default_factory=list[Lease])
    lease_ms: int = LEASE_MS
    renew_ms: int = HEARTBEAT_MS
