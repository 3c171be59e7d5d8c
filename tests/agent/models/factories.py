"""Functions that a config file could name."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def open_odd(model_id: str, **options: Any) -> FunctionModel:
    """A model that repeats its options."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(str(options))])

    return FunctionModel(answer, model_name=model_id)


def open_nothing(model_id: str, **options: Any) -> str:
    """No model at all."""
    return model_id
