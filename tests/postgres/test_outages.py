"""A store that fails while a message arrives: the message is answered once, in order, by itself.

The outage begins at every commit in turn. SQLite's is a disk that takes nothing more, PostgreSQL's
a network that is gone, with the answer to the last statement or before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from clew.api.problems import problem_of
from clew.core.channels.incoming import Incoming, Sender
from clew.core.channels.replies import ReplyTo
from clew.core.channels.routing import Arrival, Peer
from clew.core.delivery import NewInbound
from clew.core.session import NewSession
from clew.errors import ClewError
from clew.runtime.recovery import keep_up
from clew.store.sqlite.store import SqliteStore
from tests.patience import PATIENCE
from tests.postgres.proxy import Proxy
from tests.postgres.server import Server
from tests.postgres.two_gateways import Gateway, opener
from tests.runtime.conftest import Held, soon, until
from tests.sizes import pick

MAIN = "agent:main:main"
OUTAGE = 0.4
SHORT = 0.1
"""Seconds: how long the store is away, and how long a call waits for it."""


def telegram(text: str) -> Incoming:
    return Incoming(
        arrival=Arrival(channel="telegram", peer=Peer("dm", "1")),
        sender=Sender("1"),
        text=text,
        external_id=f"said {text}",
        reply_to=ReplyTo(channel="telegram", key="telegram:1", address={"chat": "1"}),
    )


async def deliver(gateway: Gateway, text: str) -> str:
    """What a sender does: repeat the message until it is kept, as far as they are told."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                receipt = await gateway.reception.receive(telegram(text))
            except ClewError as error:
                if vars(error).get("message") == "kept":
                    return ""
                await asyncio.sleep(0.02)
                continue
            return receipt.session_id or ""


@asynccontextmanager
async def kept_up(gateway: Gateway, told: list[str] | None = None) -> AsyncIterator[None]:
    tell = (lambda _: None) if told is None else told.append
    keeping = asyncio.create_task(keep_up(gateway.runtime, every=0.5, pause=0.05, tell=tell))
    try:
        yield
    finally:
        keeping.cancel()


async def _describe(gateway: Gateway) -> str:
    """What a gateway that does not become calm is at."""
    session = await gateway.store.find_route(MAIN)
    if session is None:
        return f"no session; {await gateway.store.list_inbound()}"
    turns = await gateway.store.list_turns(session.id)
    thread = await gateway.thread(session.id)
    state = await gateway.store.list_states([session.id])
    lease = await gateway.store.find_lease(session.id)
    return f"{await gateway.store.list_inbound()}\n{turns}\n{thread}\n{state}\n{lease}"


async def check_answered(gateway: Gateway, *said: str) -> None:
    """Each message is in one turn, in order; all are answered, and nothing waits."""

    async def is_calm() -> bool:
        session = await gateway.store.find_route(MAIN)
        if session is None or await gateway.store.list_inbound():
            return False
        turns = await gateway.store.list_turns(session.id, limit=1)
        thread = await gateway.store.get_messages(session.id)
        return turns[-1].status == "done" and thread[-1].role == "assistant"

    try:
        await until(lambda: _or_false(is_calm()))
    except TimeoutError:
        raise AssertionError(await _describe(gateway)) from None
    session = await gateway.store.find_route(MAIN)
    assert session is not None
    thread = await gateway.thread(session.id)
    assert [line for line in thread if line.startswith("user")] == [
        f"user: {each}" for each in said
    ]


async def _or_false(asked: Awaitable[bool]) -> bool:
    with contextlib.suppress(ClewError):
        return await asked
    return False


# --- SQLite -------------------------------------------------------------------------------------


