"""Feeds and client queues without a network: followers that take as little as they like."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.streams import Size, run
from clew.api.frames import EventFrame, GapFrame, HintFrame
from clew.api.handlers.parts import Caller
from clew.core.live_events import TurnEnded
from clew.gateway.client_queue import ClientQueue, Item
from clew.gateway.feeds import SLICE, Feeds
from tests.gateway.conftest import House, open_gatehouse
from tests.gateway.streaming import Place, recording
from tests.patience import PATIENCE
from tests.runtime.conftest import soon


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_gatehouse(tmp_path) as made:
        yield made


async def take(queue: ClientQueue) -> AsyncIterator[Item]:
    """What goes out, as the socket takes it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            await queue.wait()
            while items := queue.take():
                for each in items:
                    yield each
            if (follower := queue.find_behind()) is not None:
                for each in await follower.catch_up():
                    yield each


@pytest.mark.parametrize("seed", range(4))
async def test_followers_of_every_pace_have_every_message_once_and_the_end(
    house: House, seed: int
) -> None:
    rolling = random.Random(seed)
    session = await house.session()
    feeds = Feeds(house.calls.parts)
    place = Place(house, "")

    async def read(pace: float, after: int) -> tuple[list[int], int]:
        queue = ClientQueue(max_frames=rolling.randint(1, 5), max_bytes=rolling.randint(1, 60_000))
        follower = feeds.follow(session.id, 0, queue, after)
        seqs: list[int] = []
        gaps = 0
        async for item in take(queue):
            assert queue.size[0] <= 5
            await asyncio.sleep(pace * rolling.random())
            gaps += isinstance(item.frame, GapFrame)
            seqs += [] if item.seq is None else [item.seq]
            is_end = isinstance(item.frame, EventFrame) and isinstance(item.frame.event, TurnEnded)
            if is_end and seqs and seqs[-1] == 32:
                break
        await feeds.leave(follower, queue)
        return seqs, gaps

    readers = [
        asyncio.create_task(read(pace, after))
        for pace, after in ((0.0, 0), (0.003, 0), (0.02, 0), (0.02, 7))
    ]
    await asyncio.sleep(0)
    await place.say(session, "go", recording(30, signals=3))
    found = await soon(asyncio.gather(*readers))
    assert [each[0] for each in found] == [
        *(list(range(1, 33)) for _ in range(3)),
        list(range(8, 33)),
    ]
    assert found[2][1]


async def test_a_crowd_is_told_a_few_at_a_time_so_that_others_come_in_between(
    house: House,
) -> None:
    session = await house.session()
    feeds = Feeds(house.calls.parts)
    queues = [ClientQueue() for _ in range(5 * SLICE)]
    followers = [feeds.follow(session.id, 0, queue, 0) for queue in queues]
    for follower in followers:
        await follower.catch_up()
    saying = asyncio.create_task(Place(house, "").say(session, "go"))
    told = [0]
    async with asyncio.timeout(PATIENCE):
        while told[-1] < len(queues):
            await asyncio.sleep(0)
            told.append(sum(queue.size[0] > 0 for queue in queues))
    await soon(saying)
    for follower, queue in zip(followers, queues, strict=True):
        await feeds.leave(follower, queue)
    assert max(after - before for before, after in pairwise(told)) == SLICE


async def test_who_comes_while_others_are_told_has_every_message_once(house: House) -> None:
    session = await house.session()
    feeds = Feeds(house.calls.parts)

    async def read() -> list[int]:
        queue = ClientQueue()
        follower = feeds.follow(session.id, 0, queue, 0)
        seqs: list[int] = []
        async for item in take(queue):
            seqs += [] if item.seq is None else [item.seq]
            if seqs and seqs[-1] == 22:
                break
        await feeds.leave(follower, queue)
        return seqs

    readers = [asyncio.create_task(read()) for _ in range(3 * SLICE)]
    await asyncio.sleep(0)
    saying = asyncio.create_task(Place(house, "").say(session, "go", recording(20, signals=3)))
    while not saying.done():
        await asyncio.sleep(0.002)
        readers += [asyncio.create_task(read()) for _ in range(2)]
    assert all(each == list(range(1, 23)) for each in await soon(asyncio.gather(*readers)))
    await saying


async def test_hints_about_the_list_that_did_not_fit_are_told_later(house: House) -> None:
    feeds = Feeds(house.calls.parts)
    queue = ClientQueue(max_frames=1)
    first = await house.session("cli:first")
    follower = feeds.follow_list(Caller(), queue, ())
    told: set[str] = set()
    more: set[str] = set()
    async for item in take(queue):
        assert isinstance(item.frame, HintFrame)
        told.add(item.frame.session)
        if told == {first.id} and not more:
            more = {(await house.session(f"cli:{each}")).id for each in range(5)}
        if more and told >= more:
            break
    await feeds.leave(follower, queue)
    assert told == {first.id, *more}


async def test_a_session_that_is_purged_ends_with_a_problem(house: House) -> None:
    feeds = Feeds(house.calls.parts)
    queue = ClientQueue()
    session = await house.session()
    follower = feeds.follow(session.id, 0, queue, 0)
    taking = take(queue)
    await house.store.delete_sessions([session.id])
    await house.store.purge_sessions([session.id])
    await house.session("cli:other")
    item = await soon(anext(taking))
    assert '"code":"session_not_found"' in item.text
    await feeds.leave(follower, queue)


async def test_a_crowd_of_which_some_stop_reading_misses_nothing(tmp_path: Path) -> None:
    """The whole thing is `benchmarks.streams`."""
    size = Size(clients=20, stuck=3, rounds=1, words=40, is_timed=False)
    assert await run(size, tmp_path) == []
