"""Ranking inside PostgreSQL: the numbers of `core.search.hits`, pages, time that is over, forks."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import psycopg
import pytest

from clew.core.message import Draft
from clew.core.search.hits import SearchFilter, bm25, idf, with_recency
from clew.core.search.query import parse
from clew.ports import Clock, Store
from clew.store import is_postgres, sqlite_path
from clew.store.postgres.connection import Connection, connect, conninfo_of
from clew.store.postgres.ranking import Question, statement
from clew.store.postgres.scope import Scope
from clew.store.postgres.store import PostgresStore
from clew.store.postgres.words import to_index_query, tokens_of
from clew.store.sqlite.store import SqliteStore
from clew.testing.clock import DAY, FakeClock
from clew.testing.contract.case import make, say
from tests.patience import PATIENCE

EVERYWHERE = SearchFilter(viewer="owner")
SEED = 11


async def open_store(place: str, clock: Clock | None = None) -> SqliteStore | PostgresStore:
    """A store whose searches have all the time that they need, however busy the machine is."""
    if is_postgres(place):
        return await PostgresStore.open(place, clock=clock, search_seconds=PATIENCE)
    return SqliteStore(sqlite_path(place), clock=clock, search_seconds=PATIENCE)


async def append(store: Store, session_id: str, *drafts: Draft) -> None:
    lease = await store.acquire_lease(session_id, "me")
    for draft in drafts:
        await store.append(session_id, lease.epoch, draft)


@pytest.mark.parametrize(
    ("query", "words"),
    [("apple", ["apple"]), ("apple pie", ["apple", "pie"]), ('"apple pie"', ["apple"])],
)
async def test_scores_are_those_of_the_formula(url: str, query: str, words: list[str]) -> None:
    pick = random.Random(SEED)
    clock = FakeClock()
    async with await open_store(url, clock=clock) as store:
        session = await make(store)
        said = [
            Draft(
                role="user",
                content=" ".join(pick.choices(["apple", "pie", "x", "y"], k=pick.randint(1, 300))),
                at=clock() - pick.randrange(100 * DAY),
            )
            for _ in range(40)
        ]
        await append(store, session.id, *said)
        page = await store.search(query, EVERYWHERE, limit=100)

    tokens = {seq: tokens_of(draft.content) for seq, draft in enumerate(said, 1)}
    average = sum(len(tokens[hit.seq]) for hit in page.hits) / len(page.hits)
    stems = [tokens_of(word)[0] for word in words]
    having = [sum(stem in each for each in tokens.values()) for stem in stems]
    weights = [idf(len(said), count) for count in having] if len(stems) > 1 else [1.0]
    for hit in page.hits:
        its = tokens[hit.seq]
        shares = [
            bm25(its.count(stem), len(its), average, weight)
            for stem, weight in zip(stems, weights, strict=True)
        ]
        assert hit.score == pytest.approx(with_recency(sum(shares), hit.at, clock()))
    assert [hit.score for hit in page.hits] == sorted((h.score for h in page.hits), reverse=True)


async def test_a_word_counts_as_often_as_it_stands_in_a_message(url: str) -> None:
    """PostgreSQL tells it only by its rank, which grows less and less."""
    clock = FakeClock()
    async with await open_store(url, clock=clock) as store:
        session = await make(store)
        for often in (1, 2, 3, 10, 50, 100, 200, 256):
            await say(store, session.id, "apple " * often + "x " * (256 - often))
        page = await store.search("apple", EVERYWHERE)

    assert [hit.seq for hit in page.hits] == [8, 7, 6, 5, 4, 3, 2, 1]
    for hit, often in zip(page.hits, (256, 200, 100, 50, 10, 3, 2, 1), strict=True):
        expected = with_recency(bm25(often, 256, 256, 1.0), hit.at, clock())
        assert hit.score == pytest.approx(expected, rel=1e-4)


async def test_any_time_can_be_ranked(url: str) -> None:
    async with await open_store(url) as store:
        session = await make(store)
        times = (-(2**63), -1, 0, 2**63 - 1)
        await append(
            store, session.id, *(Draft(role="user", content="apple", at=at) for at in times)
        )
        page = await store.search("apple", EVERYWHERE)

    assert [hit.at for hit in page.hits] == [2**63 - 1, 0, -1, -(2**63)]


@pytest.mark.parametrize("table", ["messages_words", "messages", "sessions"])
async def test_a_search_whose_time_is_over_says_so(url: str, table: str) -> None:
    async with await open_store(url) as store, await PostgresStore.open(url) as hasty:
        session = await make(store)
        await say(store, session.id, "apple")
        where = SearchFilter(viewer="owner", session=session.id)
        with psycopg.connect(url) as connection:
            connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            async with asyncio.timeout(PATIENCE):
                page = await hasty.search("apple", where)
            assert (page.hits, page.cursor, page.cut) == ((), None, True)

        page = await store.search("apple", where)
        assert (len(page.hits), page.cut) == (1, False)


@pytest.mark.parametrize(("patience", "found", "cut"), [(10.0, {1, 2, 3}, False), (0, {3}, True)])
async def test_older_messages_are_left_out_when_there_is_no_time_for_them(
    url: str, patience: float, found: set[int], cut: bool
) -> None:
    async with await open_store(url) as store:
        session = await make(store)
        await say(store, session.id, *["apple"] * 3)
    connection: Connection = await connect(conninfo_of(url))
    async with connection:
        ((newest,),) = await connection.fetch("SELECT max(id) FROM messages")
        scope = await Scope.find(connection, EVERYWHERE, newest)
        question = Question(to_index_query(parse("apple")), newest, 0, 10, 0, False, patience)
        zones = [(newest, newest), (newest - 1, newest - 1), (1, newest - 2)]
        rows = await connection.fetch(*statement(question, scope, zones))

    assert {row[3] for row in rows} == found
    assert {row[0] for row in rows} == {cut}


async def test_pages_leave_out_messages_that_have_the_words_but_not_the_phrase(url: str) -> None:
    """With too many positions for the index, they are looked at; no page counts them."""
    async with await open_store(url) as store:
        session = await make(store)
        for number in range(8):
            end = "quick brown" if number % 2 else "brown quick"
            await say(store, session.id, "a " * 300 + end, "quick brown fox")
        seqs: list[int] = []
        cursor = None
        while True:
            page = await store.search('"quick brown"', EVERYWHERE, limit=3, cursor=cursor)
            seqs += [hit.seq for hit in page.hits]
            cursor = page.cursor
            if cursor is None:
                break

    assert sorted(seqs) == [2, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 16]


async def test_what_a_deleted_session_said_is_opened_in_the_same_fork_as_in_sqlite(
    url: str, tmp_path: Path
) -> None:
    """The oldest living fork, before any fork of a deleted fork."""
    opened = []
    for place in (url, str(tmp_path / "clew.db")):
        clock = FakeClock()
        names = iter(f"{number:08x}-0000-4000-8000-000000000000" for number in range(99))
        async with await open_store(place, clock=clock) as store:

            async def fork(parent: str, at: int, store: Store = store, names=names) -> str:  # type: ignore[no-untyped-def]
                return (await store.fork_session(parent, at=at, new_id=next(names))).id

            session = await make(store, id=next(names))
            await say(store, session.id, "apple one", "apple two", "apple three")
            dead = await fork(session.id, 3)
            clock.advance(1)
            short = await fork(session.id, 1)
            clock.advance(1)
            await fork(dead, 2)
            deeper = await fork(dead, 3)
            await fork(deeper, 3)
            await store.delete_sessions([session.id, dead, deeper])
            pages = [
                await store.search("apple", EVERYWHERE),
                await store.search("apple", EVERYWHERE, per_session=True),
            ]
            assert {hit.session_id for hit in pages[0].hits if hit.seq == 1} == {short}
            opened.append([{(hit.session_id, hit.seq) for hit in page.hits} for page in pages])

    assert opened[0] == opened[1]
    assert len(opened[0][0]) == 3
