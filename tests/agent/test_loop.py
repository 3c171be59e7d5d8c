from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.agent.agent import PydanticAgent
from clew.agent.loop import TurnSetup, run_turn
from clew.agent.tool_interface import ToolOutcome
from clew.core.changes import AddMessage, WriteScratch
from clew.core.keys import new_id
from clew.core.live_events import Notice, Retrying, TextDelta, ThinkingDelta, ToolEnded, ToolStarted
from clew.core.message import Draft, ToolCall
from clew.core.models import ModelInfo, Personality
from clew.core.names import Title
from clew.core.session import Session
from clew.core.usage import Usage
from clew.errors import (
    ContextTooLong,
    ModelNotFound,
    ModelRefused,
    ModelUnavailable,
    PersonalityNotFound,
    TurnFailed,
)
from clew.ports import Store
from clew.testing.scripted import ScriptedModel, ScriptError
from tests.agent.conftest import (
    DEFAULT,
    SCRIPTED,
    Naps,
    StoreTurn,
    Tools,
    begin_turn,
    build_prompt,
    outline,
)
from tests.patience import PATIENCE
from tests.promptness import is_at_once

CALL = {"tool_calls": [{"name": "look", "arguments": {"x": "1"}}]}


def set_up(
    store: Store, script: Any, tools: Tools | None = None, *, naps: Naps | None = None, **more: Any
) -> TurnSetup:
    return TurnSetup(
        **{
            "info": SCRIPTED,
            "model": ScriptedModel(script),
            "settings": {},
            "personality": DEFAULT,
            "toolbox": tools or Tools(),
            "build_prompt": build_prompt,
            "get_blob": store.get_blob,
            "put_blob": store.put_blob,
            "sleep": naps or Naps(),
            "chance": lambda: 0.0,
            **more,
        }
    )


def looking(answer: str | ToolOutcome = "seen") -> Tools:
    tools = Tools()

    async def look(arguments: dict[str, Any]) -> str | ToolOutcome:
        return answer

    tools.add("look", look)
    return tools


def texts(turn: StoreTurn) -> str:
    return "".join(signal.text for signal in turn.signals if isinstance(signal, TextDelta))


async def test_an_answer_is_streamed_and_then_recorded_whole_with_its_usage(store: Store) -> None:
    turn = await begin_turn(store, "hello")
    script = [{"text": "Hello, my friend!", "thinking": "hm", "usage": {"input": 7, "output": 3}}]
    await run_turn(turn, set_up(store, script))
    assert texts(turn) == "Hello, my friend!"
    assert ThinkingDelta("hm") in turn.signals
    assert len([s for s in turn.signals if isinstance(s, TextDelta)]) > 1
    assert outline(await turn.thread()) == ["user: hello", "assistant: Hello, my friend!"]
    ended = await store.get_turn(turn.id)
    assert ended.status == "done"
    assert (ended.usage.input_tokens, ended.usage.output_tokens, ended.usage.api_calls) == (7, 3, 1)
    session = await store.get_session(turn.session.id)
    assert session.context_tokens == 10
    answer = (await turn.thread())[1]
    assert answer.model == "script/one"
    assert answer.usage == Usage(7, 3, cost=None, api_calls=1)


async def test_an_answer_that_nobody_counted_has_an_estimate_on_its_turn_alone(
    store: Store,
) -> None:
    turn = await begin_turn(store, "hello")
    await run_turn(turn, set_up(store, [{"text": "Hello, my friend!", "usage": None}]))
    assert (await turn.thread())[1].usage is None
    usage = (await store.get_turn(turn.id)).usage
    assert (usage.output_tokens, usage.cost, usage.api_calls) == (5, None, 1)


async def test_an_empty_answer_is_no_answer_but_it_is_paid_for(store: Store) -> None:
    turn = await begin_turn(store, "hello")
    with pytest.raises(TurnFailed):
        await run_turn(turn, set_up(store, [{"text": "", "usage": {"input": 7, "output": 1}}]))
    assert len(await turn.thread()) == 1
    usage = Usage(7, 1, cost=None, api_calls=1)
    assert (await store.get_turn(turn.id)).usage == usage
    assert (await store.get_session(turn.session.id)).usage == usage


