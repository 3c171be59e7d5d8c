"""Personalities of the agent."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.api.fields import Word
from clew.api.operation import NoParams, Params, row
from clew.core.models import Personality


class OnePersonality(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The id of a personality."""

    id: Word


class PersonalityList(msgspec.Struct, frozen=True):
    """The personalities, `default` first."""

    personalities: tuple[Personality, ...]


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "personalities.list", "GET", "personalities", "read", NoParams, PersonalityList,
    "List the personalities.",
    who="guest",
)  # fmt: skip
GET: Final = row(
    "personalities.get", "GET", "personalities/{id}", "read", OnePersonality, Personality,
    "Get one personality.",
    who="guest",
)  # fmt: skip
ROWS: Final = (
    LIST,
    GET,
)
