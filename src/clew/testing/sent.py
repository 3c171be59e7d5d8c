"""What a model was sent, as scripts and logs talk about it. Reading only."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings


class Sent:
    """What a request says, as scripts talk about it."""

    def __init__(self, messages: Sequence[ModelMessage], parameters: ModelRequestParameters):
        self.messages = messages
        parts = Model._get_instruction_parts(messages, parameters) or []  # as its adapters do
        self.instructions = "\n\n".join(part.content for part in parts)
        self.tools = {tool.name: tool for tool in parameters.function_tools}
        self.user = ""
        self.results: list[str] = []
        self.answers = self.answers_since_user = 0
        for message in messages:
            if isinstance(message, ModelResponse):
                self.answers += 1
                self.answers_since_user += 1
                self.results = []
            else:
                self._read(message)

    def _read(self, request: ModelRequest) -> None:
        for part in request.parts:
            if isinstance(part, UserPromptPart):
                said = [part.content] if isinstance(part.content, str) else part.content
                self.user = "\n".join(item for item in said if isinstance(item, str))
                self.answers_since_user = 0
            elif isinstance(part, ToolReturnPart):
                self.results.append(part.model_response_str())

    @property
    def place(self) -> object:
        """The same for another attempt at the same request."""
        return self.answers, self.user, *self.results

    def as_json(self, settings: ModelSettings | None) -> str:
        """The request as one line, the same text for the same request."""
        return json.dumps(
            {
                "instructions": self.instructions,
                "messages": ModelMessagesTypeAdapter.dump_python(list(self.messages), mode="json"),
                "tools": [
                    [tool.name, tool.description, tool.parameters_json_schema]
                    for tool in self.tools.values()
                ],
                "settings": settings,
            },
            ensure_ascii=False,
            default=str,
        )

    def quote(self, what: str) -> str:
        """What an `echo` says."""
        if what == "thread":
            return json.dumps(
                [
                    [part.part_kind, str(getattr(part, "content", getattr(part, "args", "")))]
                    for message in self.messages
                    for part in message.parts
                ],
                ensure_ascii=False,
            )
        quoted = {"user": self.user, "instructions": self.instructions}
        return "\n".join(self.results) if what == "results" else quoted[what]
