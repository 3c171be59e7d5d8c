"""A session as a file of Claude Code or Codex, so that it can be resumed there.

What both know is written: who said what and when, tool calls with their results, images, thinking,
models, usage, compactions, and the title where the agent keeps it in the file. Secrets are not
masked: the file is for the person's own agent. `readers` reads these files back.
"""

from __future__ import annotations

import base64
import uuid
from collections import deque
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from clew.core.message import Message
from clew.core.notes import Compaction
from clew.core.session import Session
from clew.core.text import to_wire
from clew.core.usage import Usage
from clew.errors import BlobNotFound
from clew.ports import Store
from clew.transfer.readers.files import parse_object
from clew.transfer.thread import pages

AgentFormat: TypeAlias = Literal["claude-code", "codex"]

NOWHERE: Final = ""
"""The directory of a session that has none; `place_in` puts another in its place."""

VERSION: Final = "2.0.0"
"""The version of Claude Code whose format is written."""


def directory_of(session: Session) -> str:
    """The directory that the session is about, as far as it is known."""
    return session.shown_directory or NOWHERE


def place_in(content: str, directory: str) -> str:
    """The content of a file with a directory for a session that had none."""
    return content.replace('"cwd":""', f'"cwd":{to_wire(directory).decode()}')


def file_in(kind: AgentFormat, root: Path, session: Session, directory: str) -> Path:
    """Where the agent looks for the file, below its own directory."""
    if kind == "claude-code":
        slug = "".join(each if each.isascii() and each.isalnum() else "-" for each in directory)
        return root / "projects" / slug / f"{session.id}.jsonl"
    day = _moment(session.created_at)
    name = f"rollout-{day:%Y-%m-%dT%H-%M-%S}-{session.id}.jsonl"
    return root / "sessions" / f"{day:%Y}" / f"{day:%m}" / f"{day:%d}" / name


