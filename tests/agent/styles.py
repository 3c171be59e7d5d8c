"""Two more ways in which providers stream an answer, for the peer: OpenAI Responses, and Google.

And the factory that a configuration names to reach the first: clew itself uses it only at OpenAI's
own address.
"""

from __future__ import annotations

import json
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.agent.peer import Reply


def open_responses(model_id: str, *, base_url: str, **_: Any) -> OpenAIResponsesModel:
    """The real client, at the peer's address."""
    client = AsyncOpenAI(api_key="no-key", base_url=base_url, max_retries=0)
    return OpenAIResponsesModel(model_id, provider=OpenAIProvider(openai_client=client))


def answer_responses(text: str, model: str = "gpt-4o") -> Reply:
    """40 tokens in, 30 of them from the cache, and 10 out."""
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": model,
        "tools": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "output": [],
    }
    done = {**item, "status": "completed", "content": [part]}
    usage = {
        "input_tokens": 40,
        "output_tokens": 10,
        "total_tokens": 50,
        "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    where = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress"}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress"},
        },
        {"type": "response.content_part.added", **where, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **where, "delta": text, "logprobs": []},
        {"type": "response.output_text.done", **where, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **where, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {
            "type": "response.completed",
            "response": {**whole, "status": "completed", "output": [done], "usage": usage},
        },
    ]
    numbered = [{**event, "sequence_number": place} for place, event in enumerate(events)]
    return Reply(
        body=tuple(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in numbered)
    )


def answer_google(text: str, model: str = "gemini-2.5-flash") -> Reply:
    """40 tokens in, 30 of them from the cache, and 10 out."""
    usage = {
        "promptTokenCount": 40,
        "candidatesTokenCount": 10,
        "totalTokenCount": 50,
        "cachedContentTokenCount": 30,
    }
    said = {"role": "model", "parts": [{"text": text}]}
    chunk = {
        "candidates": [{"content": said, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage,
        "modelVersion": model,
        "responseId": "r1",
    }
    return Reply(body=(f"data: {json.dumps(chunk)}\r\n\r\n".encode(),))
