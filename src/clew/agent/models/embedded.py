"""The embedded model as a model of pydantic-ai: text in, text out, no tools, no images.

Imported only when it is used, since it needs pydantic-ai. `requests` gives it a small prompt; here
the oldest messages are left out when they would take too long to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from pydantic_ai.messages import (
    FinishReason,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage

from clew.agent.models.engine import Chunk, Engine, Run
from clew.errors import ContextTooLong, ModelUnavailable

MODEL: Final = "smollm2-135m"
READ: Final = 400
"""Most tokens of messages that it is given, estimated: reading them takes about four seconds."""
ANSWER: Final = 384
"""Most tokens of an answer, unless fewer are asked for."""

SAMPLING: Final[dict[str, float]] = {
    "temperature": 0.2,
    "top_p": 0.9,
    # It gets stuck on a word or a sentence otherwise.
    "repeat_penalty": 1.1,
    "dry_multiplier": 0.8,
}

# Without the first, pydantic-ai would spend 71 tokens on explaining a tag.
PROFILE: Final = ModelProfile(
    supports_inline_system_prompts=True,
    supports_tools=False,
    supports_image_input=False,
    supports_document_input=False,
    supports_audio_file_input=False,
    supports_video_input=False,
    supports_json_schema_output=False,
    context_window=1024,
)
ENDS: Final[dict[str, FinishReason]] = {"stop": "stop", "length": "length"}


class EmbeddedModel(Model[None]):
    """SmolLM2-135M-Instruct in this process."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(profile=PROFILE)
        self.engine = engine

    @property
    def model_name(self) -> str:
        """The id, without its provider."""
        return MODEL

    @property
    def system(self) -> str:
        """The provider."""
        return "local"

    @property
    def base_url(self) -> None:
        """It has no address."""
        return

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask, and wait for the whole answer."""
        async with self.request_stream(
            messages, model_settings, model_request_parameters
        ) as response:
            async for _ in response:
                pass
            return response.get()

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,  # noqa: ARG002  # the base class's signature
    ) -> AsyncIterator[StreamedResponse]:
        """Ask; leaving the block ends the answer at its next token."""
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        standing = self._get_instruction_parts(messages, parameters) or []
        asked = to_chat("\n\n".join(part.content for part in standing), messages)
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[Chunk | BaseException | None] = asyncio.Queue()

        def hand_on(item: Chunk | BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(chunks.put_nowait, item)
            except RuntimeError:
                run.stop()  # the event loop is closed, so there is no reader left

        run = Run()  # for a chunk that comes before `start` has returned
        run = self.engine.start(
            fit(asked, READ), _options(settings), on_chunk=hand_on, on_end=hand_on
        )
        response = EmbeddedResponse(parameters, run, chunks)
        try:
            await response.wait_for_first()
            yield response
        finally:
            run.stop()


def _options(settings: ModelSettings | None) -> dict[str, Any]:
    """The sampling that suits it, and no more words than fit."""
    given = settings or {}
    return {
        "max_tokens": min(given.get("max_tokens", ANSWER), ANSWER),
        **SAMPLING,
        **{name: given[name] for name in ("temperature", "top_p") if name in given},
        **({"seed": given["seed"]} if "seed" in given else {}),
        **({"stop": list(given["stop_sequences"])} if given.get("stop_sequences") else {}),
    }


@dataclass
class EmbeddedResponse(StreamedResponse):
    """An answer while it is being generated."""

    run: Run
    chunks: asyncio.Queue[Chunk | BaseException | None]
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    _held: Chunk | None = field(default=None, init=False)

    async def wait_for_first(self) -> None:
        """Wait for the first piece, so that an error of the question is raised by the request."""
        self._held = await self._next()

    async def _next(self) -> Chunk | None:
        item = await self.chunks.get()
        if isinstance(item, BaseException):
            raise item
        if item is not None and "error" in item:
            raise _failure(item["error"])
        return item

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        chunk, self._held = self._held, None
        while chunk is not None:
            if used := chunk.get("usage"):
                details = used.get("prompt_tokens_details") or {}
                self._usage = RequestUsage(
                    input_tokens=used["prompt_tokens"],
                    output_tokens=used["completion_tokens"],
                    cache_read_tokens=details.get("cached_tokens", 0),
                )
            for choice in chunk.get("choices", ()):
                if end := choice.get("finish_reason"):
                    self.finish_reason = ENDS.get(end)
                if text := choice.get("delta", {}).get("content"):
                    for event in self._parts_manager.handle_text_delta(
                        vendor_part_id="content", content=text
                    ):
                        yield event
            chunk = await self._next()

    async def close_stream(self) -> None:
        """End the answer."""
        self.run.stop()
        self.chunks.put_nowait(None)

    @property
    def model_name(self) -> str:
        """The id, without its provider."""
        return MODEL

    @property
    def provider_name(self) -> str:
        """The provider."""
        return "local"

    @property
    def provider_url(self) -> None:
        """It has no address."""
        return

    @property
    def timestamp(self) -> datetime:
        """When the question was asked."""
        return self.started


def _failure(error: dict[str, Any]) -> Exception:
    if error.get("type") == "exceed_context_size_error":
        return ContextTooLong(
            f"That is too long for the embedded model: {error.get('n_prompt_tokens')} tokens, and "
            f"it can take {error.get('n_ctx')}. Say it shorter, or use a larger model (`/model`)."
        )
    return ModelUnavailable(f"The embedded model failed: {error.get('message')}")


def to_chat(standing: str, messages: Sequence[ModelMessage]) -> list[dict[str, str]]:
    """The conversation as the engine wants it: one system message, then person and model in turn.

    Tools that other models called in this conversation, and their thoughts, are left out.
    """
    system = [standing] if standing else []
    said: list[tuple[str, str]] = []
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, SystemPromptPart):
                    system.append(part.content)
                elif isinstance(part, UserPromptPart):
                    said.append(("user", _text_of(part)))
        else:
            texts = [part.content for part in message.parts if isinstance(part, TextPart)]
            said.append(("assistant", "".join(texts)))
    chat = [{"role": "system", "content": "\n\n".join(system)}] if system else []
    for role, text in said:
        if not text.strip():
            continue
        if chat and chat[-1]["role"] == role:
            chat[-1]["content"] += f"\n\n{text}"
        else:
            chat.append({"role": role, "content": text})
    return chat


def _text_of(part: UserPromptPart) -> str:
    if isinstance(part.content, str):
        return part.content
    pieces = [
        piece if isinstance(piece, str) else getattr(piece, "content", None)
        for piece in part.content
    ]
    return "\n\n".join(piece for piece in pieces if isinstance(piece, str))


def fit(chat: list[dict[str, str]], budget: int) -> list[dict[str, str]]:
    """The system message and the newest messages that can be read in time.

    The beginning moves on by half a budget at a time, not with every message: what stays the same
    at the front need not be read again. The last message always stays.
    """
    head = [each for each in chat if each["role"] == "system"]
    rest = chat[len(head) :]
    room = budget - sum(map(_estimate, head))
    total = sum(map(_estimate, rest))
    if total <= room:
        return chat
    step = max(1, budget // 2)
    skip = step * -(-(total - max(room, 0)) // step)
    kept, passed = [], 0
    for message in rest:
        if passed >= skip:
            kept.append(message)
        passed += _estimate(message)
    while kept and kept[0]["role"] != "user":
        kept = kept[1:]
    return [*head, *(kept or rest[-1:])]


def _estimate(message: dict[str, str]) -> int:
    """Tokens, on the safe side for English; other languages take more."""
    return len(message["content"]) // 4 + 5