async def test_tool_results_go_back_until_the_model_answers(store: Store) -> None:
    turn = await begin_turn(store, "look at it")
    script = [{"text": "Let me see.", **CALL}, {"text": "It is: ", "echo": "results"}]
    await run_turn(turn, set_up(store, script, looking()))
    assert outline(await turn.thread()) == [
        "user: look at it",
        "assistant: Let me see. <look>",
        "tool: seen",
        "assistant: It is: seen",
    ]
    kinds = [s for s in turn.signals if isinstance(s, ToolStarted | ToolEnded)]
    assert kinds == [
        ToolStarted("call_0_0", "look", {"x": "1"}),
        ToolEnded("call_0_0", "look"),
    ]


async def test_what_a_tool_changes_is_committed_with_its_result(store: Store) -> None:
    turn = await begin_turn(store, "note it")
    outcome = ToolOutcome(content="noted", changes=(WriteScratch("plan", "a to z"),))
    await run_turn(turn, set_up(store, [CALL, "done"], looking(outcome)))
    assert [entry.name for entry in await store.list_scratch(turn.session.id)] == ["plan"]


async def test_parallel_tools_run_side_by_side_and_others_wait_their_turn(store: Store) -> None:
    tools = Tools()
    running: set[str] = set()
    together: list[frozenset[str]] = []
    both = asyncio.Barrier(2)

    def tool(name: str, *, meet: bool) -> Callable[[dict[str, Any]], Any]:
        async def run(arguments: dict[str, Any]) -> str:
            running.add(name)
            if meet:
                await asyncio.wait_for(both.wait(), PATIENCE)
            together.append(frozenset(running))
            await asyncio.sleep(0)
            running.discard(name)
            return name

        return run

    tools.add("a", tool("a", meet=True), parallel=True)
    tools.add("b", tool("b", meet=True), parallel=True)
    tools.add("c", tool("c", meet=False))
    tools.add("d", tool("d", meet=False))
    turn = await begin_turn(store, "all")
    calls = {"tool_calls": [{"name": name} for name in "abcd"]}
    await run_turn(turn, set_up(store, [calls, {"echo": "results"}], tools))
    assert frozenset("ab") in together
    assert frozenset("c") in together
    assert frozenset("d") in together
    # Whatever ended first, the provider sees the results in the order of the calls.
    assert (await turn.thread())[-1].content == "a\nb\nc\nd"


async def test_a_tool_that_comes_during_the_turn_can_be_used_in_it(store: Store) -> None:
    tools = Tools()

    async def write(arguments: dict[str, Any]) -> str:
        return "written"

    async def approve(arguments: dict[str, Any]) -> str:
        tools.add("write", write)
        return "go"

    tools.add("approve", approve)
    turn = await begin_turn(store, "plan it")
    script = [
        {"tool_calls": [{"name": "approve"}], "expect": {"tools": ["approve"]}},
        {"tool_calls": [{"name": "write"}], "expect": {"tools": ["write"]}},
        {"text": "", "echo": "results"},
    ]
    await run_turn(turn, set_up(store, script, tools))
    assert (await turn.thread())[-1].content == "written"


async def test_an_unknown_tool_is_an_error_that_names_the_nearest(store: Store) -> None:
    turn = await begin_turn(store, "look")
    script = [{"tool_calls": [{"name": "loook"}]}, "sorry"]
    await run_turn(turn, set_up(store, script, looking()))
    result = (await turn.thread())[2]
    assert result.is_error
    assert 'no tool "loook". Did you mean "look"?' in result.content


async def test_two_calls_with_one_id_are_told_apart(store: Store) -> None:
    turn = await begin_turn(store, "twice")
    call = {"name": "look", "id": "same"}
    await run_turn(turn, set_up(store, [{"tool_calls": [call, call]}, "ok"], looking()))
    rows = await turn.thread()
    assert [call.id for call in rows[1].tool_calls] == ["same", "same_1"]
    assert [row.tool_call_id for row in rows[2:4]] == ["same", "same_1"]


async def test_a_message_that_says_nothing_is_not_sent(store: Store) -> None:
    turn = await begin_turn(store, "  ")
    with pytest.raises(TurnFailed, match="nothing to answer"):
        await run_turn(turn, set_up(store, ["hi"]))


