"""A personality of the agent, as a value. `agent.personalities` reads them from files."""

from __future__ import annotations

from typing import Literal

import msgspec

MemoryScope = Literal["global", "per-personality"]

DEFAULT_PERSONALITY = "default"


class Personality(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`soul` is the beginning of the system prompt. `tools`: None for all that are not special."""

    id: str
    name: str
    description: str = ""
    soul: str = ""
    model: str | None = None
    tools: tuple[str, ...] | None = None
    memory_scope: MemoryScope = "global"
    thinking: str | None = None
    builtin: bool = False
