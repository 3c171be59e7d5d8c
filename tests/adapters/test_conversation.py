from __future__ import annotations

import asyncio

import pytest

import clew
from clew.adapters.conversation import Conversation
from clew.core.message import Draft
from clew.core.session import OWNER, Retention, SessionFilter
from clew.errors import InvalidInput, LeaseHeld
from clew.ports import Store
from clew.store import open_store


async def said(talk: Conversation, limit: int | None = None) -> list[str]:
    return [each.content for each in await talk.get(limit)]


async def test_messages_come_back_in_their_order(store: Store) -> None:
    talk = clew.Conversation(store, "app:7")
    assert await said(talk) == []
    first = await talk.add("user", "one")
    await talk.add("assistant", "two", model="m")

    assert (first.role, first.content, first.seq) == ("user", "one", 1)
    assert await said(talk) == ["one", "two"]
    assert await said(clew.Conversation(store, "app:7"), 1) == ["two"]


async def test_a_batch_is_all_or_nothing(store: Store) -> None:
    talk = Conversation(store, "app:7")
    bad = Draft(role="nobody", content="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        await talk.add_all([Draft(role="user", content="one"), bad])
    assert await said(talk) == []


async def test_pop_takes_the_newest_back_for_good(store: Store) -> None:
    talk = Conversation(store, "app:7")
    await talk.add("user", "keep this")
    await talk.add("assistant", "secret this")
    popped = await talk.pop()

    assert popped is not None
    assert popped.content == "secret this"
    assert await said(talk) == ["keep this"]
    assert [hit.snippet.text for hit in await talk.search("this")] == ["keep this"]
    assert await talk.pop() is not None
    assert await talk.pop() is None


async def test_two_that_pop_at_the_same_time_get_different_messages(url: str) -> None:
    async with await open_store(url) as one, await open_store(url) as two:
        talks = [Conversation(each, "app:7") for each in (one, two)]
        for number in range(12):
            await talks[0].add("user", str(number))
        popped = await asyncio.gather(*(talks[each % 2].pop() for each in range(12)))

        assert sorted(int(each.content) for each in popped if each) == list(range(12))
        assert await said(talks[0]) == []


async def test_writers_of_two_processes_lose_nothing(url: str) -> None:
    async with await open_store(url) as one, await open_store(url) as two:
        talks = [Conversation(each, "app:7") for each in (one, two)]
        await asyncio.gather(*(talks[each % 2].add("user", str(each)) for each in range(20)))

        assert sorted(map(int, await said(talks[1]))) == list(range(20))


async def test_clear_begins_anew_and_keeps_the_old_in_the_trash(store: Store) -> None:
    talk = Conversation(store, "app:7")
    await talk.clear()
    await talk.add("user", "old")
    await talk.clear()
    assert await said(talk) == []
    await talk.add("user", "new")

    assert await said(talk) == ["new"]
    trash = await store.list_sessions(SessionFilter(viewer=OWNER, trashed=True))
    assert [each.preview for each in trash.sessions] == ["old"]


async def test_a_fork_goes_its_own_way(store: Store) -> None:
    talk = Conversation(store, "app:7")
    await talk.add("user", "one")
    fork = await talk.fork("app:8")
    await fork.add("user", "two")
    await talk.add("user", "three")

    assert await said(fork) == ["one", "two"]
    assert await said(talk) == ["one", "three"]
    await talk.pop()
    await talk.pop()
    assert (await said(talk), await said(fork)) == ([], ["one", "two"])
    with pytest.raises(InvalidInput):
        await talk.fork("app:7")


async def test_a_session_in_which_a_turn_runs_is_not_written_to(store: Store) -> None:
    talk = Conversation(store, "app:7")
    message = await talk.add("user", "one")
    await store.acquire_lease(message.session_id, "a turn")
    with pytest.raises(LeaseHeld):
        await talk.add("user", "two")
    assert await said(talk) == ["one"]


async def test_retention_leaves_the_session_of_a_framework_alone(store: Store) -> None:
    for key in ("fw:1", "fw:2", "fw:3"):
        await Conversation(store, key, framework="frame", native_id=key[3:]).add("user", "x" * 100)

    kept = await store.retain(Retention(retention_days=0, max_storage_bytes=1))
    assert kept.ids == ()
    (found,) = await store.find_imports("2")
    assert (found.key, found.platform) == ("fw:2", "frame")
