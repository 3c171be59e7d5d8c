"""Streams that end too early or stop coming are failed attempts, however a provider streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import Model, ModelRequestParameters

from clew.agent.answers import Interrupted, Silence, ask_once, attempt, stream_answer
from clew.agent.models.providers import Opened, ProviderSetup, open_provider_model
from clew.agent.requests import Request
from clew.core.live_events import Retrying, Signal, Stalled, TextDelta
from clew.core.models import ModelInfo
from clew.errors import ModelUnavailable
from clew.testing.scripted import ScriptedModel
from tests.agent.conftest import Naps
from tests.agent.peer import Reply, answer, peering
from tests.agent.styles import answer_google, answer_responses, open_responses

TEXT = "A rather long answer."
INFO = ModelInfo(name="shed/peer-1", provider="shed")


def request() -> Request:
    return Request(
        messages=[ModelRequest.user_text_prompt("hello")],
        settings={},
        parameters=ModelRequestParameters(),
        characters=5,
    )


def open_kind(kind: Any, path: str = "") -> Callable[[str], Opened]:
    def opened(url: str) -> Opened:
        setup = ProviderSetup(name=kind, kind=kind, base_url=url + path, api_key=lambda: "key")
        return open_provider_model(setup, "gemini-2.5-flash" if kind == "google" else "peer-1")

    return opened


def open_responses_model(url: str) -> Opened:
    return Opened(open_responses("gpt-4o", base_url=url))


def answer_google_in_two(text: str) -> Reply:
    (last,) = answer_google("").body
    (first,) = answer_google(text).body
    return Reply(body=(first.replace(b', "finishReason": "STOP"', b""), last))


STYLES: dict[str, tuple[Callable[[str], Opened], Callable[[], Reply], int]] = {
    "openai": (open_kind("openai", "/v1"), lambda: answer("openai", TEXT), -3),
    "anthropic": (open_kind("anthropic"), lambda: answer("anthropic", TEXT), -2),
    "responses": (open_responses_model, lambda: answer_responses(TEXT), -1),
    "google": (open_kind("google"), lambda: answer_google_in_two(TEXT), -1),
}
"""How to open it, a whole answer, and the place in it where the finish reason comes."""


@pytest.mark.parametrize("style", STYLES)
async def test_a_stream_that_ends_without_a_finish_reason_is_a_failed_attempt(style: str) -> None:
    open_model, make, finish = STYLES[style]
    whole = make()
    for length in range(1, len(whole.body) + finish + 1):
        early = Reply(body=whole.body[:length], ending="early")
        async with peering(early, whole) as peer:
            opened = open_model(peer.url)
            with pytest.raises(Interrupted, match="the answer broke off"):
                await stream_answer(opened.model, INFO, request(), lambda _: None)
            response = await stream_answer(opened.model, INFO, request(), lambda _: None)
            assert response.text == TEXT
            if opened.client is not None:
                await opened.client.aclose()


async def test_a_test_of_a_model_does_not_take_half_an_answer_either() -> None:
    whole = answer("openai", TEXT)
    async with peering(Reply(body=whole.body[:3], ending="early")) as peer:
        opened = open_kind("openai", "/v1")(peer.url)
        with pytest.raises(ModelUnavailable, match="broke off"):
            await ask_once(opened.model, INFO, {}, "hello", clock=lambda: 0.0)
        assert opened.client is not None
        await opened.client.aclose()


async def ask(model: Model[Any], silence: Silence, **more: Any) -> tuple[str | None, list[Signal]]:
    signals: list[Signal] = []

    async def call() -> Any:
        return await stream_answer(model, INFO, request(), signals.append, silence)

    response = await attempt(call, INFO, signals.append, chance=lambda: 0.0, **more)
    return response.text, signals


async def test_silence_is_told_and_given_up_after_a_while(tmp_path: Path) -> None:
    goes_on = tmp_path / "go"
    model = ScriptedModel([{"text": "Hello there.", "hold": str(goes_on), "chunk": 5}])

    async def sleep(_seconds: float) -> None:
        goes_on.touch()

    silence = Silence(told=0.05, again=0.02, ends=0.3)
    text, signals = await ask(model, silence, sleep=sleep)
    assert text == "Hello there."
    kinds = [type(each) for each in signals]
    first = kinds.index(Stalled)
    assert kinds[first - 1] is TextDelta
    assert kinds.count(Stalled) > 1
    (retry,) = (each for each in signals if isinstance(each, Retrying))
    assert retry.reason == "no data for 0.3 s"


async def test_a_stream_that_goes_on_is_never_given_up() -> None:
    model = ScriptedModel([{"text": "Hello there.", "chunk": 1, "delay": 0.06}])
    text, signals = await ask(model, Silence(told=5, ends=0.5))
    assert text == "Hello there."
    assert {type(each) for each in signals} == {TextDelta}


async def test_a_server_that_stops_sending_is_given_up_after_four_attempts() -> None:
    stalls = [answer("openai", TEXT, ending="stalled") for _ in range(4)]
    async with peering(*stalls) as peer:
        opened = open_kind("openai", "/v1")(peer.url)
        with pytest.raises(ModelUnavailable, match=r"sent nothing for 0.1 s.*stall_timeout"):
            await ask(opened.model, Silence(ends=0.1), sleep=Naps())
        assert opened.client is not None
        await opened.client.aclose()


def test_silence_is_told_after_15_seconds_and_given_up_after_120() -> None:
    assert Silence() == Silence(told=15, again=5, ends=120)
