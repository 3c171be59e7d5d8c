"""What a model call cost, in tokens and money, and sums of it. `agent.answers` computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, tzinfo
from typing import Literal

import msgspec

UsageBy = Literal["day", "model", "session", "platform"]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens, money and calls; `cost` is in nano-dollars, None when the price is unknown.

    A sum with one unknown part is unknown, never a number that looks exact.
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
"""Metadata key: some totals of the session were estimated, so they are shown with `~`."""


class UsageRow(msgspec.Struct, frozen=True):
    """What was spent under one name, and in how many turns.

    `estimated`: some totals of those sessions were not counted by a provider.
    """

    name: str
    usage: Usage
    turns: int
    estimated: bool = False


def sum_up(rows: Iterable[UsageRow], name: str) -> UsageRow:
    """The sum of all rows, under one name."""
    total = UsageRow(name, Usage(), 0)
    for row in rows:
        total = UsageRow(
            name, total.usage + row.usage, total.turns + row.turns, total.estimated or row.estimated
        )
    return total


def by_days(rows: Iterable[UsageRow], zone: Callable[[int], tzinfo]) -> tuple[UsageRow, ...]:
    """Sum rows of quarter-hours (named in milliseconds) to days in a time zone."""
    days: dict[str, list[UsageRow]] = {}
    for row in rows:
        at = int(row.name)
        day = datetime.fromtimestamp(at / 1000, zone(at)).date().isoformat()
        days.setdefault(day, []).append(row)
    return tuple(sum_up(days[day], day) for day in sorted(days))


def dearest_first(rows: Iterable[UsageRow]) -> tuple[UsageRow, ...]:
    """Sorted by cost, then by tokens; rows whose cost is unknown come last."""

    def rank(row: UsageRow) -> tuple[bool, int, int, str]:
        spent = row.usage
        tokens = spent.input_tokens + spent.output_tokens
        return (spent.cost is None, -(spent.cost or 0), -tokens, row.name)

    return tuple(sorted(rows, key=rank))
