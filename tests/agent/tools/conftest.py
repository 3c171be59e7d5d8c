"""A workspace with a real store behind it, and a turn that really records."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.agent.tool_interface import ToolOutcome
from clew.agent.tools import Policy, Tools
from clew.core.changes import AddMessage, Change, Recorded, ResumeTurn, StartTurn, WaitForApproval
from clew.core.live_events import Signal
from clew.core.message import Draft, Message, ToolCall
from clew.core.models import ModelInfo, Personality
from clew.core.session import NewSession, Session, SessionEdit
from clew.core.tokens import Scopes, scopes_of
from clew.core.turn import Approval, ApprovalScope, Decision, Lease
from clew.memory import MarkdownMemory
from clew.ports import Store
from clew.store import open_store

MODEL = ModelInfo(name="test/model", provider="test", images=True)
PLAIN = Personality(id="default", name="Default")
SECRETS = {"ANTHROPIC_API_KEY": "sk-ant-1", "GITHUB_TOKEN": "ghp_1", "CLEW_SECRET": "hidden-3"}
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nowhere", "LC_ALL": "C"} | SECRETS


class RecordingTurn:
    """A `LiveTurn` over a real store. `answers` are what the owner will say, in order."""

    def __init__(self, store: Store, session: Session, lease: Lease, person: str) -> None:
        self.id = str(uuid.uuid4())
        self.session = session
        self.person = person
        self.scopes = scopes_of(person)
        self.answers: list[tuple[Decision, ApprovalScope]] = []
        self.asked: list[dict[str, Any]] = []
        self.signals: list[Signal] = []
        self.allowed: list[tuple[str, bool]] = []
        self.spawned: list[tuple[str, str | None]] = []
        self.on_ask: Callable[[], None] = lambda: None
        self.answered_by = "owner"
        self._store = store
        self._epoch = lease.epoch

    async def get_thread(self, limit: int) -> tuple[Message, ...]:
        return await self._store.get_messages(self.session.id, limit)

    async def take_steering(self) -> bool:
        return False

    async def record(self, *changes: Change) -> Recorded:
        return await self._store.record(self.session.id, self._epoch, *changes)

    finish = record

    def signal(self, signal: Signal) -> None:
        self.signals.append(signal)

    async def ask(self, call: ToolCall, request: dict[str, Any]) -> Approval:
        assert self.answers, f"nobody expected a question: {request}"
        self.asked.append(request)
        approval = str(uuid.uuid4())
        waiting = WaitForApproval(
            approval_id=approval, turn_id=self.id, tool_call_id=call.id, tool_name=call.name,
            request=request, expires_at=2**50,
        )  # fmt: skip
        await self.record(waiting)
        self.on_ask()
        decision, scope = self.answers.pop(0)
        decided = await self._store.decide_approval(
            approval, decision, by=self.answered_by, scope=scope
        )
        await self.record(ResumeTurn(self.id))
        return decided

    async def set_mode(self, mode: str) -> None:
        await self._store.edit_session(self.session.id, SessionEdit(mode=mode))

    async def allow(self, rule: str, *, always: bool) -> None:
        self.allowed.append((rule, always))

    async def spawn(self, task: str, *, personality: str | None = None) -> str:
        self.spawned.append((task, personality))
        return f"did {task}"


class Bench:
    """A workspace, a store, a memory and tools, and calls as a model would make them."""

    def __init__(self, path: Path, store: Store) -> None:
        self.root = path / "work"
        self.root.mkdir()
        self.outside = path / "outside"
        self.outside.mkdir()
        self.store = store
        self.memory = MarkdownMemory(path / "data", lambda: 1_700_000_000_000)
        self.tools = self.make_tools()
        self.personality = PLAIN
        self._turn: RecordingTurn | None = None

    def make_tools(self, **policy: Any) -> Tools:
        given: dict[str, Any] = {"environment": ENVIRONMENT, "timeout": 20.0} | policy
        servers = given.pop("servers", ())
        self.tools = Tools(self.store, self.memory, Policy(**given), servers=servers)
        return self.tools

    async def begin(
        self, *, person: str = "owner", scopes: Scopes | None = None, **fields: Any
    ) -> RecordingTurn:
        given: dict[str, Any] = {"key": f"cli:{uuid.uuid4()}", "cwd": str(self.root)} | fields
        session = await self.store.create_session(NewSession(person=person, **given))
        lease = await self.store.acquire_lease(session.id, "test")
        self._turn = RecordingTurn(self.store, session, lease, person)
        self._turn.scopes = scopes or scopes_of(person)
        await self._turn.record(
            StartTurn(turn_id=self._turn.id),
            AddMessage(Draft(role="user", content="Do it."), self._turn.id),
        )
        return self._turn

    @property
    def turn(self) -> RecordingTurn:
        assert self._turn is not None
        return self._turn

    async def call(self, tool: str, **arguments: Any) -> ToolOutcome:
        """Run a call and record its result, as the loop does."""
        call = ToolCall(str(uuid.uuid4()), tool, json.dumps(arguments))
        outcome = await self.tools.run(call, self.turn, self.personality)
        result = Draft(
            role="tool", content=outcome.content, tool_call_id=call.id, tool_name=tool,
            is_error=outcome.is_error, parts=outcome.parts,
        )  # fmt: skip
        await self.turn.record(AddMessage(result, self.turn.id), *outcome.changes)
        return outcome

    async def list_names(self, **model: Any) -> set[str]:
        info = msgspec.structs.replace(MODEL, **model)
        specs = await self.tools.list_tools(self.turn, self.personality, info)
        return {spec.name for spec in specs}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with await open_store(f"sqlite://{tmp_path}/store/sessions.db") as store:
        made = Bench(tmp_path, store)
        await made.begin()
        yield made
        await made.tools.aclose()
