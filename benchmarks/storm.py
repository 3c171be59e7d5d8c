"""Messages from everywhere, each several times, to a gateway that is killed again and again.

    python -m benchmarks.storm
    python -m benchmarks.storm --messages 40 --conversations 8 --kills 4
    python -m benchmarks.storm --store postgres --gateways 2

Four platforms (`clew.testing.channels`) bring the messages of many conversations: the first copy
of each in its order, as a platform does that waits for its acknowledgement, and further copies at
any time. They read the replies; now and then one hangs up in the middle. In the end every message
must have exactly one turn, in order, every answer must have arrived once, and every send that
nobody can be sure of must say so. Several gateways share one store, and each message reaches all
of them. What is wrong ends this with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path

import msgspec

from benchmarks.processes.receiver import Place, live
from clew.config import load
from clew.core.channels.incoming import Incoming, Sender
from clew.core.channels.replies import ReplyTo
from clew.core.channels.routing import Arrival, Peer
from clew.core.delivery import NewInbound, Outbound
from clew.core.message import Message
from clew.core.session import OWNER, Session, SessionFilter
from clew.core.turn import Turn
from clew.ports import Store
from clew.testing.channels import Peer as Platform
from clew.testing.channels import open_peer
from clew.wiring import open_configured_store

CHANNELS = ("telegram", "discord", "slack", "email")
MOST_COPIES = 5
STUCK = 120.0
"""Seconds after which nothing is expected to happen any more."""
ACKNOWLEDGED_IN = 1.0
"""Seconds after which a platform brings a message again."""
TAKEN = 30
"""One in so many replies meets a platform that hangs up, or asks for patience."""


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """How much of it."""

    messages: int = 200
    conversations: int = 20
    kills: int = 20
    gateways: int = 1
    seed: int = 7


class Story(msgspec.Struct):
    """What has happened so far."""

    acknowledged: int = 0
    copies: int = 0
    kills: int = 0
    problems: list[str] = msgspec.field(default_factory=list)
    counts: Counter[str] = msgspec.field(default_factory=Counter)


def make_message(storm: Storm, number: int) -> tuple[str, Incoming]:
    """A message, and the channel that brings it; every fourth conversation is a group."""
    conversation = number % storm.conversations
    channel = CHANNELS[conversation % len(CHANNELS)]
    peer = Peer("group" if conversation % 4 == 3 else "dm", f"peer{conversation}")
    return channel, Incoming(
        arrival=Arrival(channel=channel, peer=peer),
        sender=Sender(f"peer{conversation}"),
        text=f"{conversation}/{number // storm.conversations}",
        external_id=f"message {number}",
        reply_to=ReplyTo(channel=channel, key=f"{channel}:{peer.id}", address={"chat": peer.id}),
    )


# --- the platforms ------------------------------------------------------------------------------


async def bring(platform: Platform, message: Incoming) -> None:
    """Bring a message until it is acknowledged, as platforms do."""
    while True:
        with contextlib.suppress(TimeoutError, OSError):
            await asyncio.wait_for(platform.bring(message), ACKNOWLEDGED_IN)
            return


async def bring_conversation(
    storm: Storm, platforms: dict[str, Platform], number: int, rng: random.Random, story: Story
) -> None:
    """All messages of a conversation, in order, with copies of any of them in between."""
    brought: list[tuple[str, Incoming]] = []
    copies: list[tuple[str, Incoming]] = []
    for each in range(number, storm.messages, storm.conversations):
        channel, message = make_message(storm, each)
        await asyncio.sleep(rng.uniform(0, 0.2))
        await bring(platforms[channel], message)
        story.acknowledged += 1
        brought.append((channel, message))
        copies += [(channel, message)] * rng.randint(0, MOST_COPIES - 1)
        rng.shuffle(copies)
        for _ in range(rng.randint(0, len(copies))):
            await bring_again(platforms, copies.pop(), story)
    while copies:
        await bring_again(platforms, copies.pop(), story)


async def bring_again(
    platforms: dict[str, Platform], copy: tuple[str, Incoming], story: Story
) -> None:
    """A copy of what was acknowledged already: nobody waits for a word about it."""
    story.copies += 1
    with contextlib.suppress(TimeoutError, OSError):
        await asyncio.wait_for(platforms[copy[0]].bring(copy[1]), ACKNOWLEDGED_IN)


# --- the killing --------------------------------------------------------------------------------


@asynccontextmanager
async def keep_alive(place: Place, gateways: int) -> AsyncIterator[Reaper]:
    """Gateways that are there again a moment after they were killed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["benchmarks.processes.preload", "benchmarks.processes.receiver"]
    )
    reaper = Reaper(context, place, gateways)
    for which in range(gateways):
        reaper.revive(which)
    try:
        yield reaper
    finally:
        for which in range(gateways):
            reaper.kill(which)


