"""Sub-agents: a session of their own, with the rights and through the mouth of who spawned them."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.live_events import ApprovalAsked
from clew.core.message import ToolCall
from clew.core.session import NewSession, Session, SessionFilter
from clew.errors import InvalidInput, TurnFailed
from clew.ports import LiveTurn, Store
from clew.runtime.runtime import Runtime
from tests.runtime.conftest import (
    Actor,
    Held,
    Scene,
    added,
    collect,
    ended,
    failing,
    read,
    saying,
    soon,
    typed,
)


def spawning(task: str, personality: str | None = None) -> Scene:
    """Let a sub-agent do it, and say what it said."""

    async def scene(turn: LiveTurn) -> None:
        answer = await turn.spawn(task, personality=personality)
        await turn.finish(added(turn, f"it said: {answer}"))

    return scene


async def child_of(store: Store) -> Session:
    page = await store.list_sessions(SessionFilter(viewer="owner", kind="subagent"))
    (child,) = page.sessions
    return child


async def test_a_task_runs_in_a_session_of_its_own_and_its_answer_comes_back(
    store: Store, actor: Actor, runtime: Runtime
) -> None:
    parent = await store.create_session(
        NewSession(
            key="cli:test",
            cwd="/here",
            project="/here",
            model="script/one",
            thinking="low",
            mode="plan",
            metadata={"allow": ["shell:make"], "verbose": True},
        )
    )
    actor.scenes += [spawning("count the files", "reviewer"), saying("seven")]
    turn = await ended(await runtime.accept(typed(parent, "hello")))
    assert await read(store, parent) == ["user: hello", "assistant: it said: seven"]
    child = await child_of(store)
    assert await read(store, child) == ["user: count the files", "assistant: seven"]
    assert (child.kind, child.personality, child.title) == (
        "subagent",
        "reviewer",
        "count the files",
    )
    assert (child.cwd, child.project, child.model) == ("/here", "/here", "script/one")
    assert (child.thinking, child.mode, child.person) == ("low", "plan", "owner")
    assert child.metadata == {
        "spawned_by": {"session": parent.id, "turn": turn.id},
        "allow": ["shell:make"],
    }
    assert await store.list_routes(child.id) == ()


async def test_a_task_has_the_scopes_of_the_turn_that_spawned_it(
    session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes += [spawning("count the files"), saying("seven")]
    await ended(await runtime.accept(typed(session, "hello", scopes=("chat",))))
    assert [turn.scopes for turn in actor.turns] == [("chat",), ("chat",)]


async def test_the_answer_is_the_last_thing_that_was_said(
    session: Session, store: Store, actor: Actor, runtime: Runtime
) -> None:
    async def child(turn: LiveTurn) -> None:
        await turn.record(added(turn, "let me see"))
        await turn.record(added(turn, "seven"))
        await turn.finish(added(turn, ""))

    actor.scenes += [spawning("count"), child]
    await ended(await runtime.accept(typed(session, "hello")))
    assert (await read(store, session))[-1] == "assistant: it said: seven"


async def test_questions_of_a_sub_agent_are_asked_where_its_parent_is(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    async def child(turn: LiveTurn) -> None:
        approval = await turn.ask(ToolCall(id="c", name="shell"), {"command": "make"})
        await turn.finish(added(turn, str(approval.decision)))

    actor.scenes += [spawning("build it"), child]
    with runtime.watch(session.id, 0) as events:
        ticket = await runtime.accept(typed(session, "hello"))
        asked = (await collect(events, lambda event: isinstance(event, ApprovalAsked)))[-1]
        assert isinstance(asked, ApprovalAsked)
        assert asked.approval.session_id == session.id
        await runtime.decide(asked.approval.id, "yes", by="owner")
        await ended(ticket)
    assert (await read(store, session))[-1] == "assistant: it said: yes"


async def test_where_nobody_is_a_sub_agent_is_told_no_too(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    async def child(turn: LiveTurn) -> None:
        approval = await turn.ask(ToolCall(id="c", name="shell"), {})
        await turn.finish(added(turn, f"{approval.decision} by {approval.decided_by}"))

    actor.scenes += [spawning("build it"), child]
    await ended(await runtime.accept(typed(session, "hello", attended=False)))
    assert (await read(store, session))[-1] == "assistant: it said: no by nobody"


async def test_stopping_the_parent_stops_the_child(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    held = Held()
    actor.scenes += [spawning("wait"), held]
    ticket = await runtime.accept(typed(session, "hello"))
    await soon(held.began.wait())
    await soon(runtime.stop(session.id))
    assert (await ended(ticket)).status == "aborted"
    assert held.stopped
    (turn,) = await store.list_turns((await child_of(store)).id)
    assert turn.status == "aborted"


async def test_closing_stops_parent_and_child(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    held = Held()
    actor.scenes += [spawning("wait"), held]
    ticket = await runtime.accept(typed(session, "hello"))
    await soon(held.began.wait())
    await soon(runtime.close())
    assert (await ended(ticket)).status == "aborted"
    assert held.stopped


async def test_a_sub_agent_that_fails_is_an_error_with_its_reason(
    session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes += [spawning("count"), failing(TurnFailed("The model is away."))]
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert turn.status == "failed"
    assert turn.error == "The sub-agent failed: The model is away."


async def test_a_child_that_somebody_stops_is_an_error_and_not_the_parents_end(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    held = Held()

    async def parent(turn: LiveTurn) -> None:
        with pytest.raises(InvalidInput, match="aborted"):
            await turn.spawn("wait")
        await turn.finish(added(turn, "went on"))

    actor.scenes += [parent, held]
    ticket = await runtime.accept(typed(session, "hello"))
    await soon(held.began.wait())
    await soon(runtime.stop((await child_of(store)).id))
    assert (await ended(ticket)).status == "done"


async def test_a_sub_agent_can_not_spawn(session: Session, actor: Actor, runtime: Runtime) -> None:
    actor.scenes += [spawning("one"), spawning("two")]
    turn = await ended(await runtime.accept(typed(session, "hello")))
    assert turn.error == "The sub-agent failed: A sub-agent can't spawn another one."


async def test_two_sub_agents_run_side_by_side(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    one, two = Held("one"), Held("two")

    async def parent(turn: LiveTurn) -> None:
        answers = await asyncio.gather(turn.spawn("a"), turn.spawn("b"))
        await turn.finish(added(turn, " ".join(sorted(answers))))

    actor.scenes += [parent, one, two]
    ticket = await runtime.accept(typed(session, "hello"))
    await soon(asyncio.gather(one.began.wait(), two.began.wait()))
    one.go_on.set()
    two.go_on.set()
    await ended(ticket)
    assert (await read(store, session))[-1] == "assistant: one two"


async def test_what_is_allowed_for_this_session_is_so_for_the_parent_too(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    async def child(turn: LiveTurn) -> None:
        await turn.allow("shell=make", always=False)
        await turn.finish(added(turn, "made"))

    actor.scenes += [spawning("make it"), child]
    await ended(await runtime.accept(typed(session, "please")))
    for each in (await store.get_session(session.id), await child_of(store)):
        assert each.metadata["allow"] == ["shell=make"]
