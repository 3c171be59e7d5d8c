"""What a process that died has left in a session. A handle that is closed is one that died."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from clew.core.changes import AddMessage, StartTurn
from clew.core.message import Draft
from clew.core.session import NewSession, Session
from clew.errors import Conflict, InvalidInput
from clew.ports import Store
from clew.runtime.recovery import recover
from clew.runtime.runtime import Runtime
from clew.store import open_store
from tests.runtime.conftest import Actor, Held, ended, inbound, read, soon, typed


@pytest.fixture
async def dying(url: str, session: Session) -> AsyncIterator[Store]:
    async with await open_store(url, durability="normal") as opened:
        yield opened


async def leave_a_turn(dying: Store, session: Session) -> None:
    lease = await dying.acquire_lease(session.id, dying.identity)
    await dying.record(
        session.id,
        lease.epoch,
        StartTurn(turn_id="left"),
        AddMessage(Draft(role="user", content="before"), "left"),
    )


async def leave_messages(dying: Store, session: Session, *texts: str) -> None:
    for text in texts:
        new = inbound(session, text)
        await dying.accept(new, claimant=f"{dying.identity}#{new.id}")


async def test_a_turn_that_nobody_runs_any_more_is_interrupted(
    store: Store, dying: Store, session: Session
) -> None:
    await leave_a_turn(dying, session)
    await dying.close()
    recovered = await recover(store, session.id)
    assert [(turn.id, turn.status) for turn in recovered.interrupted] == [("left", "interrupted")]
    assert recovered.unanswered == ()


async def test_a_turn_that_another_process_runs_is_left_alone(
    store: Store, dying: Store, session: Session
) -> None:
    await leave_a_turn(dying, session)
    await leave_messages(dying, session, "waits there")
    recovered = await recover(store, session.id)
    assert recovered.interrupted == ()
    assert recovered.unanswered == ()
    (row,) = await store.list_inbound(session.id)
    assert row.status == "claimed"
    assert (await store.get_turn("left")).status == "running"


async def test_messages_of_a_dead_process_wait_for_somebodys_word(
    store: Store, dying: Store, session: Session
) -> None:
    await leave_messages(dying, session, "one", "two")
    await dying.close()
    recovered = await recover(store, session.id)
    assert [row.payload["text"] for row in recovered.unanswered] == ["one", "two"]
    assert [row.claimant for row in await store.list_inbound(session.id)] == [None, None]


async def test_messages_of_other_sessions_are_left_alone(
    store: Store, dying: Store, session: Session
) -> None:
    elsewhere = await store.create_session(NewSession(key="cli:elsewhere"))
    await leave_messages(dying, elsewhere, "one")
    await dying.close()
    assert (await recover(store, session.id)).unanswered == ()
    (row,) = await store.list_inbound(elsewhere.id)
    assert row.status == "claimed"


async def test_recovering_twice_changes_nothing(
    store: Store, dying: Store, session: Session
) -> None:
    await leave_a_turn(dying, session)
    await leave_messages(dying, session, "one")
    await dying.close()
    first = await recover(store, session.id)
    again = await recover(store, session.id)
    assert again.interrupted == ()
    assert again.unanswered == first.unanswered


async def test_what_this_process_has_taken_is_not_offered(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(held := Held())
    first = await runtime.accept(typed(session, "one"))
    second = await runtime.accept(typed(session, "two"))
    await soon(held.began.wait())
    recovered = await recover(store, session.id)
    assert (recovered.interrupted, recovered.unanswered) == ((), ())
    held.go_on.set()
    await ended(first)
    await ended(second)


async def test_messages_that_were_left_are_adopted_in_their_order(
    store: Store, dying: Store, session: Session, runtime: Runtime
) -> None:
    await leave_messages(dying, session, "one", "two")
    await dying.close()
    recovered = await recover(store, session.id)
    tickets = [await runtime.take_up(row) for row in recovered.unanswered]
    assert [(await ended(each)).status for each in tickets] == ["done", "done"]
    assert await read(store, session) == [
        "user: one",
        "assistant: ok",
        "user: two",
        "assistant: ok",
    ]
    assert await store.list_inbound(session.id) == ()


async def test_a_message_can_not_be_adopted_before_an_earlier_one(
    store: Store, dying: Store, session: Session, runtime: Runtime
) -> None:
    await leave_messages(dying, session, "one", "two")
    await dying.close()
    first, second = (await recover(store, session.id)).unanswered
    with pytest.raises(InvalidInput):
        await runtime.take_up(second)
    # Nothing was taken by that.
    assert (await recover(store, session.id)).unanswered == (first, second)


async def test_a_message_is_adopted_once(
    store: Store, dying: Store, session: Session, runtime: Runtime
) -> None:
    await leave_messages(dying, session, "one")
    await dying.close()
    (row,) = (await recover(store, session.id)).unanswered
    await ended(await runtime.take_up(row))
    with pytest.raises(InvalidInput):
        await runtime.take_up(row)
    assert await read(store, session) == ["user: one", "assistant: ok"]


async def test_a_closing_runtime_adopts_nothing(
    store: Store, dying: Store, session: Session, runtime: Runtime
) -> None:
    await leave_messages(dying, session, "one")
    await dying.close()
    (row,) = (await recover(store, session.id)).unanswered
    await runtime.close()
    with pytest.raises(Conflict):
        await runtime.take_up(row)
    assert (await recover(store, session.id)).unanswered == (row,)


async def test_messages_of_a_living_process_that_is_known_to_be_idle_are_offered(
    store: Store, dying: Store, session: Session
) -> None:
    await leave_messages(dying, session, "one")
    assert (await recover(store, session.id, idle=store.identity)).unanswered == ()
    (row,) = (await recover(store, session.id, idle=dying.identity)).unanswered
    assert row.payload["text"] == "one"
