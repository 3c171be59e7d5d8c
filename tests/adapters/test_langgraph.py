from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.test_utils import generate_checkpoint, generate_metadata
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from clew.adapters.langgraph import ClewSaver
from clew.core.message import ToolCall
from clew.core.search.hits import SearchFilter
from clew.core.session import OWNER, Retention, SessionFilter
from clew.core.usage import Usage
from clew.errors import Conflict, InvalidInput, StoreClosed
from clew.ports import Store
from clew.store import open_store
from clew.transfer.jsonl import write_jsonl


async def test_the_frameworks_own_suite(url: str) -> None:
    async with await open_store(url) as store:

        @checkpointer_test(name="ClewSaver")
        async def saver() -> AsyncIterator[BaseCheckpointSaver[Any]]:
            yield ClewSaver(store)

        report = await validate(saver)
    results = report.results.values()
    assert [each.failures for each in results if each.failures] == []
    assert all(each.detected for each in results)
    assert sum(each.tests_passed for each in results) == 81


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]


USAGE: Any = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}


def answers(state: State) -> dict[str, Any]:
    """A model: asks for a tool, takes its result, answers."""
    last = state["messages"][-1]
    if isinstance(last, HumanMessage):
        calls: Any = [{"id": "c1", "name": "weather", "args": {"city": "Köln"}}]
        return {"messages": [AIMessage("", tool_calls=calls, usage_metadata=USAGE)]}
    return {"messages": [AIMessage("It rains.", response_metadata={"model_name": "m1"})]}


def looks(state: State) -> dict[str, Any]:
    """A tool."""
    return {"messages": [ToolMessage("rain", tool_call_id="c1", name="weather")]}


