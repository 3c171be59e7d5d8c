"""What stands around the thread in a request, with sizes: for `/context`, never for a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from clew.agent.compaction import choose_model
from clew.agent.context import SystemPrompt
from clew.agent.flushing import SilentTurn
from clew.agent.tooling import Toolbox, ToolSpec
from clew.core.context import ContextPart
from clew.core.estimate import estimate_text, estimate_tool
from clew.core.models import ModelInfo
from clew.core.personality import Personality
from clew.core.session import Session
from clew.errors import PersonalityNotFound
from clew.ports import Personalities

if TYPE_CHECKING:
    from clew.agent.requests import Catalogue


class ContextParts:
    """`ports.Context`."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        personalities: Personalities,
        toolbox: Toolbox,
        prompt: SystemPrompt,
    ) -> None:
        self._catalogue = catalogue
        self._personalities = personalities
        self._toolbox = toolbox
        self._prompt = prompt

    async def list_parts(self, session: Session, person: str) -> tuple[ContextPart, ...]:
        """See `ports.Context`."""
        info = choose_model(self._catalogue, self._personalities, session)
        try:
            personality = self._personalities.get_personality(session.personality)
        except PersonalityNotFound:
            personality = self._personalities.get_personality(None)
        parts = await self._prompt.list_parts(session, person, personality, info)
        prompts = [
            ContextPart("prompt", part.name, estimate_text(part.text), part.source)
            for part in parts
        ]
        return (*prompts, *_tools(await self._list_tools(session, person, personality, info)))

    async def _list_tools(
        self, session: Session, person: str, personality: Personality, info: ModelInfo
    ) -> Sequence[ToolSpec]:
        if info.embedded or not info.tools:
            return ()
        turn = SilentTurn(msgspec.structs.replace(session, person=person), ())
        return await self._toolbox.list_tools(turn, personality, info)


def _tools(specs: Sequence[ToolSpec]) -> list[ContextPart]:
    return [
        ContextPart("tool", each.name, estimate_tool(each.name, each.description, each.schema))
        for each in specs
    ]
