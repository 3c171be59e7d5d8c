"""Sums of what was spent."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.usage import Usage, UsageRow, by_days, dearest_first, sum_up

USAGES = st.builds(
    Usage,
    st.integers(0, 100),
    st.integers(0, 100),
    cost=st.none() | st.integers(0, 3),
    api_calls=st.integers(0, 5),
)
ROWS = st.lists(st.builds(UsageRow, st.text(max_size=3), USAGES, st.integers(0, 9), st.booleans()))


@given(ROWS)
def test_the_dearest_are_first_and_unknown_costs_last(rows: list[UsageRow]) -> None:
    costs = [row.usage.cost for row in dearest_first(rows)]
    known = [each for each in costs if each is not None]
    assert costs == [*sorted(known, reverse=True), *[None] * (len(costs) - len(known))]


@given(ROWS)
def test_the_order_of_rows_does_not_matter(rows: list[UsageRow]) -> None:
    distinct = list({row.name: row for row in rows}.values())
    assert dearest_first(distinct) == dearest_first(distinct[::-1])


@given(ROWS)
def test_a_sum_has_all_of_it_and_one_unknown_or_estimated_part_shows(rows: list[UsageRow]) -> None:
    total = sum_up(rows, "total")
    assert total.turns == sum(row.turns for row in rows)
    assert total.usage == sum((row.usage for row in rows), Usage())
    assert total.estimated == any(row.estimated for row in rows)
    assert (total.usage.cost is None) == any(row.usage.cost is None for row in rows)


@given(st.lists(st.tuples(st.integers(0, 400), st.booleans())))
def test_days_have_all_of_their_quarters(quarters: list[tuple[int, bool]]) -> None:
    rows = [UsageRow(str(at * 900_000), Usage(1), 1, guess) for at, guess in quarters]
    days = by_days(rows, lambda _at: UTC)
    assert sum_up(days, "x") == sum_up(rows, "x")
    assert [day.name for day in days] == sorted({day.name for day in days})


ZONES = (
    "UTC", "Asia/Kathmandu", "America/Havana", "Australia/Lord_Howe", "Pacific/Apia",
    "Europe/Berlin",
)  # fmt: skip


@pytest.mark.parametrize("name", ZONES)
def test_a_quarter_hour_is_of_the_day_that_its_zone_has_then(name: str) -> None:
    """Over a year with all that clocks do there: Apia left a day out at its end."""
    zone = ZoneInfo(name)
    began = int(datetime(2011, 1, 1, tzinfo=UTC).timestamp()) * 1000
    quarters = [began + number * 900_000 for number in range(367 * 96)]
    expected: dict[str, int] = {}
    for at in quarters:
        day = datetime.fromtimestamp(at / 1000, zone).date().isoformat()
        expected[day] = expected.get(day, 0) + 1
    days = by_days([UsageRow(str(at), Usage(), 1) for at in quarters], lambda _at: zone)
    assert {row.name: row.turns for row in days} == expected
    assert [row.name for row in days] == sorted(expected)
