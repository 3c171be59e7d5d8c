from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew.api.frames import AcceptedFrame, DoneFrame, ErrorFrame, EventFrame
from clew.core.live_events import Committed, TextDelta, TurnEnded
from clew.core.session import Session
from clew.core.text import to_wire
from tests.gateway.streaming import (
    Place,
    Told,
    open_place,
    open_quietly,
    read_slowly,
    read_stream,
    recording,
)
from tests.patience import PATIENCE
from tests.runtime.conftest import Held, saying, soon

NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(tmp_path, heartbeat=0.2) as made:
        yield made


@pytest.fixture
async def admin(place: Place) -> str:
    return await place.house.secret()


def path_of(session: Session, after: int | None = None) -> str:
    return f"/v1/sessions/{session.id}/events" + ("" if after is None else f"?after={after}")


async def up_to(events: AsyncIterator[Told], last: str) -> list[Told]:
    """The events up to the one with this id; without comments."""
    found: list[Told] = []
    async for told in events:
        found += [told] if told.frame is not None else []
        if told.id == last:
            return found
    raise AssertionError("the stream ended")


# --- one session ------------------------------------------------------------------------------


async def test_the_id_is_the_number_of_the_message_and_hints_have_none(
    place: Place, admin: str
) -> None:
    session = await place.house.session()
    async with place.events(path_of(session, 0), admin) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        await place.say(session, "hello", saying("there"))
        found = await up_to(read_stream(response), "2")
    for told in found:
        assert isinstance(told.frame, EventFrame)
        is_message = isinstance(told.frame.event, Committed)
        assert told.id == (str(told.frame.seq) if is_message else None)
    assert [each.id for each in found if each.id] == ["1", "2"]
    assert any(isinstance(each.frame, EventFrame) and each.id is None for each in found)


async def test_last_event_id_resumes_exactly_whatever_the_address_says(
    place: Place, admin: str
) -> None:
    session = await place.house.session()
    await place.say(session, "go", recording(8))
    seen: list[str] = []
    while len(seen) < 10:
        headers = {"Last-Event-ID": seen[-1]} if seen else {}
        async with place.events(path_of(session, 0), admin, headers=headers) as response:
            async for told in read_stream(response):
                seen += [told.id] if told.id is not None else []
                if len(seen) % 4 == 0 or len(seen) == 10:
                    break
    assert seen == [str(each) for each in range(1, 11)]


async def test_without_a_number_it_begins_now_and_says_where_that_is(
    place: Place, admin: str
) -> None:
    session = await place.house.session()
    await place.say(session, "before")
    async with place.events(path_of(session), admin) as response:
        lines = response.aiter_lines()
        assert await soon(anext(lines)) == "id: 2"
        await place.say(session, "now")
        ids = []
        async with asyncio.timeout(PATIENCE):
            async for line in lines:
                ids += [line] if line.startswith("id:") else []
                if line == "id: 4":
                    break
    assert ids == ["id: 3", "id: 4"]


async def test_a_comment_tells_that_it_is_alive(place: Place, admin: str) -> None:
    session = await place.house.session()
    async with place.events(path_of(session), admin) as response:
        comments = [told.comment async for told in _first(read_stream(response), 2)]
    assert comments == ["alive", "alive"]


async def _first(events: AsyncIterator[Told], count: int) -> AsyncIterator[Told]:
    async for told in events:
        yield told
        count -= 1
        if not count:
            return


async def test_a_slow_reader_is_told_of_the_gap_and_has_every_message_once(
    place: Place, admin: str
) -> None:
    session = await place.house.session()
    async with open_quietly(place, path_of(session, 0), admin) as reader:
        await soon(reader.readuntil(b"retry: 1000\n\n"))
        await place.say(session, "go", recording(40, signals=40))
        ids, gaps = await read_slowly(reader, 42)
    assert ids == list(range(1, 43))
    assert gaps


async def test_the_end_of_the_token_is_the_last_event(place: Place) -> None:
    session = await place.house.session()
    token = await place.house.secret("read")
    async with place.events(path_of(session), token) as response:
        events = read_stream(response)
        await place.house.revoke(token)
        found = [each.frame async for each in events if each.frame is not None]
    assert len(found) == 1
    assert isinstance(found[0], ErrorFrame)
    assert found[0].problem.code == "unauthorized"


WRONG = [
    (NOBODY, "", None, 404),
    ("x", "", None, 400),
    (None, "?after=-1", None, 400),
    (None, "?after=x", None, 400),
    (None, "?after=1&after=2", None, 400),
    (None, "?other=1", None, 400),
    (None, "", "x", 400),
    (None, "", "-1", 400),
    (None, "", "9" * 30, 400),
    (None, "", "\u0664", 400),
]


