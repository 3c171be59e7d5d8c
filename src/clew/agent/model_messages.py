"""Stored messages as pydantic-ai's messages, and a model's answer as a message to store.

A provider gets back exactly what it gave. Nothing is random and no clock is read: a row gives the
same message in every process. Which rows are sent is decided in `core.context.thread` and
`requests`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from clew.core.channels.speech import tell
from clew.core.message import Draft, Message, ToolCall, blob_hashes
from clew.core.notes import Blob
from clew.errors import BlobNotFound

GetBlob = Callable[[str], Awaitable[Blob]]
Keeps = Callable[[ModelResponse, ModelResponsePart], bool]
"""Whether the model that is asked next accepts a part of an older answer."""

_LONE: Final = re.compile("[\ud800-\udfff]")

PutBlob = Callable[[bytes, str], Awaitable[str]]

HEADER = ("provider_name", "provider_url", "canonical_system", "provider_response_id")
# What else a response says of itself that adapters look at again; finish reasons, times and
# probabilities are never sent back.
DETAILS = ("container_id", "conversation_id", "input_transformations", "compaction", "store")

part_codec: TypeAdapter[ModelResponsePart] = TypeAdapter(ModelResponsePart)


async def messages_of(
    thread: Sequence[Message],
    get_blob: GetBlob,
    *,
    images: bool = True,
    keeps: Keeps | None = None,
) -> list[ModelMessage]:
    """Convert a repaired thread to pydantic-ai's messages.

    Thinking that `keeps` refuses is left out (another provider's signature means nothing to this
    one). Without `images`, a line says what is not shown.
    """
    blobs = await _get_blobs(thread, get_blob) if images else {}
    messages: list[ModelMessage] = []
    for row in map(_sendable, thread):
        if row.role == "assistant":
            messages.append(_response(row, blobs, keeps))
            continue
        part = _tool_return(row, blobs) if row.role == "tool" else _user_prompt(row, blobs)
        last = messages[-1] if messages else None
        if isinstance(last, ModelRequest):
            last.parts = [*last.parts, part]
        else:
            messages.append(ModelRequest(parts=[part], timestamp=_time(row)))
    return messages


def sendable(text: str) -> str:
    """The text as UTF-8 can carry it: a lone surrogate, which a file name may hold, becomes `�`."""
    return text if text.isascii() else _LONE.sub("\ufffd", text)


def _sendable(row: Message) -> Message:
    content = sendable(row.content)
    calls = tuple(ToolCall(call.id, call.name, sendable(call.arguments)) for call in row.tool_calls)
    if content == row.content and calls == row.tool_calls:
        return row
    return msgspec.structs.replace(row, content=content, tool_calls=calls)


async def _get_blobs(thread: Sequence[Message], get_blob: GetBlob) -> dict[str, Blob]:
    blobs: dict[str, Blob] = {}
    for name in dict.fromkeys(name for row in thread for name in blob_hashes(row.parts)):
        try:
            blobs[name] = await get_blob(name)
        except BlobNotFound:
            continue  # an import without its attachments: the line in its place says so
    return blobs


def _time(row: Message) -> datetime:
    try:
        return datetime.fromtimestamp(row.at / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(0, UTC)  # an import may bring any number


def _user_prompt(row: Message, blobs: Mapping[str, Blob]) -> UserPromptPart:
    files, said = _files(row, blobs), sendable(tell(row))
    if not files:
        return UserPromptPart(content=said, timestamp=_time(row))
    text: list[UserContent] = [said] if said.strip() else []
    return UserPromptPart(content=[*text, *files], timestamp=_time(row))


def _tool_return(row: Message, blobs: Mapping[str, Blob]) -> ToolReturnPart:
    files = _files(row, blobs)
    content: Any = [*([row.content] if row.content else []), *files] if files else row.content
    return ToolReturnPart(
        tool_name=row.tool_name or "tool",
        content=content,
        tool_call_id=row.tool_call_id or "",
        outcome="failed" if row.is_error else "success",
        timestamp=_time(row),
    )


def _files(row: Message, blobs: Mapping[str, Blob]) -> list[str | BinaryContent]:
    files: list[str | BinaryContent] = []
    for part in row.parts:
        name = part.get("blob")
        if not isinstance(name, str):
            continue
        kind = part.get("media_type")
        blob = blobs.get(name)
        if blob is None:
            files.append(f"[{kind or 'a file'} that can't be shown here]")
        else:
            media_type = kind if isinstance(kind, str) else blob.media_type
            files.append(BinaryContent(data=blob.data, media_type=media_type))
    return files


def _response(row: Message, blobs: Mapping[str, Blob], keeps: Keeps | None) -> ModelResponse:
    header = next((part for part in row.parts if part.get("type") == "response"), {})
    response = ModelResponse(
        parts=[],
        timestamp=_time(row),
        model_name=_string(header, "model_name"),
        provider_details=_mapping(header, "provider_details"),
        provider_name=_string(header, "provider_name"),
        provider_url=_string(header, "provider_url"),
        canonical_system=_string(header, "canonical_system"),
        provider_response_id=_string(header, "provider_response_id"),
    )
    parts = _parts(row, blobs)
    response.parts = [part for part in parts if not keeps or keeps(response, part)]
    return response


def _parts(row: Message, blobs: Mapping[str, Blob]) -> list[ModelResponsePart]:
    """The parts in their order. Of rows written by other programs, as much as can be understood."""
    entries = [part for part in row.parts if part.get("type") != "response"]
    spans = _spans(row, entries)
    left = dict(enumerate(row.tool_calls))
    parts: list[ModelResponsePart] = []
    for entry in entries:
        match entry.get("type"):
            case "thinking":
                parts.append(_thinking_part(entry))
            case "text" if spans is not None:
                start, end = spans.pop(0)
                parts.append(TextPart(row.content[start:end], **_given(entry)))
            case "tool_call" if isinstance(at := entry.get("index"), int) and at in left:
                parts.append(_call(left.pop(at), entry))
            case "file" if (blob := blobs.get(str(entry.get("blob")))) is not None:
                content = BinaryContent(data=blob.data, media_type=blob.media_type)
                parts.append(FilePart(content=content, **_given(entry)))
            case "raw" if isinstance(entry.get("part"), dict):
                with suppress(ValidationError):  # a file may say anything
                    parts.append(part_codec.validate_python(entry["part"]))
            case _:
                pass
    if spans is None and row.content.strip():
        parts.append(TextPart(row.content))
    parts += [_call(call, {}) for call in left.values()]
    return [part for part in parts if not _is_blank(part)]


def _spans(row: Message, entries: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]] | None:
    """Where each piece of the text is; None if that is not recorded, or no longer true."""
    spans: list[tuple[int, int]] = []
    for entry in entries:
        if entry.get("type") != "text":
            continue
        match entry.get("span"):
            case [int(start), int(end)] if (spans[-1][1] if spans else 0) <= start <= end:
                spans.append((start, end))
            case _:
                return None
    if not spans or spans[-1][1] != len(row.content):
        return None
    return spans


def _is_blank(part: ModelResponsePart) -> bool:
    """Whether a part is whitespace between calls: providers send it and then refuse it."""
    return (
        isinstance(part, TextPart)
        and not part.content.strip()
        and not (part.id or part.provider_details)
    )


def _thinking_part(entry: Mapping[str, Any]) -> ThinkingPart:
    text = _string(entry, "thinking") or _string(entry, "text") or ""
    return ThinkingPart(text, signature=_string(entry, "signature"), **_given(entry))


def _call(call: ToolCall, entry: Mapping[str, Any]) -> ToolCallPart:
    return ToolCallPart(call.name, call.arguments, call.id, **_given(entry))


def _given(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": _string(entry, "id"),
        "provider_name": _string(entry, "provider"),
        "provider_details": _mapping(entry, "details"),
    }


def _string(entry: Mapping[str, Any], name: str) -> str | None:
    value = entry.get(name)
    return value if isinstance(value, str) else None


def _mapping(entry: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    value = entry.get(name)
    return value if isinstance(value, dict) else None


async def draft_of(response: ModelResponse, put_blob: PutBlob, *, model: str) -> Draft:
    """The message to store for an answer. `model` is the name that people use."""
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
    """The whole text, as people read it, and where each piece is in it."""
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
    """Whether content and calls alone say it all: one text, then calls, with no details."""
    kinds = [entry["type"] for entry in layout]
    bare = all(entry.keys() <= {"type", "span", "index"} for entry in layout)
    return bare and kinds.count("text") <= 1 and "text" not in kinds[1:] and "raw" not in kinds


def _arguments(call: ToolCallPart) -> str:
    if isinstance(call.args, str):
        return call.args or "{}"
    return json.dumps(call.args or {}, ensure_ascii=False, separators=(",", ":"))