async def test_a_model_that_goes_round_in_circles_is_stopped(store: Store) -> None:
    turn = await begin_turn(store, "loop")
    with pytest.raises(TurnFailed, match="3 times without coming to an answer"):
        await run_turn(turn, set_up(store, [CALL], looking(), max_requests=3))
    assert len(await turn.thread()) == 7


async def test_passing_errors_are_tried_again_with_a_countdown(store: Store) -> None:
    turn = await begin_turn(store, "hello")
    naps = Naps()
    slow = {"status": 429, "headers": {"Retry-After": "3"}}
    script = [{"text": "Here.", "errors": [slow, {"status": 529}, "connection"]}]
    await run_turn(turn, set_up(store, script, naps=naps))
    retrying = [signal for signal in turn.signals if isinstance(signal, Retrying)]
    assert [(s.attempt, s.seconds) for s in retrying] == [
        (2, 3.0),
        (2, 2.0),
        (2, 1.0),
        (3, 2.0),
        (3, 1.0),
        (4, 4.0),
        (4, 3.0),
        (4, 2.0),
        (4, 1.0),
    ]
    assert [s.reason for s in retrying][::3] == [
        "script asks to slow down",
        "script is overloaded",
        "script can't be reached",
    ]
    assert sum(naps.taken) == 9
    assert (await turn.thread())[-1].content == "Here."


async def test_a_connection_lost_in_the_middle_leaves_no_half_answer(store: Store) -> None:
    turn = await begin_turn(store, "hello")
    script = [{"text": "A long enough answer.", "break_after": 1}]
    await run_turn(turn, set_up(store, script))
    assert texts(turn) == "A long eA long enough answer."
    assert outline(await turn.thread()) == ["user: hello", "assistant: A long enough answer."]


async def test_the_fourth_failure_is_the_last(store: Store) -> None:
    turn = await begin_turn(store, "hello")
    with pytest.raises(ModelUnavailable, match=r"script can't be reached\. Check the network"):
        await run_turn(turn, set_up(store, [{"error": "connection"}]))
    assert max(s.attempt for s in turn.signals if isinstance(s, Retrying)) == 4
    assert outline(await turn.thread()) == ["user: hello"]


async def test_a_key_that_a_provider_repeats_is_not_shown(store: Store) -> None:
    key = "sk-proj-" + "a1B2c3D4" * 6
    turn = await begin_turn(store, "hello")
    body = {"error": {"message": f"Incorrect API key provided: {key}"}}
    with pytest.raises(ModelRefused, match="Incorrect API key") as refused:
        await run_turn(turn, set_up(store, [{"error": {"status": 401, "body": body}}]))
    assert key[8:] not in str(refused.value)


async def test_a_provider_that_asks_for_minutes_is_not_waited_for(store: Store) -> None:
    turn = await begin_turn(store, "hello")
    naps = Naps()
    error = {"status": 429, "headers": {"Retry-After": "300"}}
    with pytest.raises(ModelUnavailable, match="too many requests"):
        await run_turn(turn, set_up(store, [{"error": error}], naps=naps))
    assert naps.taken == []


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, ModelRefused, "did not accept the key"),
        (402, ModelRefused, "no money or quota left"),
        (404, ModelRefused, "clew model list"),
        (413, ContextTooLong, "/new"),
        (400, TurnFailed, "did not accept the request"),
    ],
)
async def test_lasting_errors_end_the_turn_at_once_with_words(
    store: Store, status: int, kind: type[TurnFailed], words: str
) -> None:
    turn = await begin_turn(store, "hello")
    naps = Naps()
    body = {"error": {"message": "computer says no"}}
    script = [{"error": {"status": status, "body": body}}]
    with pytest.raises(kind, match=words) as caught:
        await run_turn(turn, set_up(store, script, naps=naps))
    assert type(caught.value) is kind
    assert naps.taken == []
    assert outline(await turn.thread()) == ["user: hello"]


async def test_an_empty_answer_fails_the_turn(store: Store) -> None:
    turn = await begin_turn(store, "hello")
    with pytest.raises(TurnFailed, match="gave an empty answer"):
        await run_turn(turn, set_up(store, [{"text": "", "thinking": "only this"}]))
    assert outline(await turn.thread()) == ["user: hello"]


