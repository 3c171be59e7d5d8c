"""Live clients that stop reading: they slow no turn, cost little memory, and miss nothing.

    python -m benchmarks.streams            200 clients, 20 of which stop, ten times
    python -m benchmarks.streams --quick    40, 4 of which stop, three times; times have no bar

A turn speaks like a fast model and uses tools. It is timed with all clients reading and with a
tenth of them stuck, in turns; stuck means that before the turn more was sent to them than the
network and their queue hold. Afterwards those come back from their last message, and all clients
break off in the middle of a turn and come back. Ends with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from clew.client.calls import Calls
from clew.client.parts import Parts
from clew.client.tokens import make_token
from clew.config import load
from clew.core.changes import AddMessage
from clew.core.delivery import NewInbound
from clew.core.message import Draft, Message
from clew.core.session import NewSession, Session
from clew.core.signals import TextDelta
from clew.core.titles import Title
from clew.core.tokens import digest_of
from clew.gateway.app import build_app
from clew.gateway.auth import Gate
from clew.gateway.outlet import MAX_BYTES
from clew.gateway.serving import Address, listen, serving
from clew.gateway.streams import Streams
from clew.ports import LiveTurn, Store
from clew.runtime.hooks import Hooks
from clew.runtime.runtime import Runtime, host_clock
from clew.store import open_store
from clew.wiring import open_catalogue, open_memory, open_personalities

PATIENCE = 120.0
PACE = 0.005
"""Seconds between two words: two hundred a second."""
EVERY = 15
"""Words between two messages of the turn."""
WORD = "word " * 8
FLOOD = 8_000_000
PIECE = "x" * 40_000
SLACK = 1.10
SPARE = 24_000_000
"""Bytes that the process may grow by beyond the queues of those who are stuck."""


class Size(msgspec.Struct, frozen=True):
    """How much of it."""

    clients: int
    stuck: int
    rounds: int
    words: int
    is_timed: bool = True
    """Whether the turn's time has a bar, or is only stated: in a few rounds chance decides."""


FULL = Size(clients=200, stuck=20, rounds=10, words=300)
QUICK = Size(clients=40, stuck=4, rounds=3, words=100, is_timed=False)


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
    streams: Streams
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
        new = NewInbound(
            id=secrets.token_hex(8),
            channel="benchmark",
            key=session.key,
            session_id=session.id,
            payload={"text": "go"},
        )
        began = time.perf_counter()
        ticket = await self.runtime.accept(new)
        await asyncio.wait_for(ticket.turn, PATIENCE)
        return time.perf_counter() - began

    async def head(self, session: Session) -> int:
        """The newest message's number."""
        return (await self.runtime.store.get_session(session.id)).head


@asynccontextmanager
async def open_stage(folder: Path, size: Size) -> AsyncIterator[Stage]:
    """A gateway behind a real server, and a process of clients."""
    config = load(home=str(folder), environ={})
    async with AsyncExitStack() as stack:
        url = f"sqlite://{folder}/sessions.db"
        store: Store = await open_store(url, durability="normal")
        stack.push_async_callback(store.close)

        async def remember(_rule: str) -> None:
            """Nobody says "always" here."""

        hooks = Hooks({}, clock=host_clock)
        runtime = Runtime(store, Speaker(size.words), hooks=hooks, remember_rule=remember)
        stack.push_async_callback(runtime.close)
        parts = Parts(
            runtime=runtime,
            models=open_catalogue(config),
            personalities=open_personalities(config),
            memory=open_memory(config),
        )
        calls, gate = Calls(parts), Gate(store, host_clock)
        token, secret = make_token("benchmark", "read", host_clock())
        await store.add_token(token, digest_of(secret))
        streams = Streams(calls, gate)
        app = build_app(calls, gate, doors=streams.doors, stream_chat=streams.stream_chat)
        address = Address(port=0)
        listener = stack.enter_context(listen(address))
        place = await stack.enter_async_context(serving(app, gate, address, listener, grace=1))
        main = await store.create_session(NewSession(key="cli:main"))
        flood = await store.create_session(NewSession(key="cli:flood"))
        crowd = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.listeners", place, secret),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            yield Stage(runtime, streams, main, flood, crowd)
        finally:
            if crowd.stdin is not None:
                crowd.stdin.close()
            await crowd.wait()


