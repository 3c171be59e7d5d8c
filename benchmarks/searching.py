"""Search in a full store: usual words, and the nastiest queries we could think of."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import NamedTuple

import apsw

from benchmarks.corpora import Kept, Setting, open_at
from benchmarks.timing import Finding, Series, in_turns, seconds
from clew.core.search.hits import SearchFilter
from clew.core.session import OWNER
from clew.store.sqlite.store import SqliteStore

RARE = 0.010
COMMON = 0.060
DEADLINE = 0.200
DAY = 86_400_000


EVERYWHERE = SearchFilter(viewer=OWNER)


class Question(NamedTuple):
    """A query, what kind it is, and its bar, if it has one of its own.

    `finds` tells that there is something to find, however far back it is.
    """

    kind: str
    query: str
    bar: float | None = None
    typing: bool = False
    where: SearchFilter = EVERYWHERE
    finds: bool = False


async def searches(setting: Setting) -> list[Finding]:
    """Queries at a million messages, and in scripts without spaces at a hundred thousand."""
    name = "thousand" if setting.quick else "million"
    kept = await setting.corpus(name)
    findings = await _ask(setting, kept, name, _english_questions(kept))
    if not setting.quick:
        kept = await setting.corpus("cjk")
        findings += await _ask(setting, kept, "cjk", SPACELESS)
    return findings


async def _ask(
    setting: Setting,
    kept: Kept,
    name: str,
    questions: Sequence[Question],
) -> list[Finding]:
    findings = []
    worst, slowest = "", 0.0
    async with AsyncExitStack() as stack:
        store = await open_at(kept.path, stack)
        for question in questions:
            series, hits, cut = await _one(store, question, rounds=5 if setting.quick else 15)
            if series.slowest > slowest:
                worst, slowest = question.query, series.slowest
            found = f"{hits} hits{', cut' if cut else ''}"
            findings.append(
                Finding(
                    topic="search",
                    what=f"{question.kind}: {question.query}{' …' if question.typing else ''}"[:48],
                    clew=str(series),
                    compared=f"{found}, slowest {seconds(series.slowest)}",
                    bar=_bar(question),
                    ok=_holds(question, series, hits),
                )
            )
    findings.append(
        Finding(
            topic="search",
            what=f"the slowest of all, {name}",
            clew=f"wall {seconds(slowest)}",
            compared=worst,
            bar=f"wall {seconds(DEADLINE)}",
            ok=slowest <= DEADLINE,
        )
    )
    return findings


def _bar(question: Question) -> str:
    if question.finds:
        return "finds it"
    return "" if question.bar is None else seconds(question.bar)


def _holds(question: Question, series: Series, hits: int) -> bool | None:
    if question.finds:
        return hits > 0
    return None if question.bar is None else series.cpu < question.bar


async def _one(store: SqliteStore, question: Question, *, rounds: int) -> tuple[Series, int, bool]:
    async def ask() -> None:
        await store.search(question.query, question.where, typing=question.typing)

    (series,) = await in_turns(ask, rounds=rounds)
    page = await store.search(question.query, question.where, typing=question.typing)
    return series, len(page.hits), page.cut


def _english_questions(kept: Kept) -> list[Question]:
    long_ago = time.time_ns() // 1_000_000 - 100 * DAY
    old = SearchFilter(viewer=OWNER, until=long_ago)
    guest = SearchFilter(viewer=_oldest_guest(kept.path))
    return [
        Question("rare word", "palimpsest", RARE),
        Question("very common word", "the", COMMON),
        Question("very common word", "is", COMMON),
        Question("two common words", "the that"),
        Question("five common words", "the is that it to"),
        Question("phrase of common words", '"it is"'),
        Question("phrase that is nowhere", '"is the is the is"'),
        Question("common without common", "the -is"),
        Question("common without rare", "is -palimpsest"),
        Question("common and rare", "the palimpsest"),
        Question("never together", "sourdough funicular"),
        Question("while typing", "th", typing=True),
        Question("while typing", "co", typing=True),
        Question("typing a second word", "the re", typing=True),
        Question("three-letter beginning", "con*"),
        Question("one session", "the", where=SearchFilter(viewer=OWNER, session=kept.long_id)),
        Question("one platform", "the", where=SearchFilter(viewer=OWNER, platform="cron")),
        Question("no such platform", "the", where=SearchFilter(viewer=OWNER, platform="fax")),
        Question("one role", "failed", where=SearchFilter(viewer=OWNER, role="user")),
        Question("a guest who said nothing", "the", where=SearchFilter(viewer="telegram:0")),
        Question("a guest of long ago", "the", where=guest, finds=True),
        Question("old messages", "the", where=old, finds=True),
        Question("old messages, rare word", "palimpsest", where=old),
        Question("another script", "数"),
        Question("no such word", "zyzzyva"),
    ]


def _oldest_guest(path: Path) -> str:
    with closing(apsw.Connection(str(path))) as connection:
        return str(
            connection.execute(
                "SELECT person FROM sessions WHERE person <> ? ORDER BY updated_at LIMIT 1",
                (OWNER,),
            ).get
        )


SPACELESS = [
    Question("one common character", "数", COMMON),
    Question("one character, typing", "据", typing=True),
    Question("a word", "データベース", COMMON),
    Question("a long phrase", "原因はまだ分かりません"),
    Question("two words", "数据库 测试"),
    Question("Korean", "데이터베이스"),
    Question("Thai", "ฐานข้อมูล"),
    Question("English inside", "python"),
    Question("one without another", "数 -据"),
]
