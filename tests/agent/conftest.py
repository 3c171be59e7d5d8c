"""A real store, a small live turn over it, and a toolbox of tiny tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.agent.tool_interface import ToolOutcome, ToolSpec
from clew.core.changes import AddMessage, Change, EndTurn, Recorded, StartTurn
from clew.core.keys import new_id
from clew.core.live_events import Signal
from clew.core.message import Draft, Message, ToolCall
from clew.core.models import ModelInfo, Personality
from clew.core.session import NewSession, Session
from clew.core.tokens import scopes_of
from clew.core.turn import Approval, Lease
from clew.ports import Store
from clew.store import open_store
from tests.stores import lay_store

DEFAULT = Personality(id="default", name="Default", soul="You are a test.")
SCRIPTED = ModelInfo(name="script/one", provider="script", context_window=8000, images=True)


class StoreTurn:
    """A `LiveTurn` over a real store with a real lease, and nothing around it."""

    def __init__(self, store: Store, session: Session, lease: Lease, turn_id: str) -> None:
        self.store = store
        self.session = session
        self.person = session.person
        self.writes_memory = True
        self.scopes = scopes_of(session.person)
        self.id = turn_id
        self.signals: list[Signal] = []
        self.finished = False
        self._lease = lease

    async def get_thread(self, limit: int) -> tuple[Message, ...]:
        return await self.store.get_messages(self.session.id, limit)

    async def record(self, *changes: Change) -> Recorded:
        return await self.store.record(self.session.id, self._lease.epoch, *changes)

    async def take_steering(self) -> bool:
        return False

    async def finish(self, *changes: Change) -> Recorded:
        recorded = await self.record(*changes, EndTurn(turn_id=self.id, status="done"))
        self.finished = True
        return recorded

    def signal(self, signal: Signal) -> None:
        self.signals.append(signal)

    async def ask(self, call: ToolCall, request: dict[str, Any]) -> Approval:
        raise NotImplementedError

    async def set_mode(self, mode: str) -> None:
        raise NotImplementedError

    async def allow(self, rule: str, *, always: bool) -> None:
        raise NotImplementedError

    async def spawn(self, task: str, *, personality: str | None = None) -> str:
        raise NotImplementedError

    async def thread(self) -> tuple[Message, ...]:
        return await self.store.get_messages(self.session.id)


async def begin_turn(
    store: Store,
    text: str,
    *,
    key: str = "cli:test",
    parts: tuple[dict[str, Any], ...] = (),
    **session: Any,
) -> StoreTurn:
    """The user's message is committed and its turn runs."""
    opened, _ = await store.open_session(NewSession(key=key, **session))
    lease = await store.acquire_lease(opened.id, f"{store.identity}#test")
    turn = StoreTurn(store, opened, lease, new_id())
    await turn.record(
        StartTurn(turn_id=turn.id),
        AddMessage(Draft(role="user", content=text, parts=parts), turn.id),
    )
    return turn


Run = Callable[[dict[str, Any]], Awaitable[ToolOutcome | str]]


class Tools:
    """A toolbox of functions."""

    def __init__(self) -> None:
        self._tools: dict[str, tuple[ToolSpec, Run]] = {}
        self.ran: list[str] = []

    def add(self, name: str, run: Run, *, parallel: bool = False) -> None:
        schema = {"type": "object", "properties": {"x": {"type": "string"}}}
        spec = ToolSpec(name=name, description=name, schema=schema, parallel=parallel)
        self._tools[name] = (spec, run)

    async def list_tools(self, turn: Any, personality: Any, model: Any) -> tuple[ToolSpec, ...]:
        return tuple(spec for spec, _ in self._tools.values())

    async def run(self, call: ToolCall, turn: Any, personality: Any) -> ToolOutcome:
        self.ran.append(call.name)
        outcome = await self._tools[call.name][1](msgspec.json.decode(call.arguments))
        return ToolOutcome(content=outcome) if isinstance(outcome, str) else outcome


class Naps:
    """A sleep that takes no time and remembers."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)


async def build_prompt(turn: Any, personality: Personality, model: ModelInfo) -> str:
    return personality.soul


def outline(thread: Sequence[Message]) -> list[str]:
    return [
        f"{row.role}: {row.content}" + "".join(f" <{call.name}>" for call in row.tool_calls)
        for row in thread
    ]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    lay_store(tmp_path / "store" / "sessions.db")
    async with await open_store(
        f"sqlite://{tmp_path}/store/sessions.db", durability="normal"
    ) as opened:
        yield opened
