"""The row of an answer: what a provider said, kept so that it can have all of it back.

The text is in `content`, the calls in `tool_calls`, and in `parts` what else is needed again:
thinking with its signature, ids and details, the order of things, files by blob. `conversation`
goes the other way.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    FilePart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

from clew.core.message import Draft, ToolCall

PutBlob = Callable[[bytes, str], Awaitable[str]]

HEADER = ("provider_name", "provider_url", "canonical_system", "provider_response_id")
# What else a response says of itself that adapters look at again; finish reasons, times and
# probabilities are never sent back.
DETAILS = ("container_id", "conversation_id", "input_transformations", "compaction", "store")

part_codec: TypeAdapter[ModelResponsePart] = TypeAdapter(ModelResponsePart)


async def draft_of(response: ModelResponse, put_blob: PutBlob, *, model: str) -> Draft:
    """The row of an answer. `model` is the name that people use."""
    content, spans = _join_texts(response)
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    layout: list[dict[str, Any]] = []
    places = iter(range(len(calls)))
    texts = iter(spans)
    for part in response.parts:
        match part:
            case TextPart():
                layout.append({"type": "text", "span": list(next(texts)), **_extras(part)})
            case ToolCallPart():
                layout.append({"type": "tool_call", "index": next(places), **_extras(part)})
            case ThinkingPart():
                layout.append(_thinking(part))
            case FilePart():
                blob = await put_blob(part.content.data, part.content.media_type)
                named = {"blob": blob, "media_type": part.content.media_type}
                layout.append({"type": "file", **named, **_extras(part)})
            case _:
                layout.append({"type": "raw", "part": part_codec.dump_python(part, mode="json")})
    header = _header(response)
    return Draft(
        role="assistant",
        content=content,
        parts=(*((header,) if header else ()), *(() if _is_plain(layout) else layout)),
        tool_calls=tuple(ToolCall(c.tool_call_id, c.tool_name, _arguments(c)) for c in calls),
        model=model,
    )


def _join_texts(response: ModelResponse) -> tuple[str, list[tuple[int, int]]]:
    """The whole text, as people read it, and where in it each piece stands."""
    content = ""
    spans: list[tuple[int, int]] = []
    adjacent = True
    for part in response.parts:
        if not isinstance(part, TextPart):
            adjacent = False
            continue
        if content and part.content and not adjacent:
            content += "\n\n"
        spans.append((len(content), len(content) + len(part.content)))
        content += part.content
        adjacent = True
    return content, spans


def _extras(part: TextPart | ToolCallPart | FilePart | ThinkingPart) -> dict[str, Any]:
    extras = {"id": part.id, "provider": part.provider_name, "details": part.provider_details}
    return {name: _jsonable(value) for name, value in extras.items() if value}


def _thinking(part: ThinkingPart) -> dict[str, Any]:
    signature = {} if part.signature is None else {"signature": part.signature}
    return {"type": "thinking", "thinking": part.content, **signature, **_extras(part)}


def _header(response: ModelResponse) -> dict[str, Any]:
    named = {name: getattr(response, name) for name in HEADER}
    details = response.provider_details or {}
    kept = {name: _jsonable(details[name]) for name in DETAILS if details.get(name)}
    header = {name: value for name, value in named.items() if value is not None}
    if response.model_name:
        header["model_name"] = response.model_name
    if kept:
        header["provider_details"] = kept
    return {"type": "response", **header} if header else {}


def _jsonable(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def _is_plain(layout: Sequence[Mapping[str, Any]]) -> bool:
    """Whether content and calls alone say it all: a text, then calls, and nothing about them."""
    kinds = [entry["type"] for entry in layout]
    bare = all(entry.keys() <= {"type", "span", "index"} for entry in layout)
    return bare and kinds.count("text") <= 1 and "text" not in kinds[1:] and "raw" not in kinds


def _arguments(call: ToolCallPart) -> str:
    if isinstance(call.args, str):
        return call.args or "{}"
    return json.dumps(call.args or {}, ensure_ascii=False, separators=(",", ":"))
