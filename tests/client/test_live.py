from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from clew.api.frames import (
    ErrorFrame,
    EventFrame,
    GapFrame,
    HintFrame,
    LiveFrame,
    StateFrame,
    SubscribedFrame,
)
from clew.client.client import Client
from clew.core.live_events import Committed, TurnEnded
from clew.runtime.watch import BACKLOG
from tests.client.conftest import Place, next_of, said
from tests.gateway.streaming import recording
from tests.patience import PATIENCE
from tests.runtime.conftest import saying

NOBODY = "00000000-0000-4000-8000-000000000000"


async def up_to_end(frames: object) -> list[EventFrame]:
    """The events up to the end of a turn."""
    found: list[EventFrame] = []
    async with asyncio.timeout(PATIENCE):
        async for frame in frames:  # type: ignore[attr-defined]
            if isinstance(frame, EventFrame):
                found.append(frame)
                if isinstance(frame.event, TurnEnded):
                    break
    return found


async def test_it_begins_with_the_state(place: Place, client: Client) -> None:
    session = await place.session()
    async with client.live() as live:
        state = await next_of(aiter(live), *_all())
    assert isinstance(state, StateFrame)
    assert [each.id for each in state.sessions] == [session.id]
    assert (state.person, state.scopes) == ("owner", ("admin",))


def _all() -> tuple[type[LiveFrame], ...]:
    return StateFrame, SubscribedFrame, EventFrame, HintFrame, ErrorFrame


async def test_a_session_is_followed_from_now_on(place: Place, client: Client) -> None:
    session = await place.talked(client, "before")
    async with client.live() as live:
        frames = aiter(live)
        await live.subscribe(session)
        assert (await next_of(frames, SubscribedFrame)).after == 2
        place.actor.scenes = [saying("there")]
        await client.chat.send("hello", session=session)
        seen = await up_to_end(frames)
    assert said(seen) == ["user: hello", "assistant: there"]
    assert [each.seq for each in seen if isinstance(each.event, Committed)] == [3, 4]


async def test_a_session_is_followed_from_a_number_on(place: Place, client: Client) -> None:
    session = await place.talked(client, "one", "two")
    async with client.live() as live:
        frames = aiter(live)
        await live.subscribe(session, after=1)
        found = [await next_of(frames, EventFrame) for _ in range(3)]
    assert [each.seq for each in found] == [2, 3, 4]


async def test_who_does_not_read_is_told_of_a_gap_and_has_every_message_once_and_the_end(
    place: Place, client: Client
) -> None:
    session = await place.talked(client, "before")
    async with client.live() as live:
        frames = aiter(live)
        await live.subscribe(session)
        await next_of(frames, SubscribedFrame)
        # More than waits anywhere for who does not read: over HTTP 32 MB in pieces of 20 kB, in
        # process more frames than the backlog has.
        signals = 40 if place.way == "http" else BACKLOG // 40 + 20
        place.actor.scenes = [recording(40, signals=signals)]
        await place.talked(client, "go", session=session)
        seqs, gaps, last = await _drain(frames, 43)
    assert seqs == list(range(3, 45))
    assert gaps
    assert all(each in range(2, 45) for each in gaps)
    assert last.turn.status == "done"


async def _drain(
    frames: AsyncIterator[LiveFrame], last: int
) -> tuple[list[int], list[int], TurnEnded]:
    """Numbers and gaps up to an end of the turn behind the last message."""
    seqs: list[int] = []
    gaps: list[int] = []
    async with asyncio.timeout(PATIENCE):
        async for frame in frames:
            match frame:
                case GapFrame(after=after):
                    gaps.append(after)
                case EventFrame(seq=int(seq)):
                    seqs.append(seq)
                case EventFrame(event=TurnEnded() as end) if seqs and seqs[-1] > last:
                    return seqs, gaps, end
                case _:
                    pass
    raise AssertionError("it ended before the turn did")


async def test_two_sessions_come_over_one_connection(place: Place, client: Client) -> None:
    one, other = await place.talked(client, "one"), await place.talked(client, "other")
    async with client.live() as live:
        frames = aiter(live)
        await live.subscribe(one, after=0)
        await live.subscribe(other, after=0)
        found = [await next_of(frames, EventFrame) for _ in range(4)]
    for session, text in ((one, "one"), (other, "other")):
        mine = [each for each in found if each.session == session]
        assert said(mine) == [f"user: {text}", "assistant: ok"]


async def test_after_unsubscribing_nothing_more_comes(place: Place, client: Client) -> None:
    one, other = await place.talked(client, "one"), await place.talked(client, "other")
    async with client.live() as live:
        frames = aiter(live)
        await live.subscribe(one)
        await next_of(frames, SubscribedFrame)
        await live.unsubscribe(one)
        await live.subscribe(other)
        await next_of(frames, SubscribedFrame)
        await place.talked(client, "more", session=one)
        await client.chat.send("last", session=other)
        seen = await up_to_end(frames)
    assert {each.session for each in seen} == {other}


async def test_a_session_that_may_not_be_seen_is_an_error_and_the_rest_goes_on(
    place: Place, client: Client
) -> None:
    secret = await place.talked(client, "secret")
    guest = await place.client("telegram:5", "chat")
    theirs = await place.talked(guest, "mine")
    async with guest.live() as live:
        frames = aiter(live)
        for session in (NOBODY, secret):
            await live.subscribe(session, after=0)
            refused = await next_of(frames, ErrorFrame, EventFrame)
            assert isinstance(refused, ErrorFrame)
            assert (refused.session, refused.problem.code) == (session, "session_not_found")
        await live.subscribe(theirs, after=0)
        assert (await next_of(frames, ErrorFrame, EventFrame)).session == theirs


async def test_the_list_tells_what_changes_in_it(place: Place, client: Client) -> None:
    session = await place.session()
    async with client.live() as live:
        frames = aiter(live)
        await next_of(frames, StateFrame)
        await live.subscribe()
        await next_of(frames, SubscribedFrame)
        await client.sessions.update(session.id, title="A new name")
        renamed = await next_of(frames, HintFrame)
        assert (renamed.session, renamed.title) == (session.id, "A new name")
        other = await place.session("cli:other")
        assert (await next_of(frames, HintFrame)).session == other.id
        await client.sessions.delete(other.id)
        gone = await next_of(frames, HintFrame)
        assert (gone.session, gone.kind) == (other.id, "gone")
