from __future__ import annotations

from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage

from clew.agent.answers import usage_of
from clew.core.models import ModelInfo
from clew.core.usage import Usage

MODEL = ModelInfo(name="openai/gpt-4o", provider="openai")


def response(provider: str | None, model: str, usage: RequestUsage) -> ModelResponse:
    return ModelResponse(
        parts=[TextPart("x")], provider_name=provider, model_name=model, usage=usage
    )


def test_a_known_model_has_a_price_and_cached_tokens_are_cheaper() -> None:
    dear = response("openai", "gpt-4o", RequestUsage(input_tokens=1000, output_tokens=100))
    cheap = response(
        "openai",
        "gpt-4o",
        RequestUsage(input_tokens=1000, output_tokens=100, cache_read_tokens=800),
    )
    full = usage_of(dear, MODEL, sent=0, said=0)
    part = usage_of(cheap, MODEL, sent=0, said=0)
    # 2.5 and 10 dollars a million, 1.25 for what was cached.
    assert full.cost == 1000 * 2_500 + 100 * 10_000
    assert part.cost == 200 * 2_500 + 800 * 1_250 + 100 * 10_000
    assert (part.input_tokens, part.cache_read_tokens) == (1000, 800)


def test_an_unknown_model_has_an_unknown_cost() -> None:
    usage = RequestUsage(input_tokens=10, output_tokens=1)
    for provider, name in (("shed", "llama"), (None, "gpt-4o"), ("openai", "never-heard-of")):
        assert usage_of(response(provider, name, usage), MODEL, sent=0, said=0).cost is None


def test_the_embedded_model_costs_nothing() -> None:
    info = ModelInfo(name="local/tiny", provider="local", embedded=True)
    counted = response("local", "tiny", RequestUsage(input_tokens=10, output_tokens=1))
    assert usage_of(counted, info, sent=0, said=0) == Usage(10, 1, cost=0, api_calls=1)
    silent = response("local", "tiny", RequestUsage())
    assert usage_of(silent, info, sent=9, said=4) == Usage(3, 1, cost=0, api_calls=1)
