"""Programs that keep their sessions in clew, in process and over HTTP."""

from __future__ import annotations

import asyncio
import secrets as random
from typing import Any

import pytest

from clew.api.handlers.parts import Caller
from clew.api.local import LocalTransport
from clew.api.records import Call, Erase, PutFacts, PutMessage, PutTitle, PutUsage, Spent, Undo
from clew.client.client import Client
from clew.core.session import SessionFilter
from clew.errors import (
    ClewError,
    Forbidden,
    InvalidInput,
    LeaseHeld,
    RecordNotFound,
    SessionNotFound,
)
from clew.runtime.lane.lease import hold
from tests.client.conftest import Place


async def read(client: Client, session_id: str) -> list[str]:
    page = await client.sessions.messages(session_id)
    return [f"{each.role}: {each.content}" for each in page.messages]


async def test_a_program_keeps_its_conversation_and_everybody_can_read_it(
    place: Place, client: Client
) -> None:
    made = await client.records.open("desk/7", program="my-agent", title="The desk")
    assert made.is_new
    assert made.session.platform == "store"
    again = await client.records.open("desk/7")
    assert (again.is_new, again.session.id) == (False, made.session.id)
    blob = await client.records.put(b"\x89PNG\r\n\x1a\n", media_type="image/png")
    added = await client.records.add(
        made.session.id,
        (
            PutMessage(role="user", content="where is the labyrinth?", external_id="m1"),
            PutMessage(
                role="assistant",
                tool_calls=(Call("c1", "look", "{}"),),
                turn="answer",
                usage=Spent(input_tokens=3),
            ),
            PutMessage(
                role="tool", content="seen", tool_call_id="c1", tool_name="look", turn="answer",
                parts=({"type": "file", "blob": blob.hash},),
            ),
            PutMessage(role="assistant", content="in Crete", turn="answer"),
            PutUsage(usage=Spent(input_tokens=10, output_tokens=2, api_calls=1)),
            PutFacts(facts={"customer": 7, "old": "x"}),
        ),
    )  # fmt: skip
    assert [each.seq for each in added.messages] == [1, 2, 3, 4]
    assert len({each.turn for each in added.messages}) == 2
    shown = (await client.sessions.get(made.session.id)).session
    assert (shown.usage.input_tokens, shown.message_count, shown.title) == (10, 4, "The desk")
    found = await client.sessions.list(q="labyrinth")
    assert [each.id for each in found.sessions] == [made.session.id]
    assert (await client.blobs.get(blob.hash, session=made.session.id)).content[:4] == b"\x89PNG"
    await client.records.add(made.session.id, (PutFacts(facts={"old": None, "new": [1]}),))
    assert (await client.records.open("desk/7")).facts == {"customer": 7, "new": [1]}


async def test_what_comes_twice_is_there_once(client: Client) -> None:
    session = (await client.records.open("a")).session
    first = PutMessage(role="user", content="one", external_id="m1")
    added = await client.records.add(session.id, (first,))
    again = await client.records.add(
        session.id, (first, PutMessage(role="assistant", content="two", external_id="m2"))
    )
    assert again.messages[0] == added.messages[0]
    key = random.token_hex(4)
    answers = [
        await client.records.add(
            session.id, (PutMessage(role="user", content="three"),), idempotency_key=key
        )
        for _ in range(2)
    ]
    assert [each.repeated for each in answers] == [False, True]
    assert answers[0].messages == answers[1].messages
    assert await read(client, session.id) == ["user: one", "assistant: two", "user: three"]


async def test_turns_are_undone_and_erased(place: Place, client: Client) -> None:
    session = (await client.records.open("a")).session
    added = await client.records.add(
        session.id,
        tuple(PutMessage(role="user", content=each) for each in ("keep", "hide", "forget me")),
    )
    _, hide, forget = (each.turn or "" for each in added.messages)
    await client.records.add(session.id, (Undo(turn=hide), Erase(turn=forget)))
    assert await read(client, session.id) == ["user: keep"]
    assert not (await client.sessions.list(q="forget")).sessions
    rows = await place.store.get_messages(session.id, undone=True)
    assert "forget me" not in {each.content for each in rows}
    with pytest.raises(RecordNotFound):
        await client.records.add(session.id, (Undo(turn="nothing"),))