async def test_an_answer_cut_at_its_limit_is_kept_and_said(store: Store) -> None:
    turn = await begin_turn(store, "hello")
    await run_turn(turn, set_up(store, [{"text": "Once upon", "finish": "length"}]))
    assert any(isinstance(s, Notice) and "cut at the model's limit" in s.text for s in turn.signals)
    assert (await turn.thread())[-1].content == "Once upon"


async def test_a_filtered_answer_without_text_fails_the_turn(store: Store) -> None:
    turn = await begin_turn(store, "hello")
    with pytest.raises(TurnFailed, match="content filter"):
        await run_turn(turn, set_up(store, [{"text": "", "finish": "content_filter"}]))


async def test_without_a_count_tokens_are_estimated_and_the_cost_is_unknown(store: Store) -> None:
    turn = await begin_turn(store, "x" * 400)
    await run_turn(turn, set_up(store, [{"text": "y" * 40, "usage": None}]))
    usage = (await store.get_turn(turn.id)).usage
    assert 100 <= usage.input_tokens < 150
    assert usage.output_tokens == 10
    assert usage.cost is None


async def test_an_error_of_the_script_itself_is_not_smoothed_over(store: Store) -> None:
    turn = await begin_turn(store, "hello")
    with pytest.raises(ScriptError, match="goodbye"):
        await run_turn(turn, set_up(store, [{"text": "hi", "expect": {"user": "goodbye"}}]))


async def test_stopping_while_the_model_speaks_is_immediate_and_records_nothing_partial(
    store: Store, tmp_path: Path
) -> None:
    async def attempt() -> float:
        turn = await begin_turn(store, "hello", key=new_id())
        script = [{"text": "A very long answer", "hold": str(tmp_path / "never")}]
        task = asyncio.create_task(run_turn(turn, set_up(store, script)))
        await _until(lambda: bool(texts(turn)))
        took = await _stop(task)
        assert outline(await turn.thread()) == ["user: hello"]
        return took

    await is_at_once(attempt)


async def test_stopping_while_tools_run_stops_them_all_at_once(store: Store) -> None:
    async def attempt() -> float:
        tools = Tools()
        stopped: list[str] = []

        async def hang(arguments: dict[str, Any]) -> str:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(arguments["x"])
            return "never"

        tools.add("hang", hang, parallel=True)
        turn = await begin_turn(store, "hello", key=new_id())
        calls = [{"name": "hang", "arguments": {"x": str(n)}} for n in range(3)]
        task = asyncio.create_task(run_turn(turn, set_up(store, [{"tool_calls": calls}], tools)))
        await _until(lambda: len(tools.ran) == 3)
        took = await _stop(task)
        assert sorted(stopped) == ["0", "1", "2"]
        assert len(await turn.thread()) == 2
        return took

    await is_at_once(attempt)


async def test_stopping_during_the_countdown_is_immediate(store: Store) -> None:
    async def attempt() -> float:
        turn = await begin_turn(store, "hello", key=new_id())
        script = [{"error": {"status": 503}}]
        task = asyncio.create_task(run_turn(turn, set_up(store, script, sleep=asyncio.sleep)))
        await _until(lambda: any(isinstance(s, Retrying) for s in turn.signals))
        return await _stop(task)

    await is_at_once(attempt)


async def test_a_tool_that_breaks_the_turn_takes_its_neighbours_with_it(store: Store) -> None:
    tools = Tools()
    stopped = asyncio.Event()

    async def hang(arguments: dict[str, Any]) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    async def burst(arguments: dict[str, Any]) -> str:
        raise OSError("disk full")

    tools.add("hang", hang, parallel=True)
    tools.add("burst", burst, parallel=True)
    turn = await begin_turn(store, "hello")
    script = [{"tool_calls": [{"name": "hang"}, {"name": "burst"}]}]
    with pytest.raises(OSError, match="disk full"):
        await asyncio.wait_for(run_turn(turn, set_up(store, script, tools)), PATIENCE)
    assert stopped.is_set()


async def test_an_interrupted_turn_goes_on_with_a_valid_thread(store: Store) -> None:
    turn = await begin_turn(store, "first")
    calls = (ToolCall("a", "look"), ToolCall("b", "look"))
    await turn.record(
        AddMessage(Draft(role="assistant", tool_calls=calls), turn.id),
        AddMessage(Draft(role="tool", content="A", tool_call_id="a", tool_name="look"), turn.id),
    )
    again = await begin_turn(store, "go on")
    script = [{"text": "x"}, {"text": "", "echo": "results"}]
    await run_turn(again, set_up(store, script, looking()))
    assert (await again.thread())[-1].content == 'A\n{"error":"interrupted"}'


