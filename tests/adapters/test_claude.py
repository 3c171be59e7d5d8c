from __future__ import annotations

import asyncio
from typing import Any

import pytest
from claude_agent_sdk import InMemorySessionStore
from claude_agent_sdk.testing import run_session_store_conformance

from clew.adapters.claude import ClewSessionStore
from clew.core.message import ToolCall
from clew.core.session import OWNER, SessionFilter
from clew.core.usage import Usage
from clew.errors import InvalidInput, StoreClosed
from clew.ports import Store
from clew.store import open_store

KEY: Any = {"project_key": "-home-me-app", "session_id": "s1"}
SUB: Any = {**KEY, "subpath": "subagents/agent-1"}

SPENT = {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3}
ENTRIES: list[Any] = [
    {"type": "user", "uuid": "u1", "cwd": "/home/me/app", "timestamp": "2026-01-01T00:00:00.000Z",
     "message": {"role": "user", "content": "Weather in Köln? \0 \ud83d"}},
    {"type": "assistant", "uuid": "u2", "message": {"id": "m1", "model": "claude", "usage": SPENT,
     "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "I look."}]}},
    {"type": "assistant", "uuid": "u3", "message": {"id": "m1", "model": "claude", "usage": SPENT,
     "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Köln"}},
                 {"type": "tool_use", "id": "c2", "name": "weather", "input": {}}]}},
    {"type": "user", "uuid": "u4", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": "rain"},
        {"type": "tool_result", "tool_use_id": "c2", "is_error": True,
         "content": [{"type": "text", "text": "no city"}]}]}},
    {"type": "user", "uuid": "u5", "isMeta": True, "message": {"content": "hidden"}},
    {"type": "custom-title", "customTitle": "The weather", "big": 2**70, "small": 1e-9},
    {"type": "assistant", "uuid": "u6", "message": {"id": "m2", "content": "Wet.", "usage": 1}},
]  # fmt: skip


async def test_the_sdks_own_suite(url: str) -> None:
    stores: list[Store] = []

    async def make() -> ClewSessionStore:
        # Each of its contracts begins with an empty store.
        stores.append(await open_store(url))
        for session in (await stores[-1].list_sessions(SessionFilter(viewer=OWNER))).sessions:
            await stores[-1].delete_sessions([session.id])
        return ClewSessionStore(stores[-1])

    await run_session_store_conformance(make)
    assert len(stores) == 15  # one for each of 14 contracts, and one to look at
    for store in stores:
        await store.close()


async def test_a_session_is_read_like_any_other_and_comes_back_exactly(store: Store) -> None:
    sdk = ClewSessionStore(store)
    await sdk.append(KEY, ENTRIES[:2])
    await sdk.append(KEY, ENTRIES[2:])
    await sdk.append(KEY, ENTRIES[:5])
    assert await sdk.load(KEY) == ENTRIES

    (session,) = (await store.list_sessions(SessionFilter(viewer=OWNER))).sessions
    assert (session.key, session.platform, session.name, session.shown_directory) == (
        "claude:-home-me-app/s1", "claude-agent-sdk", "The weather", "/home/me/app",
    )  # fmt: skip
    said = await store.get_messages(session.id)
    assert [each.role for each in said] == [
        "user", "assistant", "assistant", "tool", "tool", "assistant",
    ]  # fmt: skip
    assert said[2].tool_calls[0] == ToolCall("c1", "weather", '{"city":"Köln"}')
    assert [(each.tool_call_id, each.content, each.is_error) for each in said[3:5]] == [
        ("c1", "rain", False), ("c2", "no city", True),
    ]  # fmt: skip
    assert session.usage == Usage(5, 2, 3, 0, None, 1)
    assert session.message_count == 6 < session.head


async def test_sub_agents_are_sessions_below_theirs(store: Store) -> None:
    sdk = ClewSessionStore(store)
    await sdk.append(KEY, ENTRIES[:1])
    await sdk.append(SUB, ENTRIES[:1])
    main, sub = (
        await store.find_route("claude:-home-me-app/s1"),
        await store.find_route("claude:-home-me-app/s1/subagents/agent-1"),
    )
    assert main is not None
    assert sub is not None
    assert (sub.kind, sub.parent_id) == ("subagent", main.id)
    await store.mark_sessions([main.id, sub.id], archived=True)
    assert [each["session_id"] for each in await sdk.list_sessions("-home-me-app")] == ["s1"]
    assert await sdk.list_subkeys(KEY) == ["subagents/agent-1"]
    assert await sdk.load(SUB) == ENTRIES[:1]
    # A fork that somebody makes in clew is none of the SDK's.
    await store.fork_session(main.id)
    assert len(await sdk.list_sessions("-home-me-app")) == 1

    await sdk.delete(KEY)
    assert await sdk.load(SUB) is None
    trash = await store.list_sessions(SessionFilter(viewer=OWNER, trashed=True))
    assert {each.id for each in trash.sessions} == {main.id, sub.id}


async def test_it_does_what_the_store_of_the_sdk_does(store: Store) -> None:
    sdk, theirs = ClewSessionStore(store), InMemorySessionStore()
    for each in (sdk, theirs):
        await each.append(KEY, ENTRIES[:3])
        await each.append(SUB, ENTRIES[:1])
        await each.append(KEY, ENTRIES[3:])
    mine, other = [await each.list_session_summaries("-home-me-app") for each in (sdk, theirs)]
    assert [each["data"] for each in mine] == [each["data"] for each in other]
    assert [each["mtime"] for each in mine] == [
        each["mtime"] for each in await sdk.list_sessions("-home-me-app")
    ]


async def test_processes_that_append_at_once_lose_no_entry_and_no_summary(url: str) -> None:
    async with await open_store(url) as one, await open_store(url) as two:
        stores = ClewSessionStore(one), ClewSessionStore(two)
        entries = [{"type": "user", "uuid": str(each), f"n{each}": each} for each in range(16)]
        titles = [{"type": "tag", "tag": "t"}, {"type": "x", "gitBranch": "b"}]
        batches: list[Any] = [[each] for each in (*entries, *titles)]
        await asyncio.gather(
            *(stores[at % 2].append(KEY, batch) for at, batch in enumerate(batches))
        )
        loaded = await stores[0].load(KEY)
        assert loaded is not None
        assert sorted(each.get("uuid", "") for each in loaded) == sorted(
            ["", "", *map(str, range(16))]
        )
        (summary,) = await stores[1].list_session_summaries("-home-me-app")
        assert (summary["data"]["tag"], summary["data"]["git_branch"]) == ("t", "b")


async def test_what_can_not_be_stored_changes_nothing(url: str) -> None:
    sdk = ClewSessionStore(url)
    bad: Any = {"type": "x", "value": object()}
    with pytest.raises(InvalidInput):
        await sdk.append(KEY, [ENTRIES[0], bad])
    assert await sdk.load(KEY) is None
    with pytest.raises(InvalidInput):
        await sdk.append({"project_key": "p", "session_id": ""}, ENTRIES)
    await sdk.close()
    with pytest.raises(StoreClosed):
        await sdk.load(KEY)
