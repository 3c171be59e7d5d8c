from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import tracemalloc
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from clew.api.frames import (
    ErrorFrame,
    EventFrame,
    GapFrame,
    HintFrame,
    StateFrame,
    Subscribe,
    SubscribedFrame,
)
from clew.core.live_events import (
    ApprovalAsked,
    Committed,
    Event,
    Notice,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
)
from clew.core.text import to_wire
from clew.core.turn import Approval
from clew.gateway import live as module
from clew.gateway.client_queue import MAX_BYTES, MAX_FRAMES, ClientQueue, item_of
from clew.gateway.feeds import merge
from clew.gateway.stream_guard import CHECK_EVERY
from tests.cli.conftest import Home
from tests.gateway.conftest import HOUR
from tests.gateway.streaming import (
    KILOBYTES,
    Place,
    follow,
    frames_of,
    next_frame,
    open_place,
    recording,
    seqs_up_to,
)
from tests.patience import PATIENCE
from tests.runtime.conftest import Held, added, soon
from tests.runtime.lane.test_questions import Asking

QUIET = {"max_queue": 1}
"""A client that takes little from the network before it is read from."""


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(tmp_path) as made:
        yield made


@pytest.fixture
async def admin(place: Place) -> str:
    return await place.house.secret()


# --- what comes -------------------------------------------------------------------------------


async def test_it_begins_with_who_one_is_and_what_goes_on(place: Place, admin: str) -> None:
    session = await place.house.session()
    held = Held()
    saying = asyncio.create_task(place.say(session, "hello", held))
    await soon(held.began.wait())
    async with place.socket(admin) as live:
        state = await next_frame(live)
    held.go_on.set()
    await soon(saying)
    assert isinstance(state, StateFrame)
    assert (state.person, state.scopes) == ("owner", ("admin",))
    assert [(each.id, each.status) for each in state.sessions] == [(session.id, "running")]


async def test_reconnecting_from_the_last_seq_gives_every_message_once(
    place: Place, admin: str
) -> None:
    session = await place.house.session()
    talking = asyncio.create_task(_talk(place, 6))
    seen: list[int] = []
    while len(seen) < 30:
        async with place.socket(admin) as live:
            await follow(live, session, seen[-1] if seen else 0)
            for _ in range(7):
                frame = await next_frame(live, EventFrame)
                seen += [frame.seq] if frame.seq is not None else []
                if len(seen) == 30:
                    break
            live.transport.abort()
    await soon(talking)
    assert seen == list(range(1, 31))


async def _talk(place: Place, turns: int) -> None:
    """Turns of five messages in the only session."""
    page = await place.store.find_keys("cli:test")
    for number in range(turns):
        await place.say(page[0], f"question {number}", recording(3))


async def test_messages_of_a_process_beside_it_come_too_and_its_own_go_there(
    place: Place, admin: str, tmp_path: Path
) -> None:
    session = await place.house.session()
    async with place.socket(admin) as one, place.socket(admin) as two:
        await follow(one, session, 0)
        await follow(two, session, 0)
        await place.say(session, "from the gateway")
        asked = await _ask(tmp_path, session.id, "from a process")
        for each in (one, two):
            assert await seqs_up_to(each, 4) == [1, 2, 3, 4]
    thread = await place.store.get_messages(session.id)
    assert [each.content for each in thread[:3]] == ["from the gateway", "ok", "from a process"]
    assert thread[3].content in asked


async def _ask(folder: Path, session_id: str, text: str) -> str:
    """`clew ask`, as somebody else on this machine runs it."""
    home = Home(folder / "theirs")
    home.script("an answer of theirs")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "clew", "--home", str(home.path)),
        *("--store", f"sqlite://{folder}/store/sessions.db", "ask", "-r", session_id, text),
        env={},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
    )
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def test_a_question_that_is_open_is_told_to_whoever_comes_later(
    place: Place, admin: str
) -> None:
    session = await place.house.session()
    saying = asyncio.create_task(place.say(session, "hello", Asking()))
    async with place.socket(admin) as first, place.socket(admin) as second:
        await follow(first, session, 0)
        approval = await _question(first)
        await follow(second, session, 0)
        assert await _question(second) == approval
        async with place.socket(admin) as third:
            assert (await next_frame(third, StateFrame)).approvals == (approval,)
        await place.runtime.decide(approval.id, "yes", by="owner")
        await soon(saying)
        assert await seqs_up_to(second, 2) == [2]


async def _question(live: ClientConnection) -> Approval:
    async for frame in frames_of(live):
        if isinstance(frame, EventFrame) and isinstance(frame.event, ApprovalAsked):
            return frame.event.approval
    raise AssertionError("nobody asked")


