"""Strangers, codes and guests: from the first message to the owner's word."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clew.agent.models.catalogue import Catalogue
from clew.core.channels.people import CODE_MS, MOST_TOLD
from clew.core.channels.routing import Peer, RoutingRules
from clew.core.channels.send_policy import SendMatch, SendRule, SendRules
from clew.errors import InvalidInput, TurnFailed
from clew.runtime.inbound.pairing import WELCOME, approve_pairing, refuse_pairing
from clew.runtime.outbound import FAILED_FOR_GUESTS
from tests.runtime.conftest import Actor, failing
from tests.runtime.receiving import Front, Opener, incoming, opener

STRANGER: dict[str, Any] = {"by": "7", "name": "Ann"}


@pytest.fixture
def open_front(url: str, models: Catalogue, tmp_path: Path, directory: Path) -> Opener:
    return opener(url, models, tmp_path / "home", directory)


@asynccontextmanager
async def strict(open_front: Opener, **rules: Any) -> AsyncIterator[Front]:
    """A front that lets in nobody but its owner."""
    async with open_front(Actor(), **({"guests": ()} | rules)) as front:
        yield front


async def code_of(front: Front, person: str = "telegram:7") -> str:
    pairing = await front.store.find_pairing(person)
    assert pairing is not None
    assert pairing.code is not None
    return pairing.code


async def test_a_stranger_is_told_a_code_and_nothing_is_kept(open_front: Opener) -> None:
    async with strict(open_front) as front:
        receipt = await front.hear(incoming("let me tell you a secret", **STRANGER))

        assert receipt.inbound_id is None
        assert receipt.session_id is None
        assert await front.store.list_inbound() == ()
        assert (await front.store.stats()).sessions == 0
        (told,) = await front.store.list_outbound()
        assert (told.session_id, told.key, told.channel) == (None, "telegram:7", "telegram")
        code = await code_of(front)
        assert re.search(rf"\b{code[:4]}-{code[4:]}\b", told.content)
        assert "secret" not in told.content


async def test_a_code_lets_the_stranger_in_and_they_are_told(open_front: Opener) -> None:
    async with strict(open_front) as front:
        await front.hear(incoming("hello", **STRANGER))
        code = await code_of(front)

        await front.say(f"/pair {code[:4]}-{code[4:]}".lower())

        assert "Ann (telegram:7) is let in." in await front.sent("telegram:1")
        assert (await front.sent("telegram:7"))[-1] == WELCOME
        session = await front.say("hello", **STRANGER)
        assert session.person == "telegram:7"
        assert await front.thread(session) == ["user: hello", "assistant: ok"]


async def test_a_guest_may_command_a_little_and_a_stranger_nothing(open_front: Opener) -> None:
    async with strict(open_front) as front:
        await front.hear(incoming("/status", **STRANGER))
        assert len(await front.sent("telegram:7")) == 1
        await approve_pairing(front.store, "telegram:7", by="owner")

        session = await front.say("hello", **STRANGER)
        await front.say("/pair", **STRANGER)
        assert (await front.thread(session))[-2:] == ["user: /pair", "assistant: ok"]
        await front.say("/status", **STRANGER)
        assert "model" in await front.last()


async def test_a_code_counts_once_and_for_an_hour(open_front: Opener) -> None:
    async with strict(open_front) as front:
        await front.hear(incoming("hello", **STRANGER))
        used = await code_of(front)
        await approve_pairing(front.store, used, by="owner")
        with pytest.raises(InvalidInput, match="is not valid"):
            await approve_pairing(front.store, used, by="owner")

        await front.hear(incoming("hello", by="8"))
        late = await code_of(front, "telegram:8")
        front.clock.advance(CODE_MS)
        with pytest.raises(InvalidInput, match="is not valid"):
            await approve_pairing(front.store, late, by="owner")
        await front.hear(incoming("hello again", by="8"))
        assert await code_of(front, "telegram:8") != late


async def test_one_message_is_answered_once_however_often_it_comes(open_front: Opener) -> None:
    async with strict(open_front) as front:
        message = incoming("hello", **STRANGER)
        for _ in range(5):
            await front.hear(message)
        assert len(await front.sent()) == 1


async def test_a_stranger_who_keeps_writing_is_told_a_few_times(open_front: Opener) -> None:
    async with strict(open_front) as front:
        for number in range(MOST_TOLD + 3):
            await front.hear(incoming(f"hello {number}", **STRANGER))
        sent = await front.sent()
        assert len(sent) == MOST_TOLD
        assert len(set(sent)) == 1


async def test_who_is_refused_hears_nothing_more(open_front: Opener) -> None:
    async with strict(open_front, guests=("telegram:*",)) as front:
        session = await front.say("hello", **STRANGER)
        await front.say("/pair refuse telegram:7")
        assert "telegram:7 may not talk to me." in await front.last()
        before = len(await front.sent())

        receipt = await front.hear(incoming("are you there?", **STRANGER))

        assert receipt.inbound_id is None
        assert len(await front.sent()) == before
        assert await front.thread(session) == ["user: hello", "assistant: ok"]
        await refuse_pairing(front.store, "telegram:8", by="owner")
        await front.hear(incoming("let me in", by="8"))
        assert len(await front.sent()) == before


async def test_strangers_in_a_group_are_not_answered_and_get_no_code(open_front: Opener) -> None:
    async with strict(open_front) as front:
        receipt = await front.hear(incoming("hello", by="7", peer=Peer("group", "-100")))
        assert receipt.inbound_id is None
        assert await front.sent() == []
        assert await front.store.list_pairings() == ()


async def test_a_group_that_is_named_may_talk(open_front: Opener) -> None:
    async with strict(open_front, guests=("telegram:-100",)) as front:
        session = await front.say("/new day", by="7", peer=Peer("group", "-100"))
        assert await front.thread(session) == ["user: /new day", "assistant: ok"]
        await front.hear(incoming("hello", by="7"))
        assert (await front.store.find_pairing("telegram:7")) is not None


async def test_no_more_than_the_beginning_of_a_strangers_name_is_kept(open_front: Opener) -> None:
    async with strict(open_front) as front:
        await front.hear(incoming("hello", by="7", name="Ann " * 100_000))
        pairing = await front.store.find_pairing("telegram:7")
        assert pairing is not None
        assert pairing.name == "Ann " * 25


async def test_what_the_send_policy_denies_is_not_told(open_front: Opener) -> None:
    deny = SendRules(rules=(SendRule("deny", SendMatch(channel="telegram")),))
    async with strict(open_front, sending=deny) as front:
        await front.hear(incoming("hello", **STRANGER))
        (row,) = await front.store.list_outbound()
        assert row.status == "withheld"


async def test_the_owner_sees_who_asks(open_front: Opener) -> None:
    async with strict(open_front) as front:
        await front.say("/pair")
        assert "No one asks" in await front.last()
        await front.hear(incoming("hello", by="7", name="An\x1b[31mn\n/pair X"))
        code = await code_of(front)

        await front.say("/pair")

        listed = (await front.last()).splitlines()
        assert listed[0].startswith(f"{code[:4]}-{code[4:]}  An")
        assert "\x1b" not in listed[0]
        assert len(listed) == 2


async def test_a_strangers_id_makes_no_line_of_its_own(open_front: Opener) -> None:
    async with strict(open_front) as front:
        await front.hear(incoming("hello", by="7\nABCD-EFGH  Mum\u202e", channel="irc"))
        await front.say("/pair")
        listed = (await front.last()).splitlines()
        assert len(listed) == 2
        assert listed[0].endswith("irc:7 abcd-efgh  mum")


@pytest.mark.parametrize("who", ["", "nobody", "telegram:", "ABCDEFG", "ABCDEFGHJ", "refuse"])
async def test_what_is_neither_a_code_nor_a_person_changes_nothing(
    open_front: Opener, who: str
) -> None:
    async with strict(open_front) as front:
        for decide in (approve_pairing, refuse_pairing):
            with pytest.raises(InvalidInput, match="Nothing was changed"):
                await decide(front.store, who, by="owner")
        assert await front.store.list_pairings() == ()


@pytest.mark.parametrize("name", ["telegram:7", "person:ann"])
@pytest.mark.parametrize("peer", [Peer("dm", "7"), Peer("group", "-100")])
async def test_who_has_two_names_is_refused_by_either(
    open_front: Opener, name: str, peer: Peer
) -> None:
    routing = RoutingRules(identity_links={"ann": ("telegram:7",)})
    async with strict(open_front, guests=("*",), routing=routing) as front:
        await refuse_pairing(front.store, name, by="owner")
        receipt = await front.hear(incoming("hello", peer=peer, **STRANGER))
        assert receipt.inbound_id is None
        assert await front.sent() == []


@pytest.mark.parametrize("name", ["telegram:7", "person:ann"])
async def test_who_has_two_names_is_let_in_by_either(open_front: Opener, name: str) -> None:
    routing = RoutingRules(identity_links={"ann": ("telegram:7",)})
    async with strict(open_front, routing=routing) as front:
        await approve_pairing(front.store, name, by="owner")
        session = await front.say("hello", **STRANGER)
        assert session.person == "person:ann"


async def test_why_a_turn_failed_is_told_to_the_owner_only(open_front: Opener) -> None:
    error = TurnFailed("The key in OPENAI_API_KEY is wrong.")
    async with open_front(Actor(failing(error), failing(error)), guests=("telegram:7",)) as front:
        await front.say("hello", **STRANGER)
        await front.say("hello")
        assert await front.sent("telegram:7") == [FAILED_FOR_GUESTS]
        assert await front.sent("telegram:1") == [f"That did not work: {error}"]
