"""Live events over a gateway that goes away and comes back."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from clew.api.frames import EventFrame, StateFrame, SubscribedFrame
from clew.api.handlers.parts import Caller
from clew.api.local import LocalTransport
from clew.api.transport import Live
from clew.client.client import Client
from clew.errors import Unauthorized
from tests.client.conftest import Place, next_of
from tests.client.serving import serving
from tests.patience import PATIENCE

pytestmark = pytest.mark.parametrize("place", ["local"], indirect=True)


@pytest.fixture
def here(place: Place) -> Client:
    """The same clew without a gateway, which goes on while there is none."""
    return Client(transport=LocalTransport(place.calls, Caller()))


async def test_what_was_said_while_the_gateway_was_away_comes_exactly_once(
    place: Place, here: Client
) -> None:
    session = await place.talked(here, "one")
    secret = await place.add_token("owner", ("read",))
    seen: list[int] = []

    async def read_to(live: Live, last: int) -> None:
        async with asyncio.timeout(PATIENCE):
            async for frame in live:
                if isinstance(frame, EventFrame) and frame.seq is not None:
                    seen.append(frame.seq)
                    if frame.seq >= last:
                        return

    async with serving(place.calls) as url:
        client = Client(url, secret)
        opened = client.live()
        live = await opened.__aenter__()
        await live.subscribe(session, after=0)
        await read_to(live, 2)
        await place.talked(here, "two", session=session)
    port = urlsplit(url).port
    assert port is not None
    await place.talked(here, "three", session=session)
    async with serving(place.calls, port):
        await place.talked(here, "four", session=session)
        await read_to(live, 8)
        await opened.__aexit__(None, None, None)
        await client.close()
    assert seen == [*range(1, 9)]


async def test_the_state_comes_again_after_a_break(place: Place) -> None:
    secret = await place.add_token("owner", ("read",))
    async with serving(place.calls) as url:
        client = Client(url, secret)
        opened = client.live()
        live = await opened.__aenter__()
        frames = aiter(live)
        await live.subscribe()
        await next_of(frames, StateFrame)
        await next_of(frames, SubscribedFrame)
    async with serving(place.calls, urlsplit(url).port or 0):
        await next_of(frames, StateFrame)
        await next_of(frames, SubscribedFrame)
        await opened.__aexit__(None, None, None)
        await client.close()


async def test_a_revoked_token_ends_the_events_with_a_word(place: Place, here: Client) -> None:
    made = await here.tokens.create("laptop", ("read",))
    async with serving(place.calls) as url, Client(url, made.secret) as client:
        async with client.live() as live:
            frames = aiter(live)
            await next_of(frames, StateFrame)
            await here.tokens.revoke(made.token.id)
            with pytest.raises(Unauthorized):
                await next_of(frames, SubscribedFrame)
        with pytest.raises(Unauthorized):
            await client.status()


async def test_a_wrong_token_opens_nothing(place: Place) -> None:
    async with serving(place.calls) as url, Client(url, "clew_wrong") as client:
        with pytest.raises(Unauthorized):
            await client.status()
        with pytest.raises(Unauthorized):
            await client.live().__aenter__()
        with pytest.raises(Unauthorized):
            await anext(aiter(client.chat.send("hello")))
