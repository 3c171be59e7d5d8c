"""A conversation of thousands of turns in a window of 16,000 tokens.

    python -m benchmarks.context --turns 2000

It compacts by itself, again and again. At the end: every request stayed within the window, the goal
of the first turn is still the summary's, scratchpad and todos are intact, the whole history is in
the store and can be searched, and building a turn's context costs at most 1.3 times of what it cost
at a tenth of the way. Ends with 1 if anything of this is not so.

The cost is CPU time. Both stretches of the session are kept as copies of the store, one for every
few turns of a whole cycle of compactions, since what there is to read depends on where in its cycle
a session is. In the end the contexts of all of them are built in turns, and of each copy the
cheapest time counts: what else the machine was busy with is in the others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.long_chat import WINDOW, LongChatModel, read_log
from benchmarks.timing import in_turns, seconds
from clew.agent.requests import build_request, read_window
from clew.clock import host_clock
from clew.config import load
from clew.core.changes import WriteScratch, WriteTodos
from clew.core.channels.incoming import message_for
from clew.core.context.compaction import parse_sections
from clew.core.message import Message
from clew.core.models import ModelInfo
from clew.core.notes import Todo
from clew.core.search.hits import SearchFilter
from clew.core.session import OWNER, NewSession, Session
from clew.core.usage import Usage
from clew.ports import Store
from clew.store import open_store
from clew.store.sqlite.backup import back_up
from clew.wiring import House, open_configured_store

GOAL = "to keep the lighthouse of Eddystone burning"
BAR = 1.3
SHORT = 1_000
"""Turns below which nothing is measured: the early ones have less to read than fits."""
CYCLE = 40
STEP = 4
"""Turns of a cycle, and between two copies of the store."""
ROUNDS = 25
STUCK = 60.0
TODOS = (Todo("trim the lamp", "in_progress"), Todo("oil"))


class Growth(msgspec.Struct, frozen=True):
    """Seconds of CPU that building a turn's context takes, early and late."""

    early: float
    late: float

    @property
    def ratio(self) -> float:
        """How many times the late one is of the early one."""
        return self.late / self.early

    def __str__(self) -> str:
        return (
            f"a turn's context costs {self.ratio:.2f} times of what it did early on "
            f"({seconds(self.late)} and {seconds(self.early)} of CPU)"
        )


