"""What a request shows of a long or a compacted thread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clew.agent.loop import TurnSetup, run_turn
from clew.agent.requests import build_request, read_window
from clew.core.changes import AddCompaction, AddMessage
from clew.core.context.thread import Pruning
from clew.core.message import Draft, ToolCall
from clew.core.models import ModelInfo
from clew.core.notes import Compaction
from clew.ports import Store
from clew.testing.scripted import ScriptedModel
from tests.agent.conftest import DEFAULT, SCRIPTED, StoreTurn, Tools, begin_turn, build_prompt


async def look(_: dict[str, Any]) -> str:
    return "seen"


async def send(turn: StoreTurn, log: Path, **more: Any) -> dict[str, Any]:
    tools = Tools()
    tools.add("look", look)
    given: dict[str, Any] = {
        "info": SCRIPTED,
        "model": ScriptedModel(["ok"], log=log),
        "settings": {},
        "personality": DEFAULT,
        "toolbox": tools,
        "build_prompt": build_prompt,
        "get_blob": turn.store.get_blob,
        "put_blob": turn.store.put_blob,
        "find_compaction": turn.store.find_compaction,
    }
    await run_turn(turn, TurnSetup(**(given | more)))
    return read_last(log)


def read_last(log: Path) -> dict[str, Any]:
    last: dict[str, Any] = json.loads(log.read_text().splitlines()[-1])
    return last


async def work(turn: StoreTurn, rounds: int, size: int) -> None:
    """Rounds of a tool with long results."""
    for number in range(rounds):
        call = ToolCall(id=f"c{number}", name="look")
        result = Draft(
            role="tool", content=f"{number}" + "x" * size, tool_call_id=call.id, tool_name="look"
        )
        await turn.record(AddMessage(Draft(role="assistant", tool_calls=(call,)), turn.id))
        await turn.record(AddMessage(result, turn.id))


async def test_old_results_are_trimmed_on_the_way_and_whole_in_the_store(
    store: Store, tmp_path: Path
) -> None:
    turn = await begin_turn(store, "go")
    await work(turn, 5, 6_000)
    before = await turn.thread()
    sent = json.dumps((await send(turn, tmp_path / "log"))["messages"])
    assert sent.count("6,001 characters") == 2
    assert (await turn.thread())[: len(before)] == before
    off = await begin_turn(store, "go", key="two")
    await work(off, 5, 6_000)
    sent = json.dumps((await send(off, tmp_path / "log", pruning=Pruning(mode="off")))["messages"])
    assert "characters" not in sent


async def test_a_compacted_thread_begins_with_its_summary(store: Store, tmp_path: Path) -> None:
    turn = await begin_turn(store, "first")
    await turn.record(
        AddMessage(Draft(role="assistant", content="one"), turn.id),
        AddMessage(Draft(role="user", content="second"), turn.id),
        AddCompaction(compaction_id="c", keep_from=3, summary="## Goal\nship it"),
    )
    messages = (await send(turn, tmp_path / "log"))["messages"]
    (part,) = messages[0]["parts"]
    assert "## Goal\nship it" in part["content"]
    assert part["content"].endswith("second")
    assert "first" not in json.dumps(messages)
    assert len(messages) == 1


async def test_the_embedded_model_gets_a_line_of_the_summary(store: Store) -> None:
    turn = await begin_turn(store, "hello")
    compaction = Compaction("c", "s", 1, 0, "## Goal\nship it " * 100, None, None, None, 0)
    rows = await read_window(turn, 10, compaction)
    request = await build_request(
        rows,
        "Be brief.",
        (),
        info=ModelInfo(name="local/x", provider="local", embedded=True, tools=False),
        model=ScriptedModel(["x"]),
        settings={},
        get_blob=store.get_blob,
        compaction=compaction,
    )
    parts = request.parameters.instruction_parts or []
    assert [part.content[:31] for part in parts] == ["Be brief.\nEarlier: Goal ship it"]
    assert request.characters < 600
