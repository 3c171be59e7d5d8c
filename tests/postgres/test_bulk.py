"""Records of many messages, which PostgreSQL is given with COPY: the same as one by one."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.core import changes
from clew.core.changes import AddMessage, Change
from clew.core.message import Draft
from clew.core.search.hits import SearchFilter
from clew.core.session import NewSession
from clew.core.usage import Usage
from clew.errors import InvalidInput, StaleLease, StoreUnavailable
from clew.ports import Store
from clew.store import open_store
from clew.store.postgres import bulk, doctor
from clew.store.postgres.connection import connect, conninfo_of
from clew.testing.clock import FakeClock
from clew.testing.contract.case import make
from tests.patience import PATIENCE
from tests.postgres.histories import TEXTS
from tests.postgres.server import Server
from tests.postgres.test_differential import answer, plain
from tests.postgres.test_losses import END_ALL
from tests.sizes import pick
from tests.transfer.test_round_trip import values
from tests.transfer.threads import bring, export_lines

MANY = bulk.MANY + 20
SESSION = "00000000-0000-7000-8000-00000000000a"


class Script:
    """Changes of one record that go together, and then perhaps one that does not."""

    def __init__(self, seed: int, blob: str) -> None:
        self._random = random.Random(seed)
        self._blob = blob
        self._open: list[str] = []
        self._turns: list[str] = []
        self._undone: set[str] = set()
        self._numbers = 0

    def record(self, *, odd: bool) -> list[Change]:
        told: list[Change] = []
        while sum(isinstance(each, AddMessage) for each in told) <= bulk.MANY:
            told += self._next()
        if odd:
            told.insert(self._random.randrange(len(told)), self._odd())
        return told

    def _next(self) -> list[Change]:
        pick = self._random.random()
        if pick < 0.7:
            return [self._message() for _ in range(self._random.randint(1, 6))]
        if pick < 0.8 or not self._turns:
            self._numbers += 1
            name = f"t{self._numbers}"
            self._turns.append(name)
            start = changes.StartTurn(
                turn_id=name, model="m", reply_to=self._maybe({"a": "é"}), at=self._maybe(5)
            )
            # As an import tells it, all at once; or as it happens.
            if self._random.random() < 0.7:
                return [start, *self._spend(name), self._end(name)]
            self._open.append(name)
            return [start]
        if pick < 0.9:
            return self._spend(self._random.choice(self._turns))
        if pick < 0.94 and self._open:
            return [self._end(self._open.pop())]
        name = self._random.choice(self._turns)
        undo = changes.RedoTurn(name) if name in self._undone else changes.UndoTurn(name)
        self._undone ^= {name}
        return [undo]

    def _message(self) -> AddMessage:
        role: Any = self._random.choice(("user", "assistant", "tool"))
        parts = ({"blob": self._blob},) if self._random.random() < 0.05 else ()
        return AddMessage(
            Draft(
                role=role, content=self._random.choice(TEXTS), parts=parts, model=self._maybe("m"),
                is_error=self._random.random() < 0.1, usage=self._maybe(Usage(1, cost=None)),
                at=self._maybe(self._random.randrange(10**12)),
            ),
            self._maybe(self._random.choice(self._turns or ["elsewhere"])),
            from_person=self._random.random() < 0.5,
        )  # fmt: skip

    def _spend(self, name: str) -> list[Change]:
        usage = Usage(self._random.randrange(99), cost=self._maybe(7), api_calls=1)
        return [changes.AddUsage(usage=usage, turn_id=name, context_tokens=self._maybe(9))]

    def _end(self, name: str) -> Change:
        error, partial = self._maybe("e"), self._maybe("p\0")
        return changes.EndTurn(
            turn_id=name, status="failed", error=error, partial=partial, at=self._maybe(6)
        )

    def _odd(self) -> Change:
        odd: tuple[Change, ...] = (
            changes.StartTurn(turn_id=self._random.choice(self._turns or ["x"])),
            changes.EndTurn(turn_id="t1", status="done"),
            changes.EndTurn(turn_id="nobody", status="done"),
            changes.AddUsage(usage=Usage(-1), turn_id=self._random.choice(["t1", None])),
            changes.AddUsage(usage=Usage(10**30)),
            changes.AddUsage(usage=Usage(1), turn_id="t99"),
            changes.UndoTurn("t2"),
            changes.ResumeTurn("t3"),
            AddMessage(Draft(role="user", content="x", parts=({"blob": "0" * 64},))),
            AddMessage(Draft(role="user", content="x", at=10**30)),
            AddMessage(Draft(role="nobody", content="x")),  # type: ignore[arg-type]
            AddMessage(Draft(role="user", content="fits")),
        )
        return self._random.choice(odd)

    def _maybe(self, value: Any) -> Any:
        return value if self._random.random() < 0.5 else None


async def told(store: Store, first: list[Change], second: list[Change]) -> list[Any]:
    """What a store answers to two records, and all that is there afterwards."""
    session = await store.create_session(NewSession(key="k", id=SESSION))
    lease = await store.acquire_lease(session.id, "me")
    answers: list[Any] = []
    for record in (first, second):
        call = partial(_record, session_id=session.id, epoch=lease.epoch, told=record)
        answers.append(await answer(store, call))
    answers.append(await store.get_session(session.id))
    answers += [await store.get_messages(session.id, undone=undone) for undone in (True, False)]
    answers.append(await store.list_turns(session.id, limit=200))
    for query in ("running", "日本語", "cafe", '"brown foxes"'):
        answers.append(await store.search(query, SearchFilter(viewer="owner"), limit=100))
    return [plain(each) for each in answers]


async def _record(store: Store, *, session_id: str, epoch: int, told: list[Change]) -> Any:
    return await store.record(session_id, epoch, *told)


@settings(
    max_examples=pick(6, 25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32), odd=st.booleans())
def test_many_messages_at_once_are_the_same_as_in_sqlite(
    server: Server, database: str, tmp_path: Path, seed: int, odd: bool
) -> None:
    async def ask(url: str) -> list[Any]:
        async with await open_store(url, clock=FakeClock()) as store:
            blob = await store.put_blob(b"picture", "image/png")
            script = Script(seed, blob)
            return await told(store, script.record(odd=False), script.record(odd=odd))

    file = tmp_path / "sessions.db"
    file.unlink(missing_ok=True)
    server.empty(database)
    assert asyncio.run(ask(server.url(database))) == asyncio.run(ask(f"sqlite://{file}"))


def some(count: int) -> list[AddMessage]:
    return [AddMessage(Draft(role="user", content=f"message {n}")) for n in range(count)]


async def test_messages_that_wait_to_be_recorded_hold_nobody_up(url: str) -> None:
    async with await open_store(url) as store:
        session = await make(store)
        lease = await store.acquire_lease(session.id, "me")
        stopped = await connect(conninfo_of(url))
        await stopped.execute("BEGIN")
        assert await bulk.stage(stopped, some(MANY))
        added = await store.append(session.id, lease.epoch, Draft(role="user", content="mine"))
        await store.release_lease(lease)
        assert added.seq == 1
        await stopped.close()


async def test_a_stale_writer_of_many_is_refused(url: str) -> None:
    async with await open_store(url) as store:
        session = await make(store)
        lease = await store.acquire_lease(session.id, "me")
        with pytest.raises(StaleLease):
            await store.record(session.id, lease.epoch - 1, *some(MANY))
        assert (await store.get_session(session.id)).head == 0


async def test_a_key_makes_many_messages_come_once(url: str) -> None:
    async with await open_store(url) as store:
        session = await make(store)
        lease = await store.acquire_lease(session.id, "me")
        first = await store.record(session.id, lease.epoch, *some(MANY), idempotency_key="k")
        again = await store.record(session.id, lease.epoch, *some(MANY), idempotency_key="k")
        assert (again.seqs, again.ids, again.repeated) == (first.seqs, first.ids, True)
        assert (await store.get_session(session.id)).head == MANY


async def test_many_messages_come_without_the_right_to_temporary_tables(
    server: Server, database: str
) -> None:
    server.execute(
        f"""CREATE ROLE poor LOGIN; REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC;
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO poor;
            GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO poor""",
        database,
    )
    try:
        async with await open_store(server.url(database).replace("clew@", "poor@")) as store:
            session = await make(store)
            lease = await store.acquire_lease(session.id, "me")
            await store.record(session.id, lease.epoch, *some(MANY))
            assert len(await store.get_messages(session.id)) == MANY
    finally:
        server.execute(
            f"""GRANT TEMPORARY ON DATABASE {database} TO PUBLIC;
                DROP OWNED BY poor; DROP ROLE poor""",
            database,
        )


async def test_a_value_that_is_refused_leaves_nothing_of_many(url: str) -> None:
    async with await open_store(url) as store:
        session = await make(store)
        lease = await store.acquire_lease(session.id, "me")
        wrong = AddMessage(Draft(role="user", content="x", at=10**30))
        with pytest.raises(InvalidInput):
            await store.record(session.id, lease.epoch, *some(MANY), wrong)
        await store.record(session.id, lease.epoch, *some(MANY))
        assert (await store.get_session(session.id)).message_count == MANY


async def test_backends_that_are_ended_in_the_middle_lose_and_double_nothing(
    server: Server, url: str, database: str
) -> None:
    async with await open_store(url) as store, asyncio.timeout(PATIENCE):
        session = await make(store)
        lease = await store.acquire_lease(session.id, "me", ttl=10**9)

        async def end_backends() -> None:
            for _ in range(25):
                await asyncio.to_thread(server.execute, END_ALL, database)
                await asyncio.sleep(0.01)

        async def record(number: int) -> None:
            told = [replace(each, turn_id=f"{number}") for each in some(MANY)]
            await store.record(session.id, lease.epoch, *told, idempotency_key=f"{number}")

        enemy = asyncio.create_task(end_backends())
        last = 0
        while not enemy.done():
            with suppress(StoreUnavailable):  # then the same once more, by its key
                await record(last)
                last += 1
        await enemy
        await record(last)
        thread = await store.get_messages(session.id)
        names = [f"{number}" for number in range(last + 1) for _ in range(MANY)]
        assert [each.turn_id for each in thread] == names
    found = (await doctor.examine(url, full=True)).findings
    assert {each.name for each in found if each.level == "problem"} == set()


async def test_many_messages_leave_no_table_behind(server: Server, url: str) -> None:
    async with await open_store(url) as store:
        session = await make(store)
        lease = await store.acquire_lease(session.id, "me")
        await store.record(session.id, lease.epoch, *some(MANY))
        with psycopg.connect(url) as other:
            sql = "SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'"
            assert other.execute(sql).fetchone() == (0,)


async def test_a_long_transcript_is_imported_as_into_sqlite(url: str, tmp_path: Path) -> None:
    async with (
        await open_store(f"sqlite://{tmp_path}/sessions.db") as store,
        await open_store(f"sqlite://{tmp_path}/other.db", clock=FakeClock()) as sqlite,
        await open_store(url, clock=FakeClock()) as postgres,
    ):
        script = Script(1, await store.put_blob(b"picture", "image/png"))
        session = await make(store)
        lease = await store.acquire_lease(session.id, "me")
        for _ in range(6):  # more than one chunk
            await store.record(session.id, lease.epoch, *script.record(odd=False))
        await store.release_lease(lease)
        lines = await export_lines(store, session.id)
        for other in (sqlite, postgres):
            assert (await bring(other, lines)).whole
        assert await values(postgres, session.id) == await values(sqlite, session.id)
