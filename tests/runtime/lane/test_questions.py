"""Questions to the owner: who may answer, from where, and what silence means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clew import config as configuration
from clew.core.live_events import ApprovalAsked, ApprovalDecided, Event
from clew.core.message import ToolCall
from clew.core.session import NewSession, Session, SessionFacts
from clew.core.turn import Approval, ApprovalScope, Decision
from clew.ports import LiveTurn, Store
from clew.runtime.lane.turn import APPROVAL_MS
from clew.runtime.recovery import recover
from clew.runtime.runtime import Runtime
from clew.store import open_store
from clew.testing.clock import FakeClock
from clew.wiring import House
from tests.runtime.conftest import (
    Actor,
    Rules,
    Runtimes,
    added,
    collect,
    ended,
    soon,
    typed,
    until,
)

CALL = ToolCall(id="call_1", name="shell", arguments='{"command": "make"}')
REQUEST: dict[str, Any] = {"command": "make"}


class Asking:
    """A scene that asks, and says what it was told."""

    def __init__(self, times: int = 1) -> None:
        self.times = times
        self.answers: list[Approval] = []

    async def __call__(self, turn: LiveTurn) -> None:
        asked = (turn.ask(CALL, REQUEST) for _ in range(self.times))
        self.answers += await asyncio.gather(*asked)
        await turn.finish(added(turn, ", ".join(str(each.decision) for each in self.answers)))


def is_question(event: Event) -> bool:
    return isinstance(event, ApprovalAsked)


async def question_of(events: AsyncIterator[Event]) -> Approval:
    asked = (await collect(events, is_question))[-1]
    assert isinstance(asked, ApprovalAsked)
    return asked.approval


@pytest.mark.parametrize(
    ("decision", "scope"),
    [("yes", "once"), ("no", "once"), ("yes", "session"), ("yes", "always")],
)
async def test_an_answer_reaches_the_turn_as_it_was_given(
    session: Session, actor: Actor, runtime: Runtime, decision: Decision, scope: ApprovalScope
) -> None:
    store = runtime.store
    actor.scenes.append(asking := Asking())
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"))
        question = await question_of(events)
        assert (question.tool_name, question.tool_call_id) == ("shell", "call_1")
        assert question.request == REQUEST
        (turn,) = await store.list_turns(session.id)
        assert turn.status == "waiting"
        held = await runtime.decide(question.id, decision, by="owner", scope=scope)
        decided = (await collect(events, lambda event: isinstance(event, ApprovalDecided)))[-1]
    assert decided == ApprovalDecided(held)
    assert (held.decision, held.scope, held.decided_by) == (decision, scope, "owner")
    assert (await ended(ticket)).status == "done"
    assert asking.answers == [held]
    assert await store.list_approvals(session.id) == ()


async def test_the_first_answer_stays(session: Session, actor: Actor, runtime: Runtime) -> None:
    actor.scenes.append(asking := Asking())
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"))
        question = await question_of(events)
        await runtime.decide(question.id, "no", by="first")
        late = await runtime.decide(question.id, "yes", by="second")
    assert (late.decision, late.decided_by) == ("no", "first")
    await ended(ticket)
    assert asking.answers == [late]


async def test_an_answer_from_another_process_is_heard(
    other: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(asking := Asking())
    ticket = await runtime.accept(typed(session, "hello"))
    found: list[Approval] = []

    async def asked() -> bool:
        found.extend(await other.list_approvals(session.id))
        return bool(found)

    await until(asked)
    await other.decide_approval(found[0].id, "yes", by="page")
    await ended(ticket)
    assert [(each.decision, each.decided_by) for each in asking.answers] == [("yes", "page")]


async def test_a_question_that_nobody_answers_in_ten_minutes_is_a_no(
    tmp_path: Path, make_runtime: Runtimes
) -> None:
    clock = FakeClock()
    url = f"sqlite://{tmp_path}/store/sessions.db"
    async with await open_store(url, durability="normal", clock=clock) as store:
        session = await store.create_session(NewSession(key="cli:test"))
        runtime = make_runtime(store, Actor(asking := Asking()), clock=clock, lease_ms=10**9)
        with runtime.watch(session.id, 0) as events:
            ticket = await runtime.accept(typed(session, "hello"))
            question = await question_of(events)
            assert question.expires_at - question.asked_at == APPROVAL_MS == 600_000
            clock.advance(APPROVAL_MS - 1)
            assert await store.list_approvals(session.id)
            clock.advance(1)
            await ended(ticket)
        assert [(each.decision, each.decided_by) for each in asking.answers] == [("no", "expired")]
        await runtime.close()


async def test_where_nobody_is_the_answer_is_no_at_once(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(asking := Asking())
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello", attended=False))
        found = await collect(events, lambda event: isinstance(event, ApprovalDecided))
    assert not any(map(is_question, found))
    assert (await ended(ticket)).status == "done"
    assert [(each.decision, each.decided_by) for each in asking.answers] == [("no", "nobody")]


async def test_one_question_is_asked_at_a_time(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(asking := Asking(times=3))
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"))
        for _ in range(3):
            question = await question_of(events)
            assert [each.id for each in await store.list_approvals(session.id)] == [question.id]
            await runtime.decide(question.id, "yes", by="owner")
    await ended(ticket)
    assert len({each.id for each in asking.answers}) == 3


async def test_a_question_of_a_turn_that_is_stopped_is_asked_no_more(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(Asking())
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"))
        question = await question_of(events)
        await soon(runtime.stop(session.id))
    assert (await ended(ticket)).status == "aborted"
    assert await store.list_approvals(session.id) == ()
    late = await runtime.decide(question.id, "yes", by="owner")
    assert (late.decision, late.decided_by) == ("no", "stopped")


async def test_a_question_of_an_interrupted_turn_is_a_no(
    url: str, other: Store, session: Session, make_runtime: Runtimes
) -> None:
    dying = await open_store(url, durability="normal")
    runtime = make_runtime(dying, Actor(Asking()), lease_ms=1, renew_ms=60_000)
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"))
        question = await question_of(events)
        recovered = await recover(other, session.id)
        assert [turn.status for turn in recovered.interrupted] == ["interrupted"]
        decided = await runtime.decide(question.id, "yes", by="owner")
    assert (decided.decision, decided.decided_by) == ("no", "interrupted")
    assert (await ended(ticket)).status == "interrupted"
    await runtime.close()
    await dying.close()


# --- remembering ------------------------------------------------------------------------------


def allowing(*rules: str, always: bool) -> Any:
    async def scene(turn: LiveTurn) -> None:
        for rule in rules:
            await turn.allow(rule, always=always)
        assert turn.session.metadata["allow"] == list(dict.fromkeys(rules))
        await turn.finish(added(turn, "ok"))

    return scene


async def test_a_rule_for_this_session_is_kept_with_the_session_only(
    store: Store, session: Session, actor: Actor, runtime: Runtime, rules: Rules
) -> None:
    actor.scenes.append(allowing("shell:make", "shell:git log", "shell:make", always=False))
    assert (await ended(await runtime.accept(typed(session, "x")))).error is None
    kept = (await store.get_session(session.id)).metadata
    assert kept["allow"] == ["shell:make", "shell:git log"]
    assert rules.kept == []


async def test_rules_that_are_given_at_once_are_all_kept(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    named = [f"shell:{number}" for number in range(8)]

    async def scene(turn: LiveTurn) -> None:
        await asyncio.gather(*(turn.allow(each, always=False) for each in named))
        assert sorted(turn.session.metadata["allow"]) == named
        await turn.finish(added(turn, "ok"))

    actor.scenes.append(scene)
    assert (await ended(await runtime.accept(typed(session, "x")))).error is None
    assert sorted((await store.get_session(session.id)).metadata["allow"]) == named


async def test_a_rule_for_always_is_remembered_and_holds_in_this_turn_too(
    store: Store, session: Session, actor: Actor, runtime: Runtime, rules: Rules
) -> None:
    actor.scenes.append(allowing("shell:make", always=True))
    assert (await ended(await runtime.accept(typed(session, "x")))).error is None
    assert rules.kept == ["shell:make"]
    assert (await store.get_session(session.id)).metadata["allow"] == ["shell:make"]


async def test_always_is_written_to_the_config_file_once(
    store: Store, session: Session, config: configuration.Config
) -> None:
    house = House(config, store)
    remember = house.runtime._parts.remember
    await remember("shell:make")
    await remember("shell:git log")
    await remember("shell:make")
    await soon(house.close())
    kept = configuration.load(file=str(config.file), environ={}).tools.allow
    assert tuple(kept) == ("shell:make", "shell:git log")


async def test_other_notes_of_the_session_survive_a_rule(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:

    await store.describe_session(session.id, SessionFacts(metadata={"verbose": True}))
    actor.scenes.append(allowing("shell:make", always=False))
    await ended(await runtime.accept(typed(session, "x")))
    assert (await store.get_session(session.id)).metadata == {
        "verbose": True,
        "allow": ["shell:make"],
    }


async def test_a_mode_that_a_tool_sets_holds_for_the_rest_of_the_turn(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    async def scene(turn: LiveTurn) -> None:
        await turn.set_mode("plan_paused")
        assert turn.session.mode == "plan_paused"
        await turn.finish(added(turn, "ok"))

    actor.scenes.append(scene)
    assert (await ended(await runtime.accept(typed(session, "x")))).error is None
    assert (await store.get_session(session.id)).mode == "plan_paused"
