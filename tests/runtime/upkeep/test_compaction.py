"""Compaction of a session: one commit or nothing, and back again."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.core.changes import AddMessage, AddUsage, EndTurn, StartTurn, WriteScratch, WriteTodos
from clew.core.channels.replies import ReplyTo
from clew.core.context.compaction import Digest
from clew.core.live_events import Notice, Signal
from clew.core.message import Draft, Message
from clew.core.models import ModelInfo
from clew.core.notes import Compaction, Todo
from clew.core.session import NewSession, Session
from clew.core.turn import Lease
from clew.core.usage import Usage
from clew.errors import InvalidInput, LeaseHeld, ModelUnavailable, StaleLease, TurnFailed
from clew.ports import Store
from clew.runtime.runtime import Runtime
from clew.runtime.upkeep.compaction import CompactingRules, Compactor
from clew.runtime.watch import Bus
from tests.patience import PATIENCE
from tests.runtime.conftest import Actor, added, ended, soon, typed

WINDOW = 16_000
INFO = ModelInfo(name="script/one", provider="script", context_window=WINDOW)
COST = Usage(500, 50, cost=7, api_calls=1)


class Clerk:
    """Writes the summaries of a test: what it is told, and no model."""

    def __init__(self, info: ModelInfo = INFO) -> None:
        self.info = info
        self.asked: list[dict[str, Any]] = []
        self.error: BaseException | None = None
        self.spent: list[Usage] = []
        """What answers took that came before anything went wrong."""
        self.stopped_at_the_end = False
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    def get_model(self, session: Session) -> ModelInfo:
        return self.info

    async def summarise(
        self,
        session: Session,
        messages: Sequence[Message],
        *,
        previous: str | None,
        instructions: str | None,
        signal: Callable[[Signal], None],
        spend: Callable[[Usage], None],
    ) -> Digest:
        self.asked.append({"messages": messages, "previous": previous, "wish": instructions})
        for usage in self.spent:
            spend(usage)
        self.began.set()
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        text = f"## Goal\nnumber {len(self.asked)}"
        spend(COST)
        if self.stopped_at_the_end and (task := asyncio.current_task()) is not None:
            task.cancel()  # it is heard of in the middle of the commit
        return Digest(summary=text, short=f"short {len(self.asked)}")


class Flush:
    """A flusher that counts."""

    def __init__(self) -> None:
        self.seen: list[Sequence[Message]] = []
        self.error: Exception | None = None

    async def flush(
        self, session: Session, thread: Sequence[Message], *, spend: Callable[[Usage], None]
    ) -> None:
        self.seen.append(thread)
        spend(COST)
        if self.error is not None:
            raise self.error


async def talk(
    store: Store,
    session: Session,
    turns: int,
    *,
    tokens: int | None = None,
    reply_to: ReplyTo | None = None,
) -> None:
    """So many exchanges of about a thousand tokens each."""
    where = None if reply_to is None else msgspec.to_builtins(reply_to)
    lease = await store.acquire_lease(session.id, f"{store.identity}#talk")
    usage = Usage(tokens or 1_000, 10, cost=1, api_calls=1)
    for number in range(turns):
        name = f"turn {session.id[:6]} {(await store.get_session(session.id)).head} {number}"
        answer = Draft(role="assistant", content="a" * 2_000, usage=usage)
        await store.record(
            session.id,
            lease.epoch,
            StartTurn(turn_id=name, reply_to=where),
            AddMessage(Draft(role="user", content=f"{number} " + "q" * 2_000), name),
            AddMessage(answer, name, from_person=False),
            AddUsage(usage=usage, turn_id=name, context_tokens=usage.input_tokens + 10),
            EndTurn(turn_id=name, status="done"),
        )
    await store.release_lease(lease)


@pytest.fixture
def clerk() -> Clerk:
    return Clerk()


@pytest.fixture
def bus() -> Bus:
    return Bus()


@pytest.fixture
def compactor(store: Store, bus: Bus, clerk: Clerk) -> Compactor:
    return Compactor(store, bus, clerk)


async def everything(store: Store, session: Session) -> tuple[Any, ...]:
    return (
        await store.get_session(session.id),
        await store.list_compactions(session.id),
        await store.get_messages(session.id),
        await store.list_turns(session.id, limit=1_000),
        await store.get_todos(session.id),
        await store.list_scratch(session.id),
    )


async def find(store: Store, session: Session) -> Compaction:
    found = await store.find_compaction(session.id)
    assert found is not None
    return found


async def test_a_compaction_keeps_the_tail_and_tells_what_it_did(
    store: Store, session: Session, compactor: Compactor, clerk: Clerk, bus: Bus
) -> None:
    await talk(store, session, 10, tokens=11_000)
    before = await store.get_messages(session.id)
    with bus.subscribe(session.id) as mailbox:
        made = await compactor.compact(session.id, instructions="keep the numbers")
        told = [await soon(mailbox.get()) for _ in range(2)]
    found, now = await find(store, session), await store.get_session(session.id)
    assert found.keep_from == 15
    assert clerk.asked == [{"messages": before[:14], "previous": None, "wish": "keep the numbers"}]
    assert (found.summary, now.short_summary) == ("## Goal\nnumber 1", "short 1")
    assert (made.summarised, made.kept) == (14, 6)
    assert (found.tokens_before, found.tokens_after) == (11_010, made.tokens_after)
    assert 3_000 < made.tokens_after < 6_000
    assert now.context_tokens == made.tokens_after
    assert now.compactions == 1
    assert await store.get_messages(session.id) == before, "nothing is deleted"
    assert isinstance(told[1], Notice)
    assert "11,010 → ~" in told[1].text


async def test_the_next_one_updates_the_summary_before(
    store: Store, session: Session, compactor: Compactor, clerk: Clerk
) -> None:
    await talk(store, session, 10)
    await compactor.compact(session.id)
    await talk(store, session, 6)
    await compactor.compact(session.id)
    assert clerk.asked[1]["previous"] == "## Goal\nnumber 1"
    assert [m.seq for m in clerk.asked[1]["messages"]] == list(range(15, 27))
    assert (await store.get_session(session.id)).compactions == 2


async def test_usage_of_a_compaction_is_the_sessions_and_a_turns(
    store: Store, session: Session, compactor: Compactor
) -> None:
    await talk(store, session, 10)
    before = await store.get_session(session.id)
    await compactor.compact(session.id)
    now = await store.get_session(session.id)
    turns = await store.list_turns(session.id, limit=100)
    assert now.usage == before.usage + COST
    assert sum((turn.usage for turn in turns), Usage()) == now.usage


async def test_a_short_session_has_nothing_to_compact(
    store: Store, session: Session, compactor: Compactor, clerk: Clerk
) -> None:
    await talk(store, session, 3)
    before = await everything(store, session)
    with pytest.raises(InvalidInput, match="nothing to compact"):
        await compactor.compact(session.id)
    assert await everything(store, session) == before
    assert clerk.asked == []
    assert await store.find_lease(session.id) is None


async def test_scratchpad_and_todos_stay(
    store: Store, session: Session, compactor: Compactor
) -> None:
    lease = await store.acquire_lease(session.id, "x")
    notes = (WriteScratch("plan", "text"), WriteTodos((Todo("one"),)))
    await store.record(session.id, lease.epoch, *notes)
    await store.release_lease(lease)
    await talk(store, session, 10)
    await compactor.compact(session.id)
    assert (await everything(store, session))[4] == (Todo("one"),)
    entry = await store.find_scratch(session.id, "plan")
    assert entry is not None
    assert entry.content == "text"


# --- nothing by halves ----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ModelUnavailable("away"), TurnFailed("empty"), OSError("bug")])
async def test_one_that_fails_leaves_the_session_as_it_was(
    store: Store, session: Session, compactor: Compactor, clerk: Clerk, error: Exception
) -> None:
    await talk(store, session, 10)
    before = await everything(store, session)
    clerk.error = error
    with pytest.raises(type(error)):
        await compactor.compact(session.id)
    assert await everything(store, session) == before
    assert await store.find_lease(session.id) is None
    clerk.error = None
    await compactor.compact(session.id)


async def test_one_that_is_cancelled_leaves_the_session_as_it_was(
    store: Store, session: Session, compactor: Compactor, clerk: Clerk
) -> None:
    await talk(store, session, 10)
    before = await everything(store, session)
    clerk.go_on.clear()
    task = asyncio.create_task(compactor.compact(session.id))
    await soon(clerk.began.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(task)
    assert await everything(store, session) == before
    assert await store.find_lease(session.id) is None


async def test_one_whose_session_was_taken_over_writes_nothing(
    store: Store, other: Store, session: Session, bus: Bus, clerk: Clerk
) -> None:
    await talk(store, session, 10)
    compactor = Compactor(store, bus, clerk, lease_ms=1, renew_ms=60_000)
    clerk.go_on.clear()
    task = asyncio.create_task(compactor.compact(session.id))
    await soon(clerk.began.wait())
    lease = await soon(_take(other, session))
    before = await everything(store, session)
    clerk.go_on.set()
    with pytest.raises(StaleLease):
        await soon(task)
    assert await everything(store, session) == before
    assert await store.find_lease(session.id) == lease


async def _take(store: Store, session: Session) -> Lease:
    while True:
        try:
            return await store.acquire_lease(session.id, store.identity)
        except LeaseHeld:
            await asyncio.sleep(0.005)


VICTIM = """
import asyncio, os, sys
from clew.runtime.watch import Bus
from clew.runtime.upkeep.compaction import Compactor
from clew.store import open_store
from tests.runtime.upkeep.test_compaction import Clerk

