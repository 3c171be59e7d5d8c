from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models.test import TestModel

from clew.adapters.pydantic_ai import ClewConversationStore
from clew.core.search.hits import SearchFilter
from clew.core.session import OWNER, SessionFilter
from clew.errors import StoreClosed
from clew.ports import Store
from clew.store import open_store
from tests.adapters.pydantic_ai_model import Comparison
from tests.sizes import pick


@pytest.mark.parametrize("seed", range(pick(3, 50)))
async def test_it_does_what_the_store_in_memory_does(store: Store, seed: int) -> None:
    await Comparison(ClewConversationStore(store), seed).run(pick(30, 100))


def asks(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)])


async def test_runs_of_an_agent_are_read_like_any_session(store: Store) -> None:
    agent = Agent(TestModel(call_tools=["weather"], custom_output_text="It rains."))

    @agent.tool_plain
    def weather() -> str:
        return "rain in Köln"

    conversations = ClewConversationStore(store)
    for text in ("Weather?", "And now?"):
        conversation = await conversations.load("7") or Conversation(conversation_id="7")
        await conversations.save(await agent.run(text, conversation=conversation))

    (session,) = (await store.list_sessions(SessionFilter(viewer=OWNER))).sessions
    assert (session.key, session.platform, session.name) == (
        "pydantic-ai:7", "pydantic-ai", "Weather?",
    )  # fmt: skip
    said = await store.get_messages(session.id)
    assert [each.role for each in said][:4] == ["user", "assistant", "tool", "assistant"]
    assert said[1].tool_calls[0].name == said[2].tool_name == "weather"
    assert (said[2].content, said[3].content) == ("rain in Köln", "It rains.")
    assert session.usage.api_calls > 2
    assert session.usage.output_tokens > 0
    (found,) = await store.find_imports("7")
    assert found.id == session.id
    await store.mark_sessions([session.id], archived=True)
    assert await conversations.load("7") is not None


async def test_what_is_left_is_undone_and_comes_back(store: Store) -> None:
    conversations = ClewConversationStore(store)
    first = Conversation(conversation_id="7", messages=[asks("one"), asks("two")])
    await conversations.save(first)
    left = await conversations.branch("7", at=1, expected_revision=first.revision)
    left.messages.append(asks("three"))
    await conversations.save(left)
    session = await store.find_route("pydantic-ai:7")
    assert session is not None
    assert [each.content for each in await store.get_messages(session.id)] == ["one", "three"]

    record = await conversations.read_record("7")
    assert record is not None
    await conversations.branch(
        "7", from_entry=record.branches[0], expected_revision=record.revision
    )
    assert [each.content for each in await store.get_messages(session.id)] == ["one", "two"]
    # A fork that a person makes of it is no conversation of its own.
    await store.fork_session(session.id)
    assert len(await conversations.list_conversations()) == 1


async def test_a_fork_outlives_what_it_was_made_of(url: str) -> None:
    async with await open_store(url) as one:
        conversations = ClewConversationStore(one)
        await conversations.save(
            Conversation(conversation_id="a", messages=[asks("one"), asks("secret")])
        )
        await conversations.fork("a", at=1, new_conversation_id="b")
        await conversations.fork("b", new_conversation_id="c")
        await conversations.delete("a")
        await conversations.delete("b")
        assert (await one.search("secret", SearchFilter(viewer=OWNER))).hits == ()

    # In another process nothing is known of where the entries are.
    conversations = ClewConversationStore(url)
    loaded = await conversations.load("c")
    assert loaded is not None
    assert [each.parts[0].content for each in loaded.messages] == ["one"]  # type: ignore[union-attr]
    assert await conversations.load("a") is None
    fork = await conversations.fork("c", new_conversation_id="a")
    assert len(fork.messages) == 1
    await conversations.close()
    with pytest.raises(StoreClosed):
        await conversations.load("c")


async def test_of_two_that_save_at_once_one_is_told(url: str) -> None:
    async with await open_store(url) as one, await open_store(url) as two:
        stores = ClewConversationStore(one), ClewConversationStore(two)
        loaded = [Conversation(conversation_id="7") for _ in range(6)]
        for round_ in range(3):
            for each in loaded:
                each.messages.append(asks(f"round {round_}"))
            done = await asyncio.gather(
                *(stores[at % 2].save(each) for at, each in enumerate(loaded)),
                return_exceptions=True,
            )
            assert sum(isinstance(each, list) for each in done) == 1
            assert sum(isinstance(each, ConversationConflict) for each in done) == 5
            found = await stores[0].load("7")
            assert found is not None
            assert len(found.messages) == round_ + 1
            again = [await stores[at % 2].load("7") for at in range(6)]
            loaded = [each for each in again if each is not None]
