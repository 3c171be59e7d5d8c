"""How appending and reading through an adapter grow with the conversation, and random steps.

`python -m benchmarks.adapters` prints for each framework the growth from 200 to 5,000 items, and
the ratio to the framework's own store in SQLite if it has one, else in memory. `--compare` makes
100 runs of 100 random steps in both.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from agents import SQLiteSession
from claude_agent_sdk import InMemorySessionStore
from google.adk.events import Event
from google.adk.sessions import BaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from langgraph.checkpoint.conformance.test_utils import generate_checkpoint, generate_metadata
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationStore, InMemoryConversationStore
from pydantic_ai.messages import ModelRequest, UserPromptPart

from clew.adapters.adk import ClewSessionService
from clew.adapters.claude import ClewSessionStore
from clew.adapters.langgraph import ClewSaver
from clew.adapters.openai_agents import ClewSession
from clew.adapters.pydantic_ai import ClewConversationStore
from clew.ports import Store
from clew.store import open_store
from tests.adapters.adk_model import Comparison as AdkComparison
from tests.adapters.openai_model import compare
from tests.adapters.pydantic_ai_model import Comparison as PydanticComparison

SIZES = (200, 5_000)
ROUNDS = 60
READ = 100


class Side(NamedTuple):
    """One store of a framework: how an item is added, and how the newest are read."""

    add: Callable[[int], Awaitable[object]]
    read: Callable[[], Awaitable[object]]


def openai(session: Any) -> Side:
    """The OpenAI Agents SDK."""

    async def add(at: int) -> None:
        await session.add_items([{"role": "user", "content": f"message {at}"}])

    return Side(add, lambda: session.get_items(READ))


def langgraph(saver: Any) -> Side:
    """LangGraph: a checkpoint with a small state, and the newest one."""
    at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    latest = at

    async def add(number: int) -> None:
        nonlocal latest
        checkpoint = generate_checkpoint(channel_values={"x": number}, channel_versions={"x": 1})
        latest = await saver.aput(latest, checkpoint, generate_metadata(step=number), {"x": 1})
        await saver.aput_writes(latest, [("x", number)], f"task {number}")

    return Side(add, lambda: saver.aget_tuple(at))


def claude(store: Any) -> Side:
    """The Claude Agent SDK. It always reads a session whole, so that the summaries are read."""

    async def add(at: int) -> None:
        entry = {"type": "user", "uuid": str(at), "message": {"content": f"message {at}"}}
        await store.append({"project_key": "p", "session_id": "s"}, [entry])

    return Side(add, lambda: store.list_session_summaries("p"))


def pydantic(store: ConversationStore) -> Side:
    """pydantic-ai: what was loaded goes on, as an agent does it."""

    async def add(at: int) -> None:
        found = await store.load("c", limit=READ) or Conversation(conversation_id="c")
        found.messages.append(ModelRequest([UserPromptPart(f"message {at}")]))
        await store.save(found)

    return Side(add, lambda: store.load("c", limit=READ))


def adk(service: BaseSessionService) -> Side:
    """ADK: an event, and the newest events."""
    place: Any = {"app_name": "a", "user_id": "u", "session_id": "s"}
    session: Any = None

    async def add(at: int) -> None:
        nonlocal session
        session = session or await service.create_session(**place)
        content = types.Content(role="user", parts=[types.Part(text=f"message {at}")])
        await service.append_event(session, Event(author="user", content=content))

    config = GetSessionConfig(num_recent_events=READ)
    return Side(add, lambda: service.get_session(config=config, **place))


Sides = AsyncIterator[tuple[Side, Side, str]]


@asynccontextmanager
async def both(name: str, store: Store, place: Path) -> Sides:
    """Clew's store and the framework's own, with a word on that one."""
    own = place / f"{name}.db"
    match name:
        case "openai-agents":
            theirs = SQLiteSession("s", own)
            yield openai(ClewSession("s", store)), openai(theirs), "in SQLite"
            theirs.close()
        case "langgraph":
            async with AsyncSqliteSaver.from_conn_string(str(own)) as saver:
                yield langgraph(ClewSaver(store)), langgraph(saver), "in SQLite"
        case "claude":
            yield claude(ClewSessionStore(store)), claude(InMemorySessionStore()), "in memory"
        case "pydantic-ai":
            memory = InMemoryConversationStore()
            yield pydantic(ClewConversationStore(store)), pydantic(memory), "in memory"
        case _:
            yield adk(ClewSessionService(store)), adk(SqliteSessionService(str(own))), "in SQLite"


async def measure(side: Side, have: int, size: int) -> tuple[float, float]:
    """CPU milliseconds of one addition and of one reading, at this size."""
    for at in range(have, size):
        await side.add(at)
    adds, reads = [], []
    for at in range(size, size + ROUNDS):
        begun = time.process_time()
        await side.add(at)
        middle = time.process_time()
        await side.read()
        adds.append(middle - begun)
        reads.append(time.process_time() - middle)
    return median(adds) * 1000, median(reads) * 1000


async def grow(place: Path) -> None:
    """Print the growth and the ratio."""
    for name in ("openai-agents", "langgraph", "claude", "pydantic-ai", "google-adk"):
        async with (
            await open_store(str(place / f"clew {name}.db"), durability="normal") as store,
            both(name, store, place) as (mine, theirs, where),
        ):
            small = await measure(mine, 0, SIZES[0])
            large = await measure(mine, SIZES[0] + ROUNDS, SIZES[1])
            own = await measure(theirs, 0, SIZES[1]) if where == "in SQLite" else None
        for at, what in enumerate(("add", "read")):
            ratio = (
                ""
                if own is None
                else f"; its own {own[at]:.2f} ms: ratio {large[at] / own[at]:.2f}"
            )
            print(
                f"{name} {what}: {small[at]:.2f} ms at {SIZES[0]}, {large[at]:.2f} ms at "
                f"{SIZES[1]}: growth {large[at] / small[at]:.2f}{ratio}",
                flush=True,
            )


async def compare_all(place: Path, runs: int = 100, steps: int = 100) -> None:
    """Compare random steps with the frameworks' own stores."""
    for seed in range(runs):
        # Each comparison expects an empty store.
        path = str(place / f"compare {seed}.db")
        async with await open_store(path, durability="normal") as store:
            theirs = SQLiteSession(f"s{seed}")
            await compare(ClewSession(f"s{seed}", store), theirs, seed=seed, steps=steps)
            theirs.close()
            await PydanticComparison(ClewConversationStore(store), seed).run(steps)
            await AdkComparison(ClewSessionService(store), seed).run(steps)
    print(
        f"openai-agents, pydantic-ai, google-adk: {runs} runs of {steps} random steps, equal to "
        "the frameworks' own stores"
    )


def main() -> None:
    """Run what is asked for."""
    with tempfile.TemporaryDirectory() as place:
        run = compare_all if "--compare" in sys.argv else grow
        asyncio.run(run(Path(place)))


if __name__ == "__main__":
    main()
