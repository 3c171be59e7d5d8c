"""Usage adds up: whatever happens, a session's totals are the sum of its turns.

Nothing that a model has answered is missing, and nothing is counted twice.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.session import NewSession, Session
from clew.core.usage import Usage
from clew.errors import ModelUnavailable
from clew.ports import Store
from clew.runtime.runtime import Runtime
from clew.runtime.upkeep.compaction import Compactor
from clew.runtime.watch import Bus
from tests.runtime.conftest import Actor, Held, ended, soon, typed, until
from tests.runtime.rooms import Room, room
from tests.runtime.upkeep.test_compaction import COST, Clerk, everything, talk
from tests.sizes import pick

ANSWER = "So it is, and not otherwise. " * 60
REMEMBER = {"name": "memory_write", "arguments": {"action": "add", "text": "a fact"}}
SCRIPT: dict[str, Any] = {
    "title": {"text": "A title", "usage": {"input": 30, "output": 3, "cache_read": 7}},
    "rules": [
        # A summary without a word: it is paid for, and of no use.
        {"when": "heed this in the summary: fail", "answers": [{"text": " "}]},
        {"when": "Write the (updated )?summary now", "answers": ["Summary: x\n## Goal\nto talk"]},
        {"when": "This is clew, not the user", "answers": [{"tool_calls": [REMEMBER]}, "done"]},
        {"when": "^broken", "answers": [{"text": ""}]},
        {"when": "^uncounted", "answers": [{"text": ANSWER, "usage": None}]},
        {
            "when": "^tool",
            "answers": [{"tool_calls": [{"name": "todo_read", "arguments": {}}]}, ANSWER],
        },
    ],
    "answers": [ANSWER],
}
SMALL = "context_window = 3000\n"
STEPS = (
    "say hello", "say tool", "say broken", "say uncounted",
    "/undo", "/redo", "/retry", "/fork", "/compact", "/compact fail", "/uncompact",
)  # fmt: skip


async def live(folder: Path, steps: list[str], config: str = SMALL) -> None:
    async with room(folder, SCRIPT, config) as here:
        for step in steps:
            verb, _, text = step.partition(" ")
            await (here.say(f"{text} it is") if verb == "say" else here.run(step))
            await here.all_booked()
            await here.check_sums()
    async with room(folder, SCRIPT, config) as again:
        # What closing has cut off is not counted: no provider says what that took.
        assert (await again.store.get_usage(since=0)).api_calls <= len(again.requests())
        await again.check_sums()


@settings(max_examples=pick(8, 20), deadline=None)
@given(st.lists(st.sampled_from(STEPS), min_size=4, max_size=12))
def test_usage_adds_up_whatever_a_person_does(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder), ["say hello", *steps]))


def test_usage_adds_up_through_all_of_it(tmp_path: Path) -> None:
    steps = [
        *("say hello", "say tool", "say uncounted", "say hello", "/retry", "/undo", "/redo"),
        *("say hello", "say hello", "say hello", "/compact fail", "/compact"),
        *("/fork", "say hello", "/uncompact", "say broken", "/retry"),
    ]
    asyncio.run(live(tmp_path, steps, f"{SMALL}[session]\nauto_compact = false\n"))
    log = (tmp_path / "log").read_text()
    for purpose in ("Name this conversation", "summary: fail", "Write the summary", "This is clew"):
        assert purpose in log


async def test_a_retry_and_an_undo_are_paid_for_twice_and_a_fork_begins_at_nothing(
    tmp_path: Path,
) -> None:
    answer = {"text": "yes", "usage": {"input": 100, "output": 10}}
    script = {"title": SCRIPT["title"], "answers": [answer]}
    async with room(tmp_path, script) as here:
        await here.say("hello")
        await here.run("/retry")
        await here.run("/undo")
        await here.all_booked()
        now = await here.store.get_session(here.session.id)
        assert (now.usage.input_tokens, now.usage.api_calls) == (230, 3), "two turns and a title"
        parent = here.session
        await here.run("/redo")
        await here.run("/fork")
        assert here.session.usage == Usage()
        await here.say("on with it")
        await here.all_booked()
        assert (await here.store.get_session(here.session.id)).usage.input_tokens == 100
        assert (await here.store.get_session(parent.id)).usage == now.usage
        await here.check_sums()


# --- beside the turns -----------------------------------------------------------------------------


async def sums(store: Store, session: Session) -> tuple[Usage, Usage]:
    turns = await store.list_turns(session.id, limit=1_000)
    return (await store.get_session(session.id)).usage, sum((t.usage for t in turns), Usage())


async def test_a_title_is_booked_on_the_session_and_its_turn(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.title, actor.title_usage = "A title", COST
    await ended(await runtime.accept(typed(session, "hello")))

    async def booked() -> bool:
        return await sums(store, session) == (COST, COST)

    await until(booked)
    assert not runtime.is_running(session.id)


async def test_a_title_without_words_is_paid_for_too(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.title_usage = COST
    await ended(await runtime.accept(typed(session, "hello")))

    async def booked() -> bool:
        return await sums(store, session) == (COST, COST)

    await until(booked)


async def test_a_title_that_comes_while_the_next_turn_runs_is_booked_after_it(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    held = Held()
    actor.title, actor.title_usage = "A title", COST
    actor.title_may_come.clear()
    await ended(await runtime.accept(typed(session, "hello")))
    await soon(actor.title_asked.wait())
    actor.scenes.append(held)
    ticket = await runtime.accept(typed(session, "and on"))
    await soon(held.began.wait())
    actor.title_may_come.set()
    await soon(actor.title_made.wait())
    held.go_on.set()
    await ended(ticket)
    await soon(runtime.close())
    assert await sums(store, session) == (COST, COST)


async def test_a_title_that_a_model_has_made_is_paid_for_though_clew_closes_before_it_is_kept(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.title, actor.title_usage = "A title", COST
    await ended(await runtime.accept(typed(session, "hello")))
    await soon(actor.title_made.wait())
    await soon(runtime.close())
    assert await sums(store, session) == (COST, COST)


async def test_what_is_still_owed_is_booked_when_clew_closes(
    store: Store, other: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    lease = await other.acquire_lease(session.id, other.identity)
    runtime._upkeep.spend(session.id, COST)
    await soon(runtime.join(session.id))
    assert await sums(store, session) == (Usage(), Usage()), "it waits for nobody"
    await other.release_lease(lease)
    await soon(runtime.close())
    assert await sums(store, session) == (COST, COST)


async def test_booking_is_nothing_that_runs_or_could_be_stopped(
    store: Store, session: Session, runtime: Runtime
) -> None:
    await ended(await runtime.accept(typed(session, "hello")))
    runtime._upkeep.spend(session.id, COST)
    assert not runtime.is_running(session.id)
    (turn,) = await store.list_turns(session.id)
    await runtime.amend(session.id)  # an undo comes through at once
    assert not await soon(runtime.stop(session.id))
    assert (await store.get_turn(turn.id)).usage == COST


async def test_a_summary_that_fails_is_booked_and_nothing_else_has_changed(
    store: Store, session: Session
) -> None:
    clerk = Clerk()
    await talk(store, session, 10)
    before = await everything(store, session)
    clerk.spent, clerk.error = [COST, COST], ModelUnavailable("away")
    with pytest.raises(ModelUnavailable):
        await Compactor(store, Bus(), clerk).compact(session.id)
    now = await everything(store, session)
    assert now[0].usage == before[0].usage + COST + COST
    assert now[1:3] == before[1:3]
    whole, parts = await sums(store, session)
    assert whole == parts


async def test_a_summary_that_is_stopped_is_booked_and_nothing_else_has_changed(
    store: Store, session: Session
) -> None:
    clerk = Clerk()
    clerk.spent = [COST]
    clerk.go_on.clear()
    await talk(store, session, 10)
    before = await everything(store, session)
    task = asyncio.create_task(Compactor(store, Bus(), clerk).compact(session.id))
    await soon(clerk.began.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(task)
    now = await everything(store, session)
    assert now[0].usage == before[0].usage + COST
    assert now[1:3] == before[1:3]
    assert await store.find_lease(session.id) is None


async def test_a_fork_that_is_compacted_first_has_a_turn_for_what_that_took(store: Store) -> None:
    parent = await store.create_session(NewSession(key="cli:one", model="script/one"))
    await talk(store, parent, 10)
    fork = await store.fork_session(parent.id)
    await Compactor(store, Bus(), Clerk()).compact(fork.id)
    (turn,) = await store.list_turns(fork.id)
    assert (turn.usage, turn.status, turn.model) == (COST, "done", "script/one")
    assert await sums(store, fork) == (COST, COST)
    rows = {row.name: row.usage for row in await store.list_usage("session", since=0)}
    assert rows[fork.id] == COST
    assert len(await store.get_messages(fork.id)) == 20


# --- what people see ------------------------------------------------------------------------------


async def shown(here: Room, command: str, name: str) -> str:
    lines = (await here.run(command)).text.splitlines()
    return next(line.removeprefix(name).strip() for line in lines if line.startswith(name))


async def test_counts_of_a_provider_are_plain_and_estimates_have_a_tilde(tmp_path: Path) -> None:
    script = {
        "title": "",
        "rules": [{"when": "^uncounted", "answers": [{"text": "yes", "usage": None}]}],
        "answers": [{"text": "yes", "usage": {"input": 1_200, "output": 30}}],
    }
    async with room(tmp_path, script, "context_window = 8000\n") as here:
        await here.say("counted")
        await here.all_booked()
        assert await shown(here, "/status", "context") == "1,230 of 8,000 tokens (15 %)"
        assert "~" not in await shown(here, "/status", "usage")
        assert "~" not in (await here.run("/usage")).text
        assert "the last request was 1,230" in (await here.run("/context")).text
        await here.say("uncounted")
        assert (await shown(here, "/status", "context")).startswith("~")
        for name in ("this session", "today, all sessions"):
            spent = await shown(here, "/usage", name)
            assert spent.startswith("~")
            assert "  ~" in spent
            assert spent.endswith("cost unknown")
        assert (await shown(here, "/status", "cost")).startswith("unknown, ")
        assert "the last request was ~" in (await here.run("/context")).text
        await here.say("counted")
        assert await shown(here, "/status", "context") == "1,230 of 8,000 tokens (15 %)"
        assert (await shown(here, "/usage", "this session")).startswith("~"), "some of it is"


async def test_after_a_compaction_the_context_is_an_estimate_until_the_next_answer(
    tmp_path: Path,
) -> None:
    async with room(tmp_path, SCRIPT, "context_window = 8000\n[memory]\nflush = false\n") as here:
        for _ in range(12):
            await here.say("hello")
        assert "~" not in await shown(here, "/status", "context")
        assert not (await here.run("/compact")).is_error
        assert (await shown(here, "/status", "context")).startswith("~")
        await here.run("/uncompact")
        assert (await shown(here, "/status", "context")).startswith("~")
        await here.say("hello")
        assert "~" not in await shown(here, "/status", "context")
