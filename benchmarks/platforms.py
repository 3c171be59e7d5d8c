"""A gateway that is killed again and again while people write to it on real platforms.

    python -m benchmarks.platforms
    python -m benchmarks.platforms --messages 24 --kills 3 --away 2
    python -m benchmarks.platforms --store postgres

The platforms are the local servers of `clew.testing`, which speak the real protocols with the real
libraries; `benchmarks.storm` does the same with a protocol of its own, and several gateways. Every
message comes once in its order, and copies of it later. In the middle the store is away for some
seconds: PostgreSQL is stopped, a SQLite file is locked. In the end every message must have exactly
one turn, in order, every answer must have gone out once, and every one that may not have arrived
must be listed as uncertain. What is wrong ends this with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from email.message import EmailMessage
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

import apsw
import msgspec

from benchmarks.processes.gateway import live
from clew.config import load
from clew.core.delivery import Outbound
from clew.core.message import Message
from clew.core.session import OWNER, Session, SessionFilter
from clew.ports import Store
from clew.store import sqlite_path
from clew.testing.email import ADDRESS, AUTHSERV, PASSWORD, MailServer, open_mail
from clew.testing.telegram import TOKEN, Person, TelegramServer, open_telegram
from clew.wiring import open_configured_store

STUCK = 600.0
"""Seconds after which nothing is expected to happen any more."""
MOST_COPIES = 2
TROUBLE = 30
"""One in so many replies meets a platform that hangs up, or asks for patience."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much of it; `away` is in seconds."""

    messages: int = 500
    conversations: int = 20
    kills: int = 50
    away: int = 20
    seed: int = 7


class Story(msgspec.Struct):
    """What has happened."""

    written: int = 0
    copies: int = 0
    kills: int = 0
    problems: list[str] = msgspec.field(default_factory=list)
    counts: Counter[str] = msgspec.field(default_factory=Counter)


class Platform(Protocol):
    """People on a platform, by number, who each talk with the agent in private."""

    name: str

    def settings(self, home: Path) -> str:
        """The section of the configuration."""
        ...

    async def write(self, person: int, text: str) -> Callable[[], Any]:
        """A person writes; returns what delivers the same message once more."""
        ...

    def trouble(self, rng: random.Random, count: int) -> None:
        """Let some of the next replies meet trouble."""
        ...

    def read(self) -> list[tuple[int, str]]:
        """What the people were answered: who, and the text."""
        ...


class OnTelegram:
    """`Platform` on Telegram."""

    name = "telegram"

    def __init__(self, server: TelegramServer) -> None:
        self._server = server

    def settings(self, home: Path) -> str:
        """See `Platform`."""
        (home / "telegram").write_text(TOKEN)
        return f'token = "file:{home}/telegram"\napi_url = "{self._server.base_url}"'

    async def write(self, person: int, text: str) -> Callable[[], Any]:
        """See `Platform`."""
        number = await self._server.say(text, sender=Person(100 + person, f"Person {person}"))
        return lambda: self._server.repeat(number)

    def trouble(self, rng: random.Random, count: int) -> None:
        """See `Platform`."""
        what = rng.choices(("take", "flood", "vanish", "swallow"), (TROUBLE, 1, 1, 1), k=count)
        self._server.reactions.extend(what)  # type: ignore[arg-type]  # they are

    def read(self) -> list[tuple[int, str]]:
        """See `Platform`."""
        return [(each.chat - 100, each.text) for each in self._server.sent]


class ByMail:
    """`Platform` by e-mail: a person's mails are one thread."""

    name = "email"

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._count: Counter[int] = Counter()

    def settings(self, home: Path) -> str:
        """See `Platform`."""
        (home / "mail").write_text(PASSWORD)
        return (
            f'address = "{ADDRESS}"\npassword = "file:{home}/mail"\nimap = "{self._server.imap}"\n'
            f'smtp = "{self._server.smtp}"\nauthserv_id = "{AUTHSERV}"'
        )

    async def write(self, person: int, text: str) -> Callable[[], Any]:
        """See `Platform`."""
        number = self._count[person]
        self._count[person] += 1
        headers = [("Message-ID", f"<{person}.{number}@example.com>")]
        if number:
            headers.append(("References", f"<{person}.0@example.com>"))
        held = await self._server.say(
            text, sender=f"Person {person} <p{person}@example.com>", headers=headers
        )
        return lambda: self._server.put(held.raw)

    def trouble(self, rng: random.Random, count: int) -> None:
        """See `Platform`."""
        self._server.reactions.extend(rng.choices(("take", "flood"), (TROUBLE, 1), k=count))

    def read(self) -> list[tuple[int, str]]:
        """See `Platform`."""
        return [
            (_person_of(each), str(each.get_content()).replace("\r\n", "\n").strip())
            for each in self._server.sent
        ]


def _person_of(mail: EmailMessage) -> int:
    return int(str(mail["To"]).rpartition("<p")[2].lstrip("p").partition("@")[0])