def _moment(at: int) -> datetime:
    try:
        return datetime.fromtimestamp(at / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(0, UTC)


def _iso(at: int) -> str:
    return _moment(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_agent_file(store: Store, session: Session, kind: AgentFormat) -> AsyncIterator[str]:
    """The file, line by line."""
    writer = _ClaudeCode(session) if kind == "claude-code" else _Codex(session)
    return _write(store, session, writer)


async def _write(
    store: Store, session: Session, writer: _ClaudeCode | _Codex
) -> AsyncIterator[str]:
    for line in writer.begin():
        yield _line(line)
    made = await store.list_compactions(session.id)
    compactions = deque(each for each in made if each.undone_at is None)
    async for page in pages(store, session):
        for message in page:
            while compactions and compactions[0].made_at_seq < message.seq:
                for line in writer.compact(compactions.popleft()):
                    yield _line(line)
            for line in writer.write(message, await _images(store, message)):
                yield _line(line)
    for compaction in compactions:
        for line in writer.compact(compaction):
            yield _line(line)
    for line in writer.end():
        yield _line(line)


def _line(value: dict[str, Any]) -> str:
    return f"{to_wire(value).decode()}\n"


async def _images(store: Store, message: Message) -> list[tuple[str, str]]:
    """The images of a message: their kinds, and their bytes as base64."""
    found = []
    for part in message.parts:
        if isinstance(part.get("blob"), str):
            try:
                blob = await store.get_blob(part["blob"])
            except BlobNotFound:
                continue
            if blob.media_type.startswith("image/"):
                found.append((blob.media_type, base64.b64encode(blob.data).decode()))
    return found


def _pieces(message: Message) -> Iterator[tuple[str, Any]]:
    """Thinking, text and calls of an answer, in their order."""
    left = dict(enumerate(message.tool_calls))
    spoken = False
    for part in message.parts:
        match part.get("type"):
            case "thinking":
                yield "thinking", part
            case "text" if isinstance(span := part.get("span"), list) and len(span) == 2:
                spoken = True
                yield "text", message.content[span[0] : span[1]]
            case "tool_call" if part.get("index") in left:
                yield "call", left.pop(part["index"])
    if not spoken and message.content:
        yield "text", message.content
    for call in left.values():
        yield "call", call


class _ClaudeCode:
    """Lines of Claude Code: each names the one before it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._space = uuid.UUID(session.id)
        self._parent: str | None = None

    def begin(self) -> Iterator[dict[str, Any]]:
        return iter(())

    def end(self) -> Iterator[dict[str, Any]]:
        title, session = self._session.title, self._session
        if title and session.title_by == "user":
            yield {"type": "custom-title", "customTitle": title, "sessionId": session.id}
        elif title:
            yield {"type": "ai-title", "aiTitle": title, "sessionId": session.id}

    def compact(self, compaction: Compaction) -> Iterator[dict[str, Any]]:
        facts = {"trigger": "auto", "preTokens": compaction.tokens_before or 0}
        before, self._parent = self._parent, None
        yield self._entry(
            "system",
            f"boundary {compaction.id}",
            compaction.created_at,
            subtype="compact_boundary",
            content="Conversation compacted",
            level="info",
            logicalParentUuid=before,
            compactMetadata=facts,
        )
        said = {"role": "user", "content": compaction.summary}
        more: dict[str, Any] = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
        name = f"summary {compaction.id}"
        yield self._entry("user", name, compaction.created_at, message=said, **more)

    def write(self, message: Message, images: list[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        shown = [
            {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
            for kind, data in images
        ]
        name = str(message.seq)
        if message.role == "assistant":
            yield from self._answer(message)
        elif message.role == "tool":
            text: Any = message.content
            content = text if not shown else [{"type": "text", "text": text}, *shown]
            result = {
                "type": "tool_result",
                "tool_use_id": message.tool_call_id or "",
                "content": content,
                "is_error": message.is_error,
            }
            said = {"role": "user", "content": [result]}
            yield self._entry("user", name, message.at, message=said)
        else:
            spoken = [{"type": "text", "text": message.content}] if message.content else []
            said = {"role": "user", "content": [*spoken, *shown] if shown else message.content}
            yield self._entry("user", name, message.at, message=said)

    def _answer(self, message: Message) -> Iterator[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        for kind, piece in _pieces(message):
            if kind == "text" and piece:
                blocks.append({"type": "text", "text": piece})
            elif kind == "call":
                given = parse_object(piece.arguments) or {}
                blocks.append(
                    {"type": "tool_use", "id": piece.id, "name": piece.name, "input": given}
                )
            elif kind == "thinking" and isinstance(piece.get("signature"), str):
                # Without its signature no provider takes it back.
                thought = str(piece.get("thinking") or "")
                signed = {"thinking": thought, "signature": piece["signature"]}
                blocks.append({"type": "thinking", **signed})
        if not blocks:
            return
        body = {
            "id": f"msg_{uuid.uuid5(self._space, f'answer {message.seq}').hex[:24]}",
            "type": "message",
            "role": "assistant",
            "model": message.model or "<synthetic>",
            "content": blocks,
            "stop_reason": "tool_use" if message.tool_calls else "end_turn",
            "stop_sequence": None,
            "usage": _claude_usage(message.usage),
        }
        yield self._entry("assistant", str(message.seq), message.at, message=body)

    def _entry(self, kind: str, name: str, at: int, **more: Any) -> dict[str, Any]:
        native = str(uuid.uuid5(self._space, name))
        entry = {
            "parentUuid": self._parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": directory_of(self._session),
            "sessionId": self._session.id,
            "version": VERSION,
            "gitBranch": "",
            "type": kind,
            **more,
            "uuid": native,
            "timestamp": _iso(at),
        }
        self._parent = native
        return entry


def _claude_usage(usage: Usage | None) -> dict[str, int]:
    spent = usage or Usage()
    cached, created = spent.cache_read_tokens, spent.cache_creation_tokens
    return {
        "input_tokens": max(0, spent.input_tokens - cached - created),
        "cache_creation_input_tokens": created,
        "cache_read_input_tokens": cached,
        "output_tokens": spent.output_tokens,
    }


class _Codex:
    """Lines of Codex: what was said as items, and the events that its list of sessions needs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._model: str | None = None
        self._total = Usage()

    def begin(self) -> Iterator[dict[str, Any]]:
        session = self._session
        meta = {
            "id": session.id,
            "timestamp": _iso(session.created_at),
            "cwd": directory_of(session),
            "originator": "clew",
            "cli_version": "0.0.0",
            "instructions": None,
            "source": "cli",
        }
        yield _envelope("session_meta", session.created_at, meta)

    def end(self) -> Iterator[dict[str, Any]]:
        return iter(())

    def compact(self, compaction: Compaction) -> Iterator[dict[str, Any]]:
        yield _envelope("compacted", compaction.created_at, {"message": compaction.summary})

    def write(self, message: Message, images: list[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        if message.role == "assistant":
            yield from self._answer(message)
        elif message.role == "tool":
            output: str = message.content
            if message.is_error:
                facts = {"exit_code": 1, "duration_seconds": 0.0}
                failed = {"output": message.content, "metadata": facts}
                output = to_wire(failed).decode()
            item = {"type": "function_call_output", "call_id": message.tool_call_id or ""}
            yield _envelope("response_item", message.at, item | {"output": output})
        else:
            content = [{"type": "input_text", "text": message.content}] if message.content else []
            content += [
                {"type": "input_image", "image_url": f"data:{kind};base64,{data}"}
                for kind, data in images
            ]
            item = {"type": "message", "role": "user"}
            yield _envelope("response_item", message.at, item | {"content": content})
            event = {"type": "user_message", "message": message.content, "images": []}
            yield _envelope("event_msg", message.at, event)

    def _answer(self, message: Message) -> Iterator[dict[str, Any]]:
        if message.model and message.model != self._model:
            self._model = message.model
            yield _envelope("turn_context", message.at, self._context(message.model))
        for kind, piece in _pieces(message):
            item: dict[str, Any]
            if kind == "call":
                item = {"type": "function_call", "name": piece.name, "call_id": piece.id}
                item |= {"arguments": piece.arguments}
            elif kind == "thinking":
                thought = {"type": "summary_text", "text": str(piece.get("thinking") or "")}
                item = {"type": "reasoning", "summary": [thought], "content": None}
                item |= {"encrypted_content": None}
            else:
                said = [{"type": "output_text", "text": piece}]
                item = {"type": "message", "role": "assistant", "content": said}
            yield _envelope("response_item", message.at, item)
            if kind == "text":
                event = {"type": "agent_message", "message": piece}
                yield _envelope("event_msg", message.at, event)
        if message.usage is not None:
            yield _envelope("event_msg", message.at, self._counted(message.usage))

    def _context(self, model: str) -> dict[str, Any]:
        # What may be done there is decided there: the most careful values are written.
        return {
            "cwd": directory_of(self._session),
            "approval_policy": "on-request",
            "sandbox_policy": {"type": "read-only"},
            "model": model,
            "summary": "auto",
        }

    def _counted(self, usage: Usage) -> dict[str, Any]:
        self._total += usage
        info = {
            "total_token_usage": _codex_usage(self._total),
            "last_token_usage": _codex_usage(usage),
            "model_context_window": None,
        }
        return {"type": "token_count", "info": info, "rate_limits": None}


def _codex_usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_output_tokens": 0,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _envelope(kind: str, at: int, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": _iso(at), "type": kind, "payload": payload}
