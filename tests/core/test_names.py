from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.names import (
    NAME_COLUMNS,
    format_bytes,
    format_cost,
    format_count,
    parse_duration,
    recent_name,
    time_ago,
)
from clew.core.text import columns

ID = "550e8400-e29b-41d4-a716-446655440000"
NOW = 1_773_500_000_000  # 2026-03-14 14:53 UTC
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
OPTIONAL = st.none() | st.text(st.characters(), max_size=100)


@pytest.mark.parametrize(
    ("title", "summary", "preview", "name"),
    [
        ("Title", "summary", "prompt", "Title"),
        (None, "summary", "prompt", "summary"),
        ("", "  \n ", "prompt", "prompt"),
        (None, None, None, "(no messages) 550e8400"),
        ("\u200b\x1b[0m", None, "\n\n  first line \nsecond", "first line"),
        (None, None, "\x1b[31mred\x1b[0m\u202e  herring", "red herring"),
        ("x" * 41, None, None, "x" * 39 + "…"),
        ("日" * 21, None, None, "日" * 19 + "…"),
    ],
)
def test_a_session_is_named_by_the_best_that_is_known_of_it(
    title: str | None, summary: str | None, preview: str | None, name: str
) -> None:
    assert recent_name(title, summary, preview, ID) == name


@given(OPTIONAL, OPTIONAL, OPTIONAL)
def test_a_name_is_one_line_that_fits(
    title: str | None, summary: str | None, preview: str | None
) -> None:
    name = recent_name(title, summary, preview, ID)
    assert name.strip() == name != ""
    assert len(name.splitlines()) == 1
    assert columns(name) <= NAME_COLUMNS


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (-DAY, "just now"),
        (0, "just now"),
        (MINUTE - 1, "just now"),
        (MINUTE, "1m ago"),
        (HOUR - 1, "59m ago"),
        (3 * HOUR, "3h ago"),
        (DAY - 1, "23h ago"),
        (2 * DAY, "2d ago"),
        (7 * DAY - 1, "6d ago"),
        (7 * DAY, "2026-03-07"),
    ],
)
def test_ages_are_said_in_their_largest_unit_and_then_as_a_date(age: int, said: str) -> None:
    assert time_ago(NOW - age, NOW, UTC) == said


def test_the_date_is_that_of_the_given_zone() -> None:
    late = NOW - NOW % DAY + 23 * HOUR
    assert time_ago(late, late + 30 * DAY, UTC) == "2026-03-14"
    assert time_ago(late, late + 30 * DAY, timezone(timedelta(hours=2))) == "2026-03-15"


def test_counts_have_thousands() -> None:
    assert [format_count(n) for n in (0, 999, 1234, 1_234_567)] == [
        "0",
        "999",
        "1,234",
        "1,234,567",
    ]


@pytest.mark.parametrize(
    ("n", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KB"),
        (1536, "1.5 KB"),
        (52_428_800, "50 MB"),
        (1024**2 - 1, "1 MB"),
        (3 * 1024**3, "3 GB"),
        (5000 * 1024**4, "5000 TB"),
    ],
)
def test_sizes_are_said_in_binary_units(n: int, said: str) -> None:
    assert format_bytes(n) == said


@pytest.mark.parametrize(
    ("nano", "said"),
    [
        (None, "cost unknown"),
        (0, "$0.00"),
        (1, "<$0.0001"),
        (12_300_000, "$0.0123"),
        (999_999_999, "$1.00"),
        (1_234_567_890, "$1.23"),
        (1_234_567_890_000, "$1,234.57"),
    ],
)
def test_an_unknown_cost_is_not_zero(nano: int | None, said: str) -> None:
    assert format_cost(nano) == said


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("45s", 45_000),
        ("30m", 30 * MINUTE),
        ("12h", 12 * HOUR),
        ("90d", 90 * DAY),
        ("2w", 14 * DAY),
        (" 1 D ", DAY),
        ("0s", 0),
    ],
)
def test_durations_are_a_number_and_a_unit(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    "text", ["", "90", "d", "-1d", "1.5h", "1y", "1d2h", "٣d", "9" * 5000 + "d"]
)
def test_anything_else_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not a duration\. Write a number and a unit: 45s"
    ) as e:
        parse_duration(text)
    assert len(str(e.value)) < 200
