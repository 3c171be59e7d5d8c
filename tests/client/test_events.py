"""The last events of a gateway, for its owner: what happened, and nothing that was said."""

from __future__ import annotations

import msgspec
import pytest

from clew.client.client import Client
from clew.core.channels.incoming import Incoming, Sender
from clew.core.channels.routing import Arrival, Peer
from clew.core.gateway_events import GatewayEvent
from clew.errors import Forbidden, TurnFailed
from clew.runtime.event_log import KEPT, EventLog
from clew.testing.clock import FakeClock
from tests.client.conftest import Place
from tests.runtime.conftest import failing
from tests.runtime.receiving import RULES


async def test_the_ends_of_turns_are_events_without_a_word_of_them(
    place: Place, client: Client
) -> None:
    session = await place.talked(client, "my secret question")
    place.actor.scenes = [failing(TurnFailed("sk-12345 is no valid key"))]
    await place.talked(client, "another secret", session=session)
    found = await client.events()
    assert [each.kind for each in found.events] == ["turn_failed", "turn_done"]
    assert [each.level for each in found.events] == ["error", "info"]
    assert {each.session for each in found.events} == {session}
    assert all(each.ms is not None and each.turn for each in found.events)
    assert found.head == found.events[0].number == 2
    assert not any(word in str(found) for word in ("secret", "sk-12345"))
    newer = await client.events(after=1)
    assert [each.kind for each in newer.events] == ["turn_failed"]
    assert (await client.events(after=2)).events == ()
    assert len((await client.events(limit=1)).events) == 1


async def test_a_stranger_on_a_channel_is_an_event(place: Place, client: Client) -> None:
    strict = msgspec.structs.replace(RULES, guests=())
    runtime = place.runtime
    commands = runtime.reception._open_front.commands  # only the rules are other ones
    runtime.reception.open(strict, commands, settle_s=0.0)
    message = Incoming(
        arrival=Arrival(channel="telegram", peer=Peer("dm", "7")), sender=Sender("7"), text="let me"
    )
    for number in range(3):
        again = msgspec.structs.replace(message, external_id=str(number))
        await runtime.reception.receive(again)
    (refused,) = (await client.events()).events
    assert (refused.kind, refused.channel, refused.count) == ("message_refused", "telegram", 3)


async def test_events_are_for_the_owner(place: Place) -> None:
    guest = await place.client("telegram:7", "write")
    with pytest.raises(Forbidden, match="Only the owner"):
        await guest.events()


def test_the_log_is_bounded_and_counts_what_is_repeated() -> None:
    clock = FakeClock()
    log = EventLog(clock)
    heard: list[GatewayEvent] = []
    log.listen(heard.append)
    log.report("started", "The gateway started.")
    for _ in range(2 * KEPT):
        clock.advance(1)
        log.report("sign_in_refused", "A browser came with a wrong link.")
    first, started = log.list_events()
    assert (first.count, first.at, started.kind) == (2 * KEPT, clock(), "started")
    assert len(heard) == first.number == log.head == 2 * KEPT + 1
    for number in range(2 * KEPT):
        log.report("turn_done", "A turn is done.", session=str(number))
    events = log.list_events()
    assert len(events) == KEPT
    assert [each.number for each in events] == list(range(log.head, log.head - KEPT, -1))
