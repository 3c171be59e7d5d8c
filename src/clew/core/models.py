"""Models and personalities as people name them: `provider/model`, and the id of a personality.

Values and small decisions only; `agent.models` opens models, `agent.personalities` reads files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Thinking = Literal["off", "low", "medium", "high"]
THINKING: tuple[Thinking, ...] = ("off", "low", "medium", "high")

Mode = Literal["default", "plan", "plan_paused"]
"""`plan` looks and proposes; `plan_paused` carries out an approved plan and can go back to it."""

MODES: dict[str, str] = {
    "default": "works, and asks before it changes things",
    "plan": "looks and proposes, and changes nothing",
}
"""The modes that a person can choose, with their descriptions."""

EMBEDDED = "local/smollm2-135m"
"""The model that needs no key and no network."""

MemoryScope = Literal["global", "per-personality"]

DEFAULT_PERSONALITY = "default"


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model that clew can name. `problem` says why it can't be used right now, and what to do."""

    name: str
    provider: str
    context_window: int | None = None
    embedded: bool = False
    tools: bool = True
    images: bool = False
    thinking: tuple[Thinking, ...] = ("off",)
    tiers: tuple[str, ...] = ()
    problem: str | None = None


class LocalServer(msgspec.Struct, frozen=True):
    """A server of models on this machine that answers; `title` is how people call it."""

    name: str
    title: str
    url: str
    models: tuple[str, ...]


def find_alias(aliases: Mapping[str, str], name: str) -> str | None:
    """The model that has this alias in the configuration; ignores case, follows one step only."""
    wanted = name.strip().lower()
    return next((model for alias, model in aliases.items() if alias.lower() == wanted), None)


def clamp_thinking(wanted: str | None, levels: tuple[Thinking, ...]) -> Thinking:
    """The nearest available level, not above the wanted one if possible; `off` if there is none."""
    order = {level: place for place, level in enumerate(THINKING)}
    if wanted not in order:
        return "off"
    below = [level for level in levels if order[level] <= order[wanted]]
    if below:
        return max(below, key=order.__getitem__)
    return min(levels or ("off",), key=order.__getitem__)


def introduction(info: ModelInfo) -> str | None:
    """The line that a chat shows once if the small embedded model answers; None for others."""
    if not info.embedded:
        return None
    return (
        "For good answers type /setup: it finds Ollama and others on this machine, or takes a key. "
        "(ANTHROPIC_API_KEY and OPENAI_API_KEY do too, and `clew config set model`.) Until then "
        "SmolLM2 answers, a very small model (135M parameters) inside clew: expect weak answers."
    )


class Personality(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A personality. `soul` begins the system prompt. `tools`: None for all ordinary tools."""

    id: str
    name: str
    description: str = ""
    soul: str = ""
    model: str | None = None
    tools: tuple[str, ...] | None = None
    memory_scope: MemoryScope = "global"
    thinking: str | None = None
    builtin: bool = False


class AgentPersonality(Personality, frozen=True, kw_only=True, omit_defaults=True):
    """A personality as an agent has it (`[[agents]]`).

    `agent_tools` are the only tools that the agent has, None for all; `has_own_memory`: its memory
    files are its own.
    """

    agent: str
    agent_tools: tuple[str, ...] | None = None
    has_own_memory: bool = False


MAX_SOUL = 20_000
"""Longest system prompt of a personality, in characters."""

_Line = Annotated[
    str,
    Meta(
        max_length=500,
        pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)",
        extra={"words": "one line without control characters"},
    ),
]


class PersonalityEdit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change about a personality. Left out: unchanged. None: as without the setting."""

    name: _Line | UnsetType | None = UNSET
    description: _Line | UnsetType | None = UNSET
    soul: Annotated[str, Meta(max_length=MAX_SOUL)] | UnsetType = UNSET
    model: _Line | UnsetType | None = UNSET
    tools: Annotated[tuple[_Line, ...], Meta(max_length=200)] | UnsetType | None = UNSET
    memory_scope: MemoryScope | UnsetType | None = UNSET
    thinking: Thinking | UnsetType | None = UNSET
