"""Handlers of the operations about personalities."""

from __future__ import annotations

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.operation import NoParams
from clew.api.personalities import GET, LIST, OnePersonality, PersonalityList
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