@asynccontextmanager
async def open_platforms() -> AsyncIterator[tuple[Platform, ...]]:
    """All platforms. A further one is a class above, and a line here."""
    async with AsyncExitStack() as opened:
        yield (
            OnTelegram(await opened.enter_async_context(open_telegram())),
            ByMail(await opened.enter_async_context(open_mail())),
        )


def make_home(home: Path, platforms: tuple[Platform, ...], url: str | None) -> None:
    """Write the configuration and the script: each answer is what it answers."""
    home.mkdir(parents=True)
    script = home / "script.json"
    script.write_text(json.dumps({"answers": [{"text": "To ", "echo": "user", "delay": 0.005}]}))
    guests = [f"{each.name}:*" for each in platforms]
    (home / "config.toml").write_text(
        f'model = "script/x"\nguests = {json.dumps(guests)}\n'
        '[session]\nreset = { mode = "off" }\ndm_scope = "per-channel-peer"\n'
        '[providers.script]\nkind = "python"\nfactory = "clew.testing.scripted:open_model"\n'
        f"base_url = {json.dumps(str(script))}\n"
        + (f"[store]\nurl = {json.dumps(url)}\n" if url else "")
        + "".join(f"[channels.{each.name}]\n{each.settings(home)}\n" for each in platforms)
    )


# --- what happens -------------------------------------------------------------------------------


async def write_all(
    plan: Plan, platforms: tuple[Platform, ...], person: int, rng: random.Random, story: Story
) -> None:
    """All messages of a person, in order, with copies of any of them in between."""
    platform = platforms[person % len(platforms)]
    copies: list[Callable[[], Any]] = []
    for number in range(person, plan.messages, plan.conversations):
        await asyncio.sleep(rng.uniform(0, 0.5))
        again = await platform.write(person, f"{person}/{number // plan.conversations}")
        story.written += 1
        copies += [again] * rng.randint(0, MOST_COPIES)
        rng.shuffle(copies)
        for _ in range(rng.randint(0, len(copies))):
            story.copies += 1
            await copies.pop()()
    for again in copies:
        story.copies += 1
        await again()


class Life:
    """The gateway: killed, and there again at once. `take_away` lets its store be away."""

    def __init__(self, home: Path, take_away: Callable[[], Any]) -> None:
        self.take_away = take_away
        self._home = home
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["benchmarks.processes.preload", "benchmarks.processes.gateway"]
        )
        self._process: BaseProcess | None = None

    def begin(self) -> None:
        """The next life."""
        self._process = self._context.Process(target=live, args=(self._home,), daemon=True)
        self._process.start()

    def end(self) -> bool:
        """Kill it, wherever it is; whether it had lived until now."""
        assert self._process is not None
        lived = self._process.is_alive()
        self._process.kill()
        self._process.join()
        return lived


async def kill_at_random(
    plan: Plan, platforms: tuple[Platform, ...], life: Life, rng: random.Random, story: Story
) -> None:
    """Kill all the time, spread over what there is to do; in the middle the store is away."""
    for number in range(plan.kills):
        if number == plan.kills // 2:
            await asyncio.to_thread(life.take_away)
        goal = 1.5 * plan.messages * (number + rng.random()) / plan.kills * 0.9
        deadline = time.monotonic() + 5
        while story.written + sum(len(each.read()) for each in platforms) < goal:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(rng.uniform(0, 0.3))
        if not life.end():
            story.problems.append(f"life {number} ended by itself")
        story.kills += 1
        life.begin()


@contextmanager
def open_store_place(store: str, away: int, home: Path) -> Iterator[tuple[str | None, Any]]:
    """Where the sessions are, and what takes the store away for some seconds."""
    if store == "sqlite":
        yield None, lambda: _lock(home, away)
        return
    from tests.postgres.server import Server  # noqa: PLC0415  # only for PostgreSQL

    server = Server(fsync="on", full_page_writes="on", autovacuum="on")

    def stop() -> None:
        server.stop()
        time.sleep(away)
        server.start()

    try:
        yield server.url(server.create_database()), stop
    finally:
        server.remove()


def _lock(home: Path, seconds: int) -> None:
    path = sqlite_path(load(home=str(home), environ={}).store.url)
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(60_000)
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")
    finally:
        connection.close()


# --- looking ------------------------------------------------------------------------------------


async def wait_until_calm(plan: Plan, store: Store) -> bool:
    """Whether there is an end: all messages have a turn, none runs, and no reply is to be sent."""
    deadline = time.monotonic() + STUCK
    while time.monotonic() < deadline:
        waiting = await store.count_inbound()
        sending = await store.count_outbound()
        if not any(waiting.values()) and not {"pending", "sending"} & set(sending):
            sessions = await _list_sessions(store)
            states = await store.list_states([each.id for each in sessions])
            busy = any(each.running or each.interrupted for each in states.values())
            said = [await _list_said(store, each) for each in sessions]
            if not busy and sum(map(len, said)) >= plan.messages:
                return True
        await asyncio.sleep(0.2)
    return False


async def _list_sessions(store: Store) -> list[Session]:
    page = await store.list_sessions(SessionFilter(viewer=OWNER, archived=None), limit=1000)
    return list(page.sessions)


