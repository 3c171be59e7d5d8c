"""What a model call cost, in tokens and money, and sums of it. `agent.answers` computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, tzinfo
from typing import Literal

import msgspec

UsageBy = Literal["day", "model", "session", "platform", "person"]


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


class UsageRanking(msgspec.Struct, frozen=True):
    """The sessions that cost most, of `count`; `total` is what all of them have spent."""

    rows: tuple[UsageRow, ...]
    count: int
    total: UsageRow


def sum_up(rows: Iterable[UsageRow], name: str) -> UsageRow:
    """The sum of all rows, under one name."""
    # Plain numbers: a year has 35,000 quarter-hours, and a new value for each would be slow.
    tokens_in = tokens_out = read = created = cost = calls = turns = 0
    estimated = is_unknown = False
    for row in rows:
        spent = row.usage
        tokens_in += spent.input_tokens
        tokens_out += spent.output_tokens
        read += spent.cache_read_tokens
        created += spent.cache_creation_tokens
        calls += spent.api_calls
        turns += row.turns
        estimated = estimated or row.estimated
        if spent.cost is None:
            is_unknown = True
        else:
            cost += spent.cost
    usage = Usage(tokens_in, tokens_out, read, created, None if is_unknown else cost, calls)
    return UsageRow(name, usage, turns, estimated)


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
