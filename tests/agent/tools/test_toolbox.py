from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from clew.agent.personalities import FilePersonalities
from clew.agent.tools import TOOLS, Policy, Tools
from clew.core.message import ToolCall
from clew.core.models import Personality
from clew.core.tokens import Scopes
from clew.errors import InvalidInput, StaleLease, StoreClosed
from tests.agent.tools.conftest import MODEL, PLAIN, Bench

MACHINE = {"read_file", "write_file", "edit_file", "list_files", "search_files", "shell", "spawn"}
NOTES = {
    "scratchpad_write", "scratchpad_read", "scratchpad_list", "scratchpad_delete",
    "todo_write", "todo_read",
}  # fmt: skip
SESSIONS = {"sessions_list", "session_read"}
MEMORY = {"memory_read", "memory_write"}
USUAL = MACHINE | NOTES | SESSIONS | MEMORY


async def test_the_usual_tools_are_all_but_the_special_ones(bench: Bench) -> None:
    assert await bench.list_names() == USUAL
    assert set(TOOLS) == USUAL | {"session_search", "propose_plan"}


async def test_a_model_without_tools_is_offered_none(bench: Bench) -> None:
    assert await bench.list_names(tools=False) == set()


@pytest.mark.parametrize("who", ["default", "engineer", "researcher", "reviewer", "coach"])
async def test_session_search_belongs_to_three_of_the_personalities(bench: Bench, who: str) -> None:
    bench.personality = FilePersonalities().get_personality(who)
    has = "session_search" in await bench.list_names()
    assert has is (who in ("researcher", "reviewer", "coach"))
    outcome = await bench.call("session_search", query="x")
    assert outcome.is_error is not has


async def test_every_tool_that_a_built_in_personality_names_exists(bench: Bench) -> None:
    for personality in FilePersonalities().list_personalities():
        for name in personality.tools or ():
            bench.personality = msgspec.structs.replace(PLAIN, tools=(name,))
            assert await bench.list_names(), name


async def test_a_list_of_tools_is_exact(bench: Bench) -> None:
    bench.personality = Personality(id="x", name="X", tools=("read_file", "todo_*"))
    assert await bench.list_names() == {"read_file", "todo_read", "todo_write"}
    assert (await bench.call("shell", command="true")).is_error


async def test_a_guest_has_nothing_that_touches_the_machine(bench: Bench) -> None:
    bench.make_tools(allow=("shell", "write_file"))
    await bench.begin(person="telegram:7")
    assert await bench.list_names() == NOTES | SESSIONS | {"memory_read"}
    bench.personality = Personality(id="x", name="X", tools=("*",))
    assert await bench.list_names() == NOTES | SESSIONS | {"memory_read", "session_search"}
    outcome = await bench.call("shell", command="touch made")
    assert "There is no tool 'shell' here" in outcome.content
    assert not (bench.root / "made").exists()


@pytest.mark.parametrize("scopes", [("chat",), ("chat", "approve"), ("read",), ("store",)])
async def test_a_turn_that_may_only_talk_has_a_guests_tools(bench: Bench, scopes: Scopes) -> None:
    bench.make_tools(allow=("shell", "write_file", "memory_write"))
    await bench.begin(scopes=scopes)
    assert await bench.list_names() == NOTES | SESSIONS | {"memory_read"}
    for tool, arguments in (
        ("shell", {"command": "touch made"}),
        ("write_file", {"path": "made", "content": "x"}),
        ("read_file", {"path": "made"}),
        ("memory_write", {"file": "memory", "text": "x"}),
    ):
        assert f"There is no tool '{tool}' here" in (await bench.call(tool, **arguments)).content
    assert not (bench.root / "made").exists()


@pytest.mark.parametrize("scopes", [("write",), ("write", "approve"), ("admin",)])
async def test_a_turn_that_may_write_has_the_owners_tools(bench: Bench, scopes: Scopes) -> None:
    await bench.begin()
    usual = await bench.list_names()
    await bench.begin(scopes=scopes)
    assert await bench.list_names() == usual
    assert {"shell", "write_file", "memory_write"} <= usual


