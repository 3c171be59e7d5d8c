"""Handlers of the operations about personalities."""

from __future__ import annotations

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.operation import NoParams
from clew.api.personalities import GET, LIST, OnePersonality, PersonalityList
from clew.core.models import Personality


@handles(LIST)
async def list_personalities(parts: Parts, _params: NoParams, _caller: Caller) -> PersonalityList:
    """List all personalities."""
    return PersonalityList(parts.personalities.list_personalities())


@handles(GET)
async def get_personality(parts: Parts, params: OnePersonality, _caller: Caller) -> Personality:
    """Get a personality; the error for an unknown id lists the known ones."""
    return parts.personalities.get_personality(params.id)
