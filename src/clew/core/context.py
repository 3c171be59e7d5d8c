"""What a request to a model consists of, for people who want to know where the room goes."""

from __future__ import annotations

from typing import Literal

import msgspec

PartKind = Literal["prompt", "tool"]


class ContextPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A named piece of the system prompt, or a tool; about how many tokens it takes.

    `source` is the file that it comes from, if it does.
    """

    kind: PartKind
    name: str
    tokens: int
    source: str | None = None