class Reaper:
    """Ends gateways, and starts the next."""

    def __init__(
        self, context: multiprocessing.context.ForkServerContext, place: Place, gateways: int
    ) -> None:
        self._context = context
        self._place = place
        self._processes: list[BaseProcess | None] = [None] * gateways

    def revive(self, which: int) -> None:
        """The next life."""
        process = self._context.Process(target=live, args=(self._place,), daemon=True)
        process.start()
        self._processes[which] = process

    def kill(self, which: int) -> None:
        """With SIGKILL, wherever it is."""
        process = self._processes[which]
        if process is not None:
            process.kill()
            process.join()

    def is_alive(self, which: int) -> bool:
        """Whether it has not ended by itself."""
        process = self._processes[which]
        return process is not None and process.is_alive()


async def kill_at_random(
    storm: Storm, platforms: dict[str, Platform], reaper: Reaper, rng: random.Random, story: Story
) -> None:
    """Kill all the time: spread over what there is to do, at moments that nobody can foresee."""
    whole = storm.messages * 1.5
    for number in range(storm.kills):
        goal = whole * (number + rng.random()) / storm.kills * 0.9
        deadline = time.monotonic() + 5
        while _progress(platforms, story) < goal:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(rng.uniform(0, 0.15))
        which = rng.randrange(storm.gateways)
        if not reaper.is_alive(which):
            story.problems.append(f"life {number} ended by itself")
        reaper.kill(which)
        story.kills += 1
        reaper.revive(which)


def _progress(platforms: dict[str, Platform], story: Story) -> int:
    return story.acknowledged + sum(len(each.received) for each in platforms.values())


# --- looking ------------------------------------------------------------------------------------


async def wait_until_calm(store: Store) -> bool:
    """Whether there is an end: no message without a turn, no turn running, no reply to send."""
    deadline = time.monotonic() + STUCK
    while time.monotonic() < deadline:
        if not await store.list_inbound(limit=1) and not await _list_open(store):
            states = await store.list_states([each.id for each in await _list_sessions(store)])
            if not any(each.running or each.interrupted for each in states.values()):
                return True
        await asyncio.sleep(0.05)
    return False


async def _list_open(store: Store) -> list[Outbound]:
    pending = await store.list_outbound(status="pending")
    return [*pending, *await store.list_outbound(status="sending")]


async def _list_sessions(store: Store) -> list[Session]:
    page = await store.list_sessions(SessionFilter(viewer=OWNER, archived=None), limit=1000)
    return list(page.sessions)


async def check(storm: Storm, store: Store, platforms: dict[str, Platform], story: Story) -> None:
    """Everything that must hold in the end."""
    sessions = await _list_sessions(store)
    if len(sessions) != storm.conversations:
        story.problems.append(f"{len(sessions)} sessions of {storm.conversations} conversations")
    said: list[str] = []
    for session in sessions:
        thread = await store.get_messages(session.id)
        turns = await store.list_turns(session.id, limit=10_000)
        said += [each.content for each in thread if each.role == "user"]
        story.problems += [f"{session.key}: {each}" for each in _check_thread(thread, turns)]
        story.counts.update(each.status for each in turns)
    wanted = [make_message(storm, number)[1].text for number in range(storm.messages)]
    if Counter(said) != Counter(wanted):
        odd = (Counter(said) - Counter(wanted)) + (Counter(wanted) - Counter(said))
        story.problems.append(f"not once in the threads: {dict(odd)}")
    for number in range(storm.messages):
        await _check_turn(storm, store, number, story)
    rows = await store.list_outbound(limit=100_000)
    await _check_replies(store, rows, sessions, platforms, story)


def _check_thread(thread: tuple[Message, ...], turns: tuple[Turn, ...]) -> list[str]:
    """In order, and with an answer to everything."""
    problems = []
    numbers = [int(each.content.partition("/")[2]) for each in thread if each.role == "user"]
    if numbers != sorted(numbers):
        problems.append(f"out of order: {numbers}")
    if not thread or thread[-1].role != "assistant":
        problems.append("the last message is not answered")
    for before, after in pairwise(thread):
        if (before.role, after.role) == ("user", "user") and before.turn_id != after.turn_id:
            problems.append(f"{before.content!r} was never answered")
    if turns and turns[-1].status != "done":
        problems.append(f"the last turn is {turns[-1].status}")
    known = {each.id for each in turns}
    if lost := [each.seq for each in thread if each.turn_id not in known]:
        problems.append(f"messages of no turn: {lost}")
    return problems


