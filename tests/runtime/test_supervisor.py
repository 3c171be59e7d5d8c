"""Channels that listen: what comes in is acknowledged when it is kept, and failures stay small."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from clew.clock import host_clock
from clew.core.channels.incoming import Event, Incoming, Receipt, Sender
from clew.core.channels.routing import Arrival, Peer
from clew.ports import Receive
from clew.runtime.event_log import EventLog
from clew.runtime.supervisor import Keeper, Supervisor
from clew.testing.channels import PeerChannel, open_peer
from tests.runtime.conftest import soon, until


class Broken(PeerChannel):
    """A channel whose library raises."""

    def __init__(self, times: int) -> None:
        super().__init__(0, name="broken")
        self.times = times

    async def run(self, receive: Receive) -> None:
        self.times -= 1
        if self.times >= 0:
            raise RuntimeError("no such host")
        await asyncio.Event().wait()


def incoming(number: int) -> Incoming:
    return Incoming(
        arrival=Arrival(channel="peer", peer=Peer("dm", "7")),
        sender=Sender("7"),
        text=f"message {number}",
        external_id=str(number),
    )


@asynccontextmanager
async def listening(
    channels: Sequence[Any], receive: Callable[[Any], Awaitable[Receipt]]
) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(channels, receive, clock=host_clock, first_pause=0.01)
    task = asyncio.create_task(supervisor.run())
    try:
        yield supervisor
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_a_message_is_acknowledged_when_it_is_kept_and_not_before() -> None:
    kept: list[str] = []
    may_keep = asyncio.Event()

    async def receive(each: Incoming) -> Receipt:
        await may_keep.wait()
        kept.append(each.text)
        return Receipt(inbound_id="1")

    async with open_peer() as peer, listening([PeerChannel(peer.port)], receive):
        bringing = asyncio.create_task(peer.bring(incoming(1), times=3))
        done, _ = await asyncio.wait({bringing}, timeout=0.1)
        assert not done
        may_keep.set()
        await soon(bringing)

        async def has_all() -> bool:
            return len(kept) == 3

        await until(has_all)

    assert kept == ["message 1"] * 3  # one message three times: the inbox makes one of them


async def test_a_channel_that_fails_is_started_again_and_the_others_never_notice() -> None:
    kept: list[str] = []

    async def receive(each: Incoming) -> Receipt:
        kept.append(each.text)
        return Receipt(inbound_id="1")

    broken = Broken(3)
    async with (
        open_peer() as peer,
        listening([broken, PeerChannel(peer.port)], receive) as supervisor,
    ):
        await soon(peer.bring(incoming(1)))

        async def is_up() -> bool:
            return broken.times < 0

        await until(is_up)
        first, second = supervisor.list_states()
        assert (first.name, first.state, first.failures) == ("broken", "listening", 3)
        assert (second.name, second.state, second.failures) == ("peer", "listening", 0)
    assert [each.state for each in supervisor.list_states()] == ["stopped", "stopped"]
    assert kept == ["message 1"]


async def test_people_can_see_why_a_channel_does_not_listen() -> None:
    async def receive(each: Incoming) -> Receipt:
        return Receipt(note=each.text)

    async with listening([Broken(10_000)], receive) as supervisor:

        async def waits() -> bool:
            return supervisor.list_states()[0].state == "waiting"

        await until(waits)
        assert supervisor.list_states()[0].error == "RuntimeError: no such host"


# --- anything else that goes on -------------------------------------------------------------------


async def test_what_dies_of_a_bug_is_told_shown_and_started_again() -> None:
    starts = 0
    told: list[str] = []

    async def errand() -> None:
        nonlocal starts
        starts += 1
        if starts <= 2:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(fail())
        await asyncio.Event().wait()

    async def fail() -> None:
        raise KeyError("telegram")

    keeper = Keeper(
        "jobs", errand, trouble="Jobs are not run", clock=host_clock, tell=told.append,
        first_pause=0.01,
    )  # fmt: skip
    task = asyncio.create_task(keeper.run())

    async def has_begun_again() -> bool:
        return starts == 3

    await until(has_begun_again)
    assert (keeper.now.state, keeper.now.failures) == ("running", 2)
    assert len(told) == 2
    assert told[0].startswith("Jobs are not run: KeyError: 'telegram' (test_supervisor.py:")
    assert told[0].endswith("Trying again in 0.01 s.")
    task.cancel()
    await asyncio.wait({task})
    assert keeper.now.state == "stopped"


async def test_what_may_end_is_not_started_again() -> None:
    async def errand() -> None:
        """It is over at once."""

    keeper = Keeper("replies", errand, trouble="No replies", clock=host_clock, may_end=True)

    await soon(keeper.run())

    assert (keeper.now.state, keeper.now.failures) == ("stopped", 0)


async def test_a_channel_that_goes_down_and_up_again_is_reported_without_its_error() -> None:
    events = EventLog(host_clock)

    async def receive(_event: Event) -> Receipt:
        return Receipt(inbound_id="1")

    supervisor = Supervisor([Broken(1)], receive, clock=host_clock, first_pause=0.01, events=events)
    task = asyncio.create_task(supervisor.run())

    async def is_up_again() -> bool:
        return len(events.list_events()) == 3

    await until(is_up_again)
    task.cancel()
    await asyncio.wait({task})
    kinds = [each.kind for each in events.list_events()]
    assert kinds == ["channel_up", "channel_down", "channel_up"]
    assert "no such host" not in str(events.list_events())


async def test_the_last_message_of_a_channel_has_its_time() -> None:
    kept: list[str] = []

    async def receive(each: Incoming) -> Receipt:
        kept.append(each.text)
        return Receipt(inbound_id="1")

    async def has_one() -> bool:
        return bool(kept)

    async with open_peer() as peer, listening([PeerChannel(peer.port)], receive) as supervisor:
        (before,) = supervisor.list_states()
        await soon(peer.bring(incoming(1)))
        await until(has_one)
        (after,) = supervisor.list_states()
    assert before.last_at is None
    assert after.last_at is not None
