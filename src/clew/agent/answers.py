"""One answer of a model: stream it, try again when that may help, and count what it cost.

Deltas go out as live events while it streams; the whole answer is returned. Nothing is recorded
here. Every error of pydantic-ai, of the SDKs and of the network is explained here: a message for
the person, and whether another attempt may help. Sleep and chance are arguments.

In a `Usage`, `input_tokens` is everything the model read, cached tokens included, as pydantic-ai
and genai-prices count; the cache columns say how much of it came from the cache and how much was
put there. Without a count from the provider, four characters are a token and the cost is unknown.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec
from pydantic_ai import exceptions
from pydantic_ai.messages import (
    InstructionPart,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from clew.agent.model_messages import sendable
from clew.agent.models.providers import KEY_VARIABLES
from clew.agent.requests import Request
from clew.core.live_events import Retrying, Signal, Stalled, TextDelta, ThinkingDelta
from clew.core.models import ModelInfo
from clew.core.redaction import redact
from clew.core.text import cut, strip_controls
from clew.core.usage import Usage
from clew.errors import ContextTooLong, ModelRefused, ModelUnavailable, TurnFailed

ATTEMPTS: Final = 4
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 60.0
"""Seconds. A provider that asks to wait longer is not asked again: the person decides."""

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[object]]
Chance = Callable[[], float]
"""A number from 0 up to 1."""

CHARACTERS_PER_TOKEN = 4

_RETRY = "`/retry` tries again."


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds without data after which that is told, told again, and the attempt is given up."""

    told: float = 15.0
    again: float = 5.0
    ends: float = 120.0


async def stream_answer(
    model: Model,
    info: ModelInfo,
    request: Request,
    signal: Callable[[Signal], None],
    silence: Silence = Silence(),  # noqa: B008  # frozen
) -> ModelResponse:
    """Ask the model, signal each piece as it comes, and return the whole answer."""
    settings = cast("ModelSettings", request.settings)
    async with (
        _listening(info, signal, silence) as hear,
        model.request_stream(request.messages, settings, request.parameters) as stream,
    ):
        async for event in stream:
            hear()
            delta = _delta(event)
            if delta is not None:
                signal(delta)
        response = stream.get()
    if _is_cut_off(response, model):
        raise Interrupted(cut_off(info))
    return response


@asynccontextmanager
async def _listening(
    info: ModelInfo, signal: Callable[[Signal], None], silence: Silence
) -> AsyncGenerator[Callable[[], None]]:
    """Tell when nothing comes, and give up after a while; yields what to call for each piece.

    The embedded model is slow on a busy machine, but never lost: it is not given up.
    """
    loop = asyncio.get_running_loop()
    ends = None if info.embedded else silence.ends
    heard = loop.time()
    limit = asyncio.timeout(ends)

    def hear() -> None:
        nonlocal heard
        heard = loop.time()
        if ends is not None:
            limit.reschedule(heard + ends)

    def look() -> None:
        quiet = loop.time() - heard
        if quiet >= silence.told:
            signal(Stalled(round(quiet)))
        wait = silence.again if quiet >= silence.told else silence.told - quiet
        timers[:] = [loop.call_later(wait, look)]

    timers = [loop.call_later(silence.told, look)]
    try:
        async with limit:
            yield hear
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise Interrupted(stalled(info, silence.ends)) from error
    finally:
        timers[0].cancel()


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


def _is_cut_off(response: ModelResponse, model: Model) -> bool:
    """Whether the stream ended before the provider said why.

    Some servers close the connection cleanly when they die: no error to the HTTP library. Where an
    OpenAI-like server did not say why it ended, pydantic-ai says `stop` in its place, and only the
    details show it.
    """
    if response.state == "incomplete":
        return True
    said = (response.provider_details or {}).get("finish_reason")
    if response.finish_reason == "stop" and _is_chat_completion(model):
        return said is None
    return (response.finish_reason or said) is None and response.provider_name is not None


def _is_chat_completion(model: Model) -> bool:
    """Whether it speaks OpenAI's older protocol; that library is loaded only if it is used."""
    module = sys.modules.get("pydantic_ai.models.openai")
    return module is not None and isinstance(model, module.OpenAIChatModel)


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

    The wait doubles, with some jitter so that many clients do not come back together, and is never
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


