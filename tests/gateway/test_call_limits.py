"""What calls that read may cost with a credential: their number, their time, and who waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.api.handlers.parts import Caller
from clew.api.local import Calls
from clew.api.operation import NoParams
from clew.api.sessions import LIST
from clew.api.table import OPERATIONS, get_operation
from clew.api.transport import give_way
from clew.errors import TooManyRequests
from clew.gateway.app import build_app
from clew.gateway.auth import Credential
from clew.gateway.call_limits import LONG, LONG_IF, WAITING, CallLimits, RunningCalls, is_long
from clew.gateway.problems import Refused
from clew.store.sqlite.store import SqliteStore
from tests.gateway.conftest import House, check_problem
from tests.patience import PATIENCE
from tests.runtime.conftest import soon

USAGE = get_operation("usage")
READER, OWNER = (Credential(Caller(), digest) for digest in (b"reader", b"owner"))
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


class Busy:
    """Calls that run until they are told to end."""

    def __init__(self, limits: CallLimits) -> None:
        self.calls = RunningCalls(limits)
        self.running: list[Credential] = []
        self.go_on = asyncio.Event()

    async def call(self, operation: Any, given: Credential) -> None:
        async with self.calls.run(operation, NoParams(), given):
            self.running.append(given)
            await self.go_on.wait()

    async def begin(
        self, operation: Any, given: Credential, times: int
    ) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self.call(operation, given)) for _ in range(times)]
        for _ in range(5):
            await asyncio.sleep(0)
        return tasks


async def test_a_credential_has_a_few_calls_that_run_and_the_others_wait() -> None:
    busy = Busy(CallLimits(of_one=4))
    tasks = await busy.begin(LIST, READER, 30)
    assert len(busy.running) == 4
    tasks += await busy.begin(LIST, OWNER, 1)
    assert busy.running[4:] == [OWNER]
    busy.go_on.set()
    await soon(asyncio.gather(*tasks))
    assert len(busy.running) == 31


async def test_long_calls_leave_room_for_short_ones_and_for_those_of_others() -> None:
    busy = Busy(CallLimits(of_one=6, long=2))
    tasks = await busy.begin(USAGE, READER, 5)
    assert busy.running == [READER]
    tasks += await busy.begin(LIST, READER, 1)
    tasks += await busy.begin(USAGE, OWNER, 1)
    assert busy.running == [READER, READER, OWNER]
    busy.go_on.set()
    await soon(asyncio.gather(*tasks))


async def test_a_long_call_waits_for_short_ones_between_the_pieces_of_its_work() -> None:
    busy = Busy(CallLimits(courtesy=PATIENCE))
    short = await busy.begin(LIST, READER, 2)
    pieces: list[int] = []

    async def work() -> None:
        async with busy.calls.run(USAGE, NoParams(), OWNER):
            for number in range(3):
                pieces.append(number)
                await give_way()

    long = asyncio.create_task(work())
    for _ in range(10):
        await asyncio.sleep(0)
    assert pieces == [0]
    busy.go_on.set()
    await soon(asyncio.gather(long, *short))
    assert pieces == [0, 1, 2]


async def test_a_long_call_goes_on_beside_short_ones_that_never_end() -> None:
    busy = Busy(CallLimits(courtesy=0.001))
    short = await busy.begin(LIST, READER, 1)
    async with busy.calls.run(USAGE, NoParams(), OWNER):
        for _ in range(3):
            await soon(give_way())
    busy.go_on.set()
    await soon(asyncio.gather(*short))


async def test_too_many_calls_that_wait_are_refused() -> None:
    busy = Busy(CallLimits(of_one=2, waiting=3))
    tasks = await busy.begin(LIST, READER, 5)
    with pytest.raises(TooManyRequests):
        await busy.call(LIST, READER)
    busy.go_on.set()
    await soon(asyncio.gather(*tasks))
    await soon(busy.call(LIST, READER))


async def test_a_call_that_takes_too_long_is_given_up() -> None:
    busy = Busy(CallLimits(of_one=1, deadline=0.05))
    (running,) = await busy.begin(LIST, READER, 1)
    with pytest.raises(Refused) as refused:
        await soon(busy.call(LIST, READER))
    assert (refused.value.status, refused.value.code) == (503, "deadline")
    with pytest.raises(Refused):
        await soon(running)
    busy.go_on.set()
    await soon(busy.call(LIST, READER))


async def test_what_changes_something_and_what_waits_is_not_limited() -> None:
    busy = Busy(CallLimits(of_one=1, deadline=0.01))
    tasks = await busy.begin(get_operation("chat.abort"), READER, 3)
    assert len(busy.running) == 3
    await asyncio.sleep(0.05)
    busy.go_on.set()
    await soon(asyncio.gather(*tasks))


def test_the_long_ones_are_operations_and_reads() -> None:
    reads = {each.name for each in OPERATIONS if each.method == "GET"}
    assert reads | {"mcp"} >= LONG | WAITING
    fields = {name for each in OPERATIONS for name in each.takes.__struct_fields__}
    assert fields >= LONG_IF
    assert is_long(LIST, msgspec.convert({"q": "word"}, LIST.takes))
    assert not is_long(LIST, LIST.takes())


async def test_a_deadline_is_told_as_a_problem_also_by_name(house: House, admin: str) -> None:
    late = CallLimits(deadline=0.0)
    house.app = build_app(house.calls, house.gate, call_limits=late)
    check_problem(await house.ask("GET", "/v1/usage", token=admin), 503, "deadline")
    asked = {"method": "usage"}
    check_problem(await house.ask("POST", "/v1/rpc", token=admin, json=asked), 503, "deadline")


async def test_a_long_call_is_given_up_when_its_client_leaves(house: House, admin: str) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    class Slow:
        """A store whose sums take for ever."""

        async def list_usage(self, *_: Any, **__: Any) -> Any:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        def __getattr__(self, name: str) -> Any:
            return getattr(house.store, name)

    parts: Any = house.calls.parts
    app = build_app(Calls(Replaced(parts, Slow())), house.gate)
    messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def hear() -> Any:
        for message in messages:
            return message
        await began.wait()
        return {"type": "http.disconnect"}

    async def say(_message: Any) -> None:
        pass

    authorization = (b"authorization", f"Bearer {admin}".encode())
    scope = {
        "type": "http", "method": "GET", "path": "/v1/usage", "raw_path": b"/v1/usage",
        "query_string": b"by=day", "scheme": "http", "http_version": "1.1",
        "client": ("127.0.0.1", 5), "headers": [(b"host", b"localhost"), authorization],
    }  # fmt: skip
    await soon(app(scope, hear, say))
    assert ended.is_set()


class Replaced:
    """The parts of a gateway with another store."""

    def __init__(self, parts: Any, store: Any) -> None:
        self._parts = parts
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parts, name)


# --- the store ------------------------------------------------------------------------------------


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "sessions.db") as opened:
        yield opened


async def test_a_query_ends_with_the_call_that_asked_for_it(store: SqliteStore) -> None:
    ended = threading.Event()
    began = threading.Event()

    def count_for_ever(connection: Any) -> Any:
        try:
            began.set()
            return connection.execute(ENDLESS).fetchall()
        finally:
            ended.set()

    reading = asyncio.create_task(store._db.read(count_for_ever))
    await asyncio.to_thread(began.wait, PATIENCE)
    reading.cancel()
    assert await asyncio.to_thread(ended.wait, PATIENCE)
    assert (await store.stats()).sessions == 0


async def test_a_write_is_not_interrupted_by_the_end_of_its_call(store: SqliteStore) -> None:
    began, go_on = threading.Event(), threading.Event()

    def write(connection: Any) -> None:
        began.set()
        go_on.wait(PATIENCE)
        connection.execute("CREATE TABLE written AS SELECT 1 AS is_there")

    writing = asyncio.create_task(store._db.write(write))
    await asyncio.to_thread(began.wait, PATIENCE)
    writing.cancel()
    await asyncio.sleep(0)
    go_on.set()
    await store._db.write(lambda _: None)  # one behind it in the queue
    sql = "SELECT is_there FROM written"
    assert await store._db.read(lambda db: db.execute(sql).fetchall()) == [(1,)]
