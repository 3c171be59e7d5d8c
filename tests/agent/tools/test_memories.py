from __future__ import annotations

from tests.agent.tools.conftest import Bench


async def test_a_line_is_added_replaced_and_removed(bench: Bench) -> None:
    await bench.call("memory_write", action="add", text="- likes tea")
    await bench.call("memory_write", action="add", text="- lives in Graz")
    assert (await bench.call("memory_read")).content == "- likes tea\n- lives in Graz\n"
    await bench.call("memory_write", action="replace", old="tea", text="coffee")
    assert (await bench.memory.read("memory")).text == "- likes coffee\n- lives in Graz\n"
    await bench.call("memory_write", action="remove", old="likes coffee")
    assert (await bench.memory.read("memory")).text == "- lives in Graz\n"
    assert bench.turn.asked == []


async def test_the_two_files_are_apart(bench: Bench) -> None:
    await bench.call("memory_write", action="add", file="user", text="Ada")
    assert (await bench.memory.read("user")).text == "Ada\n"
    assert (await bench.call("memory_read")).content == "MEMORY.md is empty."


async def test_a_text_that_is_not_there_once_changes_nothing(bench: Bench) -> None:
    await bench.call("memory_write", action="add", text="a a")
    for arguments in (
        {"action": "remove", "old": "b"},
        {"action": "remove", "old": "a"},
        {"action": "remove"},
        {"action": "replace", "old": "a a"},
        {"action": "add", "text": "  "},
    ):
        assert (await bench.call("memory_write", **arguments)).is_error
    assert (await bench.memory.read("memory")).text == "a a\n"


async def test_the_history_names_the_session(bench: Bench) -> None:
    await bench.call("memory_write", action="add", text="x")
    (version,) = await bench.memory.list_versions("memory")
    assert version.by == f"agent, session {bench.turn.session.id[:8]}"


async def test_a_guest_reads_if_allowed_and_never_writes(bench: Bench) -> None:
    await bench.call("memory_write", action="add", text="x")
    await bench.begin(person="telegram:7")
    assert (await bench.call("memory_read")).content == "x\n"
    assert (await bench.call("memory_write", action="add", text="evil")).is_error
    bench.make_tools(memory_guests="none")
    assert (await bench.call("memory_read")).is_error
    assert (await bench.memory.read("memory")).text == "x\n"


async def test_a_turn_that_may_not_remember_has_no_tool_for_it(bench: Bench) -> None:
    bench.turn.writes_memory = False
    assert "memory_write" not in await bench.list_names()
    assert "memory_read" in await bench.list_names()
    outcome = await bench.call("memory_write", file="memory", action="add", text="x")
    assert outcome.is_error