async def test_the_context_is_the_newest_messages_from_a_user_message_on(
    store: Store, tmp_path: Path
) -> None:
    for number in range(6):
        turn = await begin_turn(store, f"question {number}")
        await run_turn(turn, set_up(store, ["answer"]))
    turn = await begin_turn(store, "last")
    await run_turn(turn, set_up(store, [{"text": "", "echo": "thread"}], context_messages=4))
    assert '"question 5"' in (await turn.thread())[-1].content
    assert '"question 4"' not in (await turn.thread())[-1].content


async def test_a_chain_of_tools_longer_than_the_context_keeps_its_question(store: Store) -> None:
    turn = await begin_turn(store, "the question")
    script = [CALL] * 6 + [{"text": "", "echo": "thread"}]
    await run_turn(turn, set_up(store, script, looking(), context_messages=3))
    last = (await turn.thread())[-1].content
    assert last.startswith('[["user-prompt", "the question"]')


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110  # what is waited for has no event of its own
            await asyncio.sleep(0.001)


async def _stop(task: asyncio.Task[None]) -> float:
    """Cancel it; the seconds until it has ended."""
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, PATIENCE)
    return time.monotonic() - began


# --- the agent around the loop ----------------------------------------------------------------


class Catalogue:
    """Two models of one script, and an embedded one."""

    def __init__(self, script: Any) -> None:
        self.script = script
        self.asked: list[tuple[str, str | None, str | None]] = []
        tiny = ModelInfo(name="local/tiny", provider="local", embedded=True, tools=False)
        thinker = ModelInfo(
            name="script/thinker",
            provider="script",
            thinking=("off", "low", "medium"),
            tiers=("flex",),
        )
        self._models = {info.name: info for info in (SCRIPTED, thinker, tiny)}

    def get_model(self, name: str | None = None) -> ModelInfo:
        try:
            return self._models[name or "script/one"]
        except KeyError:
            raise ModelNotFound(f'No model "{name}".') from None

    async def open_model(self, info: ModelInfo) -> ScriptedModel:
        return ScriptedModel(self.script)

    def get_settings(
        self, info: ModelInfo, *, thinking: str | None = None, service_tier: str | None = None
    ) -> dict[str, Any]:
        self.asked.append((info.name, thinking, service_tier))
        return {}


class FakePersonalities:
    def __init__(self, *personalities: Personality) -> None:
        self._known = {each.id: each for each in (DEFAULT, *personalities)}

    def list_personalities(self) -> tuple[Personality, ...]:
        return tuple(self._known.values())

    def get_personality(self, personality_id: str | None = None) -> Personality:
        try:
            return self._known[personality_id or "default"]
        except KeyError:
            raise PersonalityNotFound("gone") from None

    def choose_personality(self, session: Session) -> Personality:
        return self._known.get(session.personality or "default", DEFAULT)

    def update_personality(self, personality_id: str, edit: Any) -> Personality:
        raise AssertionError("nobody edits a personality here")


def agent(store: Store, catalogue: Any, *personalities: Personality, **more: Any) -> PydanticAgent:
    return PydanticAgent(
        catalogue=catalogue,
        personalities=FakePersonalities(*personalities),
        toolbox=looking(),
        build_prompt=build_prompt,
        get_blob=store.get_blob,
        put_blob=store.put_blob,
        **more,
    )


async def test_the_model_is_the_sessions_then_the_hats_then_the_default(store: Store) -> None:
    catalogue = Catalogue(["hi"])
    personality = Personality(id="deep", name="Deep", model="script/thinker", thinking="low")
    runs: list[dict[str, Any]] = [
        {"key": "1"},
        {"key": "2", "personality": "deep"},
        {"key": "3", "personality": "deep", "model": "script/one"},
        {"key": "4", "model": "script/thinker", "thinking": "high", "service_tier": "flex"},
    ]
    for session in runs:
        turn = await begin_turn(store, "hello", **session)
        await agent(store, catalogue, personality).run(turn)
    assert catalogue.asked == [
        ("script/one", None, None),
        ("script/thinker", "low", None),
        ("script/one", "low", None),
        ("script/thinker", "high", "flex"),
    ]


