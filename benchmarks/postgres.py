"""The store in PostgreSQL against bare psycopg, at 10,000 and at 200,000 messages.

A real server with everything that keeps data safe switched on. It works for both alike; the bars
are about what the client takes.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import NamedTuple

from benchmarks.appending import texts
from benchmarks.corpora import Setting
from benchmarks.postgres_floor import PostgresFloor, appended
from benchmarks.postgres_loading import LONG_ID, Loaded, fill
from benchmarks.timing import Finding, Run, Series, in_turns, one_core, seconds
from clew.core.message import Draft
from clew.core.search.hits import SearchFilter
from clew.core.session import OWNER, NewSession, SessionFilter
from clew.store.postgres.store import PostgresStore
from tests.postgres.server import Server

BAR = 1.5
EVERYTHING = SessionFilter(viewer=OWNER)
EVERYWHERE = SearchFilter(viewer=OWNER)
QUERIES = (
    ("rare word", "palimpsest"),
    ("common and rare", "the palimpsest"),
    ("no such word", "zyzzyva"),
    ("very common word", "the"),
    ("two common words", "the that"),
    ("phrase of common words", '"it is"'),
)
SAFE = {
    "fsync": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "wal_level": "replica",
    "shared_buffers": "256MB",
}
WRITERS = 8


class Full(NamedTuple):
    """A database with messages, open twice."""

    store: PostgresStore
    floor: PostgresFloor
    epoch: int
    loaded: Loaded
    size: int


async def postgres(setting: Setting) -> list[Finding]:
    """Append, newest, list and search; then many writers, and the room that it takes."""
    sizes = (2_000, 20_000) if setting.quick else (10_000, 200_000)
    findings: list[Finding] = []
    with _server() as server:
        async with AsyncExitStack() as stack:
            small, large = [await _full(server, stack, messages) for messages in sizes]
            among = f"{sizes[0]:,} → {sizes[1]:,}"
            rounds = 20 if setting.quick else 100
            for what, times, floors, runs in [
                *_reads(small, large),
                *[await _search(*each, small, large) for each in QUERIES],
                _appends(small, large),
            ]:
                with one_core():
                    series = await in_turns(
                        *floors, *runs, rounds=max(10, rounds // (4 if times == 1 else 1)),
                        times=times,
                    )  # fmt: skip
                findings += _compare(what, f"{sizes[1]:,}", among, series)
            findings += await _writers(large, 25 if setting.quick else 250)
            findings.append(_room(large))
    return findings


@contextmanager
def _server() -> Iterator[Server]:
    server = Server(**SAFE)
    try:
        yield server
    finally:
        server.remove()


async def _full(server: Server, stack: AsyncExitStack, messages: int) -> Full:
    print(f"making a database of {messages:,} messages …", file=sys.stderr, flush=True)
    name = server.create_database()
    url = server.url(name)
    store = await stack.enter_async_context(await PostgresStore.open(url))
    loaded = await asyncio.to_thread(fill, url, messages=messages, now=time.time_ns() // 1_000_000)
    ((size,),) = server.execute("SELECT pg_database_size(current_database())", name)
    floor = await PostgresFloor.open(url)
    stack.push_async_callback(floor.close)
    lease = await store.acquire_lease(LONG_ID, "benchmark", ttl=3_600_000)
    return Full(store, floor, lease.epoch, loaded, size)


Compared = tuple[str, int, list[Run], list[Run]]
"""What is compared, how often in a row, the floors and clew in small and large."""


def _reads(*stores: Full) -> Iterator[Compared]:
    yield (
        "newest 200 of 10,000", 3,
        [partial(each.floor.newest, LONG_ID, 200) for each in stores],
        [partial(each.store.get_messages, LONG_ID, 200) for each in stores],
    )  # fmt: skip
    yield (
        "list 20 sessions", 5,
        [partial(each.floor.list_sessions, 20) for each in stores],
        [partial(each.store.list_sessions, EVERYTHING, limit=20) for each in stores],
    )  # fmt: skip


async def _search(kind: str, query: str, *stores: Full) -> Compared:
    statements = [await each.floor.searched(query, 20) for each in stores]
    pairs = list(zip(stores, statements, strict=True))
    return (
        f"search, {kind}", 1,
        [partial(each.floor.search, sql) for each, sql in pairs],
        [partial(each.store.search, query, EVERYWHERE) for each in stores],
    )  # fmt: skip


def _appends(*stores: Full) -> Compared:
    said = list(itertools.islice(texts(), 500))

    def floor(each: Full) -> Run:
        ready = itertools.cycle([appended(LONG_ID, each.epoch, text) for text in said])
        return lambda: each.floor.append(next(ready))

    def clew(each: Full) -> Run:
        ready = itertools.cycle([Draft(role="user", content=text) for text in said])
        return lambda: each.store.append(LONG_ID, each.epoch, next(ready))

    return "append a message", 5, [*map(floor, stores)], [*map(clew, stores)]


def _compare(what: str, size: str, among: str, series: tuple[Series, ...]) -> list[Finding]:
    _, floor, before, clew = series
    ratio = clew.cpu / floor.cpu
    return [
        Finding(
            topic="postgres",
            what=f"{what}, {size}",
            floor=str(floor),
            clew=str(clew),
            compared=f"{ratio:.2f}x",
            bar=f"{BAR}x",
            ok=ratio <= BAR,
        ),
        Finding(
            topic="",
            what=f"  {among}",
            clew=f"{seconds(before.cpu)} → {seconds(clew.cpu)}",
            compared=f"{clew.cpu / before.cpu:.2f}x CPU, {clew.wall / before.wall:.2f}x wall",
        ),
    ]


async def _writers(full: Full, count: int) -> list[Finding]:
    """Appends per second of one task, and of several in sessions of their own."""
    findings = []
    for writers in (1, WRITERS):
        seats = []
        for _ in range(writers):
            session = await full.store.create_session(
                NewSession(key="benchmark", platform="cli", kind="cli"), route=None
            )
            seats.append(await full.store.acquire_lease(session.id, "benchmark", ttl=3_600_000))

        async def write(session_id: str, epoch: int) -> None:
            for text in itertools.islice(texts(), count):
                await full.store.append(session_id, epoch, Draft(role="user", content=text))

        began = time.perf_counter()
        await asyncio.gather(*(write(seat.session_id, seat.epoch) for seat in seats))
        taken = time.perf_counter() - began
        findings.append(
            Finding(
                topic="postgres",
                what=f"{writers} writing at once, in as many sessions",
                clew=f"{writers * count / taken:,.0f} appends/s",
            )
        )
    return findings


def _room(full: Full) -> Finding:
    loaded = full.loaded
    return Finding(
        topic="postgres",
        what=f"room of {loaded.messages:,} messages",
        clew=f"{full.size / loaded.messages:,.0f} B each",
        compared=f"{full.size / loaded.content_bytes:.2f}x of their text",
    )
