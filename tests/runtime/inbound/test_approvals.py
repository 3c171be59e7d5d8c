"""Before it acts, a turn asks where its message came from; the owner's word there is the answer.

The other side is a peer on a local port, so a question has arrived when it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.agent.models.catalogue import Catalogue
from clew.core.changes import Send, StartTurn, WaitForApproval
from clew.core.channels.approvals import asked_id
from clew.core.channels.incoming import Receipt
from clew.core.channels.routing import Peer as Place
from clew.core.channels.send_policy import SendMatch, SendRule, SendRules
from clew.core.delivery import NewInbound, NewOutbound
from clew.core.message import ToolCall
from clew.core.session import NewSession, Session, SessionEdit
from clew.core.turn import Approval
from clew.ports import LiveTurn
from clew.runtime.commands import run_command
from clew.runtime.commands.turns import LATE, QUIET
from clew.runtime.inbound.decision import AGAIN_MS
from clew.runtime.lane.turn import APPROVAL_MS
from clew.runtime.outbound import Deliverer, DeliverySettings
from clew.testing.channels import Peer, PeerChannel, open_peer
from clew.testing.clock import FakeClock
from tests.runtime.conftest import (
    Actor,
    Seats,
    added,
    ended,
    saying,
    soon,
    typed,
    until,
)
from tests.runtime.receiving import NOON, Front, Opener, incoming, opener

MAIN = "agent:main:main"
GROUP = Place("group", "-100")
CALL = ToolCall(id="call_1", name="shell", arguments='{"command": "make"}')
REQUEST: dict[str, Any] = {"summary": "Run: make", "detail": "make", "rule": "shell:make"}
QUESTION = (
    "May I use shell? Run: make\n\n"
    "Answer yes, no, session or always. The last two allow shell:make from now on. "
    "After 10 minutes it is a no."
)
QUICK = DeliverySettings(patience=5, poll=0.05, inspect=0.2, grace=0.1)


class Asking:
    """A scene that asks so often, one after the other, and says what it was told."""

    def __init__(self, times: int = 1, **request: Any) -> None:
        self.times = times
        self.request = REQUEST | request
        self.answers: list[Approval] = []

    async def __call__(self, turn: LiveTurn) -> None:
        for _ in range(self.times):
            self.answers.append(await turn.ask(CALL, self.request))
        await turn.finish(added(turn, ", ".join(str(each.decision) for each in self.answers)))


class Room:
    """A front whose replies arrive, and what arrived."""

    def __init__(self, front: Front, peer: Peer) -> None:
        self.front = front
        self.peer = peer

    @property
    def heard(self) -> list[str]:
        return self.peer.taken

    async def hear(self, text: str, **fields: Any) -> Receipt:
        return await self.front.hear(incoming(text, **fields))

    async def ask(self, text: str = "do it", **fields: Any) -> Receipt:
        """Say something whose turn asks; returns when the question is there."""
        before, asked = len(self.heard), set(await self.waiting())

        async def is_asked() -> bool:
            return not asked.issuperset(await self.waiting())

        receipt = await self.hear(text, **fields)
        await until(is_asked)  # replies to what was said before may still arrive
        await self.hears(before + 1)
        return receipt

    async def hears(self, count: int) -> list[str]:
        """What arrived, once it is so much."""
        await soon(self.peer.wait_for(count))
        return self.heard

    async def waiting(self) -> list[str]:
        return [each.id for each in await self.front.store.list_approvals()]

    async def rest(self, receipt: Receipt) -> list[str]:
        """The thread, once nothing is left to do."""
        return await self.front.thread(await self.front.rest(receipt))


Rooms = Callable[..., AbstractAsyncContextManager[Room]]


@pytest.fixture
def open_front(url: str, models: Catalogue, tmp_path: Path, directory: Path) -> Opener:
    return opener(url, models, tmp_path / "home", directory)


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    async with open_peer() as peer:
        yield peer


@pytest.fixture
def open_room(open_front: Opener, peer: Peer) -> Rooms:
    @asynccontextmanager
    async def opened(actor: Actor, clock: FakeClock | None = None, **rules: Any) -> Any:
        async with open_front(actor, clock, **rules) as front:
            names = ("telegram", "slack")
            deliverer = Deliverer(
                front.store,
                [PeerChannel(peer.port, name=name) for name in names],
                clock=front.clock,
                bell=front.runtime.replies.bell,
                settings=QUICK,
            )
            running = asyncio.create_task(deliverer.run())
            try:
                yield Room(front, peer)
            finally:
                await soon(deliverer.close())
                await soon(running)

    return opened


@pytest.fixture
async def room(open_room: Rooms, actor: Actor) -> AsyncIterator[Room]:
    async with open_room(actor) as opened:
        yield opened


# --- the question ---------------------------------------------------------------------------------


async def test_a_question_is_put_where_the_message_came_from(room: Room, actor: Actor) -> None:
    actor.scenes.append(Asking())
    await room.ask()

    assert room.heard == [QUESTION]
    (row,) = await room.front.store.list_outbound()
    (approval,) = await room.front.store.list_approvals()
    assert (row.id, row.turn_id) == (asked_id(approval.id), approval.turn_id)
    assert (row.created_at, row.seq) == (approval.asked_at, None)


async def test_a_long_command_is_not_sent_whole(room: Room, actor: Actor) -> None:
    command = "echo " + "x" * 100_000
    actor.scenes.append(Asking(summary=f"Run: {command}", detail=command, rule=None))
    await room.ask()

    (question,) = room.heard
    assert len(question) < 2_500
    assert "this is cut" in question


@pytest.mark.parametrize(
    "fields",
    [
        {"by": "7"},
        {"by": "7", "peer": GROUP},
        {"from_person": False},
        {"attended": False},
    ],
)
async def test_where_the_owner_is_not_there_the_answer_is_no_and_nothing_is_asked(
    room: Room, actor: Actor, fields: dict[str, Any]
) -> None:
    actor.scenes.append(asking := Asking())
    await room.front.say("do it", **fields)

    assert await room.hears(1) == ["no"]
    assert [each.decided_by for each in asking.answers] == ["nobody"]
    assert len(await room.front.store.list_outbound()) == 1


async def test_a_guests_turn_is_refused_at_once_wherever_it_is_run(
    room: Room, actor: Actor
) -> None:
    actor.scenes.append(asking := Asking())
    session = await room.front.store.create_session(NewSession(key="k", person="telegram:7"))
    reply_to = incoming("do it", by="7").reply_to
    message = typed(session, "x", person="telegram:7", reply_to=reply_to, attended=True)

    await ended(await room.front.runtime.accept(message))

    assert await room.hears(1) == ["no"]
    assert [each.decided_by for each in asking.answers] == ["nobody"]


async def test_a_question_of_a_sub_agent_is_put_there_too(room: Room, actor: Actor) -> None:
    async def spawning(turn: LiveTurn) -> None:
        await turn.finish(added(turn, await turn.spawn("look")))

    actor.scenes += [spawning, Asking()]
    receipt = await room.ask()
    await room.hear("yes")

    await room.rest(receipt)
    assert await room.hears(3) == [QUESTION, "Allowed, once.", "yes"]


async def test_the_same_question_is_put_again_when_the_turn_is_tried_again(
    room: Room, actor: Actor
) -> None:
    actor.scenes += [Asking(), Asking()]
    receipt = await room.ask()
    await room.hear("no")
    await room.rest(receipt)
    await room.hears(3)
    await room.hear("/retry")

    assert (await room.hears(4))[-1] == QUESTION
    await room.hear("no")
    await room.rest(receipt)


# --- the answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "held", "reply"),
    [
        ("yes", ("yes", "once"), "Allowed, once."),
        ("Y!", ("yes", "once"), "Allowed, once."),
        ("@bot no.", ("no", "once"), "Not allowed."),
        ("session", ("yes", "session"), "Allowed for this session: shell:make."),
        ("/approve", ("yes", "once"), "Allowed, once."),
        ("/approve session", ("yes", "session"), "Allowed for this session: shell:make."),
        ("/deny", ("no", "once"), "Not allowed."),
    ],
)
async def test_the_owners_word_is_the_answer_and_no_turn(
    room: Room, actor: Actor, text: str, held: tuple[str, str], reply: str
) -> None:
    actor.scenes.append(asking := Asking())
    receipt = await room.ask()
    await room.hear(text, mention="bot")

    assert await room.rest(receipt) == ["user: do it", f"assistant: {held[0]}"]
    (answer,) = asking.answers
    assert (answer.decision, answer.scope) == held
    assert answer.decided_by == "owner:telegram"
    assert sorted((await room.hears(3))[1:]) == sorted([reply, held[0]])
    assert len(actor.turns) == 1
    assert await room.front.store.list_inbound() == ()


@pytest.mark.parametrize("text", ["Always", "@bot /approve always"])
async def test_always_shows_the_rule_and_is_asked_once_more(
    room: Room, actor: Actor, text: str
) -> None:
    actor.scenes.append(asking := Asking())
    receipt = await room.ask()
    await room.hear(text, mention="bot")
    again = (await room.hears(2))[-1]
    assert again.startswith("Always? Then this rule is written to tools.allow")
    assert "shell:make" in again
    assert asking.answers == []
    assert len(await room.waiting()) == 1

    await room.hear(text, mention="bot")
    assert await room.rest(receipt) == ["user: do it", "assistant: yes"]
    assert [each.scope for each in asking.answers] == ["always"]
    assert "Allowed, always: shell:make." in await room.hears(4)


@pytest.mark.parametrize(("text", "held"), [("yes", ("yes", "once")), ("no", ("no", "once"))])
async def test_after_always_another_answer_writes_no_rule(
    room: Room, actor: Actor, text: str, held: tuple[str, str]
) -> None:
    actor.scenes += [asking := Asking(), second := Asking()]
    receipt = await room.ask()
    await room.hear("always")
    await room.hear(text)
    await room.rest(receipt)
    assert [(each.decision, each.scope) for each in asking.answers] == [held]

    receipt = await room.ask()
    await room.hear("always")
    assert second.answers == [], "each question is asked twice for itself"
    await room.hear("no")
    await room.rest(receipt)


async def test_what_no_rule_can_allow_is_allowed_once(room: Room, actor: Actor) -> None:
    actor.scenes.append(asking := Asking(rule=None))
    receipt = await room.ask()
    await room.hear("always")

    await room.rest(receipt)
    assert [each.scope for each in asking.answers] == ["once"]
    assert any("there is no rule" in each for each in await room.hears(3))


@pytest.mark.parametrize("text", ["yes please", "sure", "yes?", "once"])
async def test_anything_else_is_said_and_answers_nothing(
    room: Room, actor: Actor, text: str
) -> None:
    actor.scenes.append(asking := Asking())
    receipt = await room.ask()
    await room.hear(text)

    assert len(await room.waiting()) == 1
    await room.hear("no")
    thread = await room.rest(receipt)
    assert thread == ["user: do it", "assistant: no", f"user: {text}", "assistant: ok"]
    assert len(asking.answers) == 1


async def test_a_wrong_command_says_what_is_wrong_and_answers_nothing(
    room: Room, actor: Actor
) -> None:
    actor.scenes.append(Asking())
    await room.ask()
    await room.hear("/approve sometimes")

    assert "/approve" in (await room.hears(2))[-1]
    assert len(await room.waiting()) == 1


async def test_a_no_may_say_why(room: Room, actor: Actor) -> None:
    actor.scenes.append(asking := Asking())
    receipt = await room.ask()
    await room.hear("/deny use the other file")
    await room.rest(receipt)

    (answer,) = asking.answers
    assert (answer.decision, answer.reason) == ("no", "use the other file")


async def test_where_nothing_waits_the_words_are_plain_text_and_a_command_says_so(
    room: Room,
) -> None:
    session = await room.front.say("yes")
    await room.hear("/approve")
    await room.hear("/deny")

    assert await room.front.thread(session) == ["user: yes", "assistant: ok"]
    assert await room.hears(3) == ["ok", QUIET, QUIET]


@pytest.mark.parametrize("text", ["yes", "always", "/approve", "/approve always", "/deny"])
@pytest.mark.parametrize("paired", [(), ("telegram:7",)])
async def test_nobody_else_in_a_group_answers_for_the_owner(
    open_room: Rooms, actor: Actor, text: str, paired: tuple[str, ...]
) -> None:
    actor.scenes.append(asking := Asking())
    async with open_room(actor, paired=paired) as room:
        receipt = await room.ask(peer=GROUP)
        await room.hear(text, by="7", peer=GROUP)
        assert len(await room.waiting()) == 1
        await room.hear("no", peer=GROUP)

        assert f"user: {text}" in await room.rest(receipt)
        assert [each.decided_by for each in asking.answers] == ["owner:telegram"]


async def test_a_word_counts_where_the_question_was_put_and_a_command_anywhere(
    room: Room, actor: Actor
) -> None:
    actor.scenes.append(asking := Asking())
    receipt = await room.ask()
    await room.hear("yes", by="U1", channel="slack")
    assert len(await room.waiting()) == 1
    await room.hear("/approve", by="U1", channel="slack")

    assert "user: yes" in await room.rest(receipt)
    assert [each.decided_by for each in asking.answers] == ["owner:slack"]


async def test_a_question_that_has_not_arrived_yet_is_not_answered_by_a_word(
    room: Room, actor: Actor
) -> None:
    room.peer.wait_seconds = 3600
    room.peer.reactions.append("later")
    actor.scenes.append(Asking())
    receipt = await room.hear("do it")

    async def is_late() -> bool:
        return [each.attempts for each in await room.front.store.list_outbound()] == [1]

    await until(is_late)
    await until(lambda: _has(room, "pending"))
    await room.hear("yes")
    assert len(await room.waiting()) == 1
    await room.hear("/deny")
    assert "user: yes" in await room.rest(receipt)


async def _has(room: Room, status: str) -> bool:
    rows = await room.front.store.list_outbound()
    return [each.status for each in rows] == [status]


# --- once -----------------------------------------------------------------------------------------


async def test_a_second_delivery_does_not_answer_the_next_question(
    room: Room, actor: Actor
) -> None:
    actor.scenes.append(asking := Asking(times=2))
    await room.ask()
    word = incoming("yes")
    await room.front.hear(word)
    await room.hears(3)
    assert room.heard.count(QUESTION) == 2
    (second,) = await room.waiting()

    again = await room.front.hear(word)

    assert not again.is_new
    assert await room.waiting() == [second]
    assert len(asking.answers) == 1


async def test_each_word_answers_one_question(room: Room, actor: Actor) -> None:
    actor.scenes.append(asking := Asking(times=2))
    receipt = await room.ask()
    await room.hear("yes")
    await room.hears(3)
    await room.hear("no")

    await room.rest(receipt)
    assert [each.decision for each in asking.answers] == ["yes", "no"]


async def test_a_command_that_was_kept_answers_the_question_of_its_time_or_none(
    room: Room, actor: Actor
) -> None:
    actor.scenes.append(Asking(times=2))
    await room.ask()
    word = await room.front.reception.decide(incoming("yes"))
    order = await room.front.reception.decide(incoming("/approve always"))
    await room.hear("no")
    await room.hears(3)

    for new in (word, order):
        kept, _ = await room.front.store.accept(new)
        await soon(room.front.reception.take_up(kept))

    assert len(await room.waiting()) == 1
    assert (await room.hears(5))[-2:] == [LATE, LATE]


async def test_a_command_that_came_before_the_question_does_not_answer_it(
    room: Room, actor: Actor
) -> None:
    await room.front.say("hello")
    order = await room.front.reception.decide(incoming("/approve"))
    actor.scenes.append(Asking())
    await room.hears(1)
    await room.ask()

    kept, _ = await room.front.store.accept(order)
    await soon(room.front.reception.take_up(kept))

    assert len(await room.waiting()) == 1
    assert (await room.hears(3))[-1] == QUIET


async def test_a_word_that_is_said_twice_at_once_does_not_answer_the_next_question(
    room: Room, actor: Actor
) -> None:
    actor.scenes.append(asking := Asking(times=2))
    receipt = await room.ask()
    await room.hear("yes")
    await room.hears(3)
    await room.hear("yes")
    assert len(await room.waiting()) == 1

    room.front.clock.advance(AGAIN_MS)
    await room.hear("no")
    await room.rest(receipt)
    assert [each.decision for each in asking.answers] == ["yes", "no"]


async def test_of_several_questions_the_oldest_is_answered(room: Room) -> None:
    await left_waiting(room.front, "0" * 16, "1" * 16)
    await room.hear("/approve")

    assert await room.waiting() == ["1" * 16]
    assert 'Allowed, once ("Run: make"). 1 more question waits.' in await room.hears(3)


# --- answered elsewhere, stopped, too late --------------------------------------------------------


async def test_after_an_answer_on_another_surface_the_words_are_plain_text(
    room: Room, actor: Actor
) -> None:
    actor.scenes.append(asking := Asking())
    receipt = await room.ask()
    (approval,) = await room.waiting()
    await room.front.runtime.decide(approval, "no", by="owner")
    await room.rest(receipt)
    await room.hear("yes")

    thread = await room.rest(receipt)
    assert thread == ["user: do it", "assistant: no", "user: yes", "assistant: ok"]
    assert [each.decided_by for each in asking.answers] == ["owner"]
    assert await room.hears(3) == [QUESTION, "no", "ok"]


async def test_a_turn_that_waits_is_stopped_and_then_the_words_are_plain_text(
    room: Room, actor: Actor
) -> None:
    actor.scenes.append(Asking())
    receipt = await room.ask()
    await room.hear("/stop")
    assert await room.waiting() == []
    await room.hear("yes")

    assert await room.rest(receipt) == ["user: do it", "user: yes", "assistant: ok"]
    assert await room.hears(3) == [QUESTION, "Stopped.", "ok"]


async def test_a_word_that_comes_too_late_is_plain_text(open_room: Rooms, actor: Actor) -> None:
    actor.scenes.append(asking := Asking())
    clock = FakeClock(NOON)
    async with open_room(actor, clock) as room:
        receipt = await room.ask()
        clock.advance(APPROVAL_MS)
        await room.hear("yes")

        assert "user: yes" in await room.rest(receipt)
        assert [each.decided_by for each in asking.answers] == ["expired"]


async def test_an_answer_after_the_hour_of_the_reset_is_still_one(
    open_room: Rooms, actor: Actor
) -> None:
    actor.scenes.append(asking := Asking())
    clock = FakeClock(NOON - 8 * 3_600_000 - 60_000)
    async with open_room(actor, clock) as room:
        receipt = await room.ask()
        clock.advance(120_000)
        answered = await room.hear("yes")

        assert answered.session_id == receipt.session_id
        await room.rest(receipt)
        assert [each.decision for each in asking.answers] == ["yes"]


async def test_of_two_answers_at_the_same_time_one_counts_and_the_other_is_told(
    room: Room, actor: Actor, make_seat: Seats
) -> None:
    actor.scenes.append(asking := Asking())
    receipt = await room.ask()
    session = await room.front.store.get_session(receipt.session_id or "")
    desks = []
    for reply_to in (None, incoming("/deny").reply_to):
        seat = make_seat(room.front.runtime)
        seat.current, seat.reply_to = session, reply_to
        desks.append(seat)

    one, two = await soon(
        asyncio.gather(run_command(desks[0], "approve", ""), run_command(desks[1], "deny", ""))
    )
    await room.rest(receipt)

    (answer,) = asking.answers
    said = {"owner": one.text, "owner:telegram": two.text}
    first = said.pop(answer.decided_by or "")
    assert first == ("Allowed, once." if answer.decision == "yes" else "Not allowed.")
    # Who has not even seen it any more hears that nothing waits.
    assert set(said.values()) < {f"It was answered already: {answer.decision}.", QUIET}


async def test_who_is_not_the_owner_gives_no_answer_at_a_seat_either(
    room: Room, actor: Actor, make_seat: Seats
) -> None:
    actor.scenes.append(Asking())
    receipt = await room.ask()
    desk = make_seat(room.front.runtime)
    desk.at = msgspec.structs.replace(desk.at, person="telegram:7")
    desk.current = await room.front.store.get_session(receipt.session_id or "")

    for name in ("approve", "deny"):
        reply = await soon(run_command(desk, name, ""))
        assert reply.is_error
        assert "Only the owner" in reply.text
    assert len(await room.waiting()) == 1


# --- what is not delivered ------------------------------------------------------------------------


async def test_a_question_that_is_withheld_is_answered_elsewhere(
    open_room: Rooms, actor: Actor
) -> None:
    actor.scenes.append(asking := Asking())
    deny = SendRules(rules=(SendRule("deny", SendMatch(channel="telegram")),))
    async with open_room(actor, sending=deny) as room:
        receipt = await room.hear("do it")
        await until(lambda: _has(room, "withheld"))
        await room.hear("yes")
        (approval,) = await room.waiting()
        await room.front.runtime.decide(approval, "yes", by="owner:page")

        assert "user: yes" in await room.rest(receipt)
        assert [each.decided_by for each in asking.answers] == ["owner:page"]
        assert room.heard == []


async def test_send_off_withholds_the_next_question(room: Room, actor: Actor) -> None:
    session = await room.front.say("hello")
    await room.hears(1)
    await room.front.store.edit_session(session.id, SessionEdit(send_policy="deny"))
    actor.scenes.append(Asking())
    await room.hear("do it")

    async def is_withheld() -> bool:
        return bool(await room.front.store.list_outbound(status="withheld"))

    await until(is_withheld)
    assert room.heard == ["ok"]


# --- after a restart ------------------------------------------------------------------------------


async def left_waiting(front: Front, *questions: str, ttl: int = 30_000) -> Session:
    """What a gateway leaves that is killed while its turn waits: all looks as if it still did."""
    session = await front.store.create_session(NewSession(key=MAIN))
    to = msgspec.to_builtins(incoming("do it").reply_to)
    lease = await front.store.acquire_lease(session.id, "another process", ttl=ttl)
    await front.store.record(
        session.id, lease.epoch, StartTurn(turn_id="t", reply_to=to | {"person": "owner"})
    )
    for each in questions:
        ask = WaitForApproval(
            approval_id=each, turn_id="t", tool_call_id="call_1", tool_name="shell",
            request=REQUEST, expires_at=front.clock() + APPROVAL_MS,
        )  # fmt: skip
        asked = NewOutbound(
            id=asked_id(each), key="telegram:1", channel="telegram", turn_id="t",
            address={"chat": "1"}, content=QUESTION,
        )  # fmt: skip
        await front.store.record(session.id, lease.epoch, ask, Send(asked))
        front.runtime.replies.bell.set()
    return session


async def test_a_word_does_not_answer_what_a_dead_gateway_asked(
    open_room: Rooms, actor: Actor
) -> None:
    clock = FakeClock(NOON)
    async with open_room(actor, clock) as room:
        await left_waiting(room.front, "0" * 16)
        await room.hears(1)
        receipt = await room.hear("yes")
        assert await room.waiting() == ["0" * 16]
        actor.scenes.append(saying("What do you mean?"))
        clock.advance(30_001)

        assert "user: yes" in await room.rest(receipt)
        late = await room.front.runtime.decide("0" * 16, "yes", by="owner")
        assert (late.decision, late.decided_by) == ("no", "interrupted")


async def test_a_gateway_that_starts_again_asks_again_and_is_answered(
    open_room: Rooms, actor: Actor
) -> None:
    first = Asking()
    async with open_room(Actor(first)) as before:
        receipt = await before.ask()
        (old,) = await before.waiting()
        word = await before.front.reception.decide(incoming("yes"))
    assert first.answers == []

    actor.scenes.append(asking := Asking())
    async with open_room(actor) as room:
        kept, _ = await room.front.store.accept(word)
        assert kept.payload["command"] == f"/approve once {old}"
        await room.front.take_up()
        heard = await room.hears(3)
        assert heard.count(QUESTION) == 2
        assert LATE in heard
        (new,) = await room.waiting()
        assert new != old

        await room.hear("yes")
        await room.rest(receipt)
        assert [(each.id, each.decision) for each in asking.answers] == [(new, "yes")]


async def test_a_word_between_the_restart_and_the_question_is_plain_text(
    open_room: Rooms, actor: Actor
) -> None:
    async with open_room(Actor(Asking())) as before:
        receipt = await before.ask()
    async with open_room(actor) as room:
        await room.hear("yes")
        assert "user: yes" in await room.rest(receipt)
        assert await room.waiting() == []


async def test_an_answer_in_the_inbox_of_a_dead_gateway_answers_nothing_new(
    open_room: Rooms, actor: Actor
) -> None:
    async with open_room(actor) as room:
        session = await room.front.say("hello")
        actor.scenes.append(Asking())
        await room.hears(1)
        await room.ask()
        reply_to = msgspec.to_builtins(incoming("yes").reply_to)
        payload = {"text": "yes", "command": f"/approve always {'0' * 16}", "own_key": MAIN}
        new = NewInbound(
            id="i", channel="telegram", external_id="e", key=MAIN, session_id=session.id,
            payload=payload | {"reply_to": reply_to},
        )  # fmt: skip
        await room.front.store.accept(new)
        await room.front.take_up()

        assert (await room.hears(3))[-1] == LATE
        assert len(await room.waiting()) == 1