class Found(msgspec.Struct):
    """What was measured."""

    reading: list[float] = msgspec.field(default_factory=list)
    stuck: list[float] = msgspec.field(default_factory=list)
    memory: list[int] = msgspec.field(default_factory=list)
    faults: list[str] = msgspec.field(default_factory=list)
    gaps: int = 0


async def run(size: Size, folder: Path) -> list[str]:
    """All of it; what is wrong in the end."""
    found = Found()
    async with open_stage(folder, size) as stage:
        alone = [await stage.say(stage.main) for _ in range(3)]
        await _join(stage, "always", size.clients - size.stuck, reading=True)
        await stage.say(stage.main)
        found.memory.append(_resident())
        for number in range(size.rounds):
            # Each comes first as often as second.
            for reading in (True, False) if number % 2 else (False, True):
                await _round(stage, size, found, reading=reading)
            print(
                f"round {number + 1}: all read {found.reading[-1]:.3f} s, "
                f"{size.stuck} stuck {found.stuck[-1]:.3f} s, {found.memory[-1] / 1e6:.0f} MB",
                flush=True,
            )
        await _break_off(stage, size, found)
    return _judge(size, found, statistics.median(alone))


async def _join(stage: Stage, group: str, count: int, *, reading: bool) -> None:
    more = [] if group == "always" else [stage.flood.id]
    await stage.tell(
        "join", group=group, count=count, main=stage.main.id, more=more, reading=reading
    )


async def _round(stage: Stage, size: Size, found: Found, *, reading: bool) -> None:
    """A turn with the changing clients reading, or stuck; then all of them have everything."""
    await _join(stage, "changing", size.stuck, reading=reading)
    await stage.say(stage.flood)
    is_stuck = stage.streams.sentry.count_stuck(0.1)
    took = await stage.say(stage.main)
    if not reading and min(is_stuck, stage.streams.sentry.count_stuck(took)) < size.stuck:
        found.faults.append(f"only {is_stuck} were stuck")
    (found.reading if reading else found.stuck).append(took)
    found.memory.append(_resident())
    last = await stage.head(stage.main)
    if not reading:
        await stage.tell("leave", group="changing")
        await stage.tell("again", group="changing")
    await _check(stage, found, "changing", last)
    await stage.tell("leave", group="changing")


async def _check(stage: Stage, found: Found, group: str, last: int) -> None:
    await stage.tell("wait", group=group, last=last)
    told = await stage.tell("check", group=group, last=last)
    found.faults += told["faults"]
    found.gaps += told["gaps"]


async def _break_off(stage: Stage, size: Size, found: Found) -> None:
    """All at once, in the middle of a turn; and those who are stuck read on where they are."""
    await _join(stage, "changing", size.stuck, reading=True)
    saying = asyncio.create_task(stage.say(stage.main))
    for group in ("always", "changing"):
        await stage.tell("leave", group=group)
    for group in ("always", "changing"):
        await stage.tell("again", group=group)
    await saying
    last = await stage.head(stage.main)
    for group in ("always", "changing"):
        await _check(stage, found, group, last)
        await stage.tell("leave", group=group)


def _judge(size: Size, found: Found, alone: float) -> list[str]:
    reading, stuck = statistics.median(found.reading), statistics.median(found.stuck)
    grown = max(found.memory) - found.memory[0]
    bound = size.stuck * MAX_BYTES + SPARE
    print(
        f"{size.clients} clients, {size.rounds} rounds, medians: all read {reading:.3f} s, "
        f"{size.stuck} stuck {stuck:.3f} s ({stuck / reading:.3f}x, bar {SLACK}x); "
        f"without a client {alone:.3f} s\n"
        f"memory: grew by {grown / 1e6:.1f} MB from before to the largest "
        f"(bar {bound / 1e6:.0f} MB)\n"
        f"messages: {len(found.faults)} clients without every message once"
    )
    wrong = [f"a client has not every message once: {each}" for each in found.faults[:5]]
    if size.is_timed and stuck > reading * SLACK:
        wrong.append(f"the turn is slowed: {stuck / reading:.3f}x")
    if grown > bound:
        wrong.append(f"memory grew by {grown:,} bytes")
    return wrong


def _resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = asyncio.run(run(QUICK if options.quick else FULL, Path(folder)))
    for each in wrong:
        print(f"MISSED: {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
