"""Random operations on a Session of the OpenAI Agents SDK, compared with the SDK's own store."""

from __future__ import annotations

import random
from typing import Any

from agents.memory.session import SessionABC

ITEMS: tuple[dict[str, Any], ...] = (
    {"role": "user", "content": "What is the weather?"},
    {"role": "user", "content": [{"type": "input_text", "text": "von ö 天気 \0 \u2028 \ud83d"}]},
    {"role": "system", "content": "Be brief."},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Köln"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "text", "text": "x"}]},
    {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "Hm."}]},
    {
        "type": "message", "id": "m1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "It rains.", "annotations": []}],
    },
    {"type": "web_search_call", "id": "w1", "status": "completed", "big": 2**70, "small": 1e-9},
    {},
)  # fmt: skip


async def compare(mine: SessionABC, theirs: SessionABC, *, seed: int, steps: int) -> None:
    """The same random steps in both, with the same results."""
    chance = random.Random(seed)
    for step in range(steps):
        results: list[Any] = []
        what = chance.choices(("add", "get", "pop", "clear"), (6, 3, 3, 0.3))[0]
        if what == "add":
            items: list[Any] = chance.choices(ITEMS, k=chance.randrange(5))
            for each in (mine, theirs):
                await each.add_items(items)
        elif what == "get":
            limit = chance.choice((None, 0, 1, 2, 7, 100))
            results = [await each.get_items(limit) for each in (mine, theirs)]
        elif what == "pop":
            results = [await each.pop_item() for each in (mine, theirs)]
        else:
            for each in (mine, theirs):
                await each.clear_session()
        assert results[:1] == results[1:], (seed, step, what)
    assert await mine.get_items() == await theirs.get_items()
