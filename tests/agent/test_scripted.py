from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelConnectionError, ModelRateLimitError
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

from clew.core.names import TITLE_INSTRUCTION
from clew.testing.scripted import ScriptedModel, ScriptError, open_model
from tests.patience import PATIENCE


async def ask(model: Any, *said: str, instructions: str = "") -> ModelResponse:
    """User and assistant in turn."""
    messages: list[ModelMessage] = [
        ModelResponse(parts=[TextPart(text)])
        if place % 2
        else ModelRequest(parts=[UserPromptPart(text)])
        for place, text in enumerate(said)
    ]
    parts = [InstructionPart(content=instructions)] if instructions else None
    response = await model.request(messages, None, ModelRequestParameters(instruction_parts=parts))
    assert isinstance(response, ModelResponse)
    return response


async def test_the_place_in_the_script_follows_from_the_conversation_alone() -> None:
    script = ["one", "two", "three"]
    for _ in range(2):
        assert (await ask(ScriptedModel(script), "a", "one", "b")).text == "two"
    model = ScriptedModel(script)
    assert (await ask(model, "a", "one", "b", "two", "c")).text == "three"
    assert (await ask(model, "a")).text == "one"
    assert (await ask(model, *["x"] * 21)).text == "three"


async def test_a_rule_answers_to_what_the_user_said_last() -> None:
    rules = [{"when": "[Ww]eather", "answers": ["rain", "still rain"]}]
    model = ScriptedModel({"rules": rules, "answers": ["well"]})
    assert (await ask(model, "hi", "well", "The weather?")).text == "rain"
    assert (await ask(model, "hi")).text == "well"


async def test_results_are_quoted_and_expected() -> None:
    script = [{"text": "got ", "echo": "results", "expect": {"results": ["42"]}}]
    messages: list[ModelMessage] = [ModelRequest(parts=[ToolReturnPart("look", "it is 42", "c")])]
    model = ScriptedModel(script)
    response = await model.request(messages, None, ModelRequestParameters())
    assert response.text == "got it is 42"
    with pytest.raises(ScriptError, match="42"):
        await ask(model, "hello")


async def test_errors_come_once_for_each_attempt_then_the_answer() -> None:
    model = ScriptedModel([{"text": "ok", "errors": [{"status": 429}, "connection"]}])
    with pytest.raises(ModelRateLimitError):
        await ask(model, "hello")
    with pytest.raises(ModelConnectionError):
        await ask(model, "hello")
    assert (await ask(model, "hello")).text == "ok"


async def test_a_title_is_answered_beside_the_script() -> None:
    model = ScriptedModel({"answers": ["one"], "title": "A title"})
    assert (await ask(model, "hello", instructions=TITLE_INSTRUCTION)).text == "A title"


async def test_a_file_is_a_model_and_its_log_has_every_request(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps({"answers": ["hi"], "log": str(log)}))
    assert (await ask(open_model(str(script)), "hello", instructions="Be kind.")).text == "hi"
    assert (await ask(open_model("any", base_url=str(script), api_key="k"), "again")).text == "hi"
    first, second = map(json.loads, log.read_text().splitlines())
    assert first["instructions"] == "Be kind."
    assert second["messages"][0]["parts"][0]["content"] == "again"


async def test_an_answer_says_when_it_begins_and_waits_to_be_let_go(tmp_path: Path) -> None:
    began, go = tmp_path / "began", tmp_path / "go"
    model = ScriptedModel([{"text": "hello", "touch": str(began), "hold": str(go)}])
    task = asyncio.create_task(ask(model, "hi"))
    async with asyncio.timeout(PATIENCE):
        while not began.exists():  # noqa: ASYNC110  # what another process would do
            await asyncio.sleep(0.005)
        assert not task.done()
        go.touch()  # likewise
        assert (await task).text == "hello"