async def ask_aside(
    model: Model,
    info: ModelInfo,
    settings: dict[str, Any],
    *,
    instruction: str,
    text: str,
    signal: Callable[[Signal], None] = lambda _: None,
    sleep: Sleep = asyncio.sleep,
    chance: Chance = random.random,
    attempts: int = ATTEMPTS,
) -> tuple[ModelResponse, Usage]:
    """Ask for a text that is not part of the conversation, such as a title or a summary.

    What the model says is not shown: `signal` gets the countdown of a retry, and silence. Raises
    `TurnFailed` like a turn.
    """
    text = sendable(text)
    request = Request(
        messages=[ModelRequest(parts=[UserPromptPart(content=text)])],
        settings=settings,
        parameters=ModelRequestParameters(instruction_parts=[InstructionPart(content=instruction)]),
        characters=len(text) + len(instruction),
    )

    def signal_silence(event: Signal) -> None:
        if isinstance(event, Stalled):
            signal(event)

    ask = partial(stream_answer, model, info, request, signal_silence)
    response = await attempt(ask, info, signal, sleep=sleep, chance=chance, attempts=attempts)
    usage = usage_of(response, info, sent=request.characters, said=count_said(response))
    return response, usage


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
    soul: str = "",
) -> Answer:
    """Ask one question and wait for the whole answer: no session, no tools, no retries.

    Raises `TurnFailed` with an explanation for the person.
    """
    asked = clock()
    first: float | None = None
    try:
        async with (
            _listening(info, lambda _: None, Silence()) as hear,
            model.request_stream(
                [ModelRequest.user_text_prompt(question, instructions=soul or None)],
                cast("ModelSettings", settings),
                ModelRequestParameters(),
            ) as stream,
        ):
            async for _ in stream:
                hear()
                first = clock() - asked if first is None else first
            answer = stream.get()
    except Exception as error:
        failure = error.failure if isinstance(error, Interrupted) else explain(error, info)
        if failure is None:
            raise
        raise failure.error from error
    if _is_cut_off(answer, model):
        raise cut_off(info).error
    if not answer.text:
        raise empty_answer(info, answer.finish_reason)
    return Answer(answer.text, first or 0.0, answer.usage.input_tokens, answer.usage.output_tokens)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """`error` is what the turn ends with; `reason` is short, for a countdown."""

    error: TurnFailed
    reason: str
    transient: bool = False
    retry_after: float | None = None


def explain(error: Exception, model: ModelInfo) -> Failure | None:
    """What an error of a model call means; None for an error that did not come from the model."""
    match error:
        case exceptions.ModelAPIError():
            return _explain_api(error, model)
        case exceptions.ContentFilterError():
            return Failure(error=refused_content(model), reason="content filter")
        case exceptions.AgentRunError() | exceptions.UserError():
            words = f"{model.name} could not be used for this ({_short(str(error))}). {_RETRY}"
            return Failure(error=TurnFailed(words), reason="unexpected answer")
    return _unreachable(error, model) if _is_transport(error) else None


def _explain_api(error: Any, model: ModelInfo) -> Failure:
    name, provider = model.name, model.provider
    said = _said(error)
    match error:
        case exceptions.ModelContextWindowExceededError():
            words = (
                f"The conversation is longer than {name} can read. "
                "`/compact` makes it shorter, `/new` starts a new one."
            )
            return Failure(error=ContextTooLong(words), reason="context too long")
        case exceptions.ModelAuthenticationError():
            return Failure(error=ModelRefused(_wrong_key(error, model, said)), reason="wrong key")
        case exceptions.ModelQuotaExceededError():
            words = (
                f"{provider} says that there is no money or quota left for this key{said}. "
                "Top it up there, or choose another model with `/model`."
            )
            return Failure(error=ModelRefused(words), reason="quota used up")
        case exceptions.ModelNotFoundError():
            guess = getattr(error, "suggested_model_id", None)
            near = f' Did you mean "{guess}"?' if guess else ""
            words = (
                f"{provider} does not know the model {name}{said}.{near} "
                "`clew model list` shows what is configured, `/model` changes it."
            )
            return Failure(error=ModelRefused(words), reason="unknown model")
        case exceptions.ModelRequestRejectedError():
            words = (
                f"{provider} did not accept the request{said}. "
                "If it happens again, `/new` starts a new session and `/model` changes the model."
            )
            return Failure(error=TurnFailed(words), reason="request rejected")
    return _explain_passing(error, model, said)