def graph(saver: BaseCheckpointSaver[Any], **options: Any) -> Any:
    """A person asks, a model calls a tool and answers."""
    builder = StateGraph(State)
    builder.add_node("asks", answers)
    builder.add_node("looks", looks)
    builder.add_node("tells", answers)
    builder.add_edge(START, "asks")
    builder.add_edge("asks", "looks")
    builder.add_edge("looks", "tells")
    return builder.compile(checkpointer=saver, **options)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def say(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


ROLES = ["user", "assistant", "tool", "assistant"]


async def test_what_a_graph_says_is_read_and_searched_like_any_session(store: Store) -> None:
    await graph(ClewSaver(store)).ainvoke(say("Weather in Köln?"), thread("7"))
    again = await graph(ClewSaver(store)).ainvoke(say("And now?"), thread("7"))
    assert len(again["messages"]) == 8

    (session,) = (await store.list_sessions(SessionFilter(viewer=OWNER))).sessions
    assert (session.key, session.platform, session.name) == (
        "langgraph:7", "langgraph", "Weather in Köln?",
    )  # fmt: skip
    messages = await store.get_messages(session.id)
    assert [each.role for each in messages] == ROLES * 2
    assert session.message_count == 8 < session.head
    assert messages[1].tool_calls == (ToolCall("c1", "weather", '{"city":"Köln"}'),)
    assert messages[1].usage == Usage(7, 3, 0, 0, None, 1)
    assert (messages[2].content, messages[2].tool_call_id) == ("rain", "c1")
    assert (messages[3].content, messages[3].model) == ("It rains.", "m1")
    found = await store.search("köln", SearchFilter(viewer=OWNER))
    assert [hit.seq for hit in found.hits] == [messages[0].seq]
    (by_id,) = await store.find_imports("7")
    assert by_id.id == session.id
    lines = [line async for line in write_jsonl(store, session)]
    assert sum('"role":"note"' in line for line in lines) == session.head - 8


async def test_an_interrupted_graph_goes_on_in_another_process(url: str) -> None:
    async with await open_store(url) as one:
        stopping = graph(ClewSaver(one), interrupt_before=["looks"])
        stopped = await stopping.ainvoke(say("Weather?"), thread("7"))
    assert [each.type for each in stopped["messages"]] == ["human", "ai"]

    async with await open_store(url) as two:
        saver = ClewSaver(two)
        done = await graph(saver).ainvoke(None, thread("7"))
        assert done["messages"][-1].content == "It rains."
        states = [each async for each in graph(saver).aget_state_history(thread("7"))]
        assert [len(each.values["messages"]) for each in states] == [4, 3, 2, 1, 0]
        # Back to the time before the tool, and along another way.
        other = await graph(saver).aupdate_state(states[2].config, {"messages": [AIMessage("No.")]})
        assert [each.content for each in (await graph(saver).aget_state(other)).values["messages"]][
            2:
        ] == ["No."]
        session = await two.find_route("langgraph:7")
        assert session is not None
        assert [each.content for each in await two.get_messages(session.id)][-1] == "No."


def test_the_calls_that_do_not_wait_do_the_same(url: str) -> None:
    with pytest.raises(InvalidInput):
        asyncio.run(_call_here(url))
    saver = ClewSaver(url)
    compiled = graph(saver)
    with ThreadPoolExecutor(4) as threads:
        names = [str(each) for each in range(6)]
        done = list(threads.map(lambda name: compiled.invoke(say(name), thread(name)), names))
    assert [each["messages"][0].content for each in done] == names
    assert len(list(saver.list(thread("3")))) == 5
    saver.copy_thread("3", "copy")
    saver.prune(["3"])
    saver.delete_thread("4")
    assert len(list(saver.list(thread("3")))) == 1
    assert len(list(saver.list(thread("copy")))) == 5
    assert {each.config["configurable"]["thread_id"] for each in saver.list(None)} == {
        "0", "1", "2", "3", "5", "copy",
    }  # fmt: skip
    assert compiled.get_state(thread("4")).values == {}
    saver.delete_for_runs([])
    saver.close()
    with pytest.raises(StoreClosed):
        saver.get_tuple(thread("3"))


async def _call_here(url: str) -> None:
    async with await open_store(url) as store:
        ClewSaver(store).get_tuple(thread("7"))


async def test_threads_are_deleted_copied_and_archived_as_sessions_are(store: Store) -> None:
    saver = ClewSaver(store)
    await graph(saver).ainvoke(say("secret"), thread("a"))
    await saver.acopy_thread("a", "b")
    with pytest.raises(Conflict):
        await saver.acopy_thread("a", "b")
    await saver.acopy_thread("none", "c")
    await graph(saver).ainvoke(say("more"), thread("b"))
    source, copy = await store.find_route("langgraph:a"), await store.find_route("langgraph:b")
    assert source is not None
    assert copy is not None
    assert (copy.parent_id, source.message_count, copy.message_count) == (source.id, 4, 8)

    await store.mark_sessions([source.id, copy.id], archived=True)
    kept = await store.retain(Retention(retention_days=0, max_storage_bytes=1))
    assert kept.ids == ()
    assert len((await graph(saver).aget_state(thread("a"))).values["messages"]) == 4
    assert len([each async for each in saver.alist(None)]) == 15

    await saver.adelete_thread("a")
    assert await saver.aget_tuple(thread("a")) is None
    assert len((await graph(saver).aget_state(thread("b"))).values["messages"]) == 8
    await saver.aprune(["b"])
    assert len([each async for each in saver.alist(thread("b"))]) == 1
    assert len(await store.get_messages(copy.id)) == 8
    await saver.aprune(["b"], strategy="delete")
    trash = await store.list_sessions(SessionFilter(viewer=OWNER, trashed=True))
    assert {each.id for each in trash.sessions} == {source.id, copy.id}


async def test_the_runs_that_are_deleted_leave_no_word(store: Store) -> None:
    saver = ClewSaver(store)
    for run, text in (("r1", "secret one"), ("r2", "other two")):
        config = {**thread("a"), "metadata": {"run_id": run}}
        await graph(saver).ainvoke(say(text), config)
    await saver.adelete_for_runs(["r1"])

    assert (await store.search("secret", SearchFilter(viewer=OWNER))).hits == ()
    assert len((await store.search("other", SearchFilter(viewer=OWNER))).hits) == 1
    left = [each async for each in saver.alist(thread("a"))]
    assert {each.metadata.get("run_id") for each in left} == {"r2"}


async def test_pruning_keeps_what_a_channel_of_changes_needs(store: Store) -> None:
    saver = ClewSaver(store)

    async def put(config: Any, number: int, **values: Any) -> Any:
        return await saver.aput(
            config,
            generate_checkpoint(channel_values=values, channel_versions={"log": number}),
            generate_metadata(counters_since_delta_snapshot={"log": (number, number)}),
            {"log": number},
        )

    at = await put(thread("a"), 1)
    for number in range(2, 7):
        await saver.aput_writes(at, [("log", number)], f"t{number}", "p")
        at = await put(at, number, **({"log": ["whole"]} if number == 3 else {}))
    before = await saver.aget_delta_channel_history(config=at, channels=["log"])
    assert before["log"] == {
        "seed": ["whole"], "writes": [(f"t{each}", "log", each) for each in (4, 5, 6)],
    }  # fmt: skip
    await saver.aprune(["a"])
    assert await saver.aget_delta_channel_history(config=at, channels=["log"]) == before
    assert len([each async for each in saver.alist(thread("a"))]) == 4


async def test_a_checkpoint_and_special_writes_are_replaced(store: Store) -> None:
    saver = ClewSaver(store)
    checkpoint = generate_checkpoint(channel_values={"x": 1}, channel_versions={"x": 1})
    at = await saver.aput(thread("a"), checkpoint, generate_metadata(), {"x": 1})
    checkpoint["channel_values"]["x"] = 2
    await asyncio.gather(
        *(saver.aput(thread("a"), checkpoint, generate_metadata(), {"x": 1}) for _ in range(4))
    )
    for value in ("first", "second"):
        await saver.aput_writes(at, [("x", value), ("__interrupt__", value)], "t", "")
    await saver.aput_writes(at, [("x", "odd/ns")], "t/%2F", "")

    found = await saver.aget_tuple(thread("a"))
    assert found is not None
    assert found.checkpoint["channel_values"] == {"x": 2}
    assert sorted(found.pending_writes or []) == [
        ("t", "__interrupt__", "second"), ("t", "x", "first"), ("t/%2F", "x", "odd/ns"),
    ]  # fmt: skip
    with pytest.raises(InvalidInput):
        await saver.aput_writes(thread("a"), [("x", 1)], "t")


async def test_two_processes_on_one_thread_lose_nothing(url: str) -> None:
    async with await open_store(url) as one, await open_store(url) as two:
        savers = ClewSaver(one), ClewSaver(two)
        puts = (
            savers[each % 2].aput(
                thread("a"), generate_checkpoint(), generate_metadata(step=each), {}
            )
            for each in range(20)
        )
        await asyncio.gather(*puts)
        steps = [each.metadata["step"] async for each in savers[0].alist(thread("a"))]
        assert sorted(steps) == list(range(20))
