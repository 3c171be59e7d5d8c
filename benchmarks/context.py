"""A conversation of thousands of turns in a window of 16,000 tokens.

    python -m benchmarks.context --turns 2000

It compacts by itself, again and again. At the end: every request stayed within the window, the goal
of the first turn is still the summary's, scratchpad and todos are intact, the whole history is in
the store and can be searched, and building a turn's context costs at most 1.3 times of what it cost
at a tenth of the way. Ends with 1 if anything of this is not so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from benchmarks.measuring import Series, measure, seconds
from clew.agent.requests import build_request, read_window
from clew.config import load
from clew.core.changes import WriteScratch, WriteTodos
from clew.core.delivery import NewInbound
from clew.core.message import Message
from clew.core.models import ModelInfo
from clew.core.notes import Todo
from clew.core.search import SearchFilter
from clew.core.session import OWNER, NewSession, Session
from clew.core.summaries import parse_sections
from clew.core.usage import Usage
from clew.ports import Store
from clew.testing.diarist import WINDOW, Diarist, read_log
from clew.wiring import House, open_configured_store, open_house

GOAL = "to keep the lighthouse of Eddystone burning"
BAR = 1.3
SHORT = 1_000
"""Turns below which the early ones have less to read than the window of messages holds."""
CYCLE = 40
SAMPLES = 5
STUCK = 60.0
TODOS = (Todo("trim the lamp", "in_progress"), Todo("oil"))


class Lived(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    turns: int
    compactions: int
    requests: int
    largest: int
    growth: float
    problems: tuple[str, ...]


class World(msgspec.Struct, frozen=True):
    """A home with the diarist as its model, and a directory to work in."""

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
            '[providers.diary]\nkind = "python"\nfactory = "clew.testing.diarist:open_model"\n'
            f"base_url = {json.dumps(str(self.log))}\ncontext_window = {WINDOW}\n"
        )


async def live(world: World, turns: int) -> Lived:
    """Say so many things, one after the other, and look at what is left."""
    config = load(home=str(world.home), environ={})
    store = await open_configured_store(config)
    house = open_house(config, store)
    early, late = Series(), Series()
    try:
        session = await _begin(store, world)
        for number in range(1, turns + 1):
            await _say(house, session, number)
            # A whole cycle of compactions each: where in it a session is decides what is read.
            if turns // 10 - CYCLE < number <= turns // 10:
                await _cost(store, session, early)
            if number > turns - CYCLE:
                await _cost(store, session, late)
        return await _look(store, session, world, late.cpu / early.cpu)
    finally:
        await house.close()
        await store.close()


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
    new = NewInbound(
        id=f"day-{number}", channel="cli", key=session.key, session_id=session.id,
        person=OWNER, payload={"text": text},
    )  # fmt: skip
    ticket = await house.runtime.accept(new)
    turn = await asyncio.wait_for(ticket.turn, STUCK)
    if turn.status != "done":
        raise RuntimeError(f"day {number} {turn.status}: {turn.error}")


async def _cost(store: Store, session: Session, series: Series) -> None:
    """What making the next request out of the store costs."""
    model, info = Diarist(), ModelInfo(name="diary/x", provider="diary", context_window=WINDOW)
    thread = StoredThread(store, session.id)

    async def build() -> None:
        compaction = await store.find_compaction(session.id)
        rows = await read_window(thread, 200, compaction)
        await build_request(
            rows, "You keep a diary.", (), info=info, model=model, settings={},
            get_blob=store.get_blob, compaction=compaction,
        )  # fmt: skip

    series.costs.append(await measure(build, times=SAMPLES))


class StoredThread:
    """A thread as the loop reads it."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    async def get_thread(self, limit: int) -> tuple[Message, ...]:
        """The newest messages."""
        return await self._store.get_messages(self._session_id, limit)


async def _look(store: Store, session: Session, world: World, growth: float) -> Lived:
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
        f"a turn's context costs {growth:.2f} times": growth <= BAR or len(turns) < SHORT,
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
        f"requests of at most {lived.largest:,} tokens, {lived.compactions:,} compactions; "
        f"a turn's context costs {lived.growth:.2f} times of what it did early on"
    )
    for problem in lived.problems:
        print(f"PROBLEM {problem}")
    return 1 if lived.problems else 0


if __name__ == "__main__":
    sys.exit(main())
