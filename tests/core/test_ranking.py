"""Scores of many documents at once are those of one after the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.ranking import bm25, score_all, with_recency

NOW = 1_800_000_000_000

documents = st.lists(
    st.tuples(
        st.integers(0, 300), st.integers(0, 300), st.integers(0, 20_000),
        st.integers(NOW - 10**11, NOW + 10**6),
    ),
    min_size=1,
)  # fmt: skip


@given(documents, st.floats(1e-6, 10), st.floats(1e-6, 10))
def test_many_at_once_are_scored_as_one_by_one(
    found: list[tuple[int, int, int, int]], first: float, second: float
) -> None:
    ones, twos, lengths, times = zip(*found, strict=True)
    average = sum(lengths) / len(lengths)

    together = score_all([ones, twos], [first, second], lengths, times, NOW)

    for (one, two, length, at), score in zip(found, together, strict=True):
        relevance = bm25(one, length, average, first) + bm25(two, length, average, second)
        assert score == pytest.approx(with_recency(relevance, at, NOW))


def test_nothing_has_no_scores() -> None:
    assert score_all([[]], [1.0], [], [], NOW) == []
