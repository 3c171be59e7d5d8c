"""One short question to a model, to see whether it answers. No session, no tools, no retries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from clew.agent.failures import empty_answer, explain
from clew.core.models import ModelInfo

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings


class Answer(NamedTuple):
    """What came, and after how many seconds it began to."""

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
    """Ask, and wait for the whole answer; `TurnFailed` with words for the person."""
    from pydantic_ai.messages import ModelRequest  # noqa: PLC0415  # a second to import
    from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415  # likewise

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
