"""Handlers of the operations about personalities."""

from __future__ import annotations

import asyncio

from clew.api.handlers.models import try_model
from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.models import ModelTested
from clew.api.operation import NoParams
from clew.api.personalities import (
    GET,
    LIST,
    TEST,
    UPDATE,
    OnePersonality,
    PersonalityList,
    TryPersonality,
    UpdatePersonality,
)
from clew.core.models import Personality


def _shown(personality: Personality, caller: Caller) -> Personality:
    """The personality as the caller may see it: its prompt and its tools are the owner's."""
    if caller.is_owner:
        return personality
    return Personality(
        id=personality.id, name=personality.name, description=personality.description
    )


@handles(LIST)
async def list_personalities(parts: Parts, _params: NoParams, caller: Caller) -> PersonalityList:
    """List all personalities."""
    found = parts.personalities.list_personalities()
    return PersonalityList(tuple(_shown(each, caller) for each in found))


@handles(GET)
async def get_personality(parts: Parts, params: OnePersonality, caller: Caller) -> Personality:
    """Get a personality; the error for an unknown id lists the known ones."""
    return _shown(parts.personalities.get_personality(params.id), caller)


@handles(UPDATE)
async def update_personality(
    parts: Parts, params: UpdatePersonality, _caller: Caller
) -> Personality:
    """Change a personality. A model that it names must be known."""
    if isinstance(params.edit.model, str):
        await asyncio.to_thread(parts.models.get_model, params.edit.model)
    update = parts.personalities.update_personality
    return await asyncio.to_thread(update, params.id, params.edit)


@handles(TEST)
async def try_personality(parts: Parts, params: TryPersonality, _caller: Caller) -> ModelTested:
    """Ask the model of a personality, or the default one."""
    personality = parts.personalities.get_personality(params.id)
    info = await asyncio.to_thread(parts.models.get_model, personality.model)
    soul = personality.soul if params.soul is None else params.soul
    return await try_model(parts, info, params.question, soul)
