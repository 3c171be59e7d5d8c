"""What one append costs over bare SQLite, and the worst of 10,000 in a full store."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing

from benchmarks.corpora import Setting, open_at
from benchmarks.floor import Floor, sync_times
from benchmarks.timing import Finding, in_turns, percentile, seconds
from clew.core.changes import AddMessage
from clew.core.message import Draft
from clew.testing.corpus import Corpus

OVER_FLOOR = 200e-6
WORST = 0.200
USUALLY = 0.015


async def appends(setting: Setting) -> list[Finding]:
    """One message at a time, FULL and NORMAL."""
    return [await _append(setting, durability) for durability in ("full", "normal")]


async def _append(setting: Setting, durability: str) -> Finding:
    ours, bare = await setting.copy("thousand"), await setting.copy("thousand")
    async with AsyncExitStack() as stack:
        store = await open_at(ours.path, stack, durability=durability)
        floor = stack.enter_context(closing(Floor(bare.path, durability=durability)))
        lease = await store.acquire_lease(ours.long_id, "benchmark")
        said, say = texts(), texts()
        floor_series, clew_series = await in_turns(
            lambda: floor.append(bare.long_id, next(said)),
            lambda: store.append(ours.long_id, lease.epoch, Draft(role="user", content=next(say))),
            rounds=60 if setting.quick else 400,
            times=5,
        )
    over = clew_series.cpu - floor_series.cpu
    return Finding(
        topic="append",
        what=f"one message, {durability.upper()}",
        floor=str(floor_series),
        clew=str(clew_series),
        compared=f"+{seconds(over)} CPU ({clew_series.cpu / floor_series.cpu:.2f}x)",
        bar=f"+{seconds(OVER_FLOOR)}",
        ok=over <= OVER_FLOOR,
    )


async def worst_case(setting: Setting) -> list[Finding]:
    """10,000 appends, one by one, to a store of a million messages."""
    name = "thousand" if setting.quick else "million"
    kept = await setting.copy(name)
    count = 500 if setting.quick else 10_000
    before = sync_times(kept.path.parent)
    taken: list[float] = []
    async with AsyncExitStack() as stack:
        store = await open_at(kept.path, stack)
        lease = await store.acquire_lease(kept.long_id, "benchmark", ttl=3_600_000)
        for text in itertools.islice(texts(), count):
            began = time.perf_counter()
            await store.append(kept.long_id, lease.epoch, Draft(role="user", content=text))
            taken.append(time.perf_counter() - began)
    syncs = before + sync_times(kept.path.parent)
    usually, worst = percentile(taken, 0.99), max(taken)
    topic, what = "worst case", f"{count:,} appends at {name}"
    return [
        Finding(
            topic=topic,
            what=f"{what}, slowest",
            clew=seconds(worst),
            compared=f"slowest sync of this disk: {seconds(max(syncs))}",
            bar=f"wall {seconds(WORST)}",
            ok=worst <= WORST,
        ),
        Finding(
            topic=topic,
            what=f"{what}, p99",
            clew=seconds(usually),
            compared=f"p99 sync: {seconds(percentile(syncs, 0.99))}",
            bar=f"wall {seconds(USUALLY)}",
            ok=usually < USUALLY,
        ),
        Finding(
            topic=topic,
            what=f"{what}, median",
            clew=seconds(statistics.median(taken)),
            compared=f"median sync: {seconds(statistics.median(syncs))}",
        ),
    ]


def texts() -> Iterator[str]:
    """What is appended: the messages of the corpus, again and again."""
    conversation = Corpus(now=0, blend="english").conversation(1_000)
    changes = itertools.chain.from_iterable(conversation.turns)
    said = [change.draft.content for change in changes if isinstance(change, AddMessage)]
    return itertools.cycle(said)
