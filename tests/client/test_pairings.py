"""Guests, over HTTP and in process."""

from __future__ import annotations

import pytest

from clew.client.client import Client
from clew.core.channels.people import NewPairing
from clew.core.tokens import Scope
from clew.errors import Forbidden, InvalidInput
from tests.client.conftest import Place


async def asked(place: Place, person: str = "telegram:7", code: str = "ABCDEFGH") -> None:
    reply_to = {"channel": "telegram", "key": person}
    new = NewPairing(person=person, channel="telegram", code=code, reply_to=reply_to)
    assert await place.store.ask_pairing(new, most=9) is not None


async def test_who_asks_is_listed_and_let_in_by_the_code(place: Place, client: Client) -> None:
    await asked(place)
    assert (await client.status()).asking == 1
    (asking,) = await client.pairings.list()
    assert (asking.person, asking.status, asking.code) == ("telegram:7", "waiting", "ABCDEFGH")

    paired = await client.pairings.approve("abcd-efgh")

    assert (paired.person, paired.status, paired.code) == ("telegram:7", "paired", None)
    assert await client.pairings.list() == (paired,)
    assert (await client.status()).asking == 0
    (told,) = await client.outbox.list()
    assert (told.session_id, told.key) == (None, "telegram:7")
    with pytest.raises(InvalidInput):
        await client.pairings.approve("ABCDEFGH")


async def test_a_guest_can_be_refused_and_let_in_again(place: Place, client: Client) -> None:
    await asked(place)
    assert (await client.pairings.refuse("ABCD EFGH")).status == "refused"
    assert (await client.pairings.approve("telegram:7")).status == "paired"
    assert (await client.pairings.refuse("telegram:7")).status == "refused"
    assert (await client.pairings.approve("slack:u9")).channel == "slack"


@pytest.mark.parametrize("scope", ["read", "chat", "write"])
async def test_letting_people_in_needs_the_scope_admin(place: Place, scope: Scope) -> None:
    await asked(place)
    client = await place.client(scope=scope)
    for attempt in (
        client.pairings.list(),
        client.pairings.approve("ABCDEFGH"),
        client.pairings.refuse("telegram:7"),
    ):
        with pytest.raises(Forbidden):
            await attempt
    pairing = await place.store.find_pairing("telegram:7")
    assert pairing is not None
    assert pairing.status == "waiting"


async def test_a_guest_lets_nobody_in(place: Place) -> None:
    await asked(place)
    guest = await place.client("telegram:5", "write")
    for attempt in (guest.pairings.list(), guest.pairings.approve("ABCDEFGH")):
        with pytest.raises(Forbidden):
            await attempt
    assert await guest.outbox.list() == ()
