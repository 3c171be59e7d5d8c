from __future__ import annotations

import msgspec
import pytest

from clew.core.changes import AddMessage
from clew.core.message import Draft
from clew.core.session import NewSession, Session
from tests.agent.tools.conftest import PLAIN, Bench

GUEST = "telegram:7"


async def say(
    bench: Bench, text: str, *, person: str = "owner", title: str | None = None
) -> Session:
    session = await bench.store.create_session(
        NewSession(key=f"cli:{text[:5]}", person=person, title=title)
    )
    lease = await bench.store.acquire_lease(session.id, "test")
    await bench.store.record(
        session.id, lease.epoch, AddMessage(Draft(role="user", content=text)),
        AddMessage(Draft(role="assistant", content="I see.")),
    )  # fmt: skip
    return session


@pytest.fixture
def searching(bench: Bench) -> Bench:
    """A bench whose personality has the special tool."""
    bench.personality = msgspec.structs.replace(PLAIN, tools=("usual", "session_search"))
    return bench


async def test_a_word_is_found_in_another_session(searching: Bench) -> None:
    session = await say(searching, "The walrus sings at night.", title="Zoo")
    outcome = await searching.call("session_search", query="walrus")
    assert f"{session.id} #1 user" in outcome.content
    assert "(Zoo)" in outcome.content
    assert "The walrus sings at night." in outcome.content


async def test_one_session_can_be_searched_by_the_beginning_of_its_id(searching: Bench) -> None:
    one = await say(searching, "walrus one")
    await say(searching, "walrus two")
    outcome = await searching.call("session_search", query="walrus", session=one.id[:13])
    assert "walrus one" in outcome.content
    assert "walrus two" not in outcome.content


async def test_a_session_is_read_in_pages(bench: Bench) -> None:
    session = await say(bench, "Hello there.")
    newest = await bench.call("session_read", session=session.id[:8], limit=1)
    assert "#2 assistant" in newest.content
    assert "[Earlier ones: before=2.]" in newest.content
    earlier = await bench.call("session_read", session=session.id, before=2)
    assert "Hello there." in earlier.content
    assert "I see." not in earlier.content


async def test_sessions_are_listed_and_this_one_is_marked(bench: Bench) -> None:
    session = await say(bench, "Hello.", title="Greeting")
    outcome = await bench.call("sessions_list")
    assert f"{session.id} " in outcome.content
    assert "Greeting (2 messages)" in outcome.content
    assert "this session" in outcome.content
    assert "Greeting" not in (await bench.call("sessions_list", here=True)).content
    assert "this session" not in (await bench.call("sessions_list", text="Greet")).content


async def test_a_guest_sees_nothing_but_their_own(searching: Bench) -> None:
    owners = await say(searching, "walrus of the owner")
    await say(searching, "walrus of the other guest", person="telegram:8")
    own = await say(searching, "walrus of mine", person=GUEST)
    await searching.begin(person=GUEST)
    found = (await searching.call("session_search", query="walrus")).content
    assert "of mine" in found
    assert "owner" not in found
    assert "other" not in found
    listed = (await searching.call("sessions_list")).content
    assert own.id in listed
    assert owners.id not in listed
    assert (await searching.call("session_read", session=owners.id)).is_error
    assert (await searching.call("session_search", query="x", session=owners.id)).is_error
    assert not (await searching.call("session_read", session=own.id)).is_error


async def test_an_unknown_id_is_said(bench: Bench) -> None:
    for typed in ("zzzz", "00000000", ""):
        outcome = await bench.call("session_read", session=typed)
        assert outcome.is_error
        assert "No session with the id" in outcome.content
