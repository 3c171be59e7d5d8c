"""What an answer cost: the provider's count, or an estimate, as our `Usage`.

`input_tokens` is everything the model read, cached tokens included, as pydantic-ai and genai-prices
count; the cache columns say how much of it came from the cache and how much was put there. Without
a count from the provider, four characters are a token and the cost is unknown; a surface that
shows such a number puts `~` before it.
"""

from __future__ import annotations

from decimal import Decimal

from pydantic_ai.messages import ModelResponse

from clew.core.models import ModelInfo
from clew.core.usage import Usage

CHARACTERS_PER_TOKEN = 4


def is_counted(response: ModelResponse) -> bool:
    """Whether the provider said how many tokens it were."""
    usage = response.usage
    return not usage.unmeasured_requests and bool(usage.input_tokens or usage.output_tokens)


def usage_of(response: ModelResponse, model: ModelInfo, *, sent: int, said: int) -> Usage:
    """The usage of one answer. `sent` and `said` are the characters of both ways."""
    if not is_counted(response):
        return Usage(
            input_tokens=-(-sent // CHARACTERS_PER_TOKEN),
            output_tokens=-(-said // CHARACTERS_PER_TOKEN),
            cost=0 if model.embedded else None,
            api_calls=1,
        )
    usage = response.usage
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_creation_tokens=usage.cache_write_tokens,
        cost=0 if model.embedded else _cost(response),
        api_calls=1,
    )


def _cost(response: ModelResponse) -> int | None:
    """Nano-dollars; None if nobody knows the price."""
    if response.usage.cost is not None:
        return int(response.usage.cost * 1_000_000_000)
    if not response.model_name or not response.provider_name:
        return None  # without a provider the library would take any model of that name
    try:
        price = response.cost().total_price
    except (LookupError, ValueError):
        return None
    return int(Decimal(price) * 1_000_000_000)
