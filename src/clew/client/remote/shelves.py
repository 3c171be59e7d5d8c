"""The gateway's models and personalities, as they were when the terminal came.

Read once, for a screen asks for them in the middle of drawing.
"""

from __future__ import annotations

import difflib
from typing import NamedTuple

from clew.api import models as models_rows
from clew.api.models import ModelList
from clew.api.operation import NoParams
from clew.client.client import Client
from clew.core.models import ModelInfo
from clew.core.personality import Personality
from clew.errors import ModelNotFound, PersonalityNotFound


class Shelves(NamedTuple):
    """Both."""

    models: RemoteModels
    personalities: RemotePersonalities


class RemoteModels:
    """`ports.Models` of a gateway."""

    def __init__(self, listed: ModelList) -> None:
        self._models = listed.models
        self._current = listed.current
        known = (*listed.models, listed.current)
        self._known = {each.name.lower(): each for each in known}
        self._providers = {each.provider for each in known}

    def list_models(self) -> tuple[ModelInfo, ...]:
        """See `Models`."""
        return self._models

    def get_model(self, name: str | None = None) -> ModelInfo:
        """See `Models`. A provider may have more models than are listed."""
        if name is None:
            return self._current
        wanted = name.strip()
        found = self._known.get(wanted.lower())
        if found is not None:
            return found
        provider, slash, model = wanted.partition("/")
        if slash and model and provider.lower() in self._providers:
            return ModelInfo(name=wanted, provider=provider.lower())
        near = difflib.get_close_matches(wanted.lower(), self._known, 3)
        advice = f"Did you mean {' or '.join(near)}?" if near else "/model shows what there is."
        raise ModelNotFound(f'The gateway knows no model "{wanted[:80]}". {advice}')


class RemotePersonalities:
    """`ports.Personalities` of a gateway."""

    def __init__(self, listed: tuple[Personality, ...]) -> None:
        self._listed = listed

    def list_personalities(self) -> tuple[Personality, ...]:
        """See `Personalities`."""
        return self._listed

    def get_personality(self, personality_id: str | None = None) -> Personality:
        """See `Personalities`."""
        wanted = (personality_id or "default").strip().lower()
        for each in self._listed:
            if each.id == wanted:
                return each
        known = ", ".join(each.id for each in self._listed)
        raise PersonalityNotFound(f'There is no personality "{wanted[:80]}" there; only {known}.')


async def load_shelves(client: Client) -> Shelves:
    """Ask for both."""
    models = await client.do(models_rows.LIST, NoParams())
    return Shelves(RemoteModels(models), RemotePersonalities(await client.personalities.list()))
