"""`ports.Agent`: chooses the model and the personality of a turn, then runs the loop.

Importing this loads no provider: pydantic-ai comes in when the agent is warmed or first asked.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from clew.agent.tool_interface import Toolbox
from clew.core.context.thread import Pruning
from clew.core.live_events import Notice
from clew.core.message import Message
from clew.core.models import ModelInfo, Personality
from clew.core.names import TITLE_INSTRUCTION, Title, clean_title
from clew.core.notes import Blob, Compaction
from clew.errors import ClewError, ModelNotFound
from clew.ports import LiveTurn, Personalities

if TYPE_CHECKING:
    from clew.agent.loop import TurnSetup
    from clew.agent.requests import Catalogue

TITLE_MESSAGES = 4
TITLE_CHARACTERS = 2_000


class PydanticAgent:
    """Answers turns with the models of a catalogue (`ports.Agent`)."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        personalities: Personalities,
        toolbox: Toolbox,
        build_prompt: Callable[[LiveTurn, Personality, ModelInfo], Awaitable[str]],
        get_blob: Callable[[str], Awaitable[Blob]],
        put_blob: Callable[[bytes, str], Awaitable[str]],
        find_compaction: Callable[[str], Awaitable[Compaction | None]] | None = None,
        pruning: Pruning | None = None,
        context_messages: int = 200,
        stall_timeout: float = 120,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._catalogue = catalogue
        self._personalities = personalities
        self._toolbox = toolbox
        self._build_prompt = build_prompt
        self._get_blob = get_blob
        self._put_blob = put_blob
        self._find_compaction = find_compaction
        self._pruning = pruning
        self._context_messages = context_messages
        self._stall_timeout = stall_timeout
        self._sleep = sleep
        self._chance = chance

    async def warm(self, model: str | None = None) -> None:
        """Import the library and open the model, while the person types. Never raises."""
        try:
            await _load()
            await self._catalogue.open_model(self._catalogue.get_model(model))
        except (ClewError, ImportError, OSError):
            return  # the turn itself will fail, and say why

    async def run(self, turn: LiveTurn) -> None:
        """Do what the turn's user message asks (`ports.Agent.run`)."""
        await _load()
        from clew.agent.loop import run_turn  # noqa: PLC0415  # loads pydantic-ai

        personality = self._choose_personality(turn)
        info = self._choose_model(turn, personality)
        await run_turn(turn, await self._gather(turn, personality, info))

    async def make_title(self, model: str | None, thread: Sequence[Message]) -> Title:
        """Ask for a title of at most six words, unless the model is the embedded one."""
        info = self._catalogue.get_model(model)
        if info.embedded:
            return Title(None)
        await _load()
        from clew.agent.answers import ask_aside  # noqa: PLC0415  # loads pydantic-ai

        said = [
            f"{'User' if row.role == 'user' else 'Assistant'}: {row.content.strip()}"
            for row in thread[:TITLE_MESSAGES]
            if row.role != "tool" and row.content.strip()
        ]
        if not said:
            return Title(None)
        opened = await self._catalogue.open_model(info)
        settings = self._catalogue.get_settings(info, thinking="off", service_tier="none")
        text = "\n\n".join(said)[:TITLE_CHARACTERS]
        response, usage = await ask_aside(
            opened, info, settings, instruction=TITLE_INSTRUCTION, text=text, attempts=1
        )
        return Title(clean_title(response.text or ""), usage)

    def _choose_personality(self, turn: LiveTurn) -> Personality:
        wanted = turn.session.personality
        found = self._personalities.choose_personality(turn.session)
        if wanted is not None and wanted != found.id:
            turn.signal(Notice(f'The personality "{wanted}" is gone; the default one answers.'))
        return found

    def _choose_model(self, turn: LiveTurn, personality: Personality) -> ModelInfo:
        wanted = turn.session.model or personality.model
        try:
            return self._catalogue.get_model(wanted)
        except ModelNotFound:
            info = self._catalogue.get_model(None)
            turn.signal(
                Notice(f'The model "{wanted}" is not configured any more; {info.name} answers.')
            )
            return info

    async def _gather(self, turn: LiveTurn, personality: Personality, info: ModelInfo) -> TurnSetup:
        from clew.agent.answers import Silence  # noqa: PLC0415  # loads pydantic-ai
        from clew.agent.loop import TurnSetup, no_compaction  # noqa: PLC0415  # loads pydantic-ai

        session = turn.session
        settings = self._catalogue.get_settings(
            info,
            thinking=session.thinking or personality.thinking,
            service_tier=session.service_tier,
        )
        return TurnSetup(
            info=info,
            model=await self._catalogue.open_model(info),
            settings=settings,
            personality=personality,
            toolbox=self._toolbox,
            build_prompt=self._build_prompt,
            get_blob=self._get_blob,
            put_blob=self._put_blob,
            find_compaction=self._find_compaction or no_compaction,
            pruning=self._pruning,
            context_messages=self._context_messages,
            silence=Silence(ends=self._stall_timeout),
            sleep=self._sleep,
            chance=self._chance,
        )


async def _load() -> None:
    """Import the library off the event loop: it takes a second or two."""
    await asyncio.to_thread(import_module, "clew.agent.loop")
