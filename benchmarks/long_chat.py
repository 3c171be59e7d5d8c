"""A model for very long conversations, which answers from the request alone.

It answers every message with a few hundred words, uses a tool now and then, writes the summaries
that it is asked for out of the summary so far and the conversation, and refuses what is longer than
its window, as a provider would. So a goal that is still in the last summary got there through clew.
`open_model` is a factory for `[providers.NAME] kind = "python"`; `base_url` is a file that gets one
line for each request: kind and tokens.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from pydantic_ai import exceptions
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings

from clew.core.context.compaction import SUMMARY_INSTRUCTION, parse_sections
from clew.core.context.size import estimate_text
from clew.testing.scripted import ScriptedModel, ScriptedStream, Sent

WINDOW: Final = 16_000
ANSWER: Final = "I wrote that down and went on with it. " * 12
GOAL: Final = re.compile(r"My goal is ([^.\n]+)\.")
SO_FAR: Final = re.compile(r"<summary-so-far>\n(.*?)\n</summary-so-far>", re.DOTALL)


class LongChatModel(ScriptedModel):
    """A model that answers from the request alone; see the module."""

    def __init__(self, log: Path | None = None, window: int = WINDOW) -> None:
        super().__init__(["unused"])
        self._notes = log
        self._window = window

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,  # noqa: ARG002  # the library's signature
    ) -> AsyncGenerator[StreamedResponse]:
        """The answer, made from the request."""
        _, parameters = self.prepare_request(model_settings, model_request_parameters)
        sent = Sent(messages, parameters)
        tokens = count_tokens(sent)
        kind = "summary" if SUMMARY_INSTRUCTION in sent.instructions else "turn"
        if self._notes is not None:
            with self._notes.open("a", encoding="utf-8") as file:
                file.write(f"{kind} {tokens}\n")
        if tokens > self._window:
            category = exceptions.ModelContextWindowExceededError
            raise exceptions.ModelHTTPError.for_category(
                category, status_code=413, model_name="long-chat", body=None, headers=None
            )
        answer: dict[str, Any] = (
            {"text": summarise(sent.user), "chunk": 4_000} if kind == "summary" else say(sent)
        )
        answer["usage"] = {
            "input": tokens,
            "output": estimate_text(str(answer.get("text", ""))) + 1,
        }
        yield ScriptedStream(parameters, answer, sent)


def count_tokens(sent: Sent) -> int:
    """The tokens of a request, counted in its own way."""
    tools = sum(
        len(str(tool.parameters_json_schema)) + len(tool.description or "")
        for tool in sent.tools.values()
    )
    texts = sum(
        len(str(getattr(part, "content", ""))) + len(str(getattr(part, "args", "") or ""))
        for message in sent.messages
        for part in message.parts
    )
    return (len(sent.instructions) + tools + texts) // 4


def summarise(asked: str) -> str:
    """A summary that includes the one before, and what is new."""
    found = SO_FAR.search(asked)
    before = parse_sections(found[1]) if found else {}
    named = GOAL.search(asked)
    goal = before.get("Goal") or (named[1] if named else "(none)")
    days = re.findall(r"day (\d+)", asked)
    return (
        f"Summary: a diary up to day {days[-1] if days else '?'}\n\n"
        f"## Goal\n{goal}\n\n## Open work\nGo on after day {days[-1] if days else '?'}."
    )


def say(sent: Sent) -> dict[str, Any]:
    """An answer; every tenth day a file is read first."""
    day = re.search(r"day (\d+)0\b", sent.user)
    if day is not None and not sent.answers_since_user and "read_file" in sent.tools:
        call = {"name": "read_file", "arguments": {"path": "diary.txt"}}
        return {"tool_calls": [call]}
    return {"text": ANSWER, "chunk": 4_000}


def open_model(_model_id: str, *, base_url: str | None = None, **_: Any) -> Model[Any]:
    """A factory for the configuration."""
    return LongChatModel(Path(base_url) if base_url else None)


def read_log(log: Path) -> Sequence[tuple[str, int]]:
    """Every request: its kind and its tokens."""
    lines = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
    return [(kind, int(tokens)) for kind, tokens in lines]