async def test_what_is_wrong_is_a_problem_and_no_stream(place: Place, admin: str) -> None:
    session = await place.house.session()
    for name, query, last, status in WRONG:
        headers = {} if last is None else {"Last-Event-ID": last.encode()}
        path = f"/v1/sessions/{name or session.id}/events{query}"
        async with place.events(path, admin, headers=headers) as response:
            assert response.status_code == status, (name, query, last)
            assert response.headers["content-type"] == "application/problem+json"


async def test_a_guest_follows_what_is_theirs_only(place: Place) -> None:
    theirs = await place.house.session("cli:theirs", person="telegram:5")
    other = await place.house.session("cli:other")
    guest = await place.house.secret("read", "telegram:5")
    async with place.events(path_of(other), guest) as response:
        assert response.status_code == 404
    async with place.events(path_of(theirs), guest) as response:
        assert response.status_code == 200


async def test_head_answers_and_ends(place: Place, admin: str) -> None:
    session = await place.house.session()
    async with place.events(path_of(session), admin, method="HEAD") as response:
        assert response.status_code == 200
        assert await soon(response.aread()) == b""


# --- one message ------------------------------------------------------------------------------


async def chat(place: Place, token: str, session: Session, text: str) -> list[Told]:
    asked = {"session": session.id, "text": text, "stream": True}
    async with place.events("/v1/chat", token, method="POST", json=asked) as response:
        assert response.status_code == 200, await response.aread()
        return [told async for told in read_stream(response)]


async def test_a_message_is_followed_until_it_is_answered(place: Place, admin: str) -> None:
    session = await place.house.session()
    place.actor.scenes = [saying("there")]
    found = [each for each in await chat(place, admin, session, "hello") if each.frame]
    first, last = found[0].frame, found[-1].frame
    assert isinstance(first, AcceptedFrame)
    assert isinstance(last, DoneFrame)
    assert last.inbound == first.accepted.inbound
    events = [each.frame for each in found[1:-1]]
    assert all(isinstance(each, EventFrame) and each.inbound == last.inbound for each in events)
    assert [each.id for each in found if each.id] == ["1", "2"]
    kinds = [type(each.event) for each in events if isinstance(each, EventFrame)]
    assert TextDelta in kinds
    assert kinds[-1] is TurnEnded


async def test_two_messages_at_once_have_each_their_own_events(place: Place, admin: str) -> None:
    session = await place.house.session()
    place.actor.scenes = [saying("first"), saying("second")]
    streams = await soon(
        asyncio.gather(chat(place, admin, session, "one"), chat(place, admin, session, "two"))
    )
    ids = [{each.id for each in found if each.id} for found in streams]
    assert sorted(map(sorted, ids)) == [["1", "2"], ["3", "4"]]


async def test_a_long_turn_is_told_to_be_alive_and_leaving_does_not_stop_it(
    place: Place, admin: str
) -> None:
    session = await place.house.session()
    held = Held("at last")
    place.actor.scenes = [held]
    asked = {"session": session.id, "text": "hello", "stream": True}
    async with place.events("/v1/chat", admin, method="POST", json=asked) as response:
        async for told in read_stream(response):
            if told.comment == "alive":
                break
    held.go_on.set()
    await soon(place.runtime.join(session.id))
    thread = await place.store.get_messages(session.id)
    assert [each.content for each in thread] == ["hello", "at last"]


async def test_a_message_that_can_not_be_kept_is_a_problem_and_no_stream(
    place: Place, admin: str
) -> None:
    for body, status in (
        ({"session": NOBODY, "text": "hello", "stream": True}, 404),
        ({"text": " ", "stream": True}, 400),
    ):
        async with place.events("/v1/chat", admin, method="POST", json=body) as response:
            assert response.status_code == status


async def test_a_message_that_is_taken_back_ends_its_stream_with_the_problem(
    place: Place, admin: str
) -> None:
    session = await place.house.session()
    held = Held()
    saying_first = asyncio.create_task(place.say(session, "first", held))
    await soon(held.began.wait())
    waiting = asyncio.create_task(chat(place, admin, session, "second"))
    async with asyncio.timeout(PATIENCE):
        while not place.runtime.count_queued(session.id):  # noqa: ASYNC110  # over the network
            await asyncio.sleep(0.01)
    await place.runtime.take_back(session.id)
    last = (await soon(waiting))[-1].frame
    assert isinstance(last, ErrorFrame)
    assert last.problem.code == "conflict"
    held.go_on.set()
    await soon(saying_first)


async def test_a_slow_reader_of_an_answer_is_told_of_the_gap_and_has_every_message_once(
    place: Place, admin: str
) -> None:
    session = await place.house.session()
    place.actor.scenes = [recording(100, signals=30)]
    asked = to_wire({"session": session.id, "text": "go", "stream": True})
    async with open_quietly(place, "/v1/chat", admin, asked) as reader:
        await soon(reader.readuntil(b"event: accepted"))
        await soon(place.runtime.join(session.id))
        ids, gaps = await read_slowly(reader, 102)
        await soon(reader.readuntil(b"event: done"))
    assert ids == list(range(1, 103))
    assert gaps
