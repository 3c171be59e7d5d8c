from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from agents.memory.session import Session
from agents.memory.session_settings import SessionSettings
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from clew.adapters.openai_agents import ClewSession
from clew.core.session import OWNER, SessionFilter
from clew.errors import InvalidInput, StoreClosed
from clew.ports import Store
from clew.store import open_store
from tests.adapters.openai_model import ITEMS, compare

set_tracing_disabled(True)


class ScriptedModel(Model):
    """Answers with the given outputs, and keeps what it was asked."""

    def __init__(self, *outputs: Any) -> None:
        self.outputs = list(outputs)
        self.asked: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:  # noqa: A002
        self.asked.append(input)
        return ModelResponse(output=[self.outputs.pop(0)], usage=Usage(), response_id=None)

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield


def answer(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="m", content=[content], role="assistant", status="completed", type="message"
    )


@pytest.mark.parametrize("seed", range(4))
async def test_it_does_what_the_store_of_the_sdk_does(store: Store, seed: int) -> None:
    mine = ClewSession("s", store)
    theirs = SQLiteSession("s")
    try:
        await compare(mine, theirs, seed=seed, steps=40)
    finally:
        theirs.close()


async def test_every_kind_of_item_comes_back_exactly(store: Store) -> None:
    session = ClewSession("s", store)
    items: list[Any] = [*ITEMS]
    await session.add_items(items)
    assert await session.get_items() == items
    assert isinstance(session, Session)


async def test_a_run_of_an_agent_goes_on_where_it_was(store: Store) -> None:
    @function_tool
    def weather(city: str) -> str:
        return f"rain in {city}"

    call = ResponseFunctionToolCall(
        arguments='{"city": "Bonn"}', call_id="c1", name="weather", type="function_call"
    )
    model = ScriptedModel(call, answer("It rains."), answer("As I said: rain."))
    agent = Agent(name="a", model=model, tools=[weather])
    first = await Runner.run(agent, "Weather in Bonn?", session=ClewSession("7", store))
    again = await Runner.run(agent, "And now?", session=ClewSession("7", store))

    assert (first.final_output, again.final_output) == ("It rains.", "As I said: rain.")
    assert [each.get("type", each.get("role")) for each in model.asked[-1]] == [
        "user", "function_call", "function_call_output", "message", "user",
    ]  # fmt: skip
    (session,) = (await store.list_sessions(SessionFilter(viewer=OWNER))).sessions
    assert (session.key, session.platform) == ("openai:7", "openai-agents")
    thread = await store.get_messages(session.id)
    assert [each.role for each in thread] == [
        "user", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert thread[1].tool_calls[0].name == "weather"
    assert (thread[2].content, thread[2].tool_call_id) == ("rain in Bonn", "c1")
    assert thread[3].content == "It rains."


async def test_an_item_that_is_no_json_changes_nothing(store: Store) -> None:
    session = ClewSession("s", store)
    bad: Any = {"role": "user", "content": object()}
    with pytest.raises(InvalidInput):
        await session.add_items([{"role": "user", "content": "one"}, bad])
    assert await session.get_items() == []


async def test_the_settings_limit_what_is_read(store: Store) -> None:
    for settings in (SessionSettings(limit=2), {"limit": 2}):
        session = ClewSession("s", store, session_settings=settings)
        await session.clear_session()
        await session.add_items([{"role": "user", "content": str(each)} for each in range(5)])
        assert [each["content"] for each in await session.get_items()] == ["3", "4"]  # type: ignore[typeddict-item]
        assert len(await session.get_items(4)) == 4


async def test_a_session_over_a_url_opens_and_closes_its_store(url: str) -> None:
    session = ClewSession("s", url)
    await session.add_items([{"role": "user", "content": "one"}])
    await session.close()
    with pytest.raises(StoreClosed):
        await session.add_items([{"role": "user", "content": "two"}])

    async with await open_store(url) as store:
        assert len(await ClewSession("s", store).get_items()) == 1
    with pytest.raises(InvalidInput):
        ClewSession("", url)


async def test_what_another_program_said_is_an_item_too(store: Store) -> None:
    from clew.adapters.conversation import Conversation

    await Conversation(store, "openai:s").add("user", "typed in clew")
    assert await ClewSession("s", store).get_items() == [
        {"role": "user", "content": "typed in clew"}
    ]
