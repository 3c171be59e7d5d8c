"""Personalities of the agent."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.api.operation import NoParams, row
from clew.core.personality import Personality


class PersonalityList(msgspec.Struct, frozen=True):
    """The hats, `default` first."""

    personalities: tuple[Personality, ...]


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "personalities.list", "GET", "personalities", "read", NoParams, PersonalityList,
    "List the personalities.",
)  # fmt: skip
ROWS: Final = (LIST,)