async def _check_turn(storm: Storm, store: Store, number: int, story: Story) -> None:
    """The inbox knows a message's one turn: asked by delivering it once more, to nobody."""
    channel, message = make_message(storm, number)
    new = NewInbound(
        id=f"check {number}", channel=channel, external_id=message.external_id, key="check"
    )
    row, is_new = await store.accept(new)
    if is_new or row.status != "done" or row.turn_id is None:
        story.problems.append(f"{message.text} has no turn: {row}")
        return
    thread = await store.get_messages(row.session_id or "")
    of_turn = [each for each in thread if each.content == message.text and each.role == "user"]
    if [each.turn_id for each in of_turn] != [row.turn_id]:
        story.problems.append(f"{message.text} has {of_turn}, but the inbox says {row.turn_id}")


async def _check_replies(
    store: Store,
    rows: tuple[Outbound, ...],
    sessions: list[Session],
    platforms: dict[str, Platform],
    story: Story,
) -> None:
    """Every answer has its row, and every row's fate is what the platforms saw."""
    seen = Counter(
        each.id
        for platform in platforms.values()
        for each in platform.received
        if each.reaction != "later"
    )
    taken = Counter(
        each.id
        for platform in platforms.values()
        for each in platform.received
        if each.reaction == "take"
    )
    by_message = Counter((row.session_id, row.seq) for row in rows)
    for session in sessions:
        for each in await store.get_messages(session.id):
            if each.role == "assistant" and by_message[session.id, each.seq] != 1:
                count = by_message[session.id, each.seq]
                story.problems.append(f"{session.key}: {each.content!r} has {count} replies")
    for row in rows:
        story.counts[f"replies {row.status}"] += 1
        name = f"{row.id}-1"
        if row.status == "sent" and (seen[name], taken[name]) != (1, 1):
            story.problems.append(f"{row.content!r} is sent, and was read {seen[name]} times")
        elif row.status == "uncertain" and seen[name] > 1:
            story.problems.append(f"{row.content!r} is uncertain, and was read {seen[name]} times")
        elif row.status not in ("sent", "uncertain"):
            story.problems.append(f"{row.content!r} is {row.status}: {row.error}")
    if strange := set(seen) - {f"{row.id}-1" for row in rows}:
        story.problems.append(f"the platforms read what nobody sent: {strange}")


# --- all of it ----------------------------------------------------------------------------------


async def rage(storm: Storm, folder: Path, url: str | None = None) -> Story:
    """The whole storm, and what is left of it. `url` is another store than the home's file."""
    rng = random.Random(storm.seed)
    story = Story()
    async with AsyncExitStack() as open_things:
        platforms = {name: await open_things.enter_async_context(open_peer()) for name in CHANNELS}
        for platform in platforms.values():
            reactions = rng.choices(("take", "vanish", "later"), (TAKEN, 1, 1), k=storm.messages)
            platform.reactions.extend(reactions)  # type: ignore[arg-type]  # they are
        ports = {name: each.port for name, each in platforms.items()}
        place = Place(folder / "home", ports, url)
        place.make()
        reaper = await open_things.enter_async_context(keep_alive(place, storm.gateways))
        store = await open_configured_store(load(home=str(place.home), environ={}))
        open_things.push_async_callback(store.close)
        async with asyncio.timeout(STUCK * 5), asyncio.TaskGroup() as tasks:
            for number in range(storm.conversations):
                own = random.Random(rng.random())
                bringing = bring_conversation(storm, platforms, number, own, story)
                tasks.create_task(bringing)
            tasks.create_task(kill_at_random(storm, platforms, reaper, rng, story))
        if not await wait_until_calm(store):
            story.problems.append("it did not come to an end")
        await check(storm, store, platforms, story)
    return story


@contextmanager
def open_place_for(store: str) -> Iterator[str | None]:
    """Where the sessions are: in a server of its own that is safe as people's are, or the home."""
    if store != "postgres":
        yield None if store == "sqlite" else store
        return
    from tests.postgres.server import Server  # noqa: PLC0415  # only for PostgreSQL

    server = Server(fsync="on", full_page_writes="on", autovacuum="on")
    try:
        yield server.url(server.create_database())
    finally:
        server.remove()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storm", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    for name, value in msgspec.structs.asdict(Storm()).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--store", default="sqlite", help="sqlite, postgres, or a URL")
    options = vars(parser.parse_args())
    store: str = options.pop("store")
    storm = Storm(**options)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="clew-storm-"))
    with open_place_for(store) as url:
        story = asyncio.run(rage(storm, folder, url))
    counts = ", ".join(f"{count} {what}" for what, count in sorted(story.counts.items()))
    print(
        f"{storm.messages} messages and {story.copies} copies, {story.kills} kills, "
        f"{time.monotonic() - began:.0f} s; turns and replies: {counts}"
    )
    for problem in story.problems:
        print(f"PROBLEM {problem}")
    if story.problems:
        print(f"What they left is kept in {folder}." if url is None else f"Seed {storm.seed}.")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    print("Every message had one turn, in order; every answer was sent once, or says it is unsure.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