async def test_all_changes_happen_or_none(client: Client) -> None:
    session = (await client.records.open("a")).session
    lost = {"type": "file", "blob": "0" * 64}
    with pytest.raises(InvalidInput, match="not in the store"):
        await client.records.add(
            session.id,
            (
                PutMessage(role="user", content="one"),
                PutMessage(role="user", content="two", parts=(lost,)),
            ),
        )
    assert await read(client, session.id) == []
    big = {"blob": "x" * 30_000}
    for wrong in (
        (),
        (PutFacts(facts=big),),
        (PutTitle(title=""),),
        (PutUsage(usage=Spent(input_tokens=-1)),),
        (PutMessage(role="user", parts=({"type": "instructions", "text": "obey"},)),),
        (PutMessage(role="wizard", content="x"),),  # type: ignore[arg-type]
        (PutMessage(role="user", content="x"),) * 501,
    ):
        with pytest.raises(InvalidInput):
            await client.records.add(session.id, wrong)
    for key in ("", "x" * 301, "a\nb"):
        with pytest.raises(InvalidInput):
            await client.records.open(key)
    assert await read(client, session.id) == []


async def test_no_token_writes_into_what_it_has_not_made(place: Place) -> None:
    mine = await place.client("owner", ("store",))
    other = await place.client("owner", ("approve", "store"))
    if place.way == "local":
        caller = Caller("owner", ("store",), "another")
        other = Client(transport=LocalTransport(place.calls, caller))
    admin = await place.client("owner", ("admin",))
    own = (await mine.records.open("same")).session
    theirs = (await other.records.open("same")).session
    assert own.id != theirs.id
    said = PutMessage(role="user", content="injected")
    await mine.records.add(own.id, (PutMessage(role="user", content="mine"),))
    chat = await place.session("cli:chat")
    guests = await place.session("telegram:5", person="telegram:5")
    fork = await admin.sessions.fork(own.id)
    # One that only looks like its own.
    spelled = await place.session(own.key + "/x")
    for foreign in (theirs, chat, guests, fork, spelled):
        for change in (said, PutTitle(title="x"), PutFacts(facts={"a": 1})):
            with pytest.raises(Forbidden):
                await mine.records.add(foreign.id, (change,))
        assert "injected" not in str(await read(admin, foreign.id))
    for scopes in (("read",), ("write", "approve")):
        small: Any = await place.client("owner", scopes)
        for call in (
            small.records.open("x"),
            small.records.add(own.id, (said,)),
            small.records.put(b"x"),
        ):
            with pytest.raises(Forbidden):
                await call
    guest = await place.client("telegram:5", ("write",))
    with pytest.raises(Forbidden):
        await guest.records.open("x")
    with pytest.raises(ClewError):
        await guest.records.add(own.id, (said,))
    # And it can do nothing else that its scope does not name.
    for call in (
        mine.chat.send("hello", session=own.id),
        mine.sessions.delete(own.id),
        mine.memory.write(content="x"),
    ):
        with pytest.raises(Forbidden):
            await call


async def test_a_busy_session_is_refused_and_a_trashed_one_begins_anew(
    place: Place, client: Client
) -> None:
    session = (await client.records.open("a")).session
    said = PutMessage(role="user", content="x")
    async with hold(place.store, session.id, "somebody"):
        with pytest.raises(LeaseHeld):
            await client.records.add(session.id, (said,))
    await client.sessions.delete(session.id)
    with pytest.raises(SessionNotFound):
        await client.records.add(session.id, (said,))
    assert (await client.records.open("a")).is_new


async def test_two_writers_of_facts_lose_none(place: Place, client: Client) -> None:
    session = (await client.records.open("a")).session
    await asyncio.gather(
        *(client.records.add(session.id, (PutFacts(facts={f"f{n}": n}),)) for n in range(4))
    )
    assert (await client.records.open("a")).facts == {f"f{n}": n for n in range(4)}
    page = await place.store.list_sessions(SessionFilter(viewer="owner", platform="store"))
    assert len(page.sessions) == 1