async def test_a_model_or_hat_that_is_gone_gives_way_to_the_default_with_a_word(
    store: Store,
) -> None:
    turn = await begin_turn(store, "hello", model="old/model", personality="old")
    await agent(store, Catalogue(["hi"])).run(turn)
    notices = [signal.text for signal in turn.signals if isinstance(signal, Notice)]
    assert notices == [
        'The personality "old" is gone; the default one answers.',
        'The model "old/model" is not configured any more; script/one answers.',
    ]
    assert (await turn.thread())[-1].model == "script/one"


async def test_the_embedded_model_gets_no_tools_and_a_small_thread(store: Store) -> None:
    for number in range(5):
        turn = await begin_turn(store, f"{number} " + "old " * 150, model="local/tiny")
        await agent(store, Catalogue(["fine"])).run(turn)
    turn = await begin_turn(store, "new " * 800 + "end")
    script = [{"text": "", "echo": "thread"}]
    await agent(store, Catalogue(script)).run(turn)
    last = (await turn.thread())[-1]
    assert len(last.content) < 2400
    assert "new new" in last.content
    assert 'end"]]' in last.content
    assert "old" not in last.content
    assert last.usage is not None
    assert last.usage.cost == 0


async def test_who_says_too_much_to_the_embedded_model_is_told(store: Store) -> None:
    turn = await begin_turn(store, "word " * 600_000, model="local/tiny")
    await agent(store, Catalogue(["fine"])).run(turn)
    (notice,) = [signal.text for signal in turn.signals if isinstance(signal, Notice)]
    assert notice.startswith("That is too long for the embedded model: about 2,99")
    assert "/model" in notice
    turn = await begin_turn(store, "word", model="local/tiny")
    await agent(store, Catalogue(["fine"])).run(turn)
    assert not any(isinstance(signal, Notice) for signal in turn.signals)


async def test_the_embedded_model_with_nothing_to_read_fails_in_words(store: Store) -> None:
    turn = await begin_turn(store, " ", model="local/tiny")
    with pytest.raises(TurnFailed, match="nothing to answer"):
        await agent(store, Catalogue(["fine"])).run(turn)


async def test_what_the_embedded_model_reads_moves_on_in_steps(store: Store) -> None:
    firsts = []
    for number in range(12):
        turn = await begin_turn(store, f"question {number} " + "x" * 90, model="local/tiny")
        await agent(store, Catalogue([{"text": "", "echo": "thread"}])).run(turn)
        shown = (await turn.thread())[-1].content
        assert f"question {number} " in shown
        firsts.append(int(shown.removeprefix('[["user-prompt", "question ').partition(" ")[0]))
    assert firsts == sorted(firsts)
    assert firsts[0] == 0
    assert firsts[-1] > 5
    assert len(set(firsts)) < len(firsts) / 1.5


async def test_a_title_is_asked_for_and_cleaned(store: Store) -> None:
    turn = await begin_turn(store, "how do I bake bread?")
    subject = agent(store, Catalogue({"answers": ["with yeast"], "title": '"Baking bread."'}))
    await subject.run(turn)
    title = await subject.make_title(None, await turn.thread())
    assert title.text == "Baking bread"
    assert title.usage.api_calls == 1
    assert title.usage.input_tokens > 0
    assert await subject.make_title("local/tiny", await turn.thread()) == Title(None)
    assert await subject.make_title(None, ()) == Title(None)


async def test_a_title_that_can_not_be_had_fails_like_a_turn(store: Store) -> None:
    turn = await begin_turn(store, "hello")
    silent = Catalogue({"title": {"error": "connection"}})
    with pytest.raises(ModelUnavailable):
        await agent(store, silent).make_title(None, await turn.thread())


def test_the_agent_is_light_until_it_is_asked() -> None:
    check = "import sys, clew.agent.agent; sys.exit('pydantic_ai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


async def test_warming_up_a_model_that_is_not_there_says_nothing(store: Store) -> None:
    await agent(store, Catalogue([])).warm("nobody/knows")
    await agent(store, Catalogue([])).warm()
