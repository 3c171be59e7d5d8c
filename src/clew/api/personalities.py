"""Personalities of the agent."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.fields import Word
from clew.api.models import ModelTested
from clew.api.operation import NoParams, Params, row
from clew.core.models import MAX_SOUL, Personality, PersonalityEdit


class OnePersonality(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The id of a personality."""

    id: Word


class UpdatePersonality(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The id of a personality, and what to change; an unknown id makes one."""

    id: Word
    edit: PersonalityEdit


class TryPersonality(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question. `soul`: a system prompt in place of the stored one. Nothing is stored."""

    id: Word
    question: Annotated[str, Meta(min_length=1, max_length=4_000)]
    soul: Annotated[str, Meta(max_length=MAX_SOUL)] | None = None


class PersonalityList(msgspec.Struct, frozen=True):
    """The personalities, `default` first."""

    personalities: tuple[Personality, ...]


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "personalities.list", "GET", "personalities", "read", NoParams, PersonalityList,
    "List the personalities.",
    who="guest", also="a guest gets names and descriptions, no prompts",
)  # fmt: skip
GET: Final = row(
    "personalities.get", "GET", "personalities/{id}", "read", OnePersonality, Personality,
    "Get one personality.",
    who="guest", also="a guest gets names and descriptions, no prompts",
)  # fmt: skip
UPDATE: Final = row(
    "personalities.update", "PATCH", "personalities/{id}", "admin", UpdatePersonality, Personality,
    "Change a personality, or make one.",
)  # fmt: skip
TEST: Final = row(
    "personalities.test", "POST", "personalities/{id}/test", "admin", TryPersonality, ModelTested,
    "Ask one question as a personality, beside all sessions, without tools and memory.",
)  # fmt: skip
ROWS: Final = (
    LIST,
    GET,
    UPDATE,
    TEST,
)
