"""The embedded model itself: real weights, real answers."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from clew.agent.models.embedded import READ, EmbeddedModel, _estimate, fit, to_chat
from clew.agent.models.engine import Engine
from clew.core.models import EMBEDDED
from clew.errors import ContextTooLong, ModelUnavailable
from tests.agent.models.conftest import Catalogues
from tests.patience import PATIENCE
from tests.promptness import is_at_once

NOTHING = ModelRequestParameters()


def ask(text: str) -> list[ModelMessage]:
    return [
        ModelRequest(parts=[SystemPromptPart("You are a helpful assistant."), UserPromptPart(text)])
    ]


async def test_it_answers_in_a_stream_and_counts_its_tokens(engine: Engine) -> None:
    model = EmbeddedModel(engine)
    pieces = []
    settings = ModelSettings(max_tokens=12, seed=1)
    async with model.request_stream(ask("What is 2 + 2?"), settings, NOTHING) as stream:
        async for event in stream:
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                pieces.append(event.part.content)
            elif isinstance(event, PartDeltaEvent):
                pieces.append(getattr(event.delta, "content_delta", ""))
    answer = stream.get()
    assert len(pieces) > 2
    assert answer.text == "".join(pieces)
    assert answer.state == "complete"
    assert 0 < answer.usage.output_tokens <= 12
    assert answer.usage.input_tokens > 10
    assert (answer.model_name, answer.provider_name) == ("smollm2-135m", "local")


async def test_the_same_seed_gives_the_same_answer(engine: Engine) -> None:
    model = EmbeddedModel(engine)
    settings = ModelSettings(max_tokens=16, seed=7)
    first = await model.request(ask("Name a colour."), settings, NOTHING)
    second = await model.request(ask("Name a colour."), settings, NOTHING)
    assert first.text
    assert first.text == second.text


async def test_a_cancelled_answer_ends_at_once_and_the_engine_with_it(engine: Engine) -> None:
    model = EmbeddedModel(engine)

    async def attempt() -> float:
        begun = asyncio.Event()

        async def listen() -> None:
            story = ask("Write a very long story about a ball of thread.")
            async with model.request_stream(story, None, NOTHING) as stream:
                async for _ in stream:
                    begun.set()

        task = asyncio.create_task(listen())
        await asyncio.wait_for(begun.wait(), PATIENCE)
        (run,) = engine._runs
        cancelled = time.perf_counter()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        took = time.perf_counter() - cancelled
        assert run.thread is not None
        await asyncio.to_thread(run.thread.join, PATIENCE)
        assert not run.thread.is_alive()
        return took

    await is_at_once(attempt)


async def test_a_stream_that_is_cancelled_says_that_it_was(engine: Engine) -> None:
    model = EmbeddedModel(engine)
    async with model.request_stream(ask("Write a long story."), None, NOTHING) as stream:
        async for _ in stream:
            await stream.cancel()
    assert stream.get().state == "interrupted"


async def test_what_is_too_long_is_refused_before_it_is_read(engine: Engine) -> None:
    with pytest.raises(ContextTooLong, match=r"3\d\d\d tokens, and it can take 1024"):
        await EmbeddedModel(engine).request(ask("word " * 3000), None, NOTHING)


async def test_it_goes_on_after_being_unloaded(weights: Path) -> None:
    engine = Engine(weights)
    await asyncio.to_thread(engine.load)
    engine.unload()
    assert not engine.loaded
    answer = await EmbeddedModel(engine).request(ask("Hi"), ModelSettings(max_tokens=3), NOTHING)
    assert answer.usage.output_tokens <= 3
    assert engine.loaded
    engine.unload()


async def test_weights_that_are_none_are_an_error_with_advice(tmp_path: Path) -> None:
    file = tmp_path / "bad.gguf"
    file.write_bytes(b"GGUF, said the file, but it was not")
    with pytest.raises(ModelUnavailable, match="clew model pull"):
        await EmbeddedModel(Engine(file)).request(ask("Hi"), None, NOTHING)


async def test_the_catalogue_opens_it_loaded_and_closes_it(
    catalogues: Catalogues, weights: Path
) -> None:
    catalogue = catalogues.make(weights_dirs=(catalogues.path, weights.parent))
    info = catalogue.get_model(EMBEDDED)
    model = await catalogue.open_model(info)
    assert isinstance(model, EmbeddedModel)
    assert model.engine.loaded
    assert model.profile.get("supports_inline_system_prompts") is True
    await catalogue.close()
    assert not model.engine.loaded


LEAVE = """
import sys, threading
from pathlib import Path
from clew.agent.models.engine import Engine
engine, begun = Engine(Path(sys.argv[1])), threading.Event()
messages = [{"role": "user", "content": "Write a very long story."}]
engine.start(messages, {"max_tokens": 500}, on_chunk=lambda _: begun.set(), on_end=lambda _: None)
assert begun.wait(240)
"""


def test_a_process_may_end_in_the_middle_of_an_answer_and_nothing_is_printed(
    weights: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVE, str(weights)],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_only_words_of_person_and_model_are_given_to_it() -> None:
    image = BinaryContent(b"x", media_type="image/png")
    chat = to_chat(
        "Be kind.",
        [
            ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("One")]),
            ModelRequest(parts=[UserPromptPart(["Two", image, "Three"])]),
            ModelResponse(parts=[ThinkingPart("hm"), TextPart("Four"), ToolCallPart("shell", {})]),
            ModelRequest(parts=[ToolReturnPart("shell", "secret", "1")]),
            ModelResponse(parts=[TextPart("Five")]),
            ModelRequest(parts=[UserPromptPart(" ")]),
            ModelRequest(parts=[UserPromptPart("Six")]),
        ],
    )
    assert chat == [
        {"role": "system", "content": "Be kind.\n\nBe brief."},
        {"role": "user", "content": "One\n\nTwo\n\nThree"},
        {"role": "assistant", "content": "Four\n\nFive"},
        {"role": "user", "content": "Six"},
    ]


lengths = st.lists(st.integers(1, 900), min_size=1, max_size=40)


@given(lengths, st.integers(0, 800))
def test_what_is_left_out_is_the_oldest_and_the_question_always_stays(
    sizes: list[int], system: int
) -> None:
    chat = [{"role": "system", "content": "s" * system}] if system else []
    roles = ("user", "assistant")
    chat += [
        {"role": roles[(len(sizes) - place + 1) % 2], "content": f"{place}:" + "x" * size}
        for place, size in enumerate(sizes)
    ]
    kept = fit(chat, READ)
    assert kept[-1] == chat[-1]
    assert kept[: bool(system)] == chat[: bool(system)]
    rest = kept[bool(system) :]
    assert rest == chat[len(chat) - len(rest) :]
    if len(rest) > 1 and rest != chat[bool(system) :]:
        assert rest[0]["role"] == "user"
        assert sum(map(_estimate, kept)) <= READ


def test_the_beginning_stays_put_while_the_conversation_grows() -> None:
    chat: list[dict[str, str]] = []
    beginnings = []
    for place in range(40):
        chat.append({"role": "user", "content": f"question {place} " + "word " * 10})
        kept = fit(chat, READ)
        beginnings.append(kept[0]["content"])
        chat.append({"role": "assistant", "content": f"answer {place} " + "word " * 10})
    moves = sum(a != b for a, b in itertools.pairwise(beginnings))
    assert 2 <= moves <= 12


def test_it_can_be_unloaded_the_moment_it_is_loaded(weights: Path) -> None:
    """In a process of its own: what hangs there hangs with the interpreter's lock."""
    code = (
        "import sys; from pathlib import Path; from clew.agent.models.engine import Engine\n"
        "for _ in range(5): engine = Engine(Path(sys.argv[1])); engine.load(); engine.unload()"
    )
    command = [sys.executable, "-c", code, str(weights)]
    assert subprocess.run(command, timeout=PATIENCE, check=False).returncode == 0
