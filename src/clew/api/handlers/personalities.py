"""What the operation about personalities does."""

from __future__ import annotations

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.operation import NoParams
from clew.api.personalities import LIST, PersonalityList


@handles(LIST)
async def list_personalities(parts: Parts, _params: NoParams, _caller: Caller) -> PersonalityList:
    """The hats."""
    return PersonalityList(parts.personalities.list_personalities())
