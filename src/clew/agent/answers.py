"""One answer of a model: stream it, try again when that may help, and count what it cost.

Deltas go out as signals while it streams; the whole answer is returned. Nothing is recorded here.
What an error means is decided in `failures`. Sleep and chance are arguments.

In a `Usage`, `input_tokens` is everything the model read, cached tokens included, as pydantic-ai
and genai-prices count; the cache columns say how much of it came from the cache and how much was
put there. Without a count from the provider, four characters are a token and the cost is unknown.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeVar, cast

from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from clew.agent.failures import Failure, cut_off, empty_answer, explain, refused_content
from clew.agent.requests import Request
from clew.core.live_events import Retrying, Signal, TextDelta, ThinkingDelta
from clew.core.models import ModelInfo
from clew.core.usage import Usage

ATTEMPTS: Final = 4
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 60.0
"""Seconds. A provider that asks to wait longer is not asked again: the person decides."""

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[object]]
Chance = Callable[[], float]
"""A number from 0 up to 1."""

CHARACTERS_PER_TOKEN = 4


async def stream_answer(
    model: Model, info: ModelInfo, request: Request, signal: Callable[[Signal], None]
) -> ModelResponse:
    """Ask the model, signal each piece as it comes, and return the whole answer."""
    settings = cast("ModelSettings", request.settings)
    async with model.request_stream(request.messages, settings, request.parameters) as stream:
        async for event in stream:
            delta = _delta(event)
            if delta is not None:
                signal(delta)
        response = stream.get()
    if _is_cut_off(response):
        raise Interrupted(cut_off(info))
    return response


def check_answer(response: ModelResponse, info: ModelInfo) -> None:
    """Raise `TurnFailed` for an answer without text and without tool calls."""
    if any(isinstance(part, ToolCallPart) for part in response.parts):
        return
    if response.files or (response.text or "").strip():
        return
    if response.finish_reason == "content_filter":
        raise refused_content(info)
    raise empty_answer(info, response.finish_reason)


def find_notice(response: ModelResponse) -> str | None:
    """The notice for the person about an answer that is not complete, if any."""
    if response.finish_reason == "length":
        return "The answer was cut at the model's limit. Say `go on` to get the rest."
    if response.finish_reason == "content_filter":
        return "The provider's content filter stopped this answer."
    return None


def count_said(response: ModelResponse) -> int:
    """The characters of an answer, to estimate tokens where the provider counts none."""
    texts = (
        part.content
        if isinstance(part, TextPart | ThinkingPart)
        else part.args_as_json_str()
        if isinstance(part, ToolCallPart)
        else ""
        for part in response.parts
    )
    return sum(map(len, texts))


def _delta(event: object) -> Signal | None:
    text: str | None = None
    match event:
        case (
            PartStartEvent(part=TextPart(content=text))
            | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
        ):
            return TextDelta(text) if text else None
        case (
            PartStartEvent(part=ThinkingPart(content=text))
            | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text))
        ):
            return ThinkingDelta(text) if text else None
    return None


def _is_cut_off(response: ModelResponse) -> bool:
    """Whether the stream ended before the provider said why.

    Some servers close the connection cleanly when they die: no error to the HTTP library. Where
    OpenAI-like servers never say why they end, pydantic-ai says `stop` for them.
    """
    if response.state == "incomplete":
        return True
    told = response.finish_reason or (response.provider_details or {}).get("finish_reason")
    return told is None and response.provider_name is not None


class Interrupted(Exception):
    """A failure without an exception of the library, such as an answer that breaks off."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


async def attempt(
    call: Callable[[], Awaitable[T]],
    model: ModelInfo,
    signal: Callable[[Signal], None],
    *,
    sleep: Sleep = asyncio.sleep,
    chance: Chance = random.random,
    attempts: int = ATTEMPTS,
) -> T:
    """Call until it succeeds, a few times at most; raises `TurnFailed` with an explanation."""
    for number in range(1, attempts + 1):
        try:
            return await call()
        except Exception as error:
            failure = error.failure if isinstance(error, Interrupted) else explain(error, model)
            if failure is None:
                raise
            wait = get_wait(number, failure, chance)
            if wait is None or number == attempts:
                raise failure.error from error
            await _count_down(number + 1, wait, failure.reason, signal, sleep)
    raise AssertionError("the last attempt returns or raises")


def get_wait(number: int, failure: Failure, chance: Chance) -> float | None:
    """Seconds to wait after this attempt; None if it was the last.

    The wait doubles, a little uneven so that many clients do not come back together, and is never
    less than the provider asked for.
    """
    if not failure.transient or number >= ATTEMPTS:
        return None
    wait = FIRST_WAIT * 2 ** (number - 1) * (1 + chance() / 4)
    asked = failure.retry_after or 0.0
    return None if asked > LONGEST_WAIT else max(wait, asked)


async def _count_down(
    attempt_number: int,
    wait: float,
    reason: str,
    signal: Callable[[Signal], None],
    sleep: Sleep,
) -> None:
    left = wait
    while left > 0:
        signal(Retrying(attempt_number, ATTEMPTS, round(left, 1), reason))
        step = min(1.0, left)
        await sleep(step)
        left -= step


def is_counted(response: ModelResponse) -> bool:
    """Whether the provider said how many tokens there were."""
    usage = response.usage
    return not usage.unmeasured_requests and bool(usage.input_tokens or usage.output_tokens)


def usage_of(response: ModelResponse, model: ModelInfo, *, sent: int, said: int) -> Usage:
    """The usage of one answer. `sent` and `said` are characters of the request and the answer."""
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
    """Nano-dollars; None if the price is unknown."""
    if response.usage.cost is not None:
        return int(response.usage.cost * 1_000_000_000)
    if not response.model_name or not response.provider_name:
        return None  # without a provider the library would take any model of that name
    try:
        price = response.cost().total_price
    except (LookupError, ValueError):
        return None
    return int(Decimal(price) * 1_000_000_000)


class Answer(NamedTuple):
    """The text of an answer, and the seconds until it began."""

    text: str
    first_token: float
    input_tokens: int
    output_tokens: int


async def ask_once(
    model: Model[Any],
    info: ModelInfo,
    settings: dict[str, Any],
    question: str,
    *,
    clock: Callable[[], float],
) -> Answer:
    """Ask one question and wait for the whole answer: no session, no tools, no retries.

    Raises `TurnFailed` with an explanation for the person.
    """
    from pydantic_ai.messages import ModelRequest  # noqa: PLC0415  # a second to import
    from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415  # a second to import

    asked = clock()
    first: float | None = None
    try:
        async with model.request_stream(
            [ModelRequest.user_text_prompt(question)],
            cast("ModelSettings", settings),
            ModelRequestParameters(),
        ) as stream:
            async for _ in stream:
                first = clock() - asked if first is None else first
            answer = stream.get()
    except Exception as error:
        failure = explain(error, info)
        if failure is None:
            raise
        raise failure.error from error
    if not answer.text:
        raise empty_answer(info, answer.finish_reason)
    return Answer(answer.text, first or 0.0, answer.usage.input_tokens, answer.usage.output_tokens)
