"""Write the summary of a thread with the session's own model.

The messages go in, a `Digest` comes out. What is kept beside the summary, and when it is recorded,
is decided in the runtime. Light to import: pydantic-ai is imported when a summary is asked for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from clew.agent.personalities import choose_model
from clew.core.context.compaction import (
    SUMMARY_INSTRUCTION,
    TINY_INSTRUCTION,
    UNKNOWN_WINDOW,
    Digest,
    ask_summary,
    merge,
    pack,
    shorten,
    summary_room,
    write_out,
)
from clew.core.context.size import estimate_text
from clew.core.live_events import Signal
from clew.core.message import Message
from clew.core.models import ModelInfo
from clew.core.session import Session
from clew.core.usage import Usage
from clew.errors import ContextTooLong
from clew.ports import Personalities

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from clew.agent.requests import Catalogue

SHARE: Final = 0.6
"""The part of the window that one request for a summary fills: estimates may be off by a third."""

MOST_PIECES: Final = 8
LONGEST: Final = 8_000
SHORTEST: Final = 120
"""Characters of one message that are summarised: all of it where there is room, then less."""

TINY_ROOM: Final = 320
TINY_ANSWER: Final = 120
TINY_PIECES: Final = 3
"""Tokens and requests for the embedded model, which reads a hundred of them in a second."""

Signals = Callable[[Signal], None]
Spend = Callable[[Usage], None]


class Budget(msgspec.Struct, frozen=True):
    """Tokens for one request, the number of requests, and tokens for the summary."""

    room: int
    pieces: int
    summary: int


class ModelSummariser:
    """Asks the model of a session for the summary of its thread (`runtime.upkeep.compaction`)."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        personalities: Personalities,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._catalogue = catalogue
        self._personalities = personalities
        self._sleep = sleep
        self._chance = chance

    def get_model(self, session: Session) -> ModelInfo:
        """The model that the session's next turn would use."""
        return choose_model(self._catalogue, self._personalities, session)

    async def summarise(
        self,
        session: Session,
        messages: Sequence[Message],
        *,
        previous: str | None,
        instructions: str | None,
        signal: Signals,
        spend: Spend,
    ) -> Digest:
        """Write a summary that takes in the previous one. Cancellable.

        Raises `TurnFailed` like a turn. `spend` is called with the usage of each answer as soon as
        it is there.
        """
        info = self.get_model(session)
        await asyncio.to_thread(import_module, "clew.agent.answers")  # a second or two
        settings = self._catalogue.get_settings(
            info, thinking="off", service_tier=session.service_tier
        )
        if info.embedded:
            settings = settings | {"max_tokens": TINY_ANSWER}
        writer = Writer(
            await self._catalogue.open_model(info),
            info,
            settings,
            signal=signal,
            spend=spend,
            sleep=self._sleep,
            chance=self._chance,
        )
        return await writer.write(messages, previous=previous, instructions=instructions)


class Writer:
    """Writes one summary, in several requests if the conversation is long."""

    def __init__(
        self,
        model: Model,
        info: ModelInfo,
        settings: dict[str, Any],
        *,
        signal: Signals = lambda _: None,
        spend: Spend = lambda _: None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._info = info
        self._settings = settings
        self._signal = signal
        self._sleep = sleep
        self._chance = chance
        self._spend = spend

    async def write(
        self, messages: Sequence[Message], *, previous: str | None, instructions: str | None
    ) -> Digest:
        """Write the summary. A piece that turns out too long is asked for in halves."""
        budget = get_budget(self._info)
        while True:
            try:
                return await self._write(messages, previous, instructions, budget)
            except ContextTooLong:
                if budget.room < 2 * TINY_ROOM:
                    raise
                budget = msgspec.structs.replace(budget, room=budget.room // 2)

    async def _write(
        self,
        messages: Sequence[Message],
        previous: str | None,
        instructions: str | None,
        budget: Budget,
    ) -> Digest:
        room = budget.room - estimate_text(instructions or "") - budget.summary
        pieces = cut_pieces(messages, max(room, budget.room // 3), budget.pieces)
        summary, short = previous, None
        for number, piece in enumerate(pieces, 1):
            place = f' part="{number} of {len(pieces)}"' if len(pieces) > 1 else ""
            said = await self._ask(piece, summary, instructions, place)
            summary, short = merge(said, previous=summary, messages=messages, room=budget.summary)
        return Digest(summary=summary or "", short=short)

    async def _ask(
        self, piece: str, previous: str | None, instructions: str | None, place: str
    ) -> str:
        from clew.agent.answers import ask_aside, check_answer  # noqa: PLC0415  # loads pydantic-ai

        if self._info.embedded:
            instruction, text = TINY_INSTRUCTION, piece
        else:
            instruction = SUMMARY_INSTRUCTION
            text = ask_summary(piece, previous=previous, instructions=instructions, place=place)
        response, usage = await ask_aside(
            self._model,
            self._info,
            self._settings,
            instruction=instruction,
            text=text,
            signal=self._signal,
            sleep=self._sleep,
            chance=self._chance,
        )
        self._spend(usage)
        check_answer(response, self._info)
        return response.text or ""


def get_budget(info: ModelInfo) -> Budget:
    """The budget for a model, by its context window."""
    if info.embedded:
        return Budget(TINY_ROOM, TINY_PIECES, summary_room(info.context_window))
    size = info.context_window or UNKNOWN_WINDOW
    return Budget(
        max(int(size * SHARE) - estimate_text(SUMMARY_INSTRUCTION), TINY_ROOM),
        MOST_PIECES,
        summary_room(size),
    )


def cut_pieces(messages: Sequence[Message], room: int, most: int) -> list[str]:
    """Cut the conversation into pieces of so many tokens, at most so many of them.

    Too long, and each message is made shorter; still too long, and the middle is left out.
    """
    longest = min(LONGEST, room)  # characters: no message fills more than a fourth of a piece
    pieces = pack(write_out(messages, longest), room)
    while len(pieces) > most and longest > SHORTEST:
        longest = max(longest // 2, SHORTEST)
        pieces = pack(write_out(messages, longest), room)
    if len(pieces) > most:
        missing = f"[… {len(pieces) - most} parts of the conversation are left out here …]"
        pieces[1 : len(pieces) - most + 1] = []
        pieces[0] = f"{pieces[0]}\n\n{missing}"
    return [shorten(piece, room * 4) for piece in pieces]
