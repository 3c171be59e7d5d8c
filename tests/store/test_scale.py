"""Many messages: what must not change with size, counted and not timed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import apsw
import pytest
import pytest_asyncio

from clew.core.changes import AddUsage, StartTurn
from clew.core.message import Draft
from clew.core.search.hits import SearchFilter
from clew.core.session import OWNER, NewSession, SessionFilter
from clew.core.usage import Usage, UsageBy
from clew.store import open_sqlite, open_store
from clew.store.sqlite.engine import DIALECT, SqliteTransaction, run_through, spell
from clew.store.sqlite.store import SqliteStore
from clew.store.work.listing import ENDINGS, KEYS, list_query
from clew.store.work.usage import list_usage, rank_usage, sum_usage
from clew.testing.corpus import Corpus, load
from tests.sizes import pick

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
]

MESSAGES = pick(6_000, 100_000)
SESSIONS = pick(2_500, 5_000)
GUEST = "telegram:4711"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scale") / "sessions.db"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    """A guest's one message, and many newer ones of the owner's."""
    async with await open_sqlite(f"sqlite://{path}", durability="normal") as store:
        new = NewSession(key="guest", person=GUEST, platform="telegram")
        session, _ = await store.open_session(new)
        lease = await store.acquire_lease(session.id, "test")
        await store.append(
            session.id, lease.epoch, Draft(role="user", content="The quokka, please")
        )
        corpus = Corpus(now=time.time_ns() // 1_000_000, seed=7, blend="english")
        await load(store, corpus.conversations(SESSIONS, MESSAGES))
        yield store


async def test_a_very_common_word_is_cut_to_its_newest_matches(store: SqliteStore) -> None:
    page = await store.search("the", SearchFilter(viewer=OWNER), limit=20)

    assert page.cut
    assert len(page.hits) == 20


async def test_a_rare_word_is_found_among_all(store: SqliteStore) -> None:
    page = await store.search("quokka", SearchFilter(viewer=OWNER))

    assert not page.cut
    assert [hit.snippet.text for hit in page.hits] == ["The quokka, please"]


async def test_a_guest_of_long_ago_finds_a_very_common_word(store: SqliteStore) -> None:
    page = await store.search("the", SearchFilter(viewer=GUEST))

    assert [hit.snippet.text for hit in page.hits] == ["The quokka, please"]


async def test_the_index_stays_merged_while_it_grows(store: SqliteStore, path: Path) -> None:
    assert (await store.stats()).messages >= MESSAGES

    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        segments = connection.execute("SELECT count(DISTINCT segid) FROM messages_fts_idx").get
    assert segments < 60  # without merging it is one for each commit


async def test_a_list_takes_as_many_steps_as_in_a_small_store(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    small = tmp_path / "sessions.db"
    async with await open_store(f"sqlite://{small}", durability="normal") as few:
        await load(few, Corpus(now=time.time_ns() // 1_000_000, seed=7).conversations(200, 1_000))

    assert (await store.stats()).sessions > 1000
    for where in (
        SessionFilter(viewer=OWNER),
        SessionFilter(viewer=OWNER, platform="cli"),
        SessionFilter(viewer=OWNER, archived=True),
    ):
        assert steps(path, where) <= 1.1 * steps(small, where)


def steps(path: Path, where: SessionFilter) -> int:
    """Instructions of SQLite's virtual machine for the first three sessions of a list."""
    sql, bindings = list_query(DIALECT, where, archived=bool(where.archived), after=None, limit=3)
    taken, found = count_steps(path, sql, bindings)
    assert found == 3
    return taken


def count_steps(path: Path, sql: str, bindings: tuple[Any, ...]) -> tuple[int, int]:
    """Instructions that SQLite's virtual machine takes for a query, and the rows it finds."""
    counted: list[int] = []
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: counted.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
        )
        found = connection.execute(spell(sql).sql, bindings).fetchall()
        connection.trace_v2(0, None)
    return counted[-1], len(found)


async def test_an_ending_or_a_key_is_gone_to_directly(store: SqliteStore, path: Path) -> None:
    page = await store.list_sessions(SessionFilter(viewer=OWNER), limit=1)
    ending, key = page.sessions[0].id[-6:], page.sessions[0].key
    sessions = (await store.stats()).sessions

    endings = ENDINGS.format(id_ending=DIALECT.id_ending)
    for sql, bindings in ((endings, (ending[-4:], f"%{ending}", 10)), (KEYS, (key, 10))):
        taken, found = count_steps(path, sql, bindings)
        assert 1 <= found <= 10
        assert taken < 2_000 < sessions  # to look at each session takes more than one step


async def test_what_was_spent_costs_no_more_with_more_turns_in_the_same_days(
    store: SqliteStore, tmp_path: Path
) -> None:
    """The sums of five turns and of very many: a report takes the same steps."""
    steps = [await spend(tmp_path / str(count), count) for count in (5, pick(1_500, 50_000))]

    few, many = steps
    assert many == few


async def spend(folder: Path, count: int) -> list[int]:
    """Steps of the reports about so many turns of three sessions on two days."""
    began = 1_800_000_000_000
    async with await open_sqlite(f"sqlite://{folder / 'sessions.db'}") as store:
        for number in range(3):
            session, _ = await store.open_session(NewSession(key=f"cli:{number}"))
            lease = await store.acquire_lease(session.id, "test")
            turns = [
                (
                    StartTurn(
                        turn_id=f"{number}-{each}", model="m", at=began + each % 2 * 86_400_000
                    ),
                    AddUsage(usage=Usage(1, cost=number), turn_id=f"{number}-{each}"),
                )
                for each in range(count)
            ]
            await store.record(session.id, lease.epoch, *(each for turn in turns for each in turn))
    with closing(apsw.Connection(str(folder / "sessions.db"))) as connection:
        fold = "INSERT INTO usage_changes SELECT 256, 0, '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, 0"
        connection.execute(fold)
        counted: list[int] = []
        connection.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: counted.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
        )
        tx = SqliteTransaction(connection)
        for since in (0, began - 86_400_000):
            run_through(sum_usage(tx, since))
            ranking = run_through(rank_usage(tx, since, 10))
            assert ranking.total.turns == 3 * count
            for by in get_args(UsageBy):
                run_through(list_usage(tx, by, since))
        connection.trace_v2(0, None)
    return counted
