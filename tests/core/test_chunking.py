"""A long reply in several messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.channels.replies import split_text, utf16_size
from clew.errors import InvalidInput

FENCED = "Look:\n\n```python\nfor each in things:\n    print(each)\n\nprint()\n```\n\nThat is all."

texts = st.lists(
    st.one_of(
        st.text(max_size=30),
        st.sampled_from(["\n\n", "\n", " ", "```\n", "~~~~\n", "```py\ncode\n```\n", "word " * 9]),
    ),
    max_size=20,
).map("".join)


@given(texts, st.integers(1, 60))
def test_the_pieces_are_the_text_and_none_is_too_long(text: str, limit: int) -> None:
    pieces = split_text(text, limit)

    assert "".join(pieces) == text
    assert all(0 < len(piece) <= limit for piece in pieces)


@given(texts, st.integers(2, 60))
def test_a_channel_may_count_in_its_own_way(text: str, limit: int) -> None:
    pieces = split_text(text, limit, size=utf16_size)

    assert "".join(pieces) == text
    assert all(0 < utf16_size(piece) <= limit for piece in pieces)


@given(texts, st.integers(20, 200))
def test_a_text_that_has_room_stays_whole(text: str, limit: int) -> None:
    assert len(text) > limit or split_text(text, limit) == ((text,) if text else ())


def test_paragraphs_are_kept_together() -> None:
    text = "One is here.\n\nTwo is here.\n\nThree."

    assert split_text(text, 30) == ("One is here.\n\nTwo is here.\n\n", "Three.")


def test_code_stays_whole_where_it_has_room() -> None:
    first, code, rest = split_text(FENCED, 60)

    assert first == "Look:\n\n"
    assert code.startswith("```python\n")
    assert code.endswith("```\n\n")
    assert rest == "That is all."


def test_a_paragraph_inside_code_is_no_place_to_cut() -> None:
    assert not any(piece.endswith("print(each)\n\n") for piece in split_text(FENCED, 62))


def test_code_that_is_too_long_is_cut_between_its_lines() -> None:
    text = "```\n" + "".join(f"line {number}\n" for number in range(40)) + "```\n"

    assert all(piece.endswith("\n") for piece in split_text(text, 50))


def test_lines_then_words_are_kept_whole() -> None:
    assert split_text("first line\nsecond line", 15) == ("first line\n", "second line")
    assert split_text("some words in a row", 12) == ("some words ", "in a row")
    assert split_text("x" * 25, 10) == ("x" * 10, "x" * 10, "x" * 5)


@pytest.mark.parametrize("letter", ["e\u0301", "👩\u200d💻", "\r\n"])
def test_a_letter_is_not_parted_from_what_belongs_to_it(letter: str) -> None:
    for piece in split_text(letter * 30, 10):
        assert piece == letter * (len(piece) // len(letter))


def test_a_message_without_room_is_none() -> None:
    with pytest.raises(InvalidInput):
        split_text("hello", 0)
