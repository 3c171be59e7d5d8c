"""Text that streams, broken between words."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.text import columns
from clew.terminal.plain_output import HELD, LineWrapper

WORD = st.text("ab京`|", min_size=1, max_size=HELD // 2) | st.sampled_from(["```", "\n", "    "])
WORDS = st.lists(WORD, max_size=40).map(" ".join)


def wrap(text: str, width: int, *, size: int = 3) -> str:
    wrapper = LineWrapper()
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return "".join(wrapper.feed(piece, width) for piece in pieces) + wrapper.end(width)


@given(WORDS, st.integers(HELD + 10, 90), st.integers(1, 50))
def test_pieces_make_no_difference_and_no_word_is_lost(text: str, width: int, size: int) -> None:
    wrapped = wrap(text, width, size=size)
    assert wrapped.split() == text.split()
    assert wrapped == wrap(text, width, size=len(text) or 1)


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=20), max_size=60), st.integers(20, 80))
def test_lines_fit_and_are_filled(words: list[str], width: int) -> None:
    lines = wrap(" ".join(words), width).split("\n")
    assert all(columns(line) <= width and line == line.rstrip() for line in lines)
    for line, following in pairwise(lines):
        assert columns(f"{line} {following.split()[0]}") > width


@pytest.mark.parametrize(
    "code",
    [
        "```\nx = 1 + 2 + 3 + 4 + 5 + 6 + 7\n```",
        "~~~python\nx = 1 + 2 + 3 + 4 + 5 + 6\n~~~",
        "    x = 1 + 2 + 3 + 4 + 5 + 6 + 7",
        "| a table | has columns | that stay |",
    ],
)
def test_code_and_tables_stay_as_they_are(code: str) -> None:
    prose = "words and words and words"
    assert wrap(f"{code}\n{prose}", 20) == f"{code}\nwords and words and\nwords"


def test_a_broken_line_keeps_its_indentation() -> None:
    assert wrap("  - one two three", 10) == "  - one\n  two\n  three"


def test_a_word_that_is_too_long_is_not_waited_for() -> None:
    wrapper = LineWrapper()
    assert wrapper.feed("京" * HELD, 80) == "京" * HELD


def test_a_line_that_somebody_else_ended_begins_anew() -> None:
    wrapper = LineWrapper()
    shown = wrapper.feed("one two ", 10)
    wrapper.moved()
    assert shown + wrapper.feed("three four ", 10) + wrapper.end(10) == "one twothree four"