async def test_the_list_tells_of_a_turn_in_a_session_that_is_not_followed(
    place: Place, admin: str
) -> None:
    session = await place.house.session()
    held = Held()
    async with place.socket(admin) as live:
        await live.send(to_wire(Subscribe(None)).decode())
        assert (await next_frame(live, SubscribedFrame)).session is None
        saying = asyncio.create_task(place.say(session, "more", held))
        hint = await next_frame(live, HintFrame)
        while hint.kind != "turn":
            hint = await next_frame(live, HintFrame)
        assert (hint.session, hint.status) == (session.id, "running")
        held.go_on.set()
        await soon(saying)


# --- who is slow ------------------------------------------------------------------------------


async def test_who_does_not_read_slows_no_turn_and_then_has_a_gap_and_every_message_once(
    place: Place, admin: str
) -> None:
    session = await place.house.session()
    async with place.socket(admin, **QUIET) as slow, place.socket(admin) as fast:
        await follow(slow, session, 0)
        await next_frame(slow, SubscribedFrame)
        await follow(fast, session, 0)
        reading = asyncio.create_task(seqs_up_to(fast, 42))
        # 32 MB in pieces of 20 kB: far more than the network between them holds.
        await place.say(session, "go", recording(40, signals=40))
        assert await soon(reading) == list(range(1, 43))
        seqs, gaps, ends = await _drain(slow, 42)
    assert seqs == list(range(1, 43))
    assert gaps
    assert all(each in range(43) for each in gaps)
    assert ends == 1


async def _drain(live: ClientConnection, last: int) -> tuple[list[int], list[int], int]:
    """Numbers, gaps and ends of turns, up to an end after the last message."""
    seqs: list[int] = []
    gaps: list[int] = []
    async for frame in frames_of(live):
        match frame:
            case GapFrame(after=after):
                gaps.append(after)
            case EventFrame(event=Committed(message)):
                seqs.append(message.seq)
            case EventFrame(event=TurnEnded()) if seqs and seqs[-1] == last:
                return seqs, gaps, 1
            case _:
                pass
    raise AssertionError("it ended before the turn did")


async def test_who_does_not_read_costs_no_more_memory_than_a_queue(
    place: Place, admin: str
) -> None:
    session = await place.house.session()
    async with place.socket(admin, **QUIET) as slow:
        await follow(slow, session, 0)
        await next_frame(slow, SubscribedFrame)
        await place.say(session, "warm", recording(5, signals=100))
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            await place.say(session, "go", recording(20, signals=100))
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        slow.transport.abort()
    # 40 MB went by.
    assert after - before < 4 * MAX_BYTES


async def test_who_does_not_read_for_long_is_let_go(tmp_path: Path) -> None:
    async with open_place(tmp_path, stall=0.3) as place:
        session = await place.house.session()
        async with place.socket(await place.house.secret(), **QUIET) as slow:
            await follow(slow, session, 0)
            await next_frame(slow, SubscribedFrame)
            feeds = [each for each in asyncio.all_tasks() if each.get_name().startswith("feed ")]
            assert len(feeds) == 1
            async with asyncio.timeout(PATIENCE):
                # When nobody follows any more, nobody looks.
                while not feeds[0].done():
                    await place.say(session, "go", recording(5, signals=40))
            slow.transport.abort()


def test_a_client_queue_takes_no_more_than_it_holds_but_one_of_any_size() -> None:
    queue = ClientQueue()
    item = item_of(EventFrame("s", Notice("x")))
    taken = queue.offer([item] * 2 * MAX_FRAMES)
    assert taken == MAX_FRAMES
    queue = ClientQueue()
    huge = item_of(EventFrame("s", Notice("x" * 3 * MAX_BYTES)))
    assert queue.offer([huge, item]) == 1


_EVENTS: st.SearchStrategy[list[Event]] = st.lists(
    st.one_of(
        st.text(max_size=3).map(TextDelta),
        st.text(max_size=3).map(ThinkingDelta),
        st.text(max_size=3).map(Notice),
    )
)


@given(_EVENTS)
def test_deltas_are_put_together_without_a_change_of_what_they_say(events: list[Event]) -> None:
    merged = merge(events)
    assert _spell(merged) == _spell(events)
    for first, second in pairwise(merged):
        assert type(first) is not type(second) or isinstance(first, Notice)


def _spell(events: list[Event]) -> list[tuple[str, str]]:
    """One letter after the other, with its kind."""
    spelt: list[tuple[str, str]] = []
    for event in events:
        kind = type(event).__name__
        if isinstance(event, TextDelta | ThinkingDelta):
            spelt += [(kind, letter) for letter in event.text]
        elif isinstance(event, Notice):
            spelt.append((kind, event.text))
    return spelt


# --- who may ----------------------------------------------------------------------------------


def test_whether_a_token_is_still_good_is_looked_at_several_times_a_second() -> None:
    assert CHECK_EVERY < 0.5