def _explain_passing(error: Any, model: ModelInfo, said: str) -> Failure:
    """Explain errors that may be gone in a moment."""
    provider = model.provider
    may_pass = getattr(error, "provider_retry_hint", None) is not False
    match error:
        case exceptions.ModelConnectionError() | exceptions.ModelRequestTimeout():
            return _unreachable(error, model)
        case exceptions.ModelRateLimitError():
            reason = f"{provider} asks to slow down"
            words = (
                f"{provider} gets too many requests from this key{said}. Wait a little: {_RETRY}"
            )
        case exceptions.ModelOverloadedError():
            reason = f"{provider} is overloaded"
            words = f"{provider} is overloaded at the moment{said}. {_RETRY}"
        case exceptions.ModelUnavailableError() | exceptions.ModelServerError():
            reason = f"{provider} has a problem"
            words = f"{provider} has a problem on its side{said}. {_RETRY}"
        case _:
            status = getattr(error, "status_code", 0)
            may_pass = may_pass and (status in {408, 409, 425, 429} or status >= 500)
            reason = f"{provider} answered with an error"
            words = f"{provider} answered with an error{said}. {_RETRY}"
    return Failure(
        error=ModelUnavailable(words),
        reason=reason,
        transient=may_pass,
        retry_after=error.retry_after,
    )


def cut_off(model: ModelInfo) -> Failure:
    """The failure for an answer whose end never came."""
    words = f"The connection to {model.provider} broke off in the middle of the answer. {_RETRY}"
    return Failure(error=ModelUnavailable(words), reason="the answer broke off", transient=True)


def stalled(model: ModelInfo, seconds: float) -> Failure:
    """The failure for an answer that stopped coming."""
    words = (
        f"{model.provider} sent nothing for {seconds:g} s, so clew did not wait any longer "
        f"(`models.stall_timeout`). {_RETRY}"
    )
    reason = f"no data for {seconds:g} s"
    return Failure(error=ModelUnavailable(words), reason=reason, transient=True)


def refused_content(model: ModelInfo) -> TurnFailed:
    """The failure for an answer that the provider's filter stopped."""
    return TurnFailed(
        f"{model.provider} stopped this answer with its content filter. Say it in other words, "
        "or choose another model with `/model`."
    )


def empty_answer(model: ModelInfo, finish: str | None) -> TurnFailed:
    """The failure for an answer without any text."""
    if finish == "length":
        return TurnFailed(
            f"{model.name} reached the limit of an answer before it said anything. "
            "Ask for less, or lower `/thinking`."
        )
    return TurnFailed(f"{model.name} gave an empty answer. {_RETRY}")


def _unreachable(error: Exception, model: ModelInfo) -> Failure:
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        words = f"{model.provider} took too long to answer. {_RETRY}"
        return Failure(error=ModelUnavailable(words), reason="no answer in time", transient=True)
    words = (
        f"{model.provider} can't be reached. Check the network (and the address, if it is your "
        f"own server). {_RETRY}"
    )
    return Failure(
        error=ModelUnavailable(words), reason=f"{model.provider} can't be reached", transient=True
    )


def _wrong_key(error: Any, model: ModelInfo, said: str) -> str:
    variable = KEY_VARIABLES.get(model.provider)
    where = f"`[providers.{model.provider}] api_key` in the configuration"
    place = f"{variable} or {where}" if variable else where
    if getattr(error, "status_code", None) == 403:
        return (
            f"{model.provider} does not let this key use {model.name}{said}. "
            f"Check what the key may do, or set another one: {place}."
        )
    return f"{model.provider} did not accept the key{said}. Set a valid one: {place}."


def _said(error: Any) -> str:
    """The provider's own sentence about the error, if its body has one."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    sentence = inner.get("message") if isinstance(inner, dict) else inner
    return f' ("{_short(sentence)}")' if isinstance(sentence, str) and sentence.strip() else ""


def _short(text: str) -> str:
    # Some servers repeat the key that they did not accept.
    return cut(redact(strip_controls(text, keep_newlines=False).strip()), 200).rstrip(".")


def _is_transport(error: Exception) -> bool:
    """Whether it is a bare error of the network, or of an HTTP library that is loaded."""
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    for name in ("httpx", "httpx2"):
        module = sys.modules.get(name)
        if module is not None and isinstance(error, module.TransportError | module.StreamError):
            return True
    return False
