"""What a model call cost, in tokens and money. Values only; prices are known elsewhere."""

from __future__ import annotations

from typing import Literal

import msgspec

UsageBy = Literal["day", "model", "session", "platform"]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens, money and calls; `cost` is in nano-dollars, None when the price is unknown.

    Sums keep "unknown": a total with one unknown part is unknown, never a number that looks exact.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    cost: int | None = 0
    api_calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_creation_tokens + other.cache_creation_tokens,
            cost,
            self.api_calls + other.api_calls,
        )


ESTIMATED = "estimated"
"""In a session's metadata: no provider has counted some of its totals, so people see `~`."""


class UsageRow(msgspec.Struct, frozen=True):
    """What was spent under one name, and in how many turns."""

    name: str
    usage: Usage
    turns: int