class Lived(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    turns: int
    compactions: int
    requests: int
    largest: int
    growth: Growth | None
    problems: tuple[str, ...]


class World(msgspec.Struct, frozen=True):
    """A home with `LongChatModel` as its model, and a directory to work in."""

    folder: Path

    @property
    def home(self) -> Path:
        """Where clew keeps everything."""
        return self.folder / "home"

    @property
    def log(self) -> Path:
        """One line for each request."""
        return self.folder / "requests.log"

    @property
    def work(self) -> Path:
        """Where the diary is."""
        return self.folder / "work"

    def make(self) -> None:
        """Write the configuration, and the file that the model looks at."""
        self.home.mkdir(parents=True)
        self.work.mkdir()
        (self.work / "diary.txt").write_text("A quiet day at sea.\n" * 300)
        (self.home / "config.toml").write_text(
            'model = "diary/x"\n[store]\ndurability = "normal"\n[memory]\nflush = false\n'
            '[providers.diary]\nkind = "python"\nfactory = "benchmarks.long_chat:open_model"\n'
            f"base_url = {json.dumps(str(self.log))}\ncontext_window = {WINDOW}\n"
        )


async def live(world: World, turns: int) -> Lived:
    """Say so many things, one after the other, and look at what is left."""
    config = load(home=str(world.home), environ={})
    store = await open_configured_store(config)
    house = House(config, store)
    early, late = list[Path](), list[Path]()
    try:
        session = await _begin(store, world)
        for number in range(1, turns + 1):
            await _say(house, session, number)
            for copies, end in ((early, turns // 10), (late, turns)):
                if turns >= SHORT and end - CYCLE < number <= end and number % STEP == 0:
                    await house.runtime.join(session.id)
                    copies.append(world.folder / f"turn-{number}.db")
                    await asyncio.to_thread(
                        back_up, world.home / "sessions.db", copies[-1], now=host_clock()
                    )
        growth = await _compare(session.id, early, late) if early else None
        return await _look(store, session, world, growth)
    finally:
        await house.close()
        await store.close()


async def _compare(session_id: str, early: list[Path], late: list[Path]) -> Growth:
    """Build the contexts of all copies, one after the other, again and again."""
    async with AsyncExitStack() as stack:
        builds = [
            partial(
                _build, await stack.enter_async_context(await open_store(str(path))), session_id
            )
            for path in (*early, *late)
        ]
        series = await in_turns(*builds, rounds=ROUNDS)
    cheapest = [min(cost.cpu for cost in each.costs) for each in series]
    return Growth(statistics.mean(cheapest[: len(early)]), statistics.mean(cheapest[len(early) :]))


async def _begin(store: Store, world: World) -> Session:
    new = NewSession(key="cli:diary", cwd=str(world.work), model="diary/x", title="A diary")
    session = await store.create_session(new)
    lease = await store.acquire_lease(session.id, "benchmark")
    await store.record(session.id, lease.epoch, WriteTodos(TODOS), WriteScratch("log", "x" * 5_000))
    await store.release_lease(lease)
    return session


async def _say(house: House, session: Session, number: int) -> None:
    text = f"day {number}: the wind came from the west, keyword{number}. " + "More of it. " * 20
    if number == 1:
        text = f"My goal is {GOAL}. {text}"
    ticket = await house.runtime.accept(message_for(session, text, channel="cli"))
    turn = await asyncio.wait_for(ticket.turn, STUCK)
    if turn.status != "done":
        raise RuntimeError(f"day {number} {turn.status}: {turn.error}")


async def _build(store: Store, session_id: str) -> None:
    """Make the next request out of the store."""
    model = LongChatModel()
    info = ModelInfo(name="diary/x", provider="diary", context_window=WINDOW)
    compaction = await store.find_compaction(session_id)
    rows = await read_window(StoredThread(store, session_id), 200, compaction)
    await build_request(
        rows, "You keep a diary.", (), info=info, model=model, settings={},
        get_blob=store.get_blob, compaction=compaction,
    )  # fmt: skip


class StoredThread:
    """A thread as the loop reads it."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    async def get_thread(self, limit: int) -> tuple[Message, ...]:
        """The newest messages."""
        return await self._store.get_messages(self._session_id, limit)


async def _look(store: Store, session: Session, world: World, growth: Growth | None) -> Lived:
    """Whether everything is as it should be."""
    now = await store.get_session(session.id)
    compaction = await store.find_compaction(session.id)
    messages = await store.get_messages(session.id)
    turns = [each for each in messages if each.role == "user"]
    requests = read_log(world.log)
    largest = max(tokens for _, tokens in requests)
    goal = "" if compaction is None else parse_sections(compaction.summary)["Goal"]
    entry = await store.find_scratch(session.id, "log")
    spent = [turn.usage for turn in await store.list_turns(session.id, limit=1_000_000)]
    where = SearchFilter(viewer=OWNER, session=session.id)
    found = [await store.search(f"keyword{day}", where) for day in (1, len(turns) // 2)]
    checks = {
        f"the largest request has {largest:,} tokens": largest <= WINDOW,
        f"the goal is {goal!r}": goal == GOAL,
        "the todos are others": await store.get_todos(session.id) == TODOS,
        "the scratchpad is another": entry is not None and entry.content == "x" * 5_000,
        "the history has gaps": [each.seq for each in messages] == list(range(1, now.head + 1)),
        "an old message is not found": all(len(page.hits) == 1 for page in found),
        f"{now.compactions} compactions": now.compactions >= len(turns) // 50,
        "the usage does not add up": sum(spent, Usage()) == now.usage,
        str(growth): growth is None or growth.ratio <= BAR,
    }
    return Lived(
        turns=len(turns),
        compactions=now.compactions,
        requests=len(requests),
        largest=largest,
        growth=growth,
        problems=tuple(problem for problem, ok in checks.items() if not ok),
    )


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.context", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--turns", type=int, default=2_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clew-context-") as folder:
        world = World(Path(folder))
        world.make()
        began = time.monotonic()
        lived = asyncio.run(live(world, options.turns))
    print(
        f"{lived.turns:,} turns in {seconds(time.monotonic() - began)}, {lived.requests:,} "
        f"requests of at most {lived.largest:,} tokens, {lived.compactions:,} compactions"
        + ("" if lived.growth is None else f"; {lived.growth}")
    )
    for problem in lived.problems:
        print(f"PROBLEM {problem}")
    return 1 if lived.problems else 0


if __name__ == "__main__":
    sys.exit(main())
