"""One answer of a model, streamed: deltas go out as signals, the whole comes back.

Nothing is recorded here, and nothing is tried again: half an answer is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

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

from clew.agent.attempts import Interrupted
from clew.agent.failures import cut_off, empty_answer, refused_content
from clew.agent.requests import Request
from clew.core.models import ModelInfo
from clew.core.signals import Signal, TextDelta, ThinkingDelta


async def stream_answer(
    model: Model, info: ModelInfo, request: Request, signal: Callable[[Signal], None]
) -> ModelResponse:
    """Ask, show what comes, and return the whole answer."""
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
    """An answer that says nothing and asks for nothing is a failed turn."""
    if any(isinstance(part, ToolCallPart) for part in response.parts):
        return
    if response.files or (response.text or "").strip():
        return
    if response.finish_reason == "content_filter":
        raise refused_content(info)
    raise empty_answer(info, response.finish_reason)


def find_notice(response: ModelResponse) -> str | None:
    """What the person should know about an answer that is not quite whole."""
    if response.finish_reason == "length":
        return "The answer was cut at the model's limit of length. Say `go on` to hear the rest."
    if response.finish_reason == "content_filter":
        return "The provider's content filter stopped this answer."
    return None


def count_said(response: ModelResponse) -> int:
    """The characters of an answer, for when nobody counts tokens."""
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
