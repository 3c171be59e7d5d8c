"""Sub-agents: a task in a session of its own, whose questions the spawning turn asks.

It runs like any other message, through `Runtime.accept`; when the turn that spawned it is stopped,
the sub-agent is stopped too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

from clew.core.channels.incoming import Incoming, message_for
from clew.core.message import Message
from clew.core.names import title_from_prompt
from clew.core.session import NewSession, Session
from clew.errors import InvalidInput
from clew.ports import Clock, Store
from clew.runtime.inbound.reception import Ticket
from clew.runtime.lane.turn import Asker, RunningTurn

ANSWER = 50
"""How many messages of a sub-agent's thread are searched for its answer."""


class Door(Protocol):
    """The methods of the runtime that a sub-agent needs."""

    async def accept(self, message: Incoming, *, asker: Asker | None = None) -> Ticket:
        """Store a message, and run its turn."""
        ...

    async def stop(self, session_id: str) -> bool:
        """Abort the turn that runs in a session."""
        ...


class Spawner:
    """Runs the tasks that turns give to sub-agents."""

    def __init__(self, store: Store, clock: Clock, door: Door) -> None:
        self._store = store
        self._clock = clock
        self._door = door
        self._at_work: Counter[str] = Counter()

    def count(self, session_id: str) -> int:
        """How many sub-agents work for a session at the moment."""
        return self._at_work[session_id]

    async def spawn(self, turn: RunningTurn, task: str, personality: str | None) -> str:
        """Run a sub-agent; returns its last answer, or raises `InvalidInput` with the reason."""
        if turn.session.kind == "subagent":
            raise InvalidInput("A sub-agent can't spawn another one.")
        child = await self._make(turn, task, personality)
        self._at_work[turn.session.id] += 1
        try:
            return await self._let_work(turn, child, task)
        finally:
            self._at_work -= Counter([turn.session.id])

    async def _let_work(self, turn: RunningTurn, child: Session, task: str) -> str:
        ticket = await self._door.accept(
            message_for(child, task, channel="spawn", person=turn.person, scopes=turn.scopes),
            asker=turn,
        )
        try:
            ended = await asyncio.shield(ticket.turn)
        except asyncio.CancelledError:
            if ticket.turn.cancelled():
                raise InvalidInput("The sub-agent was stopped before it began.") from None
            await self._door.stop(child.id)
            raise
        if ended.status != "done":
            raise InvalidInput(f"The sub-agent {ended.status}: {ended.error or 'no reason given'}")
        thread = await self._store.get_messages(child.id, ANSWER)
        return next((each.content for each in reversed(thread) if _is_answer(each)), "")

    async def _make(self, turn: RunningTurn, task: str, personality: str | None) -> Session:
        parent = turn.session
        metadata = {"spawned_by": {"session": parent.id, "turn": turn.id}}
        allowed = {"allow": parent.metadata["allow"]} if "allow" in parent.metadata else {}
        return await self._store.create_session(
            NewSession(
                key=f"{parent.key}:sub:{self._clock()}",
                platform=parent.platform,
                kind="subagent",
                agent=parent.agent,
                person=turn.person,
                title=title_from_prompt(task),
                title_by="auto",
                cwd=parent.cwd,
                project=parent.project,
                model=parent.model,
                provider=parent.provider,
                personality=personality or parent.personality,
                thinking=parent.thinking,
                mode=parent.mode,
                metadata=metadata | allowed,
            ),
            route=None,
        )


def _is_answer(message: Message) -> bool:
    return message.role == "assistant" and bool(message.content)