async def test_plan_mode_only_looks_and_proposes(bench: Bench) -> None:
    bench.make_tools(allow=("write_file", "shell"))
    await bench.begin(mode="plan")
    looking = {"read_file", "list_files", "search_files", "memory_read"}
    assert await bench.list_names() == looking | NOTES | SESSIONS | {"propose_plan"}
    outcome = await bench.call("write_file", path="a", content="x")
    assert "not available in plan mode" in outcome.content
    assert not (bench.root / "a").exists()


async def test_an_approved_plan_brings_the_tools_back_in_the_same_turn(bench: Bench) -> None:
    await bench.begin(mode="plan")
    bench.turn.answers = [("no", "once"), ("yes", "once"), ("yes", "once")]
    refused = await bench.call("propose_plan", plan="1. write a")
    assert refused.is_error
    assert "Plan mode stays on" in refused.content
    assert "write_file" not in await bench.list_names()
    accepted = await bench.call("propose_plan", plan="1. write a")
    assert "carry the plan out now" in accepted.content
    assert bench.turn.asked[1] == {
        "summary": "Carry out this plan?",
        "detail": "1. write a",
        "rule": None,
        "cwd": str(bench.root),
        "plan": True,
    }
    assert (await bench.store.get_session(bench.turn.session.id)).mode == "plan_paused"
    names = await bench.list_names()
    assert "write_file" in names
    assert "propose_plan" not in names
    assert not (await bench.call("write_file", path="a", content="x")).is_error


async def test_a_sub_agent_has_the_same_hat_and_no_sub_agents(bench: Bench) -> None:
    outcome = await bench.call("spawn", task="count")
    assert outcome.content == "did count"
    assert bench.turn.spawned == [("count", "default")]
    await bench.begin(kind="subagent")
    assert "spawn" not in await bench.list_names()


async def test_an_unknown_tool_and_broken_arguments_are_outcomes(bench: Bench) -> None:
    unknown = await bench.call("fly")
    assert unknown.is_error
    assert "There is no tool 'fly' here. There are: read_file" in unknown.content
    for text in ('{"path": 1}', '{"pa', "[]", "", '{"path": "a", "offset": 0}'):
        outcome = await bench.tools.run(ToolCall("1", "read_file", text), bench.turn, PLAIN)
        assert outcome.is_error
        assert "The arguments of read_file are wrong" in outcome.content


async def test_numbers_in_quotes_are_taken_as_numbers(bench: Bench) -> None:
    (bench.root / "a").write_text("1\n2\n")
    assert (await bench.call("read_file", path="a", offset="2")).content == "     2\t2"


async def test_a_wrong_rule_of_the_configuration_is_refused_at_the_start(bench: Bench) -> None:
    for rule in ("shell:ls; rm", "", "write_file:", "what is this"):
        with pytest.raises(InvalidInput):
            Tools(bench.store, bench.memory, Policy(allow=(rule,)))


async def test_the_end_of_the_turn_is_raised(bench: Bench) -> None:
    bench.turn.answers = [("yes", "once")]
    await bench.store.acquire_lease(bench.turn.session.id, "test")
    with pytest.raises(StaleLease):
        await bench.call("shell", command="true")
    await bench.store.close()
    with pytest.raises(StoreClosed):
        await bench.call("sessions_list")


async def test_only_tools_that_look_run_side_by_side(bench: Bench) -> None:
    specs = await bench.tools.list_tools(bench.turn, PLAIN, MODEL)
    side_by_side = {spec.name for spec in specs if spec.parallel}
    assert side_by_side == {
        "read_file", "list_files", "search_files", "sessions_list", "session_read", "memory_read",
        "scratchpad_read", "scratchpad_list", "todo_read",
    }  # fmt: skip


def test_every_schema_is_in_one_piece_and_every_tool_described() -> None:
    for tool in TOOLS.values():
        spec = tool.spec
        assert len(spec.description) > 15
        assert spec.schema["type"] == "object"
        assert "$ref" not in msgspec.json.encode(spec.schema).decode()


def test_the_guide_tells_of_every_tool() -> None:
    guide = Path(__file__).parents[3] / "docs" / "guides" / "tools.md"
    named = set(re.findall(r"`([a-z_]+)`", guide.read_text("utf-8")))
    assert set(TOOLS) <= named