async def _list_said(store: Store, session: Session) -> list[str]:
    return [each.content for each in await store.get_messages(session.id) if each.role == "user"]


async def check(plan: Plan, store: Store, platforms: tuple[Platform, ...], story: Story) -> None:
    """Everything that must hold in the end."""
    sessions = await _list_sessions(store)
    rows = await store.list_outbound(limit=100_000)
    if len(sessions) != plan.conversations:
        story.problems.append(f"{len(sessions)} sessions of {plan.conversations} conversations")
    by_message = Counter((row.session_id, row.seq) for row in rows)
    people: dict[str, int] = {}
    for session in sessions:
        thread = await store.get_messages(session.id)
        person = int(next(each.content for each in thread).partition("/")[0])
        people[session.id] = person
        turns = await store.list_turns(session.id, limit=10_000)
        story.counts.update(f"turns {each.status}" for each in turns)
        found = list(_check_thread(plan, person, thread))
        if turns and turns[-1].status != "done":
            found.append(f"the last turn is {turns[-1].status}")
        found += [
            f"{each.content!r} has {by_message[session.id, each.seq]} replies"
            for each in thread
            if each.role == "assistant" and by_message[session.id, each.seq] != 1
        ]
        story.problems += [f"{session.key}: {each}" for each in found]
    seen = Counter(one for each in platforms for one in each.read())
    _check_replies(rows, people, seen, story)


def _check_thread(plan: Plan, person: int, thread: tuple[Message, ...]) -> Iterator[str]:
    """Each message once, in order, and with an answer to everything."""
    said = [each.content for each in thread if each.role == "user"]
    count = len(range(person, plan.messages, plan.conversations))
    wanted = [f"{person}/{number}" for number in range(count)]
    if said != wanted:
        odd = (Counter(said) - Counter(wanted)) + (Counter(wanted) - Counter(said))
        yield f"not once each, in order: {dict(odd) or said}"
    if thread[-1].role != "assistant":
        yield "the last message is not answered"
    for before, after in pairwise(thread):
        if (before.role, after.role) == ("user", "user") and before.turn_id != after.turn_id:
            yield f"{before.content!r} was never answered"


def _check_replies(
    rows: tuple[Outbound, ...],
    people: dict[str, int],
    seen: Counter[tuple[int, str]],
    story: Story,
) -> None:
    """What is sent was read once; what is uncertain at most once; nothing else was read."""
    certain: Counter[tuple[int, str]] = Counter()
    doubtful: Counter[tuple[int, str]] = Counter()
    for row in rows:
        story.counts[f"replies {row.status}"] += 1
        one = (people.get(row.session_id or "", -1), row.content.strip())
        if row.status == "sent":
            certain[one] += 1
        elif row.status == "uncertain":
            doubtful[one] += 1
        else:
            story.problems.append(f"{row.content!r} is {row.status}: {row.error}")
    for one in {*certain, *doubtful, *seen}:
        if not certain[one] <= seen[one] <= certain[one] + doubtful[one]:
            story.problems.append(
                f"{one} was read {seen[one]} times, is sent {certain[one]} times and uncertain "
                f"{doubtful[one]} times"
            )


# --- all of it ----------------------------------------------------------------------------------


async def happen(plan: Plan, home: Path, url: str | None, take_away: Callable[[], Any]) -> Story:
    """All of it, and what is left."""
    rng, story = random.Random(plan.seed), Story()
    async with open_platforms() as platforms:
        for each in platforms:
            each.trouble(rng, plan.messages // 2)
        make_home(home, platforms, url)
        store = await open_configured_store(load(home=str(home), environ={}))
        life = Life(home, take_away)
        life.begin()
        try:
            async with asyncio.timeout(STUCK * 4), asyncio.TaskGroup() as tasks:
                for person in range(plan.conversations):
                    own = random.Random(rng.random())
                    tasks.create_task(write_all(plan, platforms, person, own, story))
                tasks.create_task(kill_at_random(plan, platforms, life, rng, story))
            if not await wait_until_calm(plan, store):
                story.problems.append("it did not come to an end")
        finally:
            life.end()
        await check(plan, store, platforms, story)
        await store.close()
    return story


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.platforms", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    for name, value in msgspec.structs.asdict(Plan()).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--store", default="sqlite", choices=("sqlite", "postgres"))
    options = vars(parser.parse_args())
    store: str = options.pop("store")
    plan = Plan(**options)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="clew-platforms-"))
    with open_store_place(store, plan.away, folder / "home") as (url, take_away):
        story = asyncio.run(happen(plan, folder / "home", url, take_away))
    counts = ", ".join(f"{count} {what}" for what, count in sorted(story.counts.items()))
    print(
        f"{plan.messages} messages and {story.copies} copies, {story.kills} kills, the store away "
        f"for {plan.away} s, {time.monotonic() - began:.0f} s; {counts}"
    )
    for problem in story.problems:
        print(f"PROBLEM {problem}")
    if story.problems:
        print(f"What they left is kept in {folder}.")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    print("Every message had one turn, in order; every answer was sent once, or says it is unsure.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