async def test_a_revoked_token_closes_the_socket(place: Place) -> None:
    token = await place.house.secret("read")
    async with place.socket(token) as live, place.socket(await place.house.secret()) as other:
        await next_frame(live, StateFrame)
        await next_frame(other, StateFrame)
        await place.house.revoke(token)
        assert await soon(_closing(live)) == 4401
        await soon(await other.ping())


async def test_an_expired_token_closes_the_socket(place: Place) -> None:
    token = await place.house.secret("read", expires_at=place.house.watch() + HOUR)
    async with place.socket(token) as live:
        await next_frame(live, StateFrame)
        place.house.watch.ahead = 2 * HOUR
        assert await soon(_closing(live)) == 4401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Authorization": "Bearer wrong"}, 401),
    ],
)
async def test_a_stranger_is_refused_at_the_handshake(
    place: Place, admin: str, headers: dict[str, str], status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with place.socket(admin, headers=headers):
            pass
    assert refused.value.response.status_code == status
    assert b'"code"' in bytes(refused.value.response.body or b"")


async def test_a_refusal_is_nothing_that_went_wrong_here(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    for headers in ({"Authorization": "Bearer wrong"}, {}, {"Origin": "http://evil.example"}):
        with pytest.raises(InvalidStatus):
            async with place.socket(None, headers=headers):
                pass
    place.house.gate.closed.set()
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


async def test_a_page_of_its_own_comes_in_with_a_cookie(place: Place) -> None:
    cookie = f"{place.house.gate.setup.cookie}={await place.house.secret(kind='cookie')}"
    headers = {"Cookie": cookie, "Origin": place.url, "Sec-Fetch-Site": "same-origin"}
    async with place.socket(None, headers=headers) as live:
        assert (await next_frame(live, StateFrame)).person == "owner"


async def test_closing_the_gateway_closes_the_sockets(place: Place, admin: str) -> None:
    async with place.socket(admin) as live:
        await next_frame(live, StateFrame)
        place.house.gate.closed.set()
        assert await _closing(live) == 1012


# --- what nobody understands ------------------------------------------------------------------

BAD: list[str | bytes] = [
    "",
    "null",
    "no json",
    '{"type": "unknown"}',
    '{"type": "subscribe", "session": "../../etc/passwd"}',
    '{"type": "subscribe", "session": null, "after": -1}',
    '{"type": "subscribe", "more": 1}',
    '{"type": "subscribe", "after": 1e99}',
    "[" * 3_000,
    b"\x00\xff",
]


async def test_a_frame_that_nobody_understands_is_told_so_and_repeated_closes(
    place: Place, admin: str
) -> None:
    for bad in BAD:
        async with place.socket(admin) as live:
            await next_frame(live, StateFrame)
            await live.send(bad)
            refused = await next_frame(live)
            assert isinstance(refused, ErrorFrame), bad
            assert refused.problem.status == 400
            for _ in range(module.MAX_STRIKES - 1):
                await live.send(bad)
            assert await _closing(live) == 1008, bad


async def _closing(live: ClientConnection) -> int:
    """The code with which it is closed, after whatever comes before."""
    with contextlib.suppress(ConnectionClosed):
        async for _ in frames_of(live):
            pass
    assert live.close_code is not None
    return live.close_code


async def test_a_frame_that_is_too_long_closes_the_socket(place: Place, admin: str) -> None:
    async with place.socket(admin) as live:
        await next_frame(live, StateFrame)
        await live.send("x" * (module.MAX_FRAME + 1))
        assert await _closing(live) == 1009


async def test_a_flood_of_frames_closes_the_socket(place: Place, admin: str) -> None:
    async with place.socket(admin) as live:
        with contextlib.suppress(ConnectionClosed):
            for _ in range(2 * module.BURST):
                await soon(live.send('{"type": "unsubscribe"}'))
        assert await _closing(live) == 1008


async def test_long_deltas_arrive_whole(place: Place, admin: str) -> None:
    session = await place.house.session()

    async def scene(turn: object) -> None:
        for letter in "abcdefgh":
            turn.signal(TextDelta(letter))  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
        await turn.finish(added(turn, KILOBYTES))  # type: ignore[attr-defined, arg-type]

    async with place.socket(admin) as live:
        await follow(live, session)
        await next_frame(live, SubscribedFrame)
        await place.say(session, "go", scene)
        text = ""
        async for frame in frames_of(live):
            if isinstance(frame, EventFrame) and isinstance(frame.event, TextDelta):
                text += frame.event.text
            if isinstance(frame, EventFrame) and frame.seq == 2:
                assert isinstance(frame.event, Committed)
                assert frame.event.message.content == KILOBYTES
                break
    assert text == "abcdefgh"
