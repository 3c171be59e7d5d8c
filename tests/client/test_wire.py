"""The client's end of the wire, against peers that misbehave."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import ServerConnection, serve

from clew.api import frames as endings
from clew.api.frames import (
    DoneFrame,
    Ending,
    EventFrame,
    Frame,
    StateFrame,
    Subscribe,
    SubscribedFrame,
    event_frame,
    read_client_frame,
    read_frame,
    to_sse,
)
from clew.api.transport import Live
from clew.client.client import Client
from clew.client.http import check_url, is_here, read_events
from clew.core.live_events import Committed, TextDelta
from clew.core.message import Draft, number
from clew.core.text import to_wire
from clew.errors import (
    ClewError,
    GatewayUnavailable,
    InvalidInput,
    TooManyRequests,
    Unauthorized,
)
from tests.patience import PATIENCE

SESSION = "00000000-0000-4000-8000-000000000001"
OTHER = "00000000-0000-4000-8000-000000000002"


def message(session: str, seq: int) -> EventFrame:
    draft = Draft(role="user", content=f"message {seq}")
    said = number(draft, row_id=seq, session_id=session, seq=seq, turn_id=None, at=seq)
    return event_frame(session, Committed(said))


class Peer:
    """A gateway that hangs up in the middle of everything, and repeats itself."""

    def __init__(self, seed: int, *, last: int) -> None:
        self.chance = random.Random(seed)
        self.last = last
        self.connections = 0
        self.ending = Ending(1011, "as it happens")

    async def __call__(self, socket: ServerConnection) -> None:
        self.connections += 1
        left = self.chance.randrange(0, 12)
        await self._say(socket, StateFrame("0", 0, "owner", ("read",)))
        async for data in socket:
            wanted = read_client_frame(data)
            if not isinstance(wanted, Subscribe) or wanted.session is None:
                continue
            after = wanted.after or 0
            await self._say(socket, SubscribedFrame(wanted.session, after))
            # A careless one, who begins too early.
            for seq in range(max(1, after - 2), self.last + 1):
                if left == 0:
                    await socket.close(*self.ending)
                    return
                left -= 1
                await self._say(socket, message(wanted.session, seq))
                await self._say(socket, event_frame(wanted.session, TextDelta("…")))

    async def _say(self, socket: ServerConnection, frame: Frame) -> None:
        await socket.send(to_wire(frame).decode())


@asynccontextmanager
async def serving(peer: Any) -> AsyncIterator[str]:
    async with serve(peer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


@pytest.mark.parametrize("seed", range(5))
async def test_over_a_line_that_breaks_every_message_comes_exactly_once_and_in_order(
    seed: int,
) -> None:
    peer = Peer(seed, last=25)
    seen: dict[str, list[int]] = {SESSION: [], OTHER: []}
    async with serving(peer) as url, Client(url, "t") as client, client.live() as live:
        await live.subscribe(SESSION, after=0)
        await live.subscribe(OTHER, after=10)
        async with asyncio.timeout(PATIENCE):
            async for frame in live:
                if isinstance(frame, EventFrame) and frame.seq is not None:
                    seen[frame.session].append(frame.seq)
                if [each[-1:] for each in seen.values()] == [[25], [25]]:
                    break
    assert seen == {SESSION: [*range(1, 26)], OTHER: [*range(11, 26)]}
    assert peer.connections > 1


async def read_on(live: Live) -> None:
    async for _ in live:
        pass


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (endings.FLOOD, TooManyRequests),
        (endings.UNREADABLE, InvalidInput),
        (endings.TOO_LONG, InvalidInput),
        (Ending(1008, "of a proxy"), InvalidInput),
        (Ending(endings.UNAUTHORIZED, "revoked"), Unauthorized),
    ],
)
async def test_an_ending_for_good_is_an_error_that_says_why(
    ending: Ending, expected: type[ClewError]
) -> None:
    peer = Peer(0, last=100)
    peer.ending = ending
    async with serving(peer) as url, Client(url, "t") as client, client.live() as live:
        await live.subscribe(SESSION, after=0)
        with pytest.raises(expected, match=ending.reason):
            await asyncio.wait_for(read_on(live), PATIENCE)
    assert peer.connections == 1


@pytest.mark.parametrize("ending", [endings.CLOSING, endings.STALLED])
async def test_after_an_ending_that_passes_it_comes_back(ending: Ending) -> None:
    peer = Peer(0, last=25)
    peer.ending = ending
    async with serving(peer) as url, Client(url, "t") as client, client.live() as live:
        await live.subscribe(SESSION, after=0)
        async with asyncio.timeout(PATIENCE):
            async for frame in live:
                if isinstance(frame, EventFrame) and frame.seq == 25:
                    break
    assert peer.connections > 1


async def test_where_nobody_answers_that_is_said() -> None:
    async with serving(Peer(0, last=1)) as url:
        pass  # a port that was free a moment ago
    async with Client(url, "t") as client:
        with pytest.raises(GatewayUnavailable, match="clew serve"):
            await client.status()
        with pytest.raises(GatewayUnavailable):
            await anext(aiter(client.chat.send("hello")))
        with pytest.raises(GatewayUnavailable):
            async with client.live():
                pass


async def test_what_answers_and_is_no_gateway_is_called_so() -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client(url, "t") as client:
            with pytest.raises(GatewayUnavailable):
                await client.status()


@pytest.mark.parametrize("url", ["", "ftp://x", "127.0.0.1:7717", "http://", "file:///etc/passwd"])
def test_what_is_no_address_of_a_gateway_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        Client(url, "t")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:7717", True),
        ("http://[::1]:7717", True),
        ("http://localhost", True),
        ("http://localhost.example.org", False),
        ("https://example.org", False),
    ],
)
def test_only_this_machine_is_reached_without_a_proxy(url: str, *, expected: bool) -> None:
    assert is_here(url) is expected


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "http://192.168.1.7:7717",
        "http://0.0.0.0:7717",
        "http://localhost.example.org",
        "http://127.0.0.1@example.org",
        "http://127.0.0.1.nip.io",
        "http://[::ffff:192.168.1.7]:7717",
        "HTTP://EXAMPLE.ORG",
    ],
)
def test_a_token_is_never_sent_over_plain_http_to_another_machine(url: str) -> None:
    with pytest.raises(InvalidInput, match="plain http"):
        Client(url, "clew_secret")


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:7717", "http://127.9.9.9", "http://[::1]:1", "http://LOCALHOST:7717",
     "https://example.org", "https://192.168.1.7:7717"],
)  # fmt: skip
async def test_a_token_is_sent_to_this_machine_or_over_tls(url: str) -> None:
    await Client(url, "clew_secret").close()


def test_an_address_may_have_a_path_before_the_api() -> None:
    assert check_url("https://example.org/clew/") == "https://example.org/clew"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
frames = st.lists(
    st.one_of(
        st.builds(lambda text: event_frame(SESSION, TextDelta(text)), texts),
        st.builds(lambda text: DoneFrame(text, text), texts),
        st.builds(lambda seq: message(SESSION, seq), st.integers(1, 10**9)),
    ),
    max_size=6,
)


@given(sent=frames, size=st.integers(1, 50), heartbeat=st.booleans())
def test_frames_come_out_of_an_event_stream_however_it_is_cut(
    sent: list[Any], size: int, heartbeat: bool
) -> None:
    beat = b": heartbeat\r\n\r\n" if heartbeat else b""
    data = b"".join(beat + to_sse(frame) for frame in sent)

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(data), size):
            yield data[start : start + size]

    async def read() -> list[Frame]:
        return [frame async for frame in read_events(chunks())]

    assert asyncio.run(read()) == sent


def test_an_event_of_a_stream_has_the_sessions_number_for_its_id() -> None:
    assert to_sse(message(SESSION, 7)).startswith(b"id: 7\nevent: event\ndata: {")
    assert not to_sse(event_frame(SESSION, TextDelta("x"))).startswith(b"id:")


@given(st.text())
def test_any_text_can_go_over_the_wire(text: str) -> None:
    frame = event_frame(SESSION, TextDelta(text))
    back = read_frame(to_wire(frame))
    assert isinstance(back, EventFrame)
    shown = "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in text)
    assert back.event == TextDelta(shown)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "null",
        "[]",
        '{"type":"shutdown"}',
        '{"type":"subscribe","session":"../x"}',
        '{"type":"subscribe","after":-1}',
        '{"type":"subscribe","extra":1}',
        b"\xff\xfe",
        "[" * 100_000,
    ],
)
def test_a_frame_that_makes_no_sense_is_refused(data: str | bytes) -> None:
    with pytest.raises(InvalidInput):
        read_client_frame(data)
