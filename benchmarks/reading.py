"""The newest messages, the list, finding a session, and forking one."""

from __future__ import annotations

from contextlib import AsyncExitStack, closing

from benchmarks.corpora import Setting, open_at
from benchmarks.floor import Floor
from benchmarks.timing import Finding, Series, in_turns, seconds
from clew.core.session import OWNER, SessionFilter
from clew.core.text import fold

EVERYTHING = SessionFilter(viewer=OWNER)
NEWEST = 1.9
LIST = 2.5
SAME = 1.25
"""Two medians of the same work differ by less than this."""
RESOLVE = 1e-3
FORK = 2e-3


async def newest(setting: Setting) -> list[Finding]:
    """The newest 200 of a session of 10,000 messages."""
    kept = await setting.corpus("thousand")
    async with AsyncExitStack() as stack:
        store = await open_at(kept.path, stack)
        floor = stack.enter_context(closing(Floor(kept.path)))
        assert len(floor.newest(kept.long_id, 200)) == 200
        floor_series, clew_series = await in_turns(
            lambda: floor.newest(kept.long_id, 200),
            lambda: store.get_messages(kept.long_id, 200),
            rounds=_rounds(setting),
            times=3,
        )
    return [_ratio("newest", "200 of 10,000 messages", floor_series, clew_series, NEWEST)]


async def lists(setting: Setting) -> list[Finding]:
    """20 sessions with their previews, of few and of many."""
    names = ["thousand"] if setting.quick else ["thousand", "million"]
    async with AsyncExitStack() as stack:
        runs = []
        for name in names:
            kept = await setting.corpus(name)
            store = await open_at(kept.path, stack)
            floor = stack.enter_context(closing(Floor(kept.path)))
            runs.append(lambda floor=floor: floor.list_sessions(20))
            runs.append(lambda store=store: store.list_sessions(EVERYTHING, limit=20))
        series = await in_turns(*runs, rounds=_rounds(setting), times=10)
    findings = [_ratio("list", "20 of 1,000 sessions", series[0], series[1], LIST)]
    if not setting.quick:
        findings.append(_ratio("list", "20 of 50,000 sessions", series[2], series[3], LIST))
        grown = series[3].cpu / series[1].cpu
        findings.append(
            Finding(
                topic="list",
                what="50,000 sessions against 1,000",
                clew=f"{seconds(series[1].cpu)} → {seconds(series[3].cpu)}",
                compared=f"{grown:.2f}x",
                bar=f"{SAME}x (noise)",
                ok=grown <= SAME,
            )
        )
    return findings


async def resolving(setting: Setting) -> list[Finding]:
    """A session by the beginning of its id, and by its title."""
    kept = await setting.corpus("thousand" if setting.quick else "million")
    among = "1,000" if setting.quick else "50,000"
    async with AsyncExitStack() as stack:
        store = await open_at(kept.path, stack)
        floor = stack.enter_context(closing(Floor(kept.path)))
        page = await store.list_sessions(EVERYTHING, limit=100)
        session = next(each for each in page.sessions if each.title)
        prefix, title = session.id[:8], session.title or ""
        series = await in_turns(
            lambda: floor.find_sessions(prefix),
            lambda: store.find_sessions(prefix),
            lambda: floor.find_titles(fold(title)),
            lambda: store.find_titles(title),
            rounds=_rounds(setting),
            times=10,
        )
    return [
        _within("resolve", f"id prefix among {among}", series[0], series[1], RESOLVE),
        _within("resolve", f"title among {among}", series[2], series[3], RESOLVE),
    ]


async def forks(setting: Setting) -> list[Finding]:
    """A fork of 10,000 messages, and of ten."""
    kept = await setting.copy("thousand")
    async with AsyncExitStack() as stack:
        store = await open_at(kept.path, stack)
        long, short = await in_turns(
            lambda: store.fork_session(kept.long_id),
            lambda: store.fork_session(kept.long_id, at=10),
            rounds=20 if setting.quick else 100,
        )
    return [
        _within("fork", "of 10,000 messages", short, long, FORK, floor="at the tenth: "),
    ]


def _rounds(setting: Setting) -> int:
    return 40 if setting.quick else 200


def _ratio(topic: str, what: str, floor: Series, clew: Series, bar: float) -> Finding:
    ratio = clew.cpu / floor.cpu
    return Finding(
        topic=topic,
        what=what,
        floor=str(floor),
        clew=str(clew),
        compared=f"{ratio:.2f}x",
        bar=f"{bar}x",
        ok=ratio <= bar,
    )


def _within(
    topic: str, what: str, beside: Series, clew: Series, bar: float, *, floor: str = ""
) -> Finding:
    return Finding(
        topic=topic,
        what=what,
        floor=f"{floor}{beside}",
        clew=str(clew),
        compared=f"{clew.cpu / beside.cpu:.2f}x",
        bar=seconds(bar),
        ok=clew.cpu < bar,
    )
