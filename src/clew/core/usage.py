"""What a model call cost, in tokens and money, and sums of it. `agent.answers` computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta, tzinfo
from typing import Literal

import msgspec

UsageBy = Literal["day", "model", "session", "platform", "person"]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
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


class UsageRow(msgspec.Struct, frozen=True, gc=False):
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
    days: dict[int, list[UsageRow]] = {}
    offsets: dict[int, int | None] = {}
    for row in rows:
        at = int(row.name)
        begin = at - at % _DAY
        # The zone is asked twice for each day, not for each quarter-hour: there are 35,000 a year.
        if begin not in offsets:
            before, after = (_offset(each, zone) for each in (begin, begin + _DAY))
            offsets[begin] = before if before == after else None
        offset = offsets[begin]
        shifted = at + (_offset(at, zone) if offset is None else offset)
        days.setdefault(shifted // _DAY, []).append(row)
    names = {day: (_EPOCH + timedelta(day)).isoformat() for day in days}
    return tuple(sum_up(days[day], names[day]) for day in sorted(days))


_DAY = 86_400_000
_EPOCH = date(1970, 1, 1)


def _offset(at: int, zone: Callable[[int], tzinfo]) -> int:
    """How far the clocks of a zone are ahead of UTC, in milliseconds."""
    offset = datetime.fromtimestamp(at / 1000, zone(at)).utcoffset()
    return 0 if offset is None else offset // timedelta(milliseconds=1)


def dearest_first(rows: Iterable[UsageRow]) -> tuple[UsageRow, ...]:
    """Sorted by cost, then by tokens; rows whose cost is unknown come last."""

    def rank(row: UsageRow) -> tuple[bool, int, int, str]:
        spent = row.usage
        tokens = spent.input_tokens + spent.output_tokens
        return (spent.cost is None, -(spent.cost or 0), -tokens, row.name)

    return tuple(sorted(rows, key=rank))