@asynccontextmanager
async def full_disk(store: SqliteStore, *, after: int = 0) -> AsyncIterator[None]:
    """After so many commits of the store no file of this process takes anything more, for a while.

    There is room again at the end, too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    loop, left = asyncio.get_running_loop(), after

    def end() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def count(_connection: apsw.Connection, _name: str, _pages: int) -> int:
        nonlocal left
        left -= 1
        if left == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
            loop.call_soon_threadsafe(loop.call_later, OUTAGE, end)
        return apsw.SQLITE_OK

    await store._db.write(lambda connection: connection.set_wal_hook(count))
    if not after:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        loop.call_later(OUTAGE, end)
    try:
        yield
    finally:
        end()


@pytest.mark.parametrize("after", range(0, 12, pick(2, 1)))
async def test_a_disk_that_is_full_at_any_commit_of_a_message(after: int, tmp_path: Path) -> None:
    open_one = opener(f"sqlite://{tmp_path}/store/sessions.db", tmp_path / "home")
    async with open_one() as gateway, kept_up(gateway):
        assert isinstance(gateway.store, SqliteStore)
        async with full_disk(gateway.store, after=after):
            for text in ("1", "/status", "2", "3"):
                await deliver(gateway, text)
            await check_answered(gateway, "1", "2", "3")
            await until(lambda: _or_false(_has_one_reply(gateway)))


async def _has_one_reply(gateway: Gateway) -> bool:
    """Whether the command was run and answered; never twice."""
    rows = await gateway.store.list_outbound(limit=100)
    replies = [row for row in rows if row.id.endswith("-reply")]
    assert len(replies) <= 1
    return len(replies) == 1


# --- PostgreSQL ---------------------------------------------------------------------------------


@asynccontextmanager
async def behind_proxy(
    server: Server, database: str, home: Path, *, patience: float
) -> AsyncIterator[tuple[Gateway, Proxy]]:
    async with Proxy(server.port) as proxy:
        url = server.url(database, port=proxy.port)
        async with opener(url, home)(patience=patience) as gateway, kept_up(gateway):
            yield gateway, proxy


async def message_in_an_outage(
    server: Server, home: Path, after: int, template: str, *, patience: float, outage: float
) -> bool:
    """Three messages, the network gone after so many pieces of answers; whether it came to that."""
    database = await asyncio.to_thread(server.create_database, template)
    async with behind_proxy(server, database, home, patience=patience) as (gateway, proxy):
        proxy.go_away_after(after, outage)
        for text in ("1", "2", "3"):
            await deliver(gateway, text)
        await check_answered(gateway, "1", "2", "3")
        return proxy.cuts > 0


@pytest.mark.parametrize(("patience", "outage"), [(SHORT, OUTAGE), (PATIENCE, SHORT)])
async def test_a_network_that_is_gone_at_any_answer_of_the_server(
    server: Server, template: str, tmp_path: Path, patience: float, outage: float
) -> None:
    points = range(0, 64, pick(8, 1))
    for start in range(0, len(points), 8):
        async with asyncio.TaskGroup() as tasks:
            for after in points[start : start + 8]:
                home = tmp_path / str(after)
                tasks.create_task(
                    message_in_an_outage(
                        server, home, after, template, patience=patience, outage=outage
                    )
                )


@pytest.mark.parametrize("away", pick([OUTAGE], [OUTAGE, 5.0, 15.0, 40.0]))
async def test_two_gateways_answer_what_each_of_them_had_kept(
    server: Server, template: str, tmp_path: Path, away: float
) -> None:
    database = await asyncio.to_thread(server.create_database, template)
    patience = SHORT if away == OUTAGE else None
    async with Proxy(server.port) as proxy:
        open_one = opener(server.url(database, port=proxy.port), tmp_path / "home")
        async with (
            open_one(held := Held("first"), patience=patience) as one,
            open_one(patience=patience) as other,
            kept_up(one),
            kept_up(other),
        ):
            await deliver(one, "1")
            await soon(held.began.wait())
            for number in range(2, 12):
                await deliver((one, other)[number % 2], str(number))
            proxy.go_away(away)
            held.go_on.set()
            await check_answered(one, *map(str, range(1, 12)))


# --- both ---------------------------------------------------------------------------------------


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    open_one = opener(f"sqlite://{tmp_path}/store/sessions.db", tmp_path / "home")
    async with open_one() as opened:
        yield opened


async def keep_stuck(gateway: Gateway, number: int, **fields: Any) -> NewInbound:
    """A message that this process has claimed, and that never came into its lane."""
    session = await gateway.store.find_route(MAIN)
    if session is None:
        session = await gateway.store.create_session(NewSession(key=MAIN))
    given: dict[str, Any] = {
        "channel": "telegram",
        "account": "default",
        "external_id": f"said {number}",
    } | fields
    new = NewInbound(
        id=f"stuck{number}",
        key=MAIN,
        session_id=session.id,
        payload={"text": str(number)},
        **given,
    )
    await gateway.store.accept(new, claimant=f"{gateway.store.identity}#{new.id}")
    return new


async def test_a_claim_that_no_lane_works_on_is_given_back_with_a_word(gateway: Gateway) -> None:
    await keep_stuck(gateway, 1)
    await keep_stuck(gateway, 2)
    told: list[str] = []
    async with kept_up(gateway, told):
        await check_answered(gateway, "1", "2")
    assert told == ["The store works again; 2 messages had to wait for it."]


async def test_a_redelivery_of_a_message_that_is_stuck_begins_it(gateway: Gateway) -> None:
    await keep_stuck(gateway, 1)
    receipt = await gateway.reception.receive(telegram("1"))
    assert not receipt.is_new
    await check_answered(gateway, "1")


async def test_a_later_message_does_not_overtake_one_that_is_stuck(gateway: Gateway) -> None:
    await keep_stuck(gateway, 1)
    await gateway.reception.receive(telegram("2"))
    await check_answered(gateway, "1", "2")


async def test_what_is_in_a_lane_is_not_given_back(gateway: Gateway) -> None:
    gateway.actor.scenes.append(held := Held("first"))
    for text in ("1", "2", "3"):
        await gateway.reception.receive(telegram(text))
    await soon(held.began.wait())
    assert await gateway.runtime.give_back() == 0
    held.go_on.set()
    await check_answered(gateway, "1", "2", "3")


async def test_a_terminals_message_waits_for_its_person_and_a_subagents_is_dropped(
    gateway: Gateway,
) -> None:
    await keep_stuck(gateway, 1, channel="cli")
    await keep_stuck(gateway, 2, channel="spawn")
    async with kept_up(gateway):
        await until(lambda: _has_waiting(gateway, "stuck1"))
    assert gateway.actor.turns == []


async def _has_waiting(gateway: Gateway, *ids: str) -> bool:
    rows = await gateway.store.list_inbound()
    return [(row.id, row.claimant) for row in rows] == [(each, None) for each in ids]


async def test_what_was_taken_back_while_the_disk_was_full_is_never_answered(
    gateway: Gateway,
) -> None:
    assert isinstance(gateway.store, SqliteStore)
    gateway.actor.scenes.append(held := Held("first"))
    session = (await gateway.reception.receive(telegram("1"))).session_id or ""
    await soon(held.began.wait())
    await gateway.reception.receive(telegram("2"))
    async with full_disk(gateway.store):
        assert len(await gateway.runtime.take_back(session)) == 1
        async with kept_up(gateway):
            await until(lambda: _has_waiting(gateway))
            held.go_on.set()
            await check_answered(gateway, "1")


async def test_the_error_says_what_became_of_the_message(gateway: Gateway) -> None:
    assert isinstance(gateway.store, SqliteStore)
    async with full_disk(gateway.store):
        with pytest.raises(ClewError, match="The message was not kept: send it again") as caught:
            await gateway.reception.receive(telegram("1"))
        problem = problem_of(caught.value)
        assert (problem.status, problem.about["message"]) == (503, "not kept")
        await asyncio.sleep(OUTAGE)
    async with full_disk(gateway.store, after=1):
        with pytest.raises(ClewError, match="The message is kept, and is answered"):
            await gateway.reception.receive(telegram("2"))
        async with kept_up(gateway):
            await check_answered(gateway, "2")


async def test_a_message_whose_commit_got_no_answer_is_told_as_unknown(
    server: Server, template: str, tmp_path: Path
) -> None:
    """At one of the answers of the server it is the commit's."""
    database = await asyncio.to_thread(server.create_database, template)
    fates, words = [], ""
    for after in range(4, 40):
        home = tmp_path / str(after)
        async with behind_proxy(server, database, home, patience=SHORT) as (gateway, proxy):
            proxy.go_away_after(after, OUTAGE)
            try:
                await gateway.reception.receive(telegram(str(after)))
            except ClewError as error:
                fates.append(vars(error).get("message"))
                words = str(error)
        if "unknown" in fates:
            break
    assert fates[-1] == "unknown"
    assert "repeat it with the same idempotency key" in words
