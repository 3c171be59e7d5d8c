"""One request to a model: which messages it shows, in what form, with which tools.

It is built from the store for every call, so that a resumed conversation and one that never
stopped send the same bytes. `answers` sends it; the system prompt is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelResponse, ThinkingPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from clew.agent.model_messages import GetBlob, Keeps, messages_of, sendable
from clew.agent.tool_interface import ToolSpec
from clew.core.context.compaction import brief, since, summary_message
from clew.core.context.size import estimate_text, estimate_tool
from clew.core.context.thread import Pruning, plain, prune, repair, window
from clew.core.message import Message
from clew.core.models import ModelInfo
from clew.core.names import counted
from clew.core.notes import Compaction
from clew.errors import TurnFailed

TINY_CHARACTERS = int(600 * 3.5)
"""What the embedded model reads at most: some six hundred tokens, about six seconds' worth."""
TINY_HISTORY = int(200 * 3.5)
"""What it reads of the messages before the last one, so that a short question is answered soon."""
TINY_STEP = 4
"""Messages by which the beginning of what it reads moves on."""


class Catalogue(Protocol):
    """The models of the configuration, as the agent needs them (`agent.models.catalogue`)."""

    def get_model(self, name: str | None = None) -> ModelInfo:
        """By name, the default if None; `ModelNotFound`."""
        ...

    async def open_model(self, info: ModelInfo) -> Model:
        """Ready to be asked, the same one every time; `ModelUnavailable` or `ModelRefused`."""
        ...

    def get_settings(
        self, info: ModelInfo, *, thinking: str | None = None, service_tier: str | None = None
    ) -> dict[str, Any]:
        """What goes along with every request: None for the configured default.

        Both are reduced to what the model can do.
        """
        ...


class Thread(Protocol):
    """Where the messages come from: a `LiveTurn`, or anything that reads like one."""

    async def get_thread(self, limit: int) -> tuple[Message, ...]:
        """The newest messages."""
        ...


class Request(msgspec.Struct, frozen=True):
    """What is sent. `characters` is its rough length, to estimate tokens where none are counted.

    `left_out` are the characters of the last message that do not fit into a very small model.
    """

    messages: list[ModelMessage]
    settings: dict[str, Any]
    parameters: ModelRequestParameters
    characters: int
    left_out: int = 0


async def read_window(
    thread: Thread, limit: int, compaction: Compaction | None = None
) -> tuple[Message, ...]:
    """The newest `limit` messages that make sense alone; more inside one long chain of tools.

    Of a compacted thread, only what was kept verbatim; the summary is not among them.
    """
    wanted = limit + 1
    while True:
        read = await thread.get_thread(wanted)
        rows = since(read, compaction)
        shown = window(rows, limit)
        whole = len(read) < wanted or len(rows) < len(read)
        if whole or shown[0].role == "user":
            return shown
        wanted *= 4


async def build_request(
    rows: Sequence[Message],
    prompt: str,
    tools: Sequence[ToolSpec],
    *,
    info: ModelInfo,
    model: Model,
    settings: dict[str, Any],
    get_blob: GetBlob,
    compaction: Compaction | None = None,
    pruning: Pruning | None = None,
) -> Request:
    """Build the request for these messages. A model without tools is not shown any tool call.

    The summary of what came before is the first thing that the user says; the embedded model gets
    one line of it. Old tool results are trimmed where the context is getting full.
    """
    left_out = 0
    if info.embedded:
        prompt = prompt if compaction is None else f"{prompt}\n{brief(compaction)}"
        if rows := plain(rows):
            said = len(rows[-1].content)
            rows = fit(rows, TINY_CHARACTERS - len(prompt))
            left_out = said - len(rows[-1].content)
    else:
        rows = rows if compaction is None else (summary_message(compaction), *rows)
        rows = repair(rows) if tools else plain(rows)
        overhead = estimate_text(prompt) + sum(
            estimate_tool(tool.name, tool.description, tool.schema) for tool in tools
        )
        rows = prune(rows, window=info.context_window, overhead=overhead, rules=pruning)
    if not rows:
        raise TurnFailed("There is nothing to answer: the conversation is empty.")
    messages = await messages_of(
        rows, get_blob, images=info.images, keeps=keeps_own_thinking(model)
    )
    prompt = sendable(prompt)
    parameters = ModelRequestParameters(
        function_tools=[_definition(tool) for tool in tools],
        allow_text_output=True,
        instruction_parts=[InstructionPart(content=prompt)] if prompt.strip() else None,
    )
    spoken = sum(len(row.content) + sum(len(c.arguments) for c in row.tool_calls) for row in rows)
    offered = sum(len(tool.description) + len(str(tool.schema)) for tool in tools)
    characters = len(prompt) + spoken + offered
    return Request(messages, settings, parameters, characters, left_out)


def fit(rows: Sequence[Message], room: int) -> tuple[Message, ...]:
    """The last message, cut if necessary, and as many before it as are read quickly.

    The beginning moves on in steps, not with every message: what stays the same at the front is
    cached and need not be read again.
    """
    *before, last = rows
    if len(last.content) > room:
        last = msgspec.structs.replace(last, content=_middle_out(last.content, room))
    left = min(TINY_HISTORY, room - len(last.content))
    start = len(before)
    while start > 0 and (left := left - len(before[start - 1].content) - 8) >= 0:
        start -= 1
    kept = before[start:]
    if start > 0:
        passed = before[start - 1].seq // TINY_STEP
        kept = [row for row in kept if row.seq // TINY_STEP > passed]
    while kept and kept[0].role != "user":
        kept.pop(0)
    return (*kept, last)


def cut_question(left_out: int) -> str:
    """The notice for the person when the embedded model does not get the whole message."""
    return (
        f"That is too long for the embedded model: about {counted(left_out, 'character')} in the "
        "middle of it are left out. A larger model reads all of it (`/model`)."
    )


def keeps_own_thinking(model: Model) -> Keeps:
    """Whether thinking goes back to the provider that produced it.

    Another provider would refuse its signature, or take its text for something that was said.
    """

    def keeps(response: ModelResponse, part: Any) -> bool:
        if not isinstance(part, ThinkingPart):
            return True
        if part.provider_name is None:
            return response.provider_name == model.system
        return model.accepts_stateless_artifacts(response, part)

    return keeps


def _middle_out(text: str, room: int) -> str:
    head = room * 2 // 3
    tail = max(room - head - 5, 1)
    return f"{text[:head]}\n…\n{text[-tail:]}"


def _definition(tool: ToolSpec) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name, description=tool.description, parameters_json_schema=tool.schema
    )
