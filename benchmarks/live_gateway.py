"""A gateway behind a real server, a speaker in the model's place, and a crowd of live clients.

What is measured on it is `streams`' business, and what the clients do is `listeners`'.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from clew.api.handlers.tokens import make_token
from clew.api.local import Calls
from clew.clock import host_clock
from clew.config import load
from clew.core.changes import AddMessage
from clew.core.channels.incoming import message_for
from clew.core.live_events import TextDelta
from clew.core.message import Draft, Message
from clew.core.names import Title
from clew.core.session import NewSession, Session
from clew.core.tokens import digest_of
from clew.gateway.app import build_app
from clew.gateway.auth import Gate
from clew.gateway.server import Address, listen, serving
from clew.gateway.stream_guard import StreamGuard
from clew.ports import LiveTurn, Store
from clew.runtime.runtime import Runtime
from clew.store import open_store
from clew.wiring import House

PATIENCE = 120.0
PACE = 0.005
"""Seconds between two words: two hundred a second."""
EVERY = 15
"""Words between two messages of the turn."""
WORD = "word " * 8
FLOOD = 8_000_000
PIECE = "x" * 40_000


class Speaker:
    """`ports.Agent`: speaks at the pace of a model, or as fast as it can."""

    def __init__(self, words: int) -> None:
        self._words = words

    async def warm(self, model: str | None = None) -> None:
        """There is nothing to load."""

    async def run(self, turn: LiveTurn) -> None:
        """Speak. A session named flood gets one."""
        if turn.session.key == "cli:flood":
            for _ in range(FLOOD // len(PIECE)):
                turn.signal(TextDelta(PIECE))
                # Slowly enough that it goes out, and is not put aside at once.
                await asyncio.sleep(PACE)
        else:
            for number in range(1, self._words):
                turn.signal(TextDelta(WORD))
                await asyncio.sleep(PACE)
                if number % EVERY == 0:
                    draft = Draft(role="assistant", content=f"step {number}")
                    await turn.record(AddMessage(draft, turn.id, from_person=False))
        draft = Draft(role="assistant", content="done")
        await turn.finish(AddMessage(draft, turn.id, from_person=False))

    async def make_title(self, _model: str | None, _thread: Sequence[Message], /) -> Title:
        """None."""
        return Title(None)


class Stage(msgspec.Struct, frozen=True):
    """A gateway, its clients, and what they follow."""

    runtime: Runtime
    stream_guard: StreamGuard
    main: Session
    flood: Session
    crowd: asyncio.subprocess.Process

    async def tell(self, do: str, **what: Any) -> dict[str, Any]:
        """Let the clients do something."""
        assert self.crowd.stdin is not None
        assert self.crowd.stdout is not None
        self.crowd.stdin.write(json.dumps({"do": do, **what}).encode() + b"\n")
        line = await asyncio.wait_for(self.crowd.stdout.readline(), PATIENCE)
        if not line:
            raise RuntimeError("the clients are gone")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def say(self, session: Session) -> float:
        """One turn; the seconds it took."""
        message = message_for(session, "go", channel="benchmark")
        began = time.perf_counter()
        ticket = await self.runtime.accept(message)
        await asyncio.wait_for(ticket.turn, PATIENCE)
        return time.perf_counter() - began

    async def head(self, session: Session) -> int:
        """The newest message's number."""
        return (await self.runtime.store.get_session(session.id)).head


@asynccontextmanager
async def open_stage(folder: Path, words: int) -> AsyncIterator[Stage]:
    """All of it, for turns of so many words."""
    config = load(home=str(folder), environ={})
    async with AsyncExitStack() as stack:
        url = f"sqlite://{folder}/sessions.db"
        store: Store = await open_store(url, durability="normal")
        stack.push_async_callback(store.close)

        house = House(config, store, agent=Speaker(words))
        stack.push_async_callback(house.close)
        runtime = house.runtime
        calls, gate = Calls(house), Gate(store, host_clock)
        token, secret = make_token("benchmark", ("read",), host_clock())
        await store.add_token(token, digest_of(secret))
        guard = StreamGuard(gate)
        app = build_app(calls, gate, stream_guard=guard)
        address = Address(port=0)
        listener = stack.enter_context(listen(address))
        place = await stack.enter_async_context(serving(app, gate, address, listener, grace=1))
        main = await store.create_session(NewSession(key="cli:main"))
        flood = await store.create_session(NewSession(key="cli:flood"))
        crowd = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.processes.listeners", place, secret),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            yield Stage(runtime, guard, main, flood, crowd)
        finally:
            if crowd.stdin is not None:
                crowd.stdin.close()
            await crowd.wait()
