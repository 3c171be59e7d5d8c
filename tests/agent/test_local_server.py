"""The real clients of two providers against a real model: llama.cpp's own server, no network.

The model is too small to call tools, so a call and its result are in the thread when it is asked:
that they go there and are understood is what is shown. Exact tool loops are in `test_providers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
import xllamacpp

from clew.core.changes import AddMessage
from clew.core.live_events import TextDelta
from clew.core.message import Draft, ToolCall
from clew.errors import ModelRefused
from clew.ports import Store
from tests.agent.conftest import StoreTurn, begin_turn
from tests.agent.peer import Style
from tests.agent.talk import say
from tests.weights import have_weights

KEY = "only-for-this-test"
STILL = {"temperature": 0.0, "max_tokens": 24}

pytestmark = pytest.mark.parametrize("style", get_args(Style))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(have_weights())
    parameters.model_alias = {"smollm2-135m"}
    parameters.n_ctx = 1024
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.n_threads_http = 2
    parameters.api_keys = [KEY]
    parameters.hostnames = ["127.0.0.1"]
    parameters.ui = False
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    yield server.listening_address
    del server


async def ask(store: Store, style: Style, address: str, prompt: str, **more: Any) -> StoreTurn:
    told: dict[str, Any] = {"model": "smollm2-135m", "key": KEY, "settings": STILL} | more
    return await say(store, style, address, prompt, **told)


async def test_an_answer_streams_from_a_real_model(
    store: Store, style: Style, address: str
) -> None:
    turn = await ask(store, style, address, "What is the capital of France?")
    deltas = [signal.text for signal in turn.signals if isinstance(signal, TextDelta)]
    answer = (await turn.thread())[-1]
    assert len(deltas) > 3
    assert "".join(deltas) == answer.content
    assert "Paris" in answer.content
    usage = (await store.get_turn(turn.id)).usage
    assert usage.input_tokens > 10
    assert usage.output_tokens > 3


async def test_a_tool_result_goes_back_to_a_real_model(
    store: Store, style: Style, address: str
) -> None:
    turn = await begin_turn(store, "Read the note and repeat it.")
    call = ToolCall("call_1", "look", '{"x":"note"}')
    result = "Repeat after me: Wilhelmina is a grey cat."
    await turn.record(
        AddMessage(Draft(role="assistant", content="Let me look.", tool_calls=(call,)), turn.id),
        AddMessage(
            Draft(role="tool", content=result, tool_call_id="call_1", tool_name="look"), turn.id
        ),
    )
    await ask(store, style, address, "", turn=turn)
    assert "Wilhelmina" in (await turn.thread())[-1].content


async def test_a_real_server_refuses_a_wrong_key(store: Store, style: Style, address: str) -> None:
    with pytest.raises(ModelRefused, match="did not accept the key"):
        await ask(store, style, address, "hello", key="wrong")
