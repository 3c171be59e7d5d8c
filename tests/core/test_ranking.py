"""What makes a match a better one. That PostgreSQL comes to the same is in `tests/postgres`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.search.hits import DAY_MS, bm25, idf, with_recency

NOW = 1_800_000_000_000

frequencies = st.integers(1, 300)
lengths = st.integers(1, 20_000)


@given(frequencies, lengths, lengths)
def test_a_word_that_stands_more_often_or_in_a_shorter_text_counts_more(
    frequency: int, length: int, average: int
) -> None:
    score = bm25(frequency, length, average, 1.0)

    assert score < bm25(frequency + 1, length, average, 1.0)
    assert score > bm25(frequency, length + 1, average, 1.0)


@given(st.integers(1, 10_000), st.data())
def test_a_rarer_word_is_worth_more_and_the_commonest_still_something(
    documents: int, data: st.DataObject
) -> None:
    containing = data.draw(st.integers(1, documents))

    assert idf(documents, containing - 1) >= idf(documents, containing) > 0


@given(st.integers(NOW - 10**11, NOW + 10**6))
def test_being_recent_adds_at_most_half(at: int) -> None:
    assert 1 <= with_recency(1.0, at, NOW) <= 1.5


def test_what_being_recent_adds_is_halved_in_a_month() -> None:
    assert with_recency(1.0, NOW + 1, NOW) == 1.5
    assert with_recency(1.0, NOW - 30 * DAY_MS, NOW) == pytest.approx(1.25)
