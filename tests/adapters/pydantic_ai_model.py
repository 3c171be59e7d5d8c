"""Random operations on a ConversationStore of pydantic-ai, compared with its store in memory."""

from __future__ import annotations

import random
from typing import Any

from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage, RunUsage


def make_message(number: int) -> ModelMessage:
    """Messages of every kind; no two are equal."""
    kinds: list[Any] = [
        ModelRequest([SystemPromptPart("Be brief."), UserPromptPart(f"von ö 天気 \0 {number}")]),
        ModelRequest([UserPromptPart([f"two {number}", "texts"])]),
        ModelRequest([
            ToolReturnPart("weather", {"rain": number}, "c1"),
            ToolReturnPart("weather", "no", "c2", outcome="retried"),
        ]),
        ModelRequest([SystemPromptPart(f"nobody says {number}")]),
        ModelResponse([ThinkingPart("Hm."), TextPart(f"I look {number}."), ToolCallPart("weather")],
            usage=RequestUsage(input_tokens=number, output_tokens=1), model_name="m"),
        ModelResponse([TextPart(f"It rains {number}.")]),
    ]  # fmt: skip
    message: ModelMessage = kinds[number % len(kinds)]
    return message


class Comparison:
    """The same steps in both stores, with the same results."""

    def __init__(self, mine: ConversationStore, seed: int) -> None:
        self.stores = (mine, InMemoryConversationStore())
        self.chance = random.Random(seed)
        self.number = 0
        self.stale: dict[str, tuple[Conversation | None, ...]] = {}

    async def run(self, steps: int) -> None:
        """Take the steps."""
        whats = ("save", "rewrite", "branch", "fork", "delete", "read", "list", "stale")
        for step in range(steps):
            what = self.chance.choices(whats, (6, 2, 2, 2, 0.5, 3, 1, 1))[0]
            name = self.chance.choice("abcd")
            results = await getattr(self, f"_{what}")(name)
            assert results[0] == results[1], (step, what, name)
        for name in "abcd":
            mine, theirs = await self._read(name)
            assert mine == theirs
        mine, theirs = await self._list("")
        assert mine == theirs

    async def _save(self, name: str) -> list[Any]:
        new = [make_message(self._next()) for _ in range(self.chance.randrange(4))]
        scope = self.chance.choice((None, None, "x"))
        results = []
        for store in self.stores:
            found = await store.load(name) or Conversation(conversation_id=name)
            found.messages += new
            found.usage = found.usage + RunUsage(requests=1, input_tokens=len(new))
            results.append(await _tried(store.save(found, scope=scope)))
        return results

    async def _rewrite(self, name: str) -> list[Any]:
        cut, new = self.chance.random(), [make_message(self._next())]
        results = []
        for store in self.stores:
            found = await store.load(name) or Conversation(conversation_id=name)
            # As after serializing it: the store compares the messages.
            kept = found.messages[: int(cut * (len(found.messages) + 1))]
            other = Conversation(
                conversation_id=name, messages=[*kept, *new], revision=found.revision
            )
            results.append(await _tried(store.save(other)))
        return results

    async def _branch(self, name: str) -> list[Any]:
        return [
            await _tried(self._branched(store, name, spot))
            for spot in [self.chance.random()]
            for store in self.stores
        ]

    async def _branched(self, store: ConversationStore, name: str, spot: float) -> Any:
        record = await store.read_record(name)
        if record is None:
            return None
        entries = await store.load_entries(name) or []
        if record.branches and spot < 0.4:
            tip = record.branches[int(spot * 2.5 * len(record.branches))]
            return await store.branch(name, from_entry=tip, expected_revision=record.revision)
        at = int(spot * (len(entries) + 1))
        return await store.branch(name, at=at, expected_revision=record.revision)

    async def _fork(self, name: str) -> list[Any]:
        to, spot = self.chance.choice("abcd"), self.chance.random()
        return [await _tried(self._forked(store, name, to, spot)) for store in self.stores]

    async def _forked(self, store: ConversationStore, name: str, to: str, spot: float) -> Any:
        record = await store.read_record(name)
        if record is not None and record.branches and spot < 0.3:
            return await store.fork(name, from_entry=record.branches[0], new_conversation_id=to)
        entries = await store.load_entries(name) or []
        at = None if spot > 0.8 else int(spot * (len(entries) + 1))
        return await store.fork(name, at=at, new_conversation_id=to)

    async def _delete(self, name: str) -> list[Any]:
        scope = self.chance.choice((None, "x", "y"))
        return [await _tried(store.delete(name, scope=scope)) for store in self.stores]

    async def _read(self, name: str) -> list[Any]:
        limit = self.chance.choice((None, None, 0, 1, 2, 5))
        results = []
        for store in self.stores:
            entries = await store.load_entries(name, limit=limit)
            record = await store.read_record(name)
            results.append((
                _plain(await store.load(name, limit=limit)),
                _plain(entries),
                record and (record.usage, record.scope, record.forked_from, len(record.branches)),
                [
                    _plain(await store.read_history(tip))
                    for tip in (record.branches if record else ())
                ],
            ))  # fmt: skip
        return results

    async def _list(self, _: str) -> list[Any]:
        scope, limit = self.chance.choice((None, "x")), self.chance.choice((None, 1, 3))
        return [
            [
                each.conversation_id
                for each in await store.list_conversations(scope=scope, limit=limit)
            ]
            for store in self.stores
        ]

    async def _stale(self, name: str) -> list[Any]:
        """Save what was loaded some steps ago."""
        results, new = [], make_message(self._next())
        before = self.stale.get(name, (None, None))
        for store, old in zip(self.stores, before, strict=True):
            if old is not None:
                old.messages.append(new)
            results.append(old and await _tried(store.save(old)))
        self.stale[name] = tuple([await store.load(name) for store in self.stores])
        return results

    def _next(self) -> int:
        self.number += 1
        return self.number


async def _tried(call: Any) -> Any:
    """The result, without ids that each store makes for itself; or the kind of error."""
    try:
        return _plain(await call)
    except UserError as error:
        return type(error)


def _plain(result: Any) -> Any:
    if isinstance(result, list):
        return [each.message for each in result]
    if isinstance(result, Conversation):
        return (result.conversation_id, result.messages, result.usage)
    return result
