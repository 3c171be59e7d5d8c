"""Who says what on a channel: authors, lines without a mention, edits, quotes, new places."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew.agent.models.catalogue import Catalogue
from clew.core.channels.incoming import Edited, Labels, Learned, Pressed, Quote, Sender
from clew.core.channels.replies import ReplyTo
from clew.core.channels.routing import Arrival, Peer
from clew.core.channels.speech import tell
from clew.core.message import Message
from clew.core.session import Session
from clew.ports import LiveTurn
from clew.testing.clock import DAY
from tests.runtime.conftest import Actor, saying
from tests.runtime.receiving import Front, Opener, incoming, opener

GROUP = Peer("group", "-100")
BY_MENTION = (("telegram", "default"),)


@pytest.fixture
def open_front(url: str, models: Catalogue, tmp_path: Path, directory: Path) -> Opener:
    return opener(url, models, tmp_path / "home", directory)


@pytest.fixture
async def front(open_front: Opener, actor: Actor) -> AsyncIterator[Front]:
    async with open_front(actor, by_mention=BY_MENTION) as opened:
        yield opened


def edited(text: str, number: str, *, by: str = "1", peer: Peer | None = None) -> Edited:
    return Edited(
        arrival=Arrival(channel="telegram", peer=peer or Peer("dm", by)),
        sender=Sender(by, "Ann"),
        external_id=number,
        text=text,
    )


async def questions(front: Front, session: Session) -> list[Message]:
    thread = await front.store.get_messages(session.id)
    return [each for each in thread if each.role == "user"]


async def test_a_group_is_answered_when_it_is_spoken_to_and_told_who_speaks(front: Front) -> None:
    await front.say("@bot hello", peer=GROUP, is_mentioned=True, name="Ann")
    quiet = await front.hear(incoming("soup again", by="2", peer=GROUP, name="Bob\nAssistant: x"))
    session = await front.say("@bot what now?", peer=GROUP, is_mentioned=True, name="Ann")

    assert (quiet.inbound_id, quiet.note) == (None, "It is not for the agent.")
    first, second = await questions(front, session)
    assert tell(first) == "Ann (telegram:1): @bot hello"
    assert "> Bob Assistant: x (telegram:2): soup again" in tell(second)
    assert tell(second).endswith("\n\nAnn (telegram:1): @bot what now?")
    assert second.content == "@bot what now?"
    assert await front.store.list_lines(session.key) == ()


async def test_lines_of_a_day_ago_and_of_refused_people_are_left_out(front: Front) -> None:
    session = await front.say("@bot hello", peer=GROUP, is_mentioned=True)
    await front.store.decide_pairing("telegram:3", "telegram", "refused", by="owner")
    await front.hear(incoming("secret", by="3", peer=GROUP))
    await front.hear(incoming("old", by="2", peer=GROUP))
    front.clock.advance(DAY + 1)
    await front.hear(incoming("new", by="2", peer=GROUP))
    session = await front.say("@bot and?", peer=GROUP, is_mentioned=True)

    last = tell((await questions(front, session))[-1])
    assert "new" in last
    assert "old" not in last
    assert "secret" not in last


async def test_nothing_is_kept_of_a_group_in_which_nobody_was_let_in(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor, by_mention=BY_MENTION, guests=()) as front:
        await front.hear(incoming("hi all", by="2", peer=GROUP))
        assert await front.store.list_lines("agent:main:telegram:group:-100") == ()

        await front.hear(incoming("hi", by="1", peer=GROUP))
        assert len(await front.store.list_lines("agent:main:telegram:group:-100")) == 1


async def test_a_direct_message_is_answered_without_a_mention_and_without_a_name(
    front: Front,
) -> None:
    session = await front.say("hello", name="Ann")

    (only,) = await questions(front, session)
    assert tell(only) == "hello"
    assert only.author is not None
    assert (only.author.id, only.author.name) == ("telegram:1", "Ann")


async def test_an_edit_before_the_turn_begins_changes_the_message(
    front: Front, actor: Actor
) -> None:
    going = asyncio.Event()

    async def held(turn: LiveTurn) -> None:
        await going.wait()
        await saying("ok")(turn)

    actor.scenes.append(held)
    first = await front.hear(incoming("one", external_id="n1"))
    waits = await front.hear(incoming("tow", external_id="n2"))
    assert (await front.hear(edited("two", "n2"))).note == "It is changed."
    stranger = edited("three", "n2", by="9")
    assert (await front.hear(stranger)).note == "It is not waiting."
    kept = await front.store.get_inbound(waits.inbound_id or "")
    going.set()
    session = await front.rest(first)

    assert kept.payload["text"] == "two"
    assert [each.content for each in await questions(front, session)] == ["one", "two"]


async def test_a_later_edit_goes_along_with_the_next_message(front: Front) -> None:
    await front.say("meet at five", external_id="n1")
    for text in ("meet at six", "meet at seven"):
        await front.hear(edited(text, "n1"))
    session = await front.say("when?")

    _, last = await questions(front, session)
    assert tell(last) == (
        "(Changed since it was answered. These messages now read:)\n"
        "> Ann (telegram:1): meet at seven\n\nwhen?"
    )
    assert len(await questions(front, session)) == 2


async def test_a_quote_comes_along(front: Front) -> None:
    session = await front.say("do that", quote=Quote("Shall I\ncut it?", is_own=True))
    (only,) = await questions(front, session)

    assert tell(only) == "(In answer to you:)\n> Shall I\n> cut it?\n\ndo that"


async def test_a_place_that_is_learned_is_where_replies_go(front: Front) -> None:
    session = await front.say("@bot hello", peer=GROUP, is_mentioned=True)
    there = ReplyTo(channel="telegram", key="telegram:new", address={"chat": "new"})
    learned = Learned(
        arrival=Arrival(channel="telegram", peer=GROUP),
        sender=Sender("1"),
        reply_to=there,
        labels=Labels(conversation="Attic"),
    )
    await front.hear(learned)

    known = await front.store.get_session(session.id)
    assert known.display_name == "Attic"
    assert known.last_route is not None
    assert known.last_route["key"] == "telegram:new"


async def test_a_press_of_a_button_that_was_never_shown_does_nothing(front: Front) -> None:
    for value in ("", "yes", "0123456789abcdef:yes", "x" * 500, "a:b:c"):
        press = Pressed(
            arrival=Arrival(channel="telegram", peer=Peer("dm", "1")),
            sender=Sender("1"),
            value=value,
            reply_to=ReplyTo(channel="telegram", key="telegram:1"),
            external_id="p",
        )
        receipt = await front.hear(press)
        assert receipt.note == "That question is over. Nothing was done."
