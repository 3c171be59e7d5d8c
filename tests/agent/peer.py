"""The other end of the network: a small HTTP server that speaks like OpenAI and like Anthropic.

It gives the replies it was told to, one after the other, and keeps every request as it came in.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import msgspec

Style = Literal["openai", "anthropic"]
Ending = Literal["whole", "dropped", "early", "failed", "stalled"]
Call = tuple[str, str, dict[str, Any]]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What goes back. `ending`: as it should, by dropping the line, cleanly but too early, or with
    silence.
    """

    status: int = 200
    headers: dict[str, str] = {}
    body: tuple[bytes, ...] = ()
    ending: Ending = "whole"


class Peer:
    """A server while it runs."""

    def __init__(self, replies: Iterable[Reply]) -> None:
        self.replies = list(replies)
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.url = ""

    @property
    def requests(self) -> list[Any]:
        return [json.loads(body) for body in self.bodies]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            named = dict(line.lower().split(": ", 1) for line in lines)
            self.paths.append(first.split()[1])
            self.bodies.append(await reader.readexactly(int(named.get("content-length", "0"))))
            reply = self.replies.pop(0)
            await self._answer(reply, writer)
            if reply.ending == "stalled":
                await reader.read()  # until the other side has had enough
        finally:
            writer.close()

    async def _answer(self, reply: Reply, writer: asyncio.StreamWriter) -> None:
        kind = "text/event-stream" if reply.status == 200 else "application/json"
        headers = {"content-type": kind, "transfer-encoding": "chunked", "connection": "close"}
        lines = [f"{name}: {value}" for name, value in (headers | reply.headers).items()]
        writer.write(f"HTTP/1.1 {reply.status} x\r\n".encode())
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for piece in reply.body:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if reply.ending not in {"dropped", "stalled"}:
            writer.write(b"0\r\n\r\n")
            await writer.drain()


@asynccontextmanager
async def peering(*replies: Reply) -> AsyncIterator[Peer]:
    peer = Peer(replies)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, limit=2**24)
    peer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield peer


def failure(status: int, body: dict[str, Any], **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, headers=named, body=(json.dumps(body).encode(),))


def refusal(status: int, **headers: str) -> Reply:
    body = {"type": "error", "error": {"type": "some_error", "message": "The server says so."}}
    return failure(status, body, **headers)


def answer(
    style: Style,
    text: str = "",
    *,
    calls: Sequence[Call] = (),
    thinking: str = "",
    signature: str = "",
    finish: str | None = None,
    ending: Ending = "whole",
) -> Reply:
    """An answer as that provider streams it; without `whole`, only the first half of it comes."""
    make = _openai if style == "openai" else _anthropic
    events = make(text, calls, thinking, signature, finish)
    if ending != "whole":
        events = events[: len(events) // 2]
    if ending == "failed":
        error = {"type": "overloaded_error", "code": "overloaded", "message": "Busy."}
        told = json.dumps({"type": "error", "error": error})
        events.append(f"event: error\ndata: {told}\n\n".encode())
    return Reply(body=tuple(events), ending=ending)


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def _openai(
    text: str, calls: Sequence[Call], thinking: str, signature: str, finish: str | None
) -> list[bytes]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": half} for half in _halves(thinking)]
    deltas += [{"content": half} for half in _halves(text)]
    for index, (call_id, name, arguments) in enumerate(calls):
        opening = {"name": name, "arguments": ""}
        deltas.append(
            {
                "tool_calls": [
                    {"index": index, "id": call_id, "type": "function", "function": opening}
                ]
            }
        )
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": half}}]}
            for half in _halves(json.dumps(arguments))
        ]
    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "peer-1"}
    chunks = [{**frame, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    ending = finish or ("tool_calls" if calls else "stop")
    chunks.append({**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": ending}]})
    usage = {"prompt_tokens": 40, "completion_tokens": 10, "total_tokens": 50}
    usage |= {"prompt_tokens_details": {"cached_tokens": 30}}  # type: ignore[dict-item]
    chunks.append({**frame, "choices": [], "usage": usage})
    return [*(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks), b"data: [DONE]\n\n"]


def _anthropic(
    text: str, calls: Sequence[Call], thinking: str, signature: str, finish: str | None
) -> list[bytes]:
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if thinking:
        deltas = [{"type": "thinking_delta", "thinking": half} for half in _halves(thinking)]
        deltas.append({"type": "signature_delta", "signature": signature})
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if text:
        deltas = [{"type": "text_delta", "text": half} for half in _halves(text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for call_id, name, arguments in calls:
        deltas = [
            {"type": "input_json_delta", "partial_json": half}
            for half in _halves(json.dumps(arguments))
        ]
        blocks.append(({"type": "tool_use", "id": call_id, "name": name, "input": {}}, deltas))
    used = {"input_tokens": 10, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 5}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "peer-1"}
    message |= {"content": [], "stop_reason": None, "usage": {**used, "output_tokens": 1}}  # type: ignore[dict-item]
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ending = finish or ("tool_use" if calls else "end_turn")
    delta = {"stop_reason": ending, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}})
    events.append({"type": "message_stop"})
    return [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events]
