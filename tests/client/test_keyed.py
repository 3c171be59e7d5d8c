"""What is said under a key goes through the same door as what is said on a channel."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.api.frames import EventFrame
from clew.client.client import Client
from clew.clock import host_clock
from clew.core.changes import AddMessage
from clew.core.channels.session_choice import GREETING
from clew.core.live_events import Notice, TextDelta, TurnEnded, TurnStarted
from clew.core.message import Draft, ToolCall
from clew.core.session import Session, SessionEdit, SessionFacts
from clew.errors import Forbidden, InvalidInput
from clew.ports import LiveTurn
from tests.client.conftest import Place, drain, outline, said
from tests.runtime.conftest import Held, saying, soon, until

DAY = 86_400_000
MAIN = "agent:main:main"
NEW = "A new conversation begins. /resume goes back to the one before."
DAILY = "A new day: a new conversation begins. /resume goes back to the one before."


def told(frames: list[EventFrame]) -> list[str]:
    return [each.event.text for each in frames if isinstance(each.event, Notice)]


async def stale(place: Place, key: str = MAIN, **facts: Any) -> Session:
    """A session in which nobody has said anything for two days."""
    return await place.session(
        key, created_at=host_clock() - 2 * DAY, **({"platform": "sdk", "kind": "sdk"} | facts)
    )


# --- resets -------------------------------------------------------------------------------------


async def test_under_a_key_a_conversation_begins_anew_when_it_is_time(
    place: Place, client: Client
) -> None:
    old = await stale(place)
    sending = client.chat.send("hello", key=MAIN)
    frames = await soon(drain(sending))
    assert told(frames) == [DAILY]
    assert said(frames) == ["user: hello", "assistant: ok"]
    assert sending.accepted is not None
    new = (await client.sessions.get(sending.accepted.session)).session
    assert (new.previous_id, new.reset_reason, new.key) == (old.id, "daily", MAIN)
    assert {each.session for each in frames} == {new.id}


async def test_a_message_to_a_session_by_its_id_never_resets_it(
    place: Place, client: Client
) -> None:
    old = await stale(place)
    assert await place.talked(client, "hello", "/new", session=old.id) == old.id
    thread = (await client.sessions.get(old.id)).messages
    assert outline(thread)[::2] == ["user: hello", "user: /new"]


async def test_a_terminals_session_waits_for_its_person(place: Place, client: Client) -> None:
    old = await stale(place, "cli:api", platform="cli", kind="cli")
    assert await place.talked(client, "hello", key="cli:api") == old.id


async def test_a_new_session_is_where_the_one_before_was(place: Place, client: Client) -> None:
    old = await stale(
        place,
        "agent:main:telegram:dm:7",
        platform="telegram",
        kind="dm",
        person="telegram:7",
        display_name="Ada",
        origin={"label": "Ada", "provider": "telegram"},
        cwd="/somewhere",
    )
    await place.store.edit_session(old.id, SessionEdit(pinned=True))
    route = {"channel": "telegram", "key": "telegram:7"}
    await place.store.describe_session(old.id, SessionFacts(last_route=route))

    new = await place.store.get_session(await place.talked(client, "hello", key=old.key))

    assert new.previous_id == old.id
    assert (new.platform, new.kind, new.person) == ("telegram", "dm", "telegram:7")
    assert (new.display_name, new.origin, new.cwd) == ("Ada", old.origin, "/somewhere")
    assert (new.pinned, new.last_route) == (True, route)


async def test_the_answer_goes_to_who_asked_and_to_nobody_else(
    place: Place, client: Client
) -> None:
    session = await place.session(MAIN)
    route = {"channel": "telegram", "key": "telegram:7"}
    await place.store.describe_session(session.id, SessionFacts(last_route=route))
    await place.talked(client, "hello", key=MAIN)
    assert await place.store.list_outbound() == ()


# --- triggers and commands ----------------------------------------------------------------------


async def test_new_begins_a_session_with_the_rest_as_its_first_message(
    place: Place, client: Client
) -> None:
    old = await place.talked(client, "hello", key=MAIN)
    place.actor.scenes = [saying("afresh")]
    frames = await soon(drain(client.chat.send("/new [what]\nnow", key=MAIN)))
    assert told(frames) == [NEW]
    assert said(frames) == ["user: [what]\nnow", "assistant: afresh"]
    kinds = [type(each.event) for each in frames]
    assert kinds.index(TurnStarted) < kinds.index(TextDelta) < kinds.index(TurnEnded)
    new = (await client.sessions.get(frames[0].session)).session
    assert (new.previous_id, new.reset_reason) == (old, "/new")


async def test_new_alone_is_confirmed_by_a_greeting(place: Place, client: Client) -> None:
    frames = await soon(drain(client.chat.send("/new", key=MAIN)))
    assert said(frames) == [f"user: {GREETING}", "assistant: ok"]


async def test_a_command_is_answered_without_a_turn(place: Place, client: Client) -> None:
    session = await place.talked(client, "hello", key=MAIN)
    sending = client.chat.send("/title Kitchen", key=MAIN)
    frames = await soon(drain(sending))
    assert told(frames) == ["The title is now: Kitchen"]
    assert sending.accepted is not None
    assert (sending.accepted.session, sending.accepted.turn_id) == (session, None)
    assert {each.inbound for each in frames} == {sending.accepted.inbound}
    detail = await client.sessions.get(session)
    assert (detail.session.title, len(detail.messages)) == ("Kitchen", 2)
    assert await client.queue.list() == ()
    assert {each.status for each in await place.store.list_outbound()} == {"sent"}


async def test_a_command_under_a_key_without_a_session_is_answered_too(
    place: Place, client: Client
) -> None:
    frames = await soon(drain(client.chat.send("/title Kitchen", key=MAIN)))
    assert told(frames) == ["The title is now: Kitchen"]


async def test_a_second_delivery_of_a_command_tells_the_same_and_does_nothing(
    place: Place, client: Client
) -> None:
    first = await soon(drain(client.chat.send("/title One", key=MAIN, idempotency_key="k")))
    await client.chat.send("/title Two", key=MAIN)
    again = client.chat.send("/title One", key=MAIN, idempotency_key="k")
    assert told(await soon(drain(again))) == told(first) == ["The title is now: One"]
    assert again.accepted is not None
    assert not again.accepted.is_new
    assert (await client.sessions.get(again.accepted.session)).session.title == "Two"


async def test_a_command_that_takes_a_while_ends_its_stream_with_its_answer(
    place: Place, client: Client
) -> None:
    frames = await soon(drain(client.chat.send("/compact", key=MAIN)))
    assert told(frames) == ["Summaries can't be written here."]


async def test_a_stop_word_stops_the_turn(place: Place, client: Client) -> None:
    held = Held()
    place.actor.scenes = [held]
    first = asyncio.create_task(drain(client.chat.send("hello", key=MAIN)))
    await soon(held.began.wait())
    await soon(drain(client.chat.send("stop", key=MAIN)))
    last = (await soon(first))[-1].event
    assert isinstance(last, TurnEnded)
    assert last.turn.status == "aborted"


async def test_resume_goes_back_to_the_session_before(place: Place, client: Client) -> None:
    old = await place.talked(client, "hello", key=MAIN)
    new = await place.talked(client, "/new again", key=MAIN)
    assert new != old
    await soon(drain(client.chat.send("/resume", key=MAIN)))
    assert await place.talked(client, "back", key=MAIN) == old


# --- one turn each ------------------------------------------------------------------------------


async def test_deliveries_at_the_same_time_are_one_turn(place: Place, client: Client) -> None:
    sendings = [client.chat.send("/new hello", key=MAIN, idempotency_key="same") for _ in range(5)]
    frames = await soon(asyncio.gather(*map(drain, sendings)))
    assert [said(each) for each in frames] == [["user: hello", "assistant: ok"]] * 5
    accepted = [each.accepted for each in sendings if each.accepted is not None]
    assert sum(each.is_new for each in accepted) == 1
    assert len({each.inbound for each in accepted}) == 1
    assert len((await client.sessions.list()).sessions) == 1


async def test_people_whose_names_are_alike_are_not_taken_for_each_other(place: Place) -> None:
    sent = []
    for person in ("telegram:7", "telegram-7"):
        key = f"agent:main:dm:{person}"
        await place.session(key, person=person, kind="dm")
        guest = await place.client(person, "chat")
        sent.append(await guest.chat.send("hello", key=key, idempotency_key="same"))
    assert [each.is_new for each in sent] == [True, True]
    assert sent[0].session != sent[1].session


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("cron:backup", ("agent:main:cron:backup", "sdk", "cron")),
        ("group:-100", ("agent:main:unknown:group:-100", "unknown", "group")),
        ("agent:a:slack:dm:u1:thread:9", ("agent:a:slack:dm:u1:thread:9", "slack", "thread")),
        ("telegram:42", ("telegram:42", "telegram", "dm")),
        ("discord:7", ("discord:7", "discord", "channel")),
        ("cli:api", ("cli:api", "cli", "cli")),
        ("web:1", ("web:1", "web", "web")),
        (" work ", ("work", "sdk", "sdk")),
        ("cli", ("cli", "sdk", "sdk")),
    ],
)
async def test_a_session_that_begins_under_a_key_is_what_the_key_says(
    place: Place, client: Client, typed: str, told: tuple[str, str, str]
) -> None:
    session = await place.talked(client, "hello", key=typed)
    found = (await client.sessions.get(session)).session
    assert (found.key, found.platform, found.kind) == told
    assert (found.cwd is None) == (found.platform == "cli" or found.person != "owner")


# --- who may what -------------------------------------------------------------------------------


async def test_a_guest_begins_nothing_under_a_key_and_finds_nobody_elses(place: Place) -> None:
    await place.session(MAIN)
    guest = await place.client("telegram:7", "chat")
    for key in ("agent:main:other", MAIN):
        with pytest.raises(Forbidden):
            await guest.chat.send("hello", key=key)
    assert await place.store.find_route("agent:main:other") is None


async def test_a_guest_has_new_and_no_more_than_that(place: Place) -> None:
    key = "agent:main:telegram:dm:7"
    old = await place.session(key, person="telegram:7", kind="dm")
    guest = await place.client("telegram:7", "chat")
    new = await place.talked(guest, "/new hello", key=key)
    assert (await place.store.get_session(new)).person == "telegram:7"
    assert new != old.id
    assert await place.talked(guest, "/title Mine", key=key) == new
    thread = (await guest.sessions.get(new)).messages
    assert outline(thread)[::2] == ["user: hello", "user: /title Mine"]
    assert {turn.person for turn in place.actor.turns} == {"telegram:7"}


@pytest.mark.parametrize("by_id", [True, False])
async def test_where_nobody_attends_the_answer_for_tools_is_no(
    place: Place, client: Client, by_id: bool
) -> None:
    answers = []

    async def scene(turn: LiveTurn) -> None:
        call = ToolCall(id="call_1", name="shell")
        used = Draft(role="assistant", tool_calls=(call,))
        await turn.record(AddMessage(used, turn.id, from_person=False))
        answers.append((await turn.ask(call, {"command": "ls"})).decision)
        await saying("done")(turn)

    place.actor.scenes = [scene]
    session = await place.session(MAIN)
    where: dict[str, Any] = {"session": session.id} if by_id else {"key": MAIN}
    await soon(drain(client.chat.send("list the files", attended=False, **where)))
    assert answers == ["no"]


async def test_nothing_is_sent_where_nothing_is_said(place: Place, client: Client) -> None:
    with pytest.raises(InvalidInput):
        await client.chat.send("  ", key=MAIN)
    with pytest.raises(InvalidInput):
        await client.chat.send("hello", key="a\nb")
    assert await place.store.find_route(MAIN) is None


async def test_what_is_said_meanwhile_is_answered_together(place: Place, client: Client) -> None:
    held = Held("one")
    place.actor.scenes = [held, saying("both")]
    first = asyncio.create_task(drain(client.chat.send("a", key=MAIN)))
    await soon(held.began.wait())
    others = [asyncio.create_task(drain(client.chat.send(text, key=MAIN))) for text in "bc"]

    async def both() -> bool:
        return {"b", "c"} <= {each.text for each in await client.queue.list()}

    await until(both)
    held.go_on.set()
    assert said(await soon(first)) == ["user: a", "assistant: one"]
    for each in others:
        assert said(await soon(each))[-1] == "assistant: both"