async def main(url, session_id):
    store = await open_store(url, durability="normal")
    clerk = Clerk()
    clerk.go_on.clear()
    task = asyncio.create_task(Compactor(store, Bus(), clerk).compact(session_id))
    await clerk.began.wait()
    print("began", flush=True)
    await task

asyncio.run(main(*sys.argv[1:]))
"""


async def test_one_that_is_killed_leaves_the_session_as_it_was(
    store: Store, url: str, session: Session, compactor: Compactor
) -> None:
    await talk(store, session, 10)
    before = await everything(store, session)
    root = Path(__file__).parents[3]
    victim = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", VICTIM, url, session.id),
        stdout=asyncio.subprocess.PIPE,
        cwd=root,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (root / "src", root)))},
    )
    assert victim.stdout is not None
    line = await asyncio.wait_for(victim.stdout.readline(), PATIENCE)
    victim.kill()
    await victim.communicate()
    assert line == b"began\n"
    assert await everything(store, session) == before
    assert (await compactor.compact(session.id)).kept == 6, "the dead one's lease is no obstacle"


async def test_a_turn_that_runs_is_not_disturbed(
    store: Store, session: Session, compactor: Compactor
) -> None:
    await talk(store, session, 10)
    lease = await store.acquire_lease(session.id, store.identity)
    with pytest.raises(LeaseHeld):
        await compactor.compact(session.id)
    await store.release_lease(lease)


# --- and back -------------------------------------------------------------------------------------


async def test_uncompact_takes_the_latest_back_and_the_one_before_counts_again(
    store: Store, session: Session, compactor: Compactor
) -> None:
    await talk(store, session, 10, tokens=11_000)
    await compactor.compact(session.id)
    first = await find(store, session)
    await talk(store, session, 6, tokens=9_000)
    await compactor.compact(session.id)
    gone = await compactor.uncompact(session.id)
    assert gone.keep_from > first.keep_from
    assert await find(store, session) == first
    now = await store.get_session(session.id)
    assert (now.short_summary, now.context_tokens) == ("short 1", 9_010)
    await compactor.uncompact(session.id)
    assert await store.find_compaction(session.id) is None
    with pytest.raises(InvalidInput, match="no compaction"):
        await compactor.uncompact(session.id)


async def test_a_fork_has_the_compaction_and_can_take_back_its_own(
    store: Store, session: Session, compactor: Compactor
) -> None:
    await talk(store, session, 10)
    await compactor.compact(session.id)
    fork = await store.fork_session(session.id)
    assert fork.usage == Usage(), "nothing is counted twice"
    await compactor.uncompact(fork.id)
    assert await store.find_compaction(fork.id) is None
    assert await store.find_compaction(session.id) is not None


# --- by itself ------------------------------------------------------------------------------------


def message_of(tokens: int) -> Draft:
    return Draft(role="user", content="text" * tokens)


async def under(store: Store, session: Session, compactor: Compactor, **more: Any) -> None:
    lease = await store.acquire_lease(session.id, store.identity)
    await compactor.prepare(lease, **more)
    await store.release_lease(lease)


@pytest.mark.parametrize(("tokens", "due"), [(12_800, False), (12_801, True)])
async def test_it_comes_by_itself_when_the_last_request_passed_eighty_percent(
    store: Store, session: Session, compactor: Compactor, tokens: int, due: bool
) -> None:
    await talk(store, session, 10, tokens=tokens)
    await under(store, session, compactor)
    assert (await store.get_session(session.id)).compactions == due
    await under(store, session, compactor)
    assert (await store.get_session(session.id)).compactions == due, "and not twice"


async def test_a_long_message_that_comes_makes_room_first(
    store: Store, session: Session, compactor: Compactor
) -> None:
    await talk(store, session, 10, tokens=10_000)
    await under(store, session, compactor, coming=[message_of(2_000)])
    assert (await store.get_session(session.id)).compactions == 0
    await under(store, session, compactor, coming=[message_of(6_000)])
    assert (await store.get_session(session.id)).compactions == 1


async def test_it_does_not_come_by_itself_where_that_is_off_or_the_window_is_unknown(
    store: Store, session: Session, bus: Bus, clerk: Clerk
) -> None:
    await talk(store, session, 10, tokens=15_900)
    off = Compactor(store, bus, clerk, rules=CompactingRules(auto=False))
    await under(store, session, off)
    unknown = Clerk(ModelInfo(name="a/b", provider="a"))
    await under(store, session, Compactor(store, bus, unknown))
    assert (await store.get_session(session.id)).compactions == 0


async def test_after_an_uncompact_it_waits_until_it_is_pressing(
    store: Store, session: Session, compactor: Compactor
) -> None:
    await talk(store, session, 10, tokens=13_000)
    await compactor.compact(session.id)
    await compactor.uncompact(session.id)
    await under(store, session, compactor)
    assert await store.find_compaction(session.id) is None
    await talk(store, session, 1, tokens=15_500)
    await under(store, session, compactor)
    assert await store.find_compaction(session.id) is not None


async def test_one_that_fails_by_itself_is_told_and_the_turn_goes_on(
    store: Store, session: Session, compactor: Compactor, clerk: Clerk, bus: Bus
) -> None:
    await talk(store, session, 10, tokens=13_000)
    before = await everything(store, session)
    clerk.error = ModelUnavailable("The provider is away.")
    with bus.subscribe(session.id) as mailbox:
        await under(store, session, compactor)
        told = [await soon(mailbox.get()) for _ in range(2)]
    assert isinstance(told[1], Notice)
    assert "stays as it is. The provider is away." in told[1].text
    assert await everything(store, session) == before


async def test_a_turn_that_was_too_long_gets_room_under_its_own_lease(
    store: Store, session: Session, runtime: Runtime, actor: Actor, clerk: Clerk
) -> None:
    await talk(store, session, 10)
    compactor = Compactor(store, runtime.bus, clerk)
    rescued: list[bool] = []

    async def scene(turn: Any) -> None:
        rescued.append(await compactor.rescue(turn))
        await turn.finish(added(turn, "ok"))

    actor.scenes.append(scene)
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert rescued == [True]
    assert turn.usage == COST
    found = await find(store, session)
    kept = await store.get_messages(session.id, after=found.keep_from - 1)
    assert [each.content for each in kept][-2:] == ["hello", "ok"]


# --- the memory first -----------------------------------------------------------------------------


async def test_the_memory_is_flushed_once_before_each_compaction_and_its_cost_counts(
    store: Store, session: Session, bus: Bus, clerk: Clerk
) -> None:
    flush = Flush()
    compactor = Compactor(store, bus, clerk, flusher=flush)
    await talk(store, session, 10, tokens=13_000)
    before = await store.get_session(session.id)
    clerk.error = ModelUnavailable("away")
    with pytest.raises(ModelUnavailable):
        await compactor.compact(session.id)
    clerk.error = None
    await compactor.compact(session.id)
    assert len(flush.seen) == 1, "once per cycle, whatever failed"
    assert len(flush.seen[0]) == 20
    assert (await store.get_session(session.id)).usage == before.usage + COST + COST
    await talk(store, session, 6, tokens=13_000)
    await compactor.compact(session.id)
    assert len(flush.seen) == 2
    assert flush.seen[1][0].content.find("number") > 0, "it sees the summary, as a turn would"


@pytest.mark.parametrize(
    ("reply_to", "expected"),
    [
        (ReplyTo(channel="api", key="api", person="owner", scopes=("chat",)), 8),
        (ReplyTo(channel="api", key="api", person="owner"), 8),
        (ReplyTo(channel="telegram", key="t", person="telegram:7"), 8),
        (ReplyTo(channel="api", key="api", person="owner", scopes=("write",)), 20),
        (ReplyTo(channel="telegram", key="t", person="owner"), 20),
    ],
)
async def test_what_could_not_write_the_memory_is_not_noted_in_it_later(
    store: Store, session: Session, bus: Bus, clerk: Clerk, *, reply_to: ReplyTo, expected: int
) -> None:
    flush = Flush()
    await talk(store, session, 4, tokens=13_000)
    await talk(store, session, 6, tokens=13_000, reply_to=reply_to)
    await Compactor(store, bus, clerk, flusher=flush).compact(session.id)
    assert [len(each) for each in flush.seen] == [expected]
    assert len(clerk.asked[0]["messages"]) > 8, "the summary is of all of it"


async def test_a_job_without_an_address_is_not_noted_either(
    store: Store, session: Session, bus: Bus, clerk: Clerk, runtime: Runtime
) -> None:
    """Its turn looks like a line of a terminal, which may be noted."""
    await talk(store, session, 4, tokens=13_000)
    job = typed(session, "remember me", channel="cron", from_person=False, memory=False)
    await ended(await runtime.accept(job))
    await ended(await runtime.accept(typed(session, "my own")))
    await talk(store, session, 6, tokens=13_000)
    flush = Flush()
    await Compactor(store, bus, clerk, flusher=flush).compact(session.id)
    (seen,) = flush.seen
    assert [each.content for each in seen if "remember me" in each.content] == []
    assert "my own" in [each.content for each in seen]


async def test_a_flush_that_fails_never_stops_the_compaction(
    store: Store, session: Session, bus: Bus, clerk: Clerk
) -> None:
    flush = Flush()
    flush.error = RuntimeError("boom")
    await talk(store, session, 10, tokens=13_000)
    await Compactor(store, bus, clerk, flusher=flush).compact(session.id)
    assert (await store.get_session(session.id)).compactions == 1


async def test_far_from_the_limit_or_switched_off_there_is_no_flush(store: Store, bus: Bus) -> None:
    flush = Flush()
    clerk = Clerk(ModelInfo(name="a/b", provider="a", context_window=200_000))
    one = await store.create_session(NewSession(key="one"))
    await talk(store, one, 30, tokens=40_000)
    await Compactor(store, bus, clerk, flusher=flush).compact(one.id)
    two = await store.create_session(NewSession(key="two"))
    await talk(store, two, 30, tokens=159_000)
    rules = CompactingRules(flush=False)
    await Compactor(store, bus, clerk, flusher=flush, rules=rules).compact(two.id)
    assert flush.seen == []
