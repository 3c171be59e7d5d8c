"""A gateway that starts takes up what a dead one left: once each, in order, and nobody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.agent.models.catalogue import Catalogue
from clew.core.changes import AddMessage, EndTurn, StartTurn
from clew.core.channels.replies import read_reply_to, reply_over_api
from clew.core.delivery import NewInbound
from clew.core.message import Draft, ToolCall
from clew.core.session import NewSession, Session
from clew.core.tokens import Scopes
from clew.ports import LiveTurn, Store
from clew.runtime.inbound.inbox import Inbox
from clew.runtime.recovery import ATTEMPTS
from tests.runtime.conftest import Actor, Held, Scene, saying, soon, typed
from tests.runtime.receiving import Front, Opener, incoming, opener

MAIN = "agent:main:main"
REPLY_TO = {"channel": "telegram", "key": "telegram:1", "person": "owner", "address": {"chat": 1}}


@pytest.fixture
def open_front(url: str, models: Catalogue, tmp_path: Path, directory: Path) -> Opener:
    return opener(url, models, tmp_path / "home", directory)


def row(number: int, session: Session, **fields: Any) -> NewInbound:
    given: dict[str, Any] = {
        "id": f"i{number}",
        "channel": "telegram",
        "external_id": f"e{number}",
        "key": session.key,
        "session_id": session.id,
        "payload": {"text": f"message {number}", "reply_to": REPLY_TO},
    }
    return NewInbound(**(given | fields))


async def cut_off(store: Store, session: Session, turn_id: str, **fields: Any) -> None:
    """A turn that a process has begun and never ended."""
    lease = await store.acquire_lease(session.id, "soon gone", ttl=1)
    said = AddMessage(Draft(role="user", content="do it"), turn_id)
    start = StartTurn(turn_id=turn_id, **({"reply_to": REPLY_TO} | fields))
    await store.record(session.id, lease.epoch, start, said)
    await store.release_lease(lease)


async def rest(front: Front, session: Session) -> list[str]:
    await soon(front.runtime.join(session.id))
    return await front.thread(session)


async def test_messages_that_no_turn_has_are_run_in_order(open_front: Opener, actor: Actor) -> None:
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key=MAIN, metadata={"queue": "x"}))
        for number in (1, 2, 3):
            await front.store.accept(row(number, session))

        taken = await front.take_up()

        assert taken.adopted == ("i1", "i2", "i3")
        assert [line for line in await rest(front, session) if line.startswith("user")] == [
            "user: message 1", "user: message 2", "user: message 3",
        ]  # fmt: skip
        assert await front.sent() == ["ok"] * 3
        assert await front.store.list_inbound() == ()


async def test_those_of_a_dead_claimant_too_but_not_those_of_a_living_one(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor) as front:
        async with open_front(Actor()) as gone:
            dead = f"{gone.store.identity}#i1"
        session = await front.store.create_session(NewSession(key=MAIN))
        async with open_front(Actor()) as other:
            await front.store.accept(row(1, session), claimant=dead)
            await front.store.accept(row(2, session), claimant=f"{other.store.identity}#i2")

            taken = await front.take_up()

            assert taken.adopted == ("i1",)
            assert await rest(front, session) == ["user: message 1", "assistant: ok"]
            (left,) = await front.store.list_inbound()
            assert left.id == "i2"


async def test_what_is_taken_up_twice_runs_once(open_front: Opener, actor: Actor) -> None:
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key=MAIN))
        await front.store.accept(row(1, session))
        await cut_off(front.store, await front.store.create_session(NewSession(key="k")), "t")

        first, second = await front.take_up(), await front.take_up()

        assert (len(first.adopted), second.adopted) == (1, ())
        assert await rest(front, session) == ["user: message 1", "assistant: ok"]


async def test_a_terminals_messages_wait_for_their_person(open_front: Opener, actor: Actor) -> None:
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key="cli:api"))
        await front.store.accept(row(1, session, channel="cli"))
        await front.store.accept(row(2, session))

        taken = await front.take_up()

        assert taken.adopted == ("i2",)
        assert await rest(front, session) == ["user: message 2", "assistant: ok"]
        (left,) = await front.store.list_inbound()
        assert (left.id, left.status) == ("i1", "queued")


async def test_a_session_that_was_decided_upon_is_made(open_front: Opener, actor: Actor) -> None:
    """The process died between keeping the message and making the session that it begins."""
    async with open_front(actor) as front:
        old = await front.say("hello")
        await front.store.accept(await front.reception.decide(incoming("/new what now")))

        await front.take_up()

        new = await front.store.find_route(MAIN)
        assert new is not None
        assert (new.previous_id, new.reset_reason) == (old.id, "/new")
        assert await rest(front, new) == ["user: what now", "assistant: ok"]
        assert len(await front.sent()) == 3


async def test_a_command_that_had_not_begun_is_run(open_front: Opener, actor: Actor) -> None:
    async with open_front(actor) as front:
        await front.say("hello")
        await front.store.accept(await front.reception.decide(incoming("/title Kitchen")))

        await front.take_up()

        assert await front.last() == "The title is now: Kitchen"
        assert await front.store.list_inbound() == ()


async def test_an_answer_that_was_cut_off_goes_on_before_what_waits(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key=MAIN))
        await cut_off(front.store, session, "t")
        await front.store.accept(row(1, session))

        taken = await front.take_up()

        assert taken.continued == (session.id,)
        assert await rest(front, session) == [
            "user: do it", "assistant: ok", "user: message 1", "assistant: ok",
        ]  # fmt: skip
        assert await front.sent("telegram:1") == ["ok", "ok"]
        assert [turn.person for turn in actor.turns] == ["owner", "owner"]


@pytest.mark.parametrize(
    ("fields", "kind", "person"),
    [
        ({}, "group", "owner"),
        ({"reply_to": REPLY_TO | {"person": "telegram:7"}}, "group", "telegram:7"),
        ({"reply_to": REPLY_TO | {"person": None}}, "group", "telegram:unknown"),
        ({"reply_to": REPLY_TO | {"person": None}}, "main", "owner"),
    ],
)
async def test_it_goes_on_with_the_rights_of_who_asked(
    open_front: Opener, actor: Actor, fields: dict[str, Any], kind: Any, person: str
) -> None:
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key=MAIN, kind=kind))
        await cut_off(front.store, session, "t", **fields)

        await front.take_up()
        await rest(front, session)

    assert [turn.person for turn in actor.turns] == [person]


@pytest.mark.parametrize("scopes", [("chat",), ("write", "approve"), ("admin",)])
async def test_it_goes_on_with_the_scopes_that_it_was_accepted_with(
    open_front: Opener, actor: Actor, scopes: Scopes
) -> None:
    """Both the answer that was cut off and the message that waited behind it."""
    held = Held()
    actor.scenes.append(held)
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key="sdk:1", kind="sdk"))
        said = typed(
            session, "hello", channel="api", reply_to=reply_over_api("owner"), scopes=scopes
        )
        await front.runtime.accept(msgspec.structs.replace(said, external_id="e1"))
        await soon(held.began.wait())
        await front.runtime.accept(msgspec.structs.replace(said, external_id="e2"))
    second = Actor()
    async with open_front(second) as front:
        await front.take_up()
        await rest(front, session)

    assert [turn.scopes for turn in second.turns] == [scopes, scopes]


async def test_an_answer_of_an_unknown_caller_goes_on_with_a_guests_tools(
    open_front: Opener, actor: Actor
) -> None:
    """A clew that knew no scopes of turns has begun it."""
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key="sdk:1", kind="sdk"))
        await cut_off(
            front.store, session, "t", reply_to=msgspec.to_builtins(reply_over_api("owner"))
        )
        await front.take_up()
        await rest(front, session)

    assert [(turn.person, turn.scopes) for turn in actor.turns] == [("owner", ("chat",))]


def asking(decisions: list[str]) -> Scene:
    """Ask the owner for a tool, and say how it went."""

    async def scene(turn: LiveTurn) -> None:
        asked = await turn.ask(ToolCall(id="c", name="shell"), {"command": "ls"})
        decisions.append(f"{asked.decision} by {asked.decided_by}")
        await saying("ok")(turn)

    return scene


async def test_where_nobody_was_there_to_answer_for_tools_nobody_is_afterwards(
    open_front: Opener, actor: Actor
) -> None:
    """Neither for the answer that was cut off nor for the message that waited behind it."""
    held = Held()
    actor.scenes.append(held)
    async with open_front(actor) as front:
        receipt = await front.hear(incoming("hello", attended=False))
        await soon(held.began.wait())
        await front.hear(incoming("and more", attended=False))
    decisions: list[str] = []
    async with open_front(Actor(*[asking(decisions)] * 2)) as front:
        await front.take_up()
        await front.rest(receipt)

    assert decisions == ["no by nobody"] * 2


async def test_a_job_in_the_owners_conversation_stays_unattended_when_it_is_cut_off(
    open_front: Opener, actor: Actor
) -> None:
    held = Held()
    actor.scenes.append(held)
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key=MAIN, kind="main"))
        to = read_reply_to(REPLY_TO)
        job = typed(session, "news?", channel="cron", from_person=False, reply_to=to)
        await front.runtime.accept(job)
        await soon(held.began.wait())
    decisions: list[str] = []
    async with open_front(Actor(asking(decisions))) as front:
        await front.take_up()
        await rest(front, session)

    assert decisions == ["no by nobody"]


async def test_an_answer_that_reads_like_the_one_before_is_sent_too(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor) as front:
        session = await front.say("hello")
        await cut_off(front.store, session, "t")

        await front.take_up()
        await rest(front, session)

        assert await front.sent("telegram:1") == ["ok", "ok"]


async def test_an_answer_that_a_restart_cuts_off_is_given_by_the_next_gateway(
    open_front: Opener, actor: Actor
) -> None:
    held = Held()
    actor.scenes.append(held)
    async with open_front(actor) as front:
        receipt = await front.hear(incoming("hello"))
        await soon(held.began.wait())
        await front.hear(incoming("and more"))
    async with open_front(Actor()) as front:
        await front.take_up()
        session = await front.rest(receipt)

        assert await front.thread(session) == [
            "user: hello", "assistant: ok", "user: and more", "assistant: ok",
        ]  # fmt: skip
        assert await front.sent() == ["ok", "ok"]


@pytest.mark.parametrize("person", ["owner", "telegram:7"])
async def test_an_answer_over_the_api_goes_on_too_and_is_delivered_nowhere(
    open_front: Opener, actor: Actor, person: str
) -> None:
    held = Held()
    actor.scenes.append(held)
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key="sdk:1", kind="sdk"))
        to = reply_over_api(person)
        said = typed(session, "hello", channel="api", person=person, reply_to=to, attended=False)
        await front.runtime.accept(msgspec.structs.replace(said, external_id="e1"))
        await soon(held.began.wait())
        await front.runtime.accept(msgspec.structs.replace(said, external_id="e2"))
    second = Actor()
    async with open_front(second) as front:
        await front.take_up()

        assert await rest(front, session) == ["user: hello", "assistant: ok"] * 2
        assert [turn.person for turn in second.turns] == [person] * 2
        assert await front.sent() == []


async def test_who_asked_over_the_api_is_told_nothing_when_it_is_given_up(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key="sdk:1", kind="sdk"))
        for number in range(ATTEMPTS):
            reply_to = msgspec.to_builtins(reply_over_api("owner"))
            await cut_off(front.store, session, f"t{number}", reply_to=reply_to)
            await front.store.interrupt_turns(session.id)

        assert (await front.take_up()).continued == ()
        assert await front.sent() == []


async def test_a_terminals_answer_is_left_to_its_person(open_front: Opener, actor: Actor) -> None:
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key="cli:api"))
        await cut_off(front.store, session, "t", reply_to=None)

        assert (await front.take_up()).continued == ()


async def test_a_turn_that_somebody_stopped_stays_stopped(open_front: Opener, actor: Actor) -> None:
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key=MAIN))
        await cut_off(front.store, session, "t")
        lease = await front.store.acquire_lease(session.id, "me")
        await front.store.record(session.id, lease.epoch, EndTurn(turn_id="t", status="aborted"))
        await front.store.release_lease(lease)

        assert (await front.take_up()).continued == ()


async def test_an_answer_that_ends_the_process_each_time_is_left_alone_at_last(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key=MAIN))
        for number in range(ATTEMPTS):
            await cut_off(front.store, session, f"t{number}")
            await front.store.interrupt_turns(session.id)

        assert (await front.take_up()).continued == ()
        assert "/retry" in await front.last()


async def test_one_message_is_claimed_past_those_before_it(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor) as front:
        session = await front.store.create_session(NewSession(key=MAIN))
        rows = [(await front.store.accept(row(number, session)))[0] for number in (1, 2, 3)]

        taken = await Inbox(front.store).take(rows[1])

        assert taken is not None
        assert taken.id == "i2"
        assert [each.status for each in await front.store.list_inbound()] == [
            "queued", "claimed", "queued",
        ]  # fmt: skip
        assert await Inbox(front.store).take(rows[1]) is None
