"""Ask a model for the title of a session. Not part of the thread, never retried."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic_ai.messages import InstructionPart, ModelRequest, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters

from clew.agent.answers import attempt, count_said, stream_answer, usage_of
from clew.agent.requests import Request
from clew.core.live_events import Signal
from clew.core.message import Message
from clew.core.models import ModelInfo
from clew.core.names import TITLE_INSTRUCTION, Title, clean_title


async def ask_title(
    model: Model,
    info: ModelInfo,
    settings: dict[str, Any],
    thread: Sequence[Message],
    characters: int,
) -> Title:
    """Ask for a title of at most six words. Raises `TurnFailed` like a turn."""
    said = [
        f"{'User' if row.role == 'user' else 'Assistant'}: {row.content.strip()}"
        for row in thread
        if row.role != "tool" and row.content.strip()
    ]
    if not said:
        return Title(None)
    text = "\n\n".join(said)[:characters]
    request = Request(
        messages=[ModelRequest(parts=[UserPromptPart(content=text)])],
        settings=settings,
        parameters=ModelRequestParameters(
            instruction_parts=[InstructionPart(content=TITLE_INSTRUCTION)]
        ),
        characters=len(text),
    )
    ask = partial(stream_answer, model, info, request, _ignore)
    response = await attempt(ask, info, _ignore, attempts=1)
    usage = usage_of(response, info, sent=request.characters, said=count_said(response))
    return Title(clean_title(response.text or ""), usage)


def _ignore(_: Signal) -> None:
    """Drop what the model says: no surface shows it."""
